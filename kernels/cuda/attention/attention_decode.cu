/* attention_decode.cu - the kernels of attention_splits.cuh for heads of up to 128 channels, and which of all is taken. */
#include "attention_splits.cuh"

namespace sac::attention::decode {

/* For heads of 128: with few keys, or two tiles of a warp at most, fewer stages leave the kernels beside it
 * the room of more, which they need if memory is to stay split as it is. */
static int stages_for(const sac_stream *s, const sac_attention_args *a, const attention_job &j) {
    const int64_t together = ceil_div((int64_t)j.n_q * j.group, ROWS) * j.n_problems,
                  at_once = min_of(MAX_SPLITS, max_of(1, s->device->n_processors / together)) * 8 * KEYS,
                  of_cluster = CLUSTER_WIDE * 8 * KEYS;
    if (s->device->compute < 90) return 3;
    if (a->n_kv > of_cluster && a->n_kv <= 2 * of_cluster && may_cluster(s, together)) return 2;
    return a->n_kv <= max_of(of_cluster, 2 * at_once) ? 1 : 3;
}

template <typename T, bool TWO = false>
static sac_status launch_any(const sac_stream *s, const sac_attention_args *a, const attention_job &j,
                             const decode_near &near = decode_near{}) {
    if (j.d <= 64) return run<T, 64, 4, TWO>(s, a, j, near);
    if constexpr (!TWO) {
        if (j.d <= 80) return run<T, 80, 3>(s, a, j);
        if (j.d <= 96) return run<T, 96, 3>(s, a, j);
    }
    switch (stages_for(s, a, j)) {
    case 1: return run<T, 128, 1, TWO>(s, a, j, near);
    case 2: return run<T, 128, 2, TWO>(s, a, j, near);
    default: return run<T, 128, 3, TWO>(s, a, j, near);
    }
}

extern "C" sac_status sac_cuda_attention_decode(const sac_stream *s, const sac_attention_args *a) {
    if (a->segment_start || !attention_is_half(a) || a->n_batch != 1 || a->n_q > 4096 || !attention_fits_int(a) ||
        (a->lists && a->list_block))
        return SAC_UNSUPPORTED;
    attention_job j = attention_prepare(a);
    if (a->n_q == 0) return SAC_OK;
    if (j.n_problems > 65535) return SAC_UNSUPPORTED;
    if (a->softcap > 0) return run_capped(s, a);
    if (j.d > 128) return run_wide(s, a);
    return a->kv.dtype == SAC_DTYPE_F16 ? launch_any<half>(s, a, j) : launch_any<bf16>(s, a, j);
}

extern "C" sac_status sac_cuda_choice_attend(const sac_stream *s, const sac_choice_attend_args *a) {
    const sac_kv_view *kv = &a->src;
    const sac_rotation *r = &a->rotation;
    int d = kv->head_dim;
    sac_attention_args b = {};
    b.o = b.q = a->q, b.kv = a->far, b.n_heads = a->n_heads, b.scale = a->scale;
    b.n_q = b.n_batch = 1, b.n_kv = a->n_far + a->local;
    if (!attention_is_half(&b) || !attention_fits_int(&b) || (d != 64 && d != 128) || a->far.head_dim != d ||
        kv->dtype != b.kv.dtype || kv->n_heads != b.kv.n_heads || a->n_rows > 1 << 30 ||
        !is_aligned(kv->k, kv->row_stride) || !is_aligned(kv->v, kv->row_stride) || kv->head_stride % 8 ||
        r->rot_dim != d || r->interleaved || (uintptr_t)r->cos_sin % 16)
        return SAC_UNSUPPORTED;
    attention_job j = attention_prepare(&b);
    int64_t old = a->n_rows - a->local;
    decode_near near = {};
    near.k = (const uint8_t *)kv->k + old * kv->row_stride * 2;
    near.v = (const uint8_t *)kv->v + old * kv->row_stride * 2;
    near.k_row = kv->row_stride, near.k_head = kv->head_stride;
    near.n_far = (int)a->n_far, near.n = (int)a->local;
    near.angles = r->cos_sin + (old - a->n_far) * d, near.f = 1 / r->factor;
    return kv->dtype == SAC_DTYPE_F16 ? launch_any<half, true>(s, &b, j, near)
                                      : launch_any<bf16, true>(s, &b, j, near);
}

} // namespace sac::attention::decode
