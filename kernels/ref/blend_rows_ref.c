#include "ref.h"

/* x: those of the row's tile. */
static void blend(const sac_blend_rows_args *a, float *y, sac_mat x, int64_t i) {
    const int32_t *source = a->source + i * SAC_BLEND_TAPS;
    const float *weight = a->weight + i * SAC_BLEND_TAPS;
    assert(source[0] >= 0 || (source[0] == -1 && a->fill));
    for (int64_t c = 0; c < x.cols; c++) {
        double sum = 0;
        for (int k = 0; k < SAC_BLEND_TAPS && source[0] >= 0; k++) {
            assert(source[k] >= 0 && source[k] < x.rows);
            sum += (double)weight[k] * (double)sac_mat_row_f32(x, source[k])[c];
        }
        if (source[0] < 0) sum = (double)a->fill[c];
        y[c] = (float)(a->accumulate ? (double)y[c] + sum : sum);
    }
}

sac_status sac_ref_blend_rows(const sac_stream *s, const sac_blend_rows_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && sac_ref_is_mat(a->y) && a->x.cols == a->y.cols && a->n_tiles > 0);
    assert(a->y.rows % a->n_tiles == 0 && (a->shared || a->x.rows % a->n_tiles == 0));
    const int64_t n = a->y.rows / a->n_tiles, x_rows = a->shared ? a->x.rows : a->x.rows / a->n_tiles;
    for (int64_t row = 0; row < a->y.rows; row++)
        blend(a, sac_mat_row_f32(a->y, row), sac_mat_rows(a->x, a->shared ? 0 : row / n * x_rows, x_rows),
              row % n);
    return SAC_OK;
}
