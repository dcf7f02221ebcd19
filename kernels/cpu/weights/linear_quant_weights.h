/* linear_quant_weights.h - the formats of linear_quant by type, which is a constant wherever this is inlined: where a
 * new <name>_lanes.h enters the template. */
#ifndef SAC_LINEAR_QUANT_WEIGHTS_H
#define SAC_LINEAR_QUANT_WEIGHTS_H

#include "q4_0_lanes.h"
#include "q4_1_lanes.h"
#include "q4_k_lanes.h"
#include "q6_k_lanes.h"
#include "q8_0_lanes.h"

SAC_INLINE bool is_k_quant(sac_dtype t) {
    return t == SAC_DTYPE_Q4_K || t == SAC_DTYPE_Q6_K;
}
SAC_INLINE size_t weights_bytes(sac_dtype t) {
    return is_k_quant(t) ? sizeof(weights256) : sizeof(weights32);
}
SAC_INLINE size_t block_bytes_of(sac_dtype t) {
    switch (t) {
    case SAC_DTYPE_Q8_0: return Q8_0_BYTES;
    case SAC_DTYPE_Q4_0: return Q4_0_BYTES;
    case SAC_DTYPE_Q4_1: return Q4_1_BYTES;
    case SAC_DTYPE_Q4_K: return Q4_K_BYTES;
    default: return Q6_K_BYTES;
    }
}
/* A block of 256 falls into parts of 64 (q4_k) or 128 (q6_k) elements that are unpacked together. */
SAC_INLINE int groups_a_part(sac_dtype t) {
    return t == SAC_DTYPE_Q4_K ? Q4_K_PART_GROUPS : Q6_K_PART_GROUPS;
}

SAC_INLINE void unpack32(sac_dtype t, const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    switch (t) {
    case SAC_DTYPE_Q8_0: q8_0_unpack(p, stride, as_signed, w); break;
    case SAC_DTYPE_Q4_0: q4_0_unpack(p, stride, as_signed, w); break;
    default: q4_1_unpack(p, stride, as_signed, w); break;
    }
}

SAC_INLINE void unpack_head(sac_dtype t, const uint8_t *p, size_t stride, head256 *w) {
    if (t == SAC_DTYPE_Q4_K)
        q4_k_head(p, stride, w);
    else
        q6_k_head(p, stride, w);
}

SAC_INLINE void unpack_part(sac_dtype t, const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    if (t == SAC_DTYPE_Q4_K)
        q4_k_part(p, stride, part, as_signed, q);
    else
        q6_k_part(p, stride, part, as_signed, q);
}

/* One block of VF rows; w is a weights32 or weights256. */
SAC_INLINE void unpack(sac_dtype t, const uint8_t *p, size_t stride, bool as_signed, void *w) {
    weights256 *large = w;
    if (!is_k_quant(t)) {
        unpack32(t, p, stride, as_signed, w);
        return;
    }
    unpack_head(t, p, stride, &large->head);
    for (int part = 0; part < 8 / groups_a_part(t); part++)
        unpack_part(t, p, stride, part, as_signed, large->q + 8 * groups_a_part(t) * part);
}

#endif
