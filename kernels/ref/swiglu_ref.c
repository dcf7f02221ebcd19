#include "ref.h"

sac_status sac_ref_swiglu(const sac_stream *s, const sac_swiglu_args *a) {
    (void)s;
    const bool has_up = a->up.data != NULL;
    assert(sac_ref_is_mat(a->y) && sac_ref_is_mat(a->gate) && (!has_up || sac_ref_is_mat(a->up)));
    assert(sac_ref_same_shape(a->y, a->gate) && (!has_up || sac_ref_same_shape(a->y, a->up)));
    const sac_activation act = sac_gate_activation(a->act);
    for (int64_t i = 0; i < a->y.rows; i++) {
        const float *gate = sac_mat_row_f32(a->gate, i), *up = has_up ? sac_mat_row_f32(a->up, i) : NULL;
        float *y = sac_mat_row_f32(a->y, i);
        for (int64_t c = 0; c < a->y.cols; c++)
            y[c] = (float)(sac_ref_activation(act, (double)gate[c]) * (up ? (double)up[c] : 1));
    }
    return SAC_OK;
}
