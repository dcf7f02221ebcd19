/* linear_epilogue.h - what happens to a row of sums: bias, activation, residual. */
#ifndef SAC_LINEAR_EPILOGUE_H
#define SAC_LINEAR_EPILOGUE_H

#include "simd_math.h"

/* y[0..n) = act(sum + bias), or added to y. sum may be read up to the end of its last vector. */
SAC_INLINE void linear_finish_row_as(sac_activation act, float *y, const float *sum, const float *bias,
                                     int64_t n, bool accumulate) {
    for (int64_t j = 0; j < n; j += VF) {
        vf v = vf_load(sum + j);
        if (bias) v = vf_add(v, vf_load_part(bias + j, n - j));
        v = vf_activation(act, v);
        if (accumulate) v = vf_add(v, vf_load_part(y + j, n - j));
        vf_store_part(y + j, v, n - j);
    }
}

static inline void linear_finish_row(const sac_linear_args *a, int64_t row, int64_t first, const float *sum,
                                     int64_t n) {
    float *y = sac_mat_row_f32(a->y, row) + first;
    const float *bias = a->bias ? a->bias + first : NULL;
    switch (a->act) { /* act a constant in each copy */
    case SAC_ACT_NONE: linear_finish_row_as(SAC_ACT_NONE, y, sum, bias, n, a->accumulate); break;
    case SAC_ACT_GELU: linear_finish_row_as(SAC_ACT_GELU, y, sum, bias, n, a->accumulate); break;
    case SAC_ACT_GELU_TANH: linear_finish_row_as(SAC_ACT_GELU_TANH, y, sum, bias, n, a->accumulate); break;
    case SAC_ACT_QUICK_GELU: linear_finish_row_as(SAC_ACT_QUICK_GELU, y, sum, bias, n, a->accumulate); break;
    case SAC_ACT_SILU: linear_finish_row_as(SAC_ACT_SILU, y, sum, bias, n, a->accumulate); break;
    }
}

#endif
