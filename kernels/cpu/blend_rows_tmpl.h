#include "cpu.h"
#include "simd.h"

/* y = sum, or y += sum; x: the first of the tile's rows. */
static void blend_row(const sac_blend_rows_args *a, float *y, const float *x, int64_t i) {
    const int32_t *source = a->source + i * SAC_BLEND_TAPS;
    const float *weight = a->weight + i * SAC_BLEND_TAPS;
    for (int64_t c = 0, n = a->y.cols; c < n; c += VF) {
        vf sum = vf_zero();
        for (int k = 0; k < SAC_BLEND_TAPS && source[0] >= 0; k++)
            sum = vf_fma(vf_set1(weight[k]), vf_load_part(x + source[k] * a->x.stride + c, n - c), sum);
        if (source[0] < 0) sum = vf_load_part(a->fill + c, n - c);
        if (a->accumulate) sum = vf_add(vf_load_part(y + c, n - c), sum);
        vf_store_part(y + c, sum, n - c);
    }
}

static void blend_rows(const void *args, int64_t first, int64_t end) {
    const sac_blend_rows_args *a = args;
    int64_t n = a->y.rows / a->n_tiles, x_rows = a->shared ? 0 : a->x.rows / a->n_tiles;
    for (int64_t row = first; row < end; row++)
        blend_row(a, sac_mat_row_f32(a->y, row), sac_mat_row_f32(a->x, row / n * x_rows), row % n);
}

static sac_status SAC_ISA(blend_rows)(const sac_stream *s, const sac_blend_rows_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 4 * (SAC_BLEND_TAPS + 1), blend_rows, a);
    return SAC_OK;
}
