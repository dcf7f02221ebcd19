#include "ref.h"

static void add_row(float *y, const float *x, int64_t cols, float divisor, bool is_first) {
    for (int64_t c = 0; c < cols; c++) {
        float f = divisor != 0 ? x[c] / divisor : x[c];
        y[c] = is_first ? f : y[c] + f;
    }
}

/* In f32, in the order of the rows: methods compare such means, so their bits are part of
 * the contract here. */
sac_status sac_ref_mean_rows(const sac_stream *s, const sac_mean_rows_args *a) {
    (void)s;
    int64_t n_groups = a->n_groups > 1 ? a->n_groups : 1, each = a->x.rows / n_groups;
    assert(sac_ref_is_mat(a->x) && each > 0 && each * n_groups == a->x.rows && a->y);
    for (int64_t g = 0; g < n_groups; g++) {
        float *y = a->y + g * a->x.cols;
        add_row(y, sac_mat_row_f32(a->x, g * each), a->x.cols, a->divisor, true);
        for (int64_t i = g * each + 1; i < (g + 1) * each; i++)
            add_row(y, sac_mat_row_f32(a->x, i), a->x.cols, a->divisor, false);
        for (int64_t c = 0; c < a->x.cols; c++) y[c] *= a->scale;
    }
    return SAC_OK;
}
