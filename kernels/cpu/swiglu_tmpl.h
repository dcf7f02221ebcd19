#include "cpu.h"
#include "simd_math.h"

static void swiglu_rows(const void *args, int64_t first, int64_t end) {
    const sac_swiglu_args *a = args;
    const sac_activation act = sac_gate_activation(a->act);
    int64_t n = a->y.cols;
    for (int64_t i = first; i < end; i++) {
        const float *gate = sac_mat_row_f32(a->gate, i), *up = a->up.data ? sac_mat_row_f32(a->up, i) : NULL;
        float *y = sac_mat_row_f32(a->y, i);
        for (int64_t c = 0; c < n; c += VF) {
            vf g = vf_activation(act, vf_load_part(gate + c, n - c));
            vf_store_part(y + c, up ? vf_mul(g, vf_load_part(up + c, n - c)) : g, n - c);
        }
    }
}

static sac_status SAC_ISA(swiglu)(const sac_stream *s, const sac_swiglu_args *a) {
    sac_for_rows(s, a->y.rows, a->y.cols * 24, swiglu_rows,
                 a); /* the exponential costs more than the moves */
    return SAC_OK;
}
