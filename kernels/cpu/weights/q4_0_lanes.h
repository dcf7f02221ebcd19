/* q4_0_lanes.h - 32 elements of 4 bits, 8 above what they are, behind their scale; see linear_quant_lanes.h. */
#ifndef SAC_Q4_0_LANES_H
#define SAC_Q4_0_LANES_H

#include "linear_quant_lanes.h"

enum { Q4_0_BYTES = 18 };

SAC_INLINE void q4_0_unpack(const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    w->d = vf_f16_low(vi_load_words(p, stride));
    unpack_nibbles(p + 2, stride, w->q, w->q + 4);
    if (as_signed)
        for (int i = 0; i < 8; i++) w->q[i] = vi_add8(w->q[i], vi_set1((int32_t)0xf8f8f8f8));
}

#endif
