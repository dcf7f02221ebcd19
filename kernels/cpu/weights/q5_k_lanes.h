/* q5_k_lanes.h - q4_k's head, then the fifth bits of 256 elements, then the others; see linear_quant_lanes.h. */
#ifndef SAC_Q5_K_LANES_H
#define SAC_Q5_K_LANES_H

#include "q4_k_lanes.h"

enum { Q5_K_BYTES = 176, Q5_K_PART_GROUPS = 4 };

SAC_INLINE void q5_k_head(const uint8_t *p, size_t stride, head256 *w) {
    q4_k_head(p, stride, w);
}

/* 32 bytes hold the low bits of two groups of 32, as many the fifth bits of all eight. */
SAC_INLINE void q5_k_part(const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    vi high[8], fifth = vi_set1(0x10101010);
    (void)as_signed;
    for (int e = 0; e < 2; e++) {
        const uint8_t *low = p + 48 + 64 * part + 16 * e;
        vi_load_rows(p + 16 + 16 * e, stride, high + 4 * e);
        unpack_nibbles(low, stride, q + 4 * e, q + 8 + 4 * e);
        unpack_nibbles(low + 32, stride, q + 16 + 4 * e, q + 24 + 4 * e);
    }
    for (int i = 0; i < 8; i++) {
        vi h = part ? high[i] : vi_shift_left(high[i], 4);
        q[i] = vi_or(q[i], vi_and(h, fifth));
        q[8 + i] = vi_or(q[8 + i], vi_and(vi_shift_right(h, 1), fifth));
        q[16 + i] = vi_or(q[16 + i], vi_and(vi_shift_right(h, 2), fifth));
        q[24 + i] = vi_or(q[24 + i], vi_and(vi_shift_right(h, 3), fifth));
    }
}

#endif
