#include "cpu.h"
#include "simd.h"

#include <math.h>

/* Mean first, then squares about it: in one pass x^2 - mean^2 would cancel. */
static void layernorm_rows(const void *args, int64_t first, int64_t end) {
    const sac_layernorm_args *a = args;
    int64_t n = a->x.cols;
    for (int64_t i = first; i < end; i++) {
        const float *x = sac_mat_row_f32(a->x, i);
        float *y = sac_mat_row_f32(a->y, i);
        vf sum = vf_zero(), squares = vf_zero();
        for (int64_t c = 0; c < n; c += VF) sum = vf_add(sum, vf_load_part(x + c, n - c));
        float mean = vf_sum(sum) / (float)n;
        for (int64_t c = 0; c < n; c += VF) {
            vf d = vf_keep_lanes(vf_sub(vf_load_part(x + c, n - c), vf_set1(mean)), 0, n - c, vf_zero());
            squares = vf_fma(d, d, squares);
        }
        vf scale = vf_set1(1.0f / sqrtf(vf_sum(squares) / (float)n + a->eps));
        for (int64_t c = 0; c < n; c += VF) {
            vf v = vf_mul(vf_sub(vf_load_part(x + c, n - c), vf_set1(mean)), scale);
            v = vf_fma(v, vf_load_part(a->w + c, n - c), vf_load_part(a->b + c, n - c));
            vf_store_part(y + c, v, n - c);
        }
    }
}

static sac_status SAC_ISA(layernorm)(const sac_stream *s, const sac_layernorm_args *a) {
    sac_for_rows(s, a->x.rows, a->x.cols * 8, layernorm_rows, a);
    return SAC_OK;
}
