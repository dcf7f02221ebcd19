#include "ref.h"

sac_status sac_ref_pool_tokens(const sac_stream *s, const sac_pool_tokens_args *a) {
    (void)s;
    int64_t h = a->h, w = a->w, st = a->stride, out_h = h / st, out_w = w / st;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && a->x.cols == a->y.cols);
    assert(a->x.rows == a->n_tiles * h * w && a->y.rows == a->n_tiles * out_h * out_w);
    for (int64_t row = 0; row < a->y.rows; row++) {
        int64_t tile = row / (out_h * out_w), oy = row / out_w % out_h, ox = row % out_w;
        float *y = sac_mat_row_f32(a->y, row);
        for (int64_t c = 0; c < a->y.cols; c++) {
            double sum = 0;
            for (int64_t dy = 0; dy < st; dy++)
                for (int64_t dx = 0; dx < st; dx++)
                    sum += (double)sac_mat_row_f32(a->x, (tile * h + oy * st + dy) * w + ox * st + dx)[c];
            y[c] = (float)(sum / (double)(st * st));
        }
    }
    return SAC_OK;
}
