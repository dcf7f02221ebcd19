/* q2_k_lanes.h - 256 elements of 2 bits between a scale and a minimum of 4 bits for each 16 and the scales of these; see linear_quant_lanes.h. */
#ifndef SAC_Q2_K_LANES_H
#define SAC_Q2_K_LANES_H

#include "linear_quant_lanes.h"

enum { Q2_K_BYTES = 84, Q2_K_PART_GROUPS = 4 };

SAC_INLINE void q2_k_head(const uint8_t *p, size_t stride, head256 *w) {
    vi both[4], low4 = vi_set1(0x0f0f0f0f), head = vi_load_words(p + 80, stride);
    vi_load_rows(p, stride, both);
    for (int i = 0; i < 4; i++) {
        bytes_to_float(vi_and(both[i], low4), w->scale + 4 * i);
        bytes_to_pairs(vi_and(vi_shift_right(both[i], 4), low4), w->min + 2 * i);
    }
    w->d = vf_f16_low(head);
    w->dmin = vf_f16_high(head);
}

/* 32 bytes hold four groups of 32. */
SAC_INLINE void q2_k_part(const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    vi rows[8], two = vi_set1(0x03030303);
    (void)as_signed;
    vi_load_rows(p + 16 + 32 * part, stride, rows);
    vi_load_rows(p + 32 + 32 * part, stride, rows + 4);
    for (int i = 0; i < 8; i++) {
        q[i] = vi_and(rows[i], two);
        q[8 + i] = vi_and(vi_shift_right(rows[i], 2), two);
        q[16 + i] = vi_and(vi_shift_right(rows[i], 4), two);
        q[24 + i] = vi_and(vi_shift_right(rows[i], 6), two);
    }
}

#endif
