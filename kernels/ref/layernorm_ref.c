#include "ref.h"

#include <math.h>

sac_status sac_ref_layernorm(const sac_stream *s, const sac_layernorm_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && sac_ref_same_shape(a->x, a->y));
    assert(a->w && a->b);
    int64_t n = a->x.cols;
    for (int64_t i = 0; i < a->x.rows; i++) {
        const float *x = sac_mat_row_f32(a->x, i);
        float *y = sac_mat_row_f32(a->y, i);
        double mean = 0, var = 0;
        for (int64_t c = 0; c < n; c++) mean += (double)x[c];
        mean /= (double)n;
        for (int64_t c = 0; c < n; c++) var += ((double)x[c] - mean) * ((double)x[c] - mean);
        double scale = 1 / sqrt(var / (double)n + (double)a->eps);
        for (int64_t c = 0; c < n; c++)
            y[c] = (float)(((double)x[c] - mean) * scale * (double)a->w[c] + (double)a->b[c]);
    }
    return SAC_OK;
}
