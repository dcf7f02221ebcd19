#include "ref.h"

static void blend(const sac_blend_rows_args *a, int64_t row, int64_t n, int64_t x_rows) {
    const int32_t *source = a->source + row % n * SAC_BLEND_TAPS;
    const float *weight = a->weight + row % n * SAC_BLEND_TAPS;
    float *y = sac_mat_row_f32(a->y, row);
    for (int64_t c = 0; c < a->y.cols; c++) {
        double sum = 0;
        for (int k = 0; k < SAC_BLEND_TAPS && source[0] >= 0; k++) {
            assert(source[k] >= 0 && source[k] < x_rows);
            sum += (double)weight[k] * (double)sac_mat_row_f32(a->x, row / n * x_rows + source[k])[c];
        }
        assert(source[0] >= 0 || (source[0] == -1 && a->fill));
        y[c] = source[0] < 0 ? a->fill[c] : (float)sum;
    }
}

sac_status sac_ref_blend_rows(const sac_stream *s, const sac_blend_rows_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && a->x.cols == a->y.cols && a->n_tiles > 0);
    assert(a->y.rows % a->n_tiles == 0 && a->x.rows % a->n_tiles == 0);
    for (int64_t row = 0; row < a->y.rows; row++)
        blend(a, row, a->y.rows / a->n_tiles, a->x.rows / a->n_tiles);
    return SAC_OK;
}
