#include "cpu.h"
#include "simd.h"

static void scale_add_rows(const void *args, int64_t first, int64_t end) {
    const sac_scale_add_args *a = args;
    const vf factor = vf_set1(a->factor != 0 ? a->factor : 1.0f);
    int64_t n = a->y.cols;
    for (int64_t i = first; i < end; i++) {
        const float *x = sac_mat_row_f32(a->x, i);
        float *y = sac_mat_row_f32(a->y, i);
        for (int64_t c = 0; c < n; c += VF) {
            vf scale = a->scale ? vf_load_part(a->scale + c, n - c) : factor;
            vf sum = vf_fma(vf_load_part(x + c, n - c), scale, vf_load_part(y + c, n - c));
            vf_store_part(y + c, sum, n - c);
        }
    }
}

static sac_status SAC_ISA(scale_add)(const sac_stream *s, const sac_scale_add_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 8, scale_add_rows, a);
    return SAC_OK;
}
