/* linear_epilogue.h - what ways of making sums of floats share: what happens to a row of sums: bias, activation,
 * residual. */
#ifndef SAC_LINEAR_EPILOGUE_H
#define SAC_LINEAR_EPILOGUE_H

#include "linear_few_rows.h"
#include "simd_math.h"

/* y[0..n) = act(sum + bias), or added to y. sum may be read up to the end of its last vector. */
SAC_INLINE void linear_finish_row_as(sac_activation act, float *y, const float *sum, const float *bias,
                                     int64_t n, bool accumulate) {
    int64_t j = 0;
    for (; j + VF <= n; j += VF) {
        vf v = vf_load(sum + j);
        if (bias) v = vf_add(v, vf_load(bias + j));
        v = vf_activation(act, v);
        if (accumulate) v = vf_add(v, vf_load(y + j));
        vf_store(y + j, v);
    }
    if (j == n) return;
    vf v = vf_load(sum + j);
    if (bias) v = vf_add(v, vf_load_part(bias + j, n - j));
    v = vf_activation(act, v);
    if (accumulate) v = vf_add(v, vf_load_part(y + j, n - j));
    vf_store_part(y + j, v, n - j);
}

SAC_INLINE void linear_finish_rows_as(sac_activation act, const sac_linear_args *a, int64_t row,
                                      int64_t n_rows, int64_t first, const float *sums, int64_t stride,
                                      int64_t n) {
    const float *bias = a->bias ? a->bias + first : NULL;
    for (int64_t r = 0; r < n_rows; r++)
        linear_finish_row_as(act, sac_mat_row_f32(a->y, row + r) + first, sums + r * stride, bias, n,
                             a->accumulate);
}

/* Rows [row, row + n_rows), columns [first, first + n) of y from sums, whose rows are stride apart. */
static inline void linear_finish_rows(const sac_linear_args *a, int64_t row, int64_t n_rows, int64_t first,
                                      const float *sums, int64_t stride, int64_t n) {
    switch (a->act) { /* act a constant in each copy */
    case SAC_ACT_NONE: linear_finish_rows_as(SAC_ACT_NONE, a, row, n_rows, first, sums, stride, n); break;
    case SAC_ACT_GELU: linear_finish_rows_as(SAC_ACT_GELU, a, row, n_rows, first, sums, stride, n); break;
    case SAC_ACT_GELU_TANH:
        linear_finish_rows_as(SAC_ACT_GELU_TANH, a, row, n_rows, first, sums, stride, n);
        break;
    case SAC_ACT_QUICK_GELU:
        linear_finish_rows_as(SAC_ACT_QUICK_GELU, a, row, n_rows, first, sums, stride, n);
        break;
    case SAC_ACT_SILU: linear_finish_rows_as(SAC_ACT_SILU, a, row, n_rows, first, sums, stride, n); break;
    case SAC_ACT_SIGMOID: linear_finish_rows_as(SAC_ACT_SIGMOID, a, row, n_rows, first, sums, stride, n); break;
    }
}

#endif
