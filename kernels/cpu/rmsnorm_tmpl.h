#include "cpu.h"
#include "simd.h"

#include <math.h>

static void rmsnorm_rows(const void *args, int64_t first, int64_t end) {
    const sac_rmsnorm_args *a = args;
    int64_t n = a->x.cols;
    for (int64_t i = first; i < end; i++) {
        const float *x = sac_mat_row_f32(a->x, i);
        float *y = sac_mat_row_f32(a->y, i);
        vf sum[2] = {vf_zero(), vf_zero()}; /* two chains hide the latency of an addition */
        for (int64_t c = 0; c < n; c += 2 * VF) {
            vf v = vf_load_part(x + c, n - c);
            sum[0] = vf_fma(v, v, sum[0]);
            if (c + VF >= n) break;
            v = vf_load_part(x + c + VF, n - c - VF);
            sum[1] = vf_fma(v, v, sum[1]);
        }
        vf scale = vf_set1(1.0f / sqrtf(vf_sum(vf_add(sum[0], sum[1])) / (float)n + a->eps));
        for (int64_t c = 0; c < n; c += VF) {
            vf v = vf_mul(vf_load_part(x + c, n - c), scale);
            vf_store_part(y + c, vf_mul(v, vf_load_part(a->w + c, n - c)), n - c);
        }
    }
}

static sac_status SAC_ISA(rmsnorm)(const sac_stream *s, const sac_rmsnorm_args *a) {
    sac_for_rows(s, a->x.rows, a->x.cols * 8, rmsnorm_rows, a);
    return SAC_OK;
}
