#include "simd.h"
#include "turn_tmpl.h"

#define KV_GATHER_MAX_D 1024
#define KV_GATHER_BLOCK 256 /* rows that are marked at a time */

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

/* Entry i of the lists to row `to` of a head. */
static void gather_row(const sac_kv_gather_args *a, int64_t head, int64_t i, int64_t to) {
    const sac_kv_view *src = &a->src, *dst = &a->dst;
    int64_t row = a->lists->rows[i];
    const void *k = gather_address(src, src->k, row, head);
    if (a->turn_back)
        gather_turned(a, k, a->turn_back[i], gather_address(dst, dst->k, to, head));
    else
        gather_convert(src->dtype, k, dst->dtype, gather_address(dst, dst->k, to, head), src->head_dim);
    if (!a->keys_only)
        gather_convert(src->dtype, gather_address(src, src->v, row, head), dst->dtype,
                       gather_address(dst, dst->v, to, head), src->head_dim);
}

/* Marks those of a head's rows [first, first + n) that are going to be read. */
static void gather_marks(const sac_kv_gather_args *a, int64_t head, int64_t first, int64_t n, bool *marks) {
    const sac_row_lists *l = a->read;
    int64_t each = l->n_lists / a->src.n_heads;
    memset(marks, 0, (size_t)n);
    for (int64_t list = head * each; list < (head + 1) * each; list++) {
        int64_t i = l->start[list], end = l->start[list + 1];
        while (i < end) { /* the first one that is not before `first` */
            int64_t middle = i + (end - i) / 2;
            if (l->rows[middle] < first)
                i = middle + 1;
            else
                end = middle;
        }
        for (; i < l->start[list + 1] && l->rows[i] < first + n; i++) marks[l->rows[i] - first] = true;
    }
}

/* Row r is row r % longest of head r / longest. */
static void kv_gather_rows(const void *args, int64_t first, int64_t end) {
    const sac_kv_gather_args *a = args;
    const sac_row_lists *l = a->lists;
    int64_t longest = gather_length(a), n;
    for (int64_t r = first; r < end; r += n) {
        bool marks[KV_GATHER_BLOCK];
        int64_t head = r / longest, to = r % longest, list = head / (a->src.n_heads / l->n_lists);
        int64_t length = l->start[list + 1] - l->start[list];
        n = sac_min_i64(sac_min_i64(end - r, longest - to), KV_GATHER_BLOCK);
        if (a->read) gather_marks(a, head, to, n, marks);
        for (int64_t i = 0; i < n && to + i < length; i++)
            if (!a->read || marks[i]) gather_row(a, head, l->start[list] + to + i, to + i);
    }
}

static sac_status SAC_ISA(kv_gather)(const sac_stream *s, const sac_kv_gather_args *a) {
    if (a->src.head_dim > KV_GATHER_MAX_D) return sac_ref_kv_gather(s, a);
    int64_t row_bytes = 4 * (int64_t)sac_dtype_row_bytes(a->src.dtype, a->src.head_dim);
    sac_for_rows(s, gather_length(a) * a->src.n_heads, row_bytes, kv_gather_rows, a);
    return SAC_OK;
}
