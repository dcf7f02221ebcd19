#include "ref.h"

sac_status sac_ref_scale_add(const sac_stream *s, const sac_scale_add_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && sac_ref_same_shape(a->x, a->y));
    const double factor = a->factor != 0 ? (double)a->factor : 1;
    for (int64_t i = 0; i < a->y.rows; i++) {
        const float *x = sac_mat_row_f32(a->x, i);
        float *y = sac_mat_row_f32(a->y, i);
        for (int64_t c = 0; c < a->y.cols; c++)
            y[c] = (float)((double)y[c] + (double)x[c] * (a->scale ? (double)a->scale[c] : factor));
    }
    return SAC_OK;
}
