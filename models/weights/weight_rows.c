#include "weight_reader.h"

/* Rows of a part that has one for each of the matrix, or for each `each` of them; one for all stays. */
static void cut(sac_tensor *part, int64_t n_all, int64_t first, int64_t n, int64_t each) {
    const int64_t rows = (n_all + each - 1) / each;
    if (!part->data || part->dim[0] == 1 || part->dim[0] != rows) return;
    part->data = (const uint8_t *)part->data + (size_t)(first / each) * sac_dtype_row_bytes(part->dtype, part->dim[1]);
    part->dim[0] = (n + each - 1) / each;
}

/* Formats whose numbers lie row by row. Of packed ones zeros do not: eight rows share a word. */
static bool lies_in_rows(const sac_weight *w) {
    switch (w->format) {
    case SAC_WEIGHT_AWQ:
    case SAC_WEIGHT_GPTQ: return false;
    case SAC_WEIGHT_PACKED: return !w->zeros.data && !w->order.data && w->tensor.dim[1] % 8 == 0;
    case SAC_WEIGHT_FP4:
    case SAC_WEIGHT_HQQ:
    case SAC_WEIGHT_NF4: return w->tensor.dim[1] % 2 == 0 && w->scales.dim[0] == w->tensor.dim[0];
    default: return true;
    }
}

sac_status sac_weight_rows(sac_weight *w, const char *name, int64_t first, int64_t n, sac_error *err) {
    const int64_t all = w->tensor.dim[0], each = w->group_rows ? w->group_rows : 1;
    if (!lies_in_rows(w))
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s holds several matrices, and in %s these are not read apart", name,
                        sac_weight_name(w));
    if (first % each)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "tensor %.100s holds several matrices, and row %lld of it begins one within the %lld that share scales",
                        name, (long long)first, (long long)each);
    cut(&w->scales, all, first, n, each);
    cut(&w->zeros, all, first, n, each);
    cut(&w->tensor, all, first, n, 1);
    return SAC_OK;
}
