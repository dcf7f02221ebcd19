#include "simd.h"
#include "turn_tmpl.h"

#define KV_GATHER_MAX_D 1024

/* n elements of type `from` to type `to`. */
SAC_INLINE void convert_row(sac_dtype from, const void *src, sac_dtype to, void *dst, int64_t n) {
    for (int64_t c = 0; c < n; c += VF) {
        vf v = vf_load_as_part(from, src, c, n - c);
        if (to == SAC_DTYPE_F32)
            vf_store_part((float *)dst + c, v, n - c);
        else if (to == SAC_DTYPE_F16)
            vf_store_f16_part((uint16_t *)dst + c, v, n - c);
        else
            vf_store_bf16_part((uint16_t *)dst + c, v, n - c);
    }
}

/* Types as constants, one copy for each pair. */
#define CONVERT_TO(from, src, to, dst, n)                                                                    \
    switch ((int)(to)) {                                                                                     \
    case SAC_DTYPE_F32: convert_row(from, src, SAC_DTYPE_F32, dst, n); break;                                \
    case SAC_DTYPE_F16: convert_row(from, src, SAC_DTYPE_F16, dst, n); break;                                \
    default: convert_row(from, src, SAC_DTYPE_BF16, dst, n); break;                                          \
    }
static void gather_convert(sac_dtype from, const void *src, sac_dtype to, void *dst, int64_t n) {
    if (from == to) {
        memcpy(dst, src, sac_dtype_row_bytes(from, n));
        return;
    }
    switch ((int)from) {
    case SAC_DTYPE_F32: CONVERT_TO(SAC_DTYPE_F32, src, to, dst, n) break;
    case SAC_DTYPE_F16: CONVERT_TO(SAC_DTYPE_F16, src, to, dst, n) break;
    default: CONVERT_TO(SAC_DTYPE_BF16, src, to, dst, n) break;
    }
}

static void gather_turned(const sac_kv_gather_args *a, const void *src, int64_t pos, void *dst) {
    float key[KV_GATHER_MAX_D];
    int64_t d = a->src.head_dim;
    switch ((int)a->src.dtype) {
    case SAC_DTYPE_F32: turn_back(SAC_DTYPE_F32, src, d, a->rotation, pos, key); break;
    case SAC_DTYPE_F16: turn_back(SAC_DTYPE_F16, src, d, a->rotation, pos, key); break;
    default: turn_back(SAC_DTYPE_BF16, src, d, a->rotation, pos, key); break;
    }
    gather_convert(SAC_DTYPE_F32, key, a->dst.dtype, dst, d);
}

static char *gather_address(const sac_kv_view *kv, void *base, int64_t row, int64_t head) {
    return (char *)base +
           (size_t)(row * kv->row_stride + head * kv->head_stride) * (size_t)sac_dtype_block_bytes(kv->dtype);
}

static int64_t gather_length(const sac_kv_gather_args *a) {
    int64_t longest = 0;
    for (int i = 0; i < a->lists->n_lists; i++)
        longest = sac_max_i64(longest, a->lists->start[i + 1] - a->lists->start[i]);
    return longest;
}

/* Row r is row r % longest of head r / longest. */
static void kv_gather_rows(const void *args, int64_t first, int64_t end) {
    const sac_kv_gather_args *a = args;
    const sac_kv_view *src = &a->src, *dst = &a->dst;
    const sac_row_lists *l = a->lists;
    int64_t longest = gather_length(a), d = src->head_dim;
    for (int64_t r = first; r < end; r++) {
        int64_t head = r / longest, to = r % longest, list = head / (src->n_heads / l->n_lists);
        int64_t i = l->start[list] + to;
        if (i >= l->start[list + 1]) continue;
        const void *k = gather_address(src, src->k, l->rows[i], head);
        if (a->turn_back)
            gather_turned(a, k, a->turn_back[i], gather_address(dst, dst->k, to, head));
        else
            gather_convert(src->dtype, k, dst->dtype, gather_address(dst, dst->k, to, head), d);
        if (!a->keys_only)
            gather_convert(src->dtype, gather_address(src, src->v, l->rows[i], head), dst->dtype,
                           gather_address(dst, dst->v, to, head), d);
    }
}

static sac_status SAC_ISA(kv_gather)(const sac_stream *s, const sac_kv_gather_args *a) {
    if (a->src.head_dim > KV_GATHER_MAX_D) return sac_ref_kv_gather(s, a);
    int64_t row_bytes = 4 * (int64_t)sac_dtype_row_bytes(a->src.dtype, a->src.head_dim);
    sac_for_rows(s, gather_length(a) * a->src.n_heads, row_bytes, kv_gather_rows, a);
    return SAC_OK;
}
