#include "cpu.h"
#include "simd.h"

static void blend_row(const sac_blend_rows_args *a, float *y, int64_t first_row, const int32_t *source,
                      const float *weight) {
    for (int64_t c = 0, n = a->y.cols; c < n; c += VF) {
        vf sum = vf_zero();
        for (int k = 0; k < SAC_BLEND_TAPS; k++)
            sum = vf_fma(vf_set1(weight[k]),
                         vf_load_part(sac_mat_row_f32(a->x, first_row + source[k]) + c, n - c), sum);
        vf_store_part(y + c, sum, n - c);
    }
}

static void blend_rows(const void *args, int64_t first, int64_t end) {
    const sac_blend_rows_args *a = args;
    int64_t n = a->y.rows / a->n_tiles, x_rows = a->x.rows / a->n_tiles;
    for (int64_t row = first; row < end; row++) {
        const int32_t *source = a->source + row % n * SAC_BLEND_TAPS;
        float *y = sac_mat_row_f32(a->y, row);
        if (source[0] < 0)
            memcpy(y, a->fill, (size_t)a->y.cols * sizeof(float));
        else
            blend_row(a, y, row / n * x_rows, source, a->weight + row % n * SAC_BLEND_TAPS);
    }
}

static sac_status SAC_ISA(blend_rows)(const sac_stream *s, const sac_blend_rows_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 4 * (SAC_BLEND_TAPS + 1), blend_rows, a);
    return SAC_OK;
}
