/* q5_1_lanes.h - 32 elements of 5 bits: the fifth bits lie behind scale and minimum, before the others; see linear_quant_lanes.h. */
#ifndef SAC_Q5_1_LANES_H
#define SAC_Q5_1_LANES_H

#include "linear_quant_lanes.h"

enum { Q5_1_BYTES = 24 };

SAC_INLINE void q5_1_unpack(const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    vi head = vi_load_words(p, stride);
    (void)as_signed;
    w->d = vf_f16_low(head);
    w->m = vf_f16_high(head);
    unpack_nibbles(p + 8, stride, w->q, w->q + 4);
    add_fifth_bits(vi_load_words(p + 4, stride), w->q);
}

#endif
