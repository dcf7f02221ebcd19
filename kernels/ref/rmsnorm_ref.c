#include "ref.h"

#include <math.h>

sac_status sac_ref_rmsnorm(const sac_stream *s, const sac_rmsnorm_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && sac_ref_same_shape(a->x, a->y) && a->w);
    int64_t n = a->x.cols;
    for (int64_t i = 0; i < a->x.rows; i++) {
        const float *x = sac_mat_row_f32(a->x, i);
        float *y = sac_mat_row_f32(a->y, i);
        double sum = 0;
        for (int64_t c = 0; c < n; c++) sum += (double)x[c] * (double)x[c];
        double scale = 1 / sqrt(sum / (double)n + (double)a->eps);
        for (int64_t c = 0; c < n; c++) y[c] = (float)((double)x[c] * scale * (double)a->w[c]);
    }
    return SAC_OK;
}
