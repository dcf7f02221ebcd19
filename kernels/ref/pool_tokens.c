#include "ref.h"

sac_status sac_ref_pool_tokens(const sac_stream *s, const sac_pool_tokens_args *a) {
    (void)s;
    int64_t g = a->grid, st = a->stride, out = g / st;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && a->x.cols == a->y.cols);
    assert(a->x.rows == a->n_tiles * g * g && a->y.rows == a->n_tiles * out * out);
    for (int64_t row = 0; row < a->y.rows; row++) {
        int64_t tile = row / (out * out), oy = row / out % out, ox = row % out;
        float *y = sac_mat_row_f32(a->y, row);
        for (int64_t c = 0; c < a->y.cols; c++) {
            double sum = 0;
            for (int64_t dy = 0; dy < st; dy++)
                for (int64_t dx = 0; dx < st; dx++)
                    sum += (double)sac_mat_row_f32(a->x, (tile * g + oy * st + dy) * g + ox * st + dx)[c];
            y[c] = (float)(sum / (double)(st * st));
        }
    }
    return SAC_OK;
}
