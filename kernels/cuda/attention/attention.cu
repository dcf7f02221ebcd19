/* attention.cu - who does what: a few queries go to the split kernel, many to the kernel for Hopper where it
 * is the faster one, those with lists of rows to the one for these, to cuDNN where it goes, else to the flash
 * kernel, and what none takes to the plain one. */
#include "attention.cuh"
#include "cudnn.cuh"
#include "segments.h"

#include <string.h>

namespace sac::attention {

static __global__ void set_lengths_kernel(int32_t *lengths, int32_t n_q, int32_t n_kv) {
    lengths[0] = n_q;
    lengths[4] = n_kv;
}

/* Next size of a ladder with four rungs an octave: room for n with at most a quarter to spare. */
static int64_t rung(int64_t n) {
    int64_t step = 64;
    while (step * 8 <= n) step *= 2;
    return ceil_div(n, step) * step;
}

/* One batch or many without masks: exact shapes. Causal, one batch: `n_q` exact, and room for keys on the
 * ladder, within what the view has, so that few plans serve all lengths; or, `exact`, a plan for this length
 * alone, which takes 30 ms to make and is 8 % faster (H200, 8192 to 131072 keys: 630 against 580 TFLOP/s).
 * cuDNN multiplies what lies in the room by 0, so it must not be NaN. */
static sac_status run_cudnn(const sac_stream *s, const sac_attention_args *a, int64_t first_q, int64_t n_q,
                            bool exact) {
    const sac_kv_view *kv = &a->kv;
    cuda_ops *o = ops_of(s);
    cudnn_shape shape;
    memset(&shape, 0, sizeof shape);
    int64_t n_kv = a->causal ? min_of(a->n_kv, a->first + first_q + n_q) : a->n_kv;
    if (a->causal && a->first + first_q + n_q != n_kv)
        return SAC_UNSUPPORTED; /* the last query, the last key */
    if (a->n_batch > 1 && a->causal && (!exact || first_q > 0)) return SAC_UNSUPPORTED;
    if (n_kv < 64 || (a->causal && n_kv < n_q)) return SAC_UNSUPPORTED;
    if (kv->head_dim < 32) return SAC_UNSUPPORTED; /* 9.14 reads beyond its rows at 8 */
    shape.dtype = kv->dtype, shape.d = kv->head_dim, shape.n_heads = a->n_heads,
    shape.n_kv_heads = kv->n_heads;
    shape.causal = a->causal, shape.n_batch = a->n_batch, shape.n_q = n_q;
    shape.lengths = a->causal && !exact;
    shape.n_kv = shape.lengths ? min_of(rung(n_kv), kv->n_rows) : n_kv;
    shape.stats = a->lse != NULL;
    shape.q_row = a->q.stride, shape.o_row = a->o.stride;
    int64_t batch = a->n_batch > 1 ? a->batch_rows : n_q, kv_batch = a->n_batch == 1    ? shape.n_kv
                                                                     : a->kv_batch_rows ? a->kv_batch_rows
                                                                                        : a->batch_rows;
    shape.q_batch = batch * a->q.stride, shape.o_batch = batch * a->o.stride;
    shape.kv_row = kv->row_stride, shape.kv_head = kv->head_stride,
    shape.kv_batch = kv_batch * kv->row_stride;
    int32_t *lengths = (int32_t *)scratch_bias(s);
    if (shape.lengths) SAC_TRY(launch(s, {1, 1}, set_lengths_kernel, lengths, (int32_t)n_q, (int32_t)n_kv));
    cudnn_pointers p = {(const char *)a->q.data + first_q * a->q.stride * 2,
                        kv->k,
                        kv->v,
                        (char *)a->o.data + first_q * a->o.stride * 2,
                        a->lse ? a->lse + first_q * a->n_heads : NULL,
                        lengths,
                        a->scale};
    return cudnn_attention(o->cudnn, s, &shape, &p);
}

extern "C" sac_status sac_cuda_attention_cudnn(const sac_stream *s, const sac_attention_args *a) {
    cuda_ops *o = ops_of(s);
    if (!o->cudnn || a->segment_start || a->softcap > 0 || !attention_is_half(a) || !attention_fits_int(a) || a->lists || a->window || a->n_q < 1)
        return SAC_UNSUPPORTED;
    if (a->n_q == 1 && a->causal &&
        a->first + 1 >= a->n_kv) { /* sees all: the engine for one query wants no mask */
        sac_attention_args b = *a;
        b.causal = false;
        return run_cudnn(s, &b, 0, 1, true);
    }
    return run_cudnn(s, a, 0, a->n_q, a->n_batch > 1 || a->n_q % 1024 == 0);
}

static sac_status run_flash(const sac_stream *s, const sac_attention_args *a, int64_t at, int64_t n) {
    sac_attention_args b = *a;
    b.q = sac_mat_rows(a->q, at, n);
    b.o = sac_mat_rows(a->o, at, n);
    if (a->lse) b.lse = a->lse + at * a->n_heads;
    b.n_q = n;
    b.first += at;
    return n ? sac_cuda_attention_flash(s, &b) : SAC_OK;
}

/* Queries [at, end), fewer than a large piece: in pieces of few sizes, so that few plans serve every length.
 * What is left goes to flash, unless that would take longer than a plan, over the layers of a decoder. */
static sac_status small_pieces(const sac_stream *s, const sac_attention_args *a, int64_t at, int64_t end) {
    sac_status st;
    for (int64_t piece = LARGE_PIECE / 2; piece >= SMALL_PIECE; piece /= 2)
        while (end - at >= piece) {
            st = run_cudnn(s, a, at, piece, false);
            if (st == SAC_UNSUPPORTED) return run_flash(s, a, at, end - at);
            if (st != SAC_OK) return st;
            at += piece;
        }
    double flops = 4.0 * (double)(end - at) * (double)(a->first + end) * (double)a->q.cols;
    if (flops > WORTH_A_PLAN_FLOPS) {
        st = run_cudnn(s, a, at, end - at, true);
        if (st != SAC_UNSUPPORTED) return st;
    }
    return run_flash(s, a, at, end - at);
}

/* Many queries, in large pieces that end at multiples of their size (tuning.h says why). */
static sac_status prefill(const sac_stream *s, const sac_attention_args *a) {
    int64_t at = min_of(a->n_q, (LARGE_PIECE - a->first % LARGE_PIECE) % LARGE_PIECE);
    if (a->first < 0 || a->n_q - at < LARGE_PIECE) at = 0;
    SAC_TRY(small_pieces(s, a, 0, at));
    for (; a->n_q - at >= LARGE_PIECE; at += LARGE_PIECE) {
        sac_status st = run_cudnn(s, a, at, LARGE_PIECE, true);
        if (st == SAC_UNSUPPORTED) return run_flash(s, a, at, a->n_q - at);
        if (st != SAC_OK) return st;
    }
    return small_pieces(s, a, at, a->n_q);
}

/* Chunks of a prompt with keys of their own, as many at a time as is a power of two, so that a plan for each
 * of a few numbers serves every prompt. */
static sac_status chunks(const sac_stream *s, const sac_attention_args *a) {
    const int64_t element = element_bytes(a->q.dtype),
                  kv_rows = a->kv_batch_rows ? a->kv_batch_rows : a->batch_rows;
    for (int64_t at = 0, n = MOST_CHUNKS; at < a->n_batch; at += n) {
        while (n > a->n_batch - at) n /= 2;
        sac_attention_args b = *a;
        b.q.data = (char *)a->q.data + at * a->batch_rows * a->q.stride * element;
        b.o.data = (char *)a->o.data + at * a->batch_rows * a->o.stride * element;
        b.kv.k = (char *)a->kv.k + at * kv_rows * a->kv.row_stride * element;
        b.kv.v = (char *)a->kv.v + at * kv_rows * a->kv.row_stride * element;
        b.q.rows = b.o.rows = n * a->batch_rows;
        b.kv.n_rows = a->kv.n_rows - at * kv_rows;
        b.n_batch = n;
        sac_status st = run_cudnn(s, &b, 0, a->n_q, true);
        if (st == SAC_UNSUPPORTED) st = sac_cuda_attention_flash(s, &b);
        if (st != SAC_OK) return st;
    }
    return SAC_OK;
}

static sac_status by_cudnn(const sac_stream *s, const sac_attention_args *a) {
    const bool one = a->n_batch == 1;
    if (a->lists || a->window || a->softcap > 0 || !ops_of(s)->cudnn) return SAC_UNSUPPORTED;
    /* The rows of a picture in a prompt: a plan for each number of keys before it would take longer than they do. */
    if (!a->causal && a->kv.head_dim > 128 && a->n_q != a->n_kv) return SAC_UNSUPPORTED;
    if (!a->causal) return sac_cuda_attention_cudnn(s, a);
    if (one && a->n_q >= SMALL_PIECE) return prefill(s, a);
    if (one && a->n_q == CHUNK_QUERIES && a->kv.n_rows == a->n_kv) return run_cudnn(s, a, 0, a->n_q, false);
    if (!one && a->n_q >= 128) return chunks(s, a);
    return SAC_UNSUPPORTED;
}

extern "C" sac_status sac_cuda_attention(const sac_stream *s, const sac_attention_args *a) {
    sac_status st = SAC_UNSUPPORTED;
    int64_t group = a->n_heads / a->kv.n_heads;
    if (a->kv.pages) return SAC_UNSUPPORTED; /* no kernel reads through a table */
    if (a->n_spans) return sac_attention_by_spans(s, a, sac_cuda_attention);
    if (a->segment_start) return sac_attention_by_segments(s, a, sac_cuda_attention);
    if (attention_is_half(a) && attention_fits_int(a)) {
        const int from_queries = tuning_of(s->device).hopper_queries;
        const bool few = a->n_batch == 1 && a->n_q * group <= FEW_ROWS;
        const int64_t n_queries = a->causal && a->n_q >= 128 ? a->n_q * a->n_batch : a->n_q;
        if (a->n_q > 1 && a->n_q * group > SPREAD_ROWS && a->n_kv >= SPREAD_KEYS && n_queries < from_queries) {
            st = sac_cuda_attention_spread(s, a);
            if (st != SAC_UNSUPPORTED) return st;
        }
        if (few && a->uneven) st = sac_cuda_attention_uneven(s, a);
        if (few && st == SAC_UNSUPPORTED) st = sac_cuda_attention_decode(s, a);
        if (!few && from_queries && n_queries >= from_queries) st = sac_cuda_attention_hopper(s, a);
        if (!few && st == SAC_UNSUPPORTED) st = sac_cuda_attention_lists(s, a);
        if (!few && st == SAC_UNSUPPORTED) st = by_cudnn(s, a);
        if (st == SAC_UNSUPPORTED) st = sac_cuda_attention_flash(s, a);
    }
    return st == SAC_UNSUPPORTED ? sac_cuda_attention_any(s, a) : st;
}

} // namespace sac::attention
