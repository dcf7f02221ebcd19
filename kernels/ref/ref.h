/* ref.h - the reference of every op: the contract as plain C, in double, one thread, no tricks. */
#ifndef SAC_REF_H
#define SAC_REF_H

#include "ops.h"

#include <assert.h>

#define X(op) sac_status sac_ref_##op(const sac_stream *s, const sac_##op##_args *a);
SAC_OPS(X)
#undef X

double sac_ref_activation(sac_activation act, double x);

/* An f32 matrix of at least one column whose rows do not overlap. */
static inline bool sac_ref_is_mat(sac_mat m) {
    return (m.data || m.rows == 0) && m.dtype == SAC_DTYPE_F32 && m.rows >= 0 && m.cols > 0 &&
           m.stride >= m.cols;
}
static inline bool sac_ref_same_shape(sac_mat a, sac_mat b) {
    return a.rows == b.rows && a.cols == b.cols;
}

/* Element i of keys or values in F32, F16 or BF16. */
static inline float sac_ref_load(sac_dtype t, const void *p, int64_t i) {
    if (t == SAC_DTYPE_F32) return ((const float *)p)[i];
    uint16_t h = ((const uint16_t *)p)[i];
    return t == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}
static inline void sac_ref_store(sac_dtype t, void *p, int64_t i, float f) {
    if (t == SAC_DTYPE_F32)
        ((float *)p)[i] = f;
    else
        ((uint16_t *)p)[i] = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
}

#endif
