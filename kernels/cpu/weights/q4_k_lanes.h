/* q4_k_lanes.h - 256 elements of 4 bits behind two scales, and a scale and a minimum of 6 bits for each 32; see linear_quant_lanes.h. */
#ifndef SAC_Q4_K_LANES_H
#define SAC_Q4_K_LANES_H

#include "linear_quant_lanes.h"

enum { Q4_K_BYTES = 144, Q4_K_PART_GROUPS = 2 };

/* sac_q4_k_scales, four of them a lane */
SAC_INLINE void unpack_q4_k_scales(const vi bytes[4], head256 *w) {
    vi low6 = vi_set1(0x3f3f3f3f), low4 = vi_set1(0x0f0f0f0f), high2 = vi_set1(0x30303030);
    vi scale[2] = {vi_and(bytes[1], low6),
                   vi_or(vi_and(bytes[3], low4), vi_and(vi_shift_right(bytes[1], 2), high2))};
    vi min[2] = {vi_and(bytes[2], low6), vi_or(vi_and(vi_shift_right(bytes[3], 4), low4),
                                               vi_and(vi_shift_right(bytes[2], 2), high2))};
    for (int i = 0; i < 2; i++) {
        bytes_to_float(scale[i], w->scale + 4 * i);
        bytes_to_pairs(min[i], w->min + 2 * i);
    }
}

SAC_INLINE void q4_k_head(const uint8_t *p, size_t stride, head256 *w) {
    vi bytes[4];
    vi_load_rows(p, stride, bytes);
    w->d = vf_f16_low(bytes[0]);
    w->dmin = vf_f16_high(bytes[0]);
    unpack_q4_k_scales(bytes, w);
}

SAC_INLINE void q4_k_part(const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    (void)as_signed;
    unpack_nibbles(p + 16 + 32 * part, stride, q, q + 8);
    unpack_nibbles(p + 32 + 32 * part, stride, q + 4, q + 12);
}

#endif
