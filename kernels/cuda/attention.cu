/* attention.cu - who does what: a few queries go to the split kernel, many to cuDNN where it goes, else to the
 * flash kernel, and what neither takes to the plain one. */
#include "attention.cuh"
#include "cudnn.cuh"

#include <string.h>

static __global__ void set_lengths_kernel(int32_t *lengths, int32_t n_q, int32_t n_kv) {
    lengths[0] = n_q;
    lengths[1] = n_kv;
}

/* Next size of a ladder with four rungs an octave: room for n with at most a quarter to spare. */
static int64_t rung(int64_t n) {
    int64_t step = 64;
    while (step * 8 <= n) step *= 2;
    return ceil_div(n, step) * step;
}

/* One batch or many without masks: exact shapes. Causal, one batch: `n_q` exact, room for keys on the ladder,
 * within what the view has. */
static sac_status run_cudnn(const sac_stream *s, const sac_attention_args *a, int64_t first_q, int64_t n_q) {
    const sac_kv_view *kv = &a->kv;
    cuda_ops *o = ops_of(s);
    cudnn_shape shape;
    memset(&shape, 0, sizeof shape);
    int64_t n_kv = a->causal ? min_of(a->n_kv, a->first + first_q + n_q) : a->n_kv;
    if (a->causal && a->first + first_q + n_q != n_kv) return SAC_UNSUPPORTED; /* the last query, the last key */
    if (n_kv < 64 || (a->causal && n_kv < n_q)) return SAC_UNSUPPORTED;
    if (kv->head_dim < 32) return SAC_UNSUPPORTED; /* 9.14 reads beyond its rows at 8 */
    shape.dtype = kv->dtype, shape.d = kv->head_dim, shape.n_heads = a->n_heads, shape.n_kv_heads = kv->n_heads;
    shape.causal = a->causal, shape.n_batch = a->n_batch, shape.n_q = n_q;
    shape.n_kv = a->causal ? min_of(rung(n_kv), kv->n_rows) : n_kv;
    shape.lengths = a->causal;
    shape.stats = a->lse != NULL;
    shape.q_row = a->q.stride, shape.o_row = a->o.stride;
    int64_t batch = a->n_batch > 1 ? a->batch_rows : n_q, kv_batch = a->n_batch > 1 ? a->batch_rows : shape.n_kv;
    shape.q_batch = batch * a->q.stride, shape.o_batch = batch * a->o.stride;
    shape.kv_row = kv->row_stride, shape.kv_head = kv->head_stride, shape.kv_batch = kv_batch * kv->row_stride;
    int32_t *lengths = (int32_t *)scratch_bias(s);
    if (shape.lengths)
        set_lengths_kernel<<<1, 1, 0, cuda_stream(s)>>>(lengths, (int32_t)n_q, (int32_t)n_kv);
    cudnn_pointers p = {(const char *)a->q.data + first_q * a->q.stride * 2, kv->k, kv->v,
                        (char *)a->o.data + first_q * a->o.stride * 2,
                        a->lse ? a->lse + first_q * a->n_heads : NULL, lengths, a->scale};
    return cudnn_attention(o->cudnn, s, &shape, &p);
}

extern "C" sac_status sac_cuda_attention_cudnn(const sac_stream *s, const sac_attention_args *a) {
    cuda_ops *o = ops_of(s);
    if (!o->cudnn || !attention_is_half(a) || !attention_fits_int(a) || a->lists || a->window || a->n_q < 1)
        return SAC_UNSUPPORTED;
    if (a->n_batch > 1 && a->causal) return SAC_UNSUPPORTED;
    return run_cudnn(s, a, 0, a->n_q);
}

/* Many queries, in pieces of few sizes, so that few plans serve every length; what is left goes to flash. */
static sac_status prefill(const sac_stream *s, const sac_attention_args *a) {
    const int64_t largest = 8192, smallest = 1024;
    int64_t at = 0;
    for (int64_t piece = largest; piece >= smallest; piece /= 2)
        while (a->n_q - at >= piece) {
            sac_status st = run_cudnn(s, a, at, piece);
            if (st == SAC_UNSUPPORTED) goto rest;
            if (st != SAC_OK) return st;
            at += piece;
        }
rest:
    if (at == a->n_q) return SAC_OK;
    sac_attention_args b = *a;
    b.q = sac_mat_rows(a->q, at, a->n_q - at);
    b.o = sac_mat_rows(a->o, at, a->n_q - at);
    if (a->lse) b.lse = a->lse + at * a->n_heads;
    b.n_q -= at;
    b.first += at;
    return sac_cuda_attention_flash(s, &b);
}

extern "C" sac_status sac_cuda_attention(const sac_stream *s, const sac_attention_args *a) {
    sac_status st = SAC_UNSUPPORTED;
    int64_t group = a->n_heads / a->kv.n_heads;
    if (attention_is_half(a) && attention_fits_int(a)) {
        bool plain = !a->lists && !a->window && ops_of(s)->cudnn;
        if (a->n_batch == 1 && a->n_q * group <= 64)
            st = sac_cuda_attention_decode(s, a);
        else if (plain && a->n_batch == 1 && a->causal && a->n_q >= 1024)
            st = prefill(s, a);
        else if (plain && !a->causal)
            st = sac_cuda_attention_cudnn(s, a);
        if (st == SAC_UNSUPPORTED) st = sac_cuda_attention_flash(s, a);
    }
    return st == SAC_UNSUPPORTED ? sac_cuda_attention_any(s, a) : st;
}
