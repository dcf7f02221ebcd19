/* linear_quant_weights.h - the formats of linear_quant by type, which is a constant wherever this is inlined: where a
 * new <name>_lanes.h enters the template. */
#ifndef SAC_LINEAR_QUANT_WEIGHTS_H
#define SAC_LINEAR_QUANT_WEIGHTS_H

#include "iq4_nl_lanes.h"
#include "iq4_xs_lanes.h"
#include "linear_quant_formats.h"
#include "mxfp4_lanes.h"
#include "q2_k_lanes.h"
#include "q3_k_lanes.h"
#include "q4_0_lanes.h"
#include "q4_1_lanes.h"
#include "q4_k_lanes.h"
#include "q5_0_lanes.h"
#include "q5_1_lanes.h"
#include "q5_k_lanes.h"
#include "q6_k_lanes.h"
#include "q8_0_lanes.h"

/* Blocks of 256. */
SAC_INLINE bool is_large(sac_dtype t) {
    return sac_lq_format_of(t).block == 256;
}
SAC_INLINE bool has_minima(sac_dtype t) {
    return sac_lq_format_of(t).has_minima;
}
SAC_INLINE bool has_eight_bits(sac_dtype t) {
    return sac_lq_format_of(t).above == SAC_LQ_EIGHT_BITS;
}
SAC_INLINE int units_a_block(sac_dtype t) {
    return sac_lq_format_of(t).block / sac_lq_format_of(t).unit;
}
SAC_INLINE size_t weights_bytes(sac_dtype t) {
    return is_large(t) ? sizeof(weights256) : sizeof(weights32);
}
SAC_INLINE size_t block_bytes_of(sac_dtype t) {
    switch (t) {
#define X(constant, name, unit, above, minima)                                                               \
    case SAC_DTYPE_##constant: return constant##_BYTES;
        SAC_LQ_FORMATS(X)
#undef X
    default: return 0;
    }
}
/* A block of 256 falls into parts of some groups of 32 that are unpacked together. */
SAC_INLINE int groups_a_part(sac_dtype t) {
    switch (t) {
#define X(constant, name, unit, above, minima)                                                               \
    case SAC_DTYPE_##constant: return constant##_PART_GROUPS;
        SAC_LQ_FORMATS_256(X)
#undef X
    default: return 8;
    }
}

SAC_INLINE void unpack32(sac_dtype t, const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    switch (t) {
#define X(constant, name, unit, above, minima)                                                               \
    case SAC_DTYPE_##constant: name##_unpack(p, stride, as_signed, w); break;
        SAC_LQ_FORMATS_32(X)
#undef X
    default: break;
    }
}

SAC_INLINE void unpack_head(sac_dtype t, const uint8_t *p, size_t stride, head256 *w) {
    switch (t) {
#define X(constant, name, unit, above, minima)                                                               \
    case SAC_DTYPE_##constant: name##_head(p, stride, w); break;
        SAC_LQ_FORMATS_256(X)
#undef X
    default: break;
    }
}

SAC_INLINE void unpack_part(sac_dtype t, const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    switch (t) {
#define X(constant, name, unit, above, minima)                                                               \
    case SAC_DTYPE_##constant: name##_part(p, stride, part, as_signed, q); break;
        SAC_LQ_FORMATS_256(X)
#undef X
    default: break;
    }
}

/* One block of VF rows; w is a weights32 or weights256. */
SAC_INLINE void unpack(sac_dtype t, const uint8_t *p, size_t stride, bool as_signed, void *w) {
    weights256 *large = w;
    if (!is_large(t)) {
        unpack32(t, p, stride, as_signed, w);
        return;
    }
    unpack_head(t, p, stride, &large->head);
    for (int part = 0; part < 8 / groups_a_part(t); part++)
        unpack_part(t, p, stride, part, as_signed, large->q + 8 * groups_a_part(t) * part);
}

#endif
