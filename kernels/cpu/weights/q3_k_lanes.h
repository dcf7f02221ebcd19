/* q3_k_lanes.h - 256 elements of 3 bits, 4 above what they are: the third bits, the others, a scale of 6 bits for each 16, and a scale; see linear_quant_lanes.h. */
#ifndef SAC_Q3_K_LANES_H
#define SAC_Q3_K_LANES_H

#include "linear_quant_lanes.h"

enum { Q3_K_BYTES = 110, Q3_K_PART_GROUPS = 4 };

/* sac_q3_k_scales, four of them a lane. A block's last 16 bytes begin two before those of scales. */
SAC_INLINE void q3_k_head(const uint8_t *p, size_t stride, head256 *w) {
    vi end[4], bytes[3], low4 = vi_set1(0x0f0f0f0f), high2 = vi_set1(0x30303030),
                         less = vi_set1((int32_t)0xe0e0e0e0);
    vi_load_rows(p + 94, stride, end);
    for (int i = 0; i < 3; i++) bytes[i] = vi_or(vi_shift_right(end[i], 16), vi_shift_left(end[i + 1], 16));
    vi scale[4] = {
        vi_or(vi_and(bytes[0], low4), vi_and(vi_shift_left(bytes[2], 4), high2)),
        vi_or(vi_and(bytes[1], low4), vi_and(vi_shift_left(bytes[2], 2), high2)),
        vi_or(vi_and(vi_shift_right(bytes[0], 4), low4), vi_and(bytes[2], high2)),
        vi_or(vi_and(vi_shift_right(bytes[1], 4), low4), vi_and(vi_shift_right(bytes[2], 2), high2))};
    for (int i = 0; i < 4; i++) signed_bytes_to_float(vi_add8(scale[i], less), w->scale + 4 * i);
    w->d = vf_f16_high(end[3]);
}

/* 32 bytes hold the low bits of four groups of 32, as many the third bits of all eight. */
SAC_INLINE void q3_k_part(const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    vi low[8], high[8], two = vi_set1(0x03030303), third = vi_set1(0x04040404);
    vi add = vi_set1(as_signed ? (int32_t)0xfcfcfcfc : 0);
    for (int e = 0; e < 2; e++) {
        vi_load_rows(p + 16 * e, stride, high + 4 * e);
        vi_load_rows(p + 32 + 32 * part + 16 * e, stride, low + 4 * e);
    }
    for (int i = 0; i < 8; i++) {
        vi h = part ? vi_shift_right(high[i], 4) : high[i];
        q[i] = vi_or(vi_and(low[i], two), vi_and(vi_shift_left(h, 2), third));
        q[8 + i] = vi_or(vi_and(vi_shift_right(low[i], 2), two), vi_and(vi_shift_left(h, 1), third));
        q[16 + i] = vi_or(vi_and(vi_shift_right(low[i], 4), two), vi_and(h, third));
        q[24 + i] = vi_or(vi_and(vi_shift_right(low[i], 6), two), vi_and(vi_shift_right(h, 1), third));
    }
    for (int i = 0; i < 32; i++) q[i] = vi_add8(q[i], add);
}

#endif
