#include "cpu.h"
#include "simd.h"

static void pool_tokens_rows(const void *args, int64_t first, int64_t end) {
    const sac_pool_tokens_args *a = args;
    int64_t h = a->h, w = a->w, st = a->stride, out_h = h / st, out_w = w / st, n = a->y.cols;
    for (int64_t row = first; row < end; row++) {
        int64_t tile = row / (out_h * out_w), oy = row / out_w % out_h, ox = row % out_w;
        int64_t corner = (tile * h + oy * st) * w + ox * st;
        float *y = sac_mat_row_f32(a->y, row);
        for (int64_t c = 0; c < n; c += VF) {
            vf sum = vf_zero();
            for (int64_t dy = 0; dy < st; dy++)
                for (int64_t dx = 0; dx < st; dx++)
                    sum = vf_add(sum, vf_load_part(sac_mat_row_f32(a->x, corner + dy * w + dx) + c, n - c));
            vf_store_part(y + c, vf_div(sum, vf_set1((float)(st * st))), n - c);
        }
    }
}

static sac_status SAC_ISA(pool_tokens)(const sac_stream *s, const sac_pool_tokens_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 4 * (a->stride * a->stride + 1), pool_tokens_rows, a);
    return SAC_OK;
}
