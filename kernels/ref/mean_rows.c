#include "ref.h"

static void add_row(float *y, sac_mat x, int64_t row) {
    const void *from = (char *)x.data + (size_t)row * sac_dtype_row_bytes(x.dtype, x.stride);
    if (x.dtype == SAC_DTYPE_F32)
        for (int64_t c = 0; c < x.cols; c++) y[c] += ((const float *)from)[c];
    else
        for (int64_t c = 0; c < x.cols; c++) y[c] += sac_ref_load(x.dtype, from, c);
}

/* In f32, in the order of the rows: methods compare such means, so their bits are part of
 * the contract here. */
sac_status sac_ref_mean_rows(const sac_stream *s, const sac_mean_rows_args *a) {
    (void)s;
    int64_t n_groups = a->n_groups > 1 ? a->n_groups : 1, each = a->x.rows / n_groups;
    assert(a->x.data && a->x.cols > 0 && a->x.stride >= a->x.cols);
    assert(each > 0 && each * n_groups == a->x.rows && a->y);
    for (int64_t g = 0; g < n_groups; g++) {
        float *y = a->y + g * a->x.cols;
        for (int64_t c = 0; c < a->x.cols; c++) y[c] = -0.0f; /* which leaves the first row as it is */
        for (int64_t i = g * each; i < (g + 1) * each; i++) add_row(y, a->x, i);
        for (int64_t c = 0; c < a->x.cols; c++) y[c] *= a->scale;
    }
    return SAC_OK;
}
