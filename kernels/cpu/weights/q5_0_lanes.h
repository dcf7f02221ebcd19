/* q5_0_lanes.h - 32 elements of 5 bits, 16 above what they are: the fifth bits lie behind the scale, before the others; see linear_quant_lanes.h. */
#ifndef SAC_Q5_0_LANES_H
#define SAC_Q5_0_LANES_H

#include "linear_quant_lanes.h"

enum { Q5_0_BYTES = 22 };

SAC_INLINE void q5_0_unpack(const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    w->d = vf_f16_low(vi_load_words(p, stride));
    unpack_nibbles(p + 6, stride, w->q, w->q + 4);
    add_fifth_bits(vi_load_words(p + 2, stride), w->q);
    if (as_signed)
        for (int i = 0; i < 8; i++) w->q[i] = vi_add8(w->q[i], vi_set1((int32_t)0xf0f0f0f0));
}

#endif
