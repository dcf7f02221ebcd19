/* q4_1_lanes.h - 32 elements of 4 bits behind their scale and minimum; see linear_quant_lanes.h. */
#ifndef SAC_Q4_1_LANES_H
#define SAC_Q4_1_LANES_H

#include "linear_quant_lanes.h"

enum { Q4_1_BYTES = 20 };

SAC_INLINE void q4_1_unpack(const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    vi head = vi_load_words(p, stride);
    (void)as_signed;
    w->d = vf_f16_low(head);
    w->m = vf_f16_high(head);
    unpack_nibbles(p + 4, stride, w->q, w->q + 4);
}

#endif
