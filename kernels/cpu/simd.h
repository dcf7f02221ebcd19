/* simd.h - one vocabulary for the kernel templates (*_tmpl.h), which are compiled once for each instruction
 * set by a file such as linear_avx2.c that includes them.
 *
 * vf is a vector of VF floats, vi the same bits as integers, vm a mask of its lanes. Names with _part touch
 * the first n lanes of memory only (n >= VF means all of them) and read the other lanes as zero. SAC_ISA(name)
 * makes a template's outside name unique. No load needs alignment: weights lie in files as they please. */
#ifndef SAC_SIMD_H
#define SAC_SIMD_H

#include "dtype.h"

#if defined(__AVX512F__)
#include "simd_avx512.h"
#else
#include "simd_avx2.h"
#endif

#define SAC_INLINE static inline __attribute__((always_inline))

/* f32 of VF elements stored as t; t is a constant wherever this is inlined. */
SAC_INLINE vf vf_load_as(sac_dtype t, const void *p, int64_t i) {
    if (t == SAC_DTYPE_F32) return vf_load((const float *)p + i);
    return t == SAC_DTYPE_F16 ? vf_load_f16((const uint16_t *)p + i) : vf_load_bf16((const uint16_t *)p + i);
}
SAC_INLINE vf vf_load_as_part(sac_dtype t, const void *p, int64_t i, int64_t n) {
    if (t == SAC_DTYPE_F32) return vf_load_part((const float *)p + i, n);
    return t == SAC_DTYPE_F16 ? vf_load_f16_part((const uint16_t *)p + i, n)
                              : vf_load_bf16_part((const uint16_t *)p + i, n);
}

#endif
