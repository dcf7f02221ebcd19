#include "cpu.h"

/* Element i in F32, F16 or BF16. */
static float load(sac_dtype t, const void *p, int64_t i) {
    if (t == SAC_DTYPE_F32) return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return t == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}
static void store(sac_dtype t, void *p, int64_t i, float f) {
    if (t == SAC_DTYPE_F32)
        ((float *)p)[i] = f;
    else
        ((uint16_t *)p)[i] = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
}

/* n channels of a row; of the same type they are copied. */
static void pick(const sac_kv_view *dst, int64_t to, const sac_kv_view *src, int64_t from,
                 const int32_t *channels, int n) {
    if (dst->dtype != src->dtype)
        for (int c = 0; c < n; c++)
            store(dst->dtype, dst->k, to + c, load(src->dtype, src->k, from + channels[c]));
    else if (dst->dtype == SAC_DTYPE_F32)
        for (int c = 0; c < n; c++) ((float *)dst->k)[to + c] = ((const float *)src->k)[from + channels[c]];
    else
        for (int c = 0; c < n; c++)
            ((uint16_t *)dst->k)[to + c] = ((const uint16_t *)src->k)[from + channels[c]];
}

/* Row r is row first + r / n_heads of head r % n_heads. */
static void pick_rows(const void *args, int64_t first, int64_t end) {
    const sac_pick_channels_args *a = args;
    const sac_kv_view *dst = &a->dst, *src = &a->src;
    for (int64_t r = first; r < end; r++) {
        int64_t row = a->first + r / dst->n_heads, head = r % dst->n_heads;
        pick(dst, row * dst->row_stride + head * dst->head_stride, src,
             row * src->row_stride + head * src->head_stride,
             a->channels + head / (dst->n_heads / a->n_sets) * dst->head_dim, dst->head_dim);
    }
}

sac_status sac_cpu_pick_channels(const sac_stream *s, const sac_pick_channels_args *a) {
    sac_for_rows(s, a->n * a->dst.n_heads, a->dst.head_dim * 16, pick_rows, a);
    return SAC_OK;
}
