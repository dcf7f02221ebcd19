/* simd_math.h - exp and the activations on vectors.
 *
 * Polynomials are minimax fits (Remez, relative error) on the reduced range; each comment gives the fit's
 * error, to which come about one ulp of rounding. tests/checkkernels measures both. */
#ifndef SAC_SIMD_MATH_H
#define SAC_SIMD_MATH_H

#include "ops.h"
#include "simd.h"

/* 2^x: 2^-inf = 0, so masked scores vanish; NaN stays NaN. Fit 2.6e-9 on [-1/2, 1/2]. */
SAC_INLINE vf vf_exp2(vf x) {
    vf f = vf_fraction(x), p = vf_set1(1.559548546e-4f);
    p = vf_fma(p, f, vf_set1(1.340695075e-3f));
    p = vf_fma(p, f, vf_set1(9.617689066e-3f));
    p = vf_fma(p, f, vf_set1(5.550309643e-2f));
    p = vf_fma(p, f, vf_set1(2.402265221e-1f));
    p = vf_fma(p, f, vf_set1(6.931472421e-1f));
    p = vf_fma(p, f, vf_set1(1.0f));
    return vf_scale2(p, vf_round(x));
}

/* e^x, flushing to 0 below -104 and to infinity above 89. ln 2 is taken off in two parts (Cody and Waite), so
 * that the remainder is exact. Fit 2.6e-9 on [-ln2/2, ln2/2]. */
SAC_INLINE vf vf_exp(vf x) {
    x = vf_max(vf_set1(-104.0f), vf_min(vf_set1(89.0f), x));
    vf n = vf_round(vf_mul(x, vf_set1(1.44269504f)));
    vf f = vf_fnma(n, vf_set1(0.693359375f), x);
    f = vf_fnma(n, vf_set1(-2.12194440e-4f), f);
    vf p = vf_set1(1.406229101e-3f);
    p = vf_fma(p, f, vf_set1(8.379288018e-3f));
    p = vf_fma(p, f, vf_set1(4.166475311e-2f));
    p = vf_fma(p, f, vf_set1(1.666636169e-1f));
    p = vf_fma(p, f, vf_set1(5.000000596e-1f));
    p = vf_fma(p, f, vf_set1(1.0f));
    p = vf_fma(p, f, vf_set1(1.0f));
    return vf_scale2(p, n);
}

/* x / (1 + e^-x) with slope: x sigmoid(slope x). */
SAC_INLINE vf vf_x_sigmoid(vf x, vf u) {
    vf one = vf_set1(1.0f);
    return vf_div(x, vf_add(one, vf_exp(vf_sub(vf_zero(), u))));
}

/* x Phi(x). The small tail Phi(-|x|) = e^(-x^2/2) R(1 / (1 + 0.3 |x|)), with R a polynomial of degree 8 (the
 * form of Hastings, Abramowitz and Stegun 26.2.17; our fit, 5.8e-8 relative up to |x| = 14), so negative x
 * keep their relative precision where 1 + erf would cancel. */
SAC_INLINE vf vf_gelu(vf x) {
    vf z = vf_abs(x);
    vf t = vf_div(vf_set1(1.0f), vf_fma(vf_set1(0.3f), z, vf_set1(1.0f)));
    vf r = vf_set1(3.837827593e-2f);
    r = vf_fma(r, t, vf_set1(-1.691660583e-1f));
    r = vf_fma(r, t, vf_set1(2.286599725e-1f));
    r = vf_fma(r, t, vf_set1(-7.650636137e-2f));
    r = vf_fma(r, t, vf_set1(1.425354481e-1f));
    r = vf_fma(r, t, vf_set1(9.468355030e-2f));
    r = vf_fma(r, t, vf_set1(1.219203323e-1f));
    r = vf_fma(r, t, vf_set1(1.194876879e-1f));
    r = vf_fma(r, t, vf_set1(7.168835964e-6f));
    vf tail = vf_mul(r, vf_exp(vf_mul(vf_mul(z, z), vf_set1(-0.5f))));
    return vf_select_negative(x, vf_mul(x, tail), vf_fnma(x, tail, x));
}

/* 1 - 2 / (1 + e^2x): exact to one ulp of 1, which is what a sum of logits can tell. */
SAC_INLINE vf vf_tanh(vf x) {
    vf one = vf_set1(1.0f);
    return vf_sub(one, vf_div(vf_set1(2.0f), vf_add(one, vf_exp(vf_add(x, x)))));
}

/* tanh(u) = 2 sigmoid(2u) - 1 turns 0.5 x (1 + tanh u) into x sigmoid(2u). */
SAC_INLINE vf vf_gelu_tanh(vf x) {
    vf cubic = vf_fma(vf_mul(vf_mul(x, x), x), vf_set1(0.044715f), x);
    return vf_x_sigmoid(x, vf_mul(cubic, vf_set1(1.5957691216f)));
}

SAC_INLINE vf vf_activation(sac_activation act, vf x) {
    switch (act) {
    case SAC_ACT_NONE: return x;
    case SAC_ACT_GELU: return vf_gelu(x);
    case SAC_ACT_GELU_TANH: return vf_gelu_tanh(x);
    case SAC_ACT_QUICK_GELU: return vf_x_sigmoid(x, vf_mul(x, vf_set1(1.702f)));
    case SAC_ACT_SILU: return vf_x_sigmoid(x, x);
    case SAC_ACT_SIGMOID: return vf_x_sigmoid(vf_set1(1.0f), x);
    }
    return x;
}

#endif
