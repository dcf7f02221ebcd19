/* q6_k_lanes.h - 256 elements of 6 bits, 32 above what they are, a scale of 8 bits for each 16, and a scale; see linear_quant_lanes.h. */
#ifndef SAC_Q6_K_LANES_H
#define SAC_Q6_K_LANES_H

#include "linear_quant_lanes.h"

enum { Q6_K_BYTES = 210, Q6_K_PART_GROUPS = 4 };

SAC_INLINE void q6_k_head(const uint8_t *p, size_t stride, head256 *w) {
    vi scale[4];
    vi_load_rows(p + 192, stride, scale);
    for (int i = 0; i < 4; i++) signed_bytes_to_float(scale[i], w->scale + 4 * i);
    w->d = vf_f16_high(vi_load_words(p + 206, stride)); /* not at 208: the last row may end the file */
}

/* 128 elements, by 16 of each 32: 32 bytes of low bits hold elements of two groups of 32, 16 of high bits
 * those of all four. */
SAC_INLINE void unpack_q6_k_half(const uint8_t *low, const uint8_t *high, size_t stride, int32_t offset,
                                 vi *q) {
    vi high2 = vi_set1(0x30303030), add = vi_set1(offset);
    for (int e = 0; e < 2; e++) {
        vi h[4], a[4], b[4], c[4], d[4];
        vi_load_rows(high + 16 * e, stride, h);
        unpack_nibbles(low + 16 * e, stride, a, c);
        unpack_nibbles(low + 32 + 16 * e, stride, b, d);
        for (int i = 0; i < 4; i++) {
            vi *out = q + 4 * e + i;
            out[0] = vi_add8(vi_or(a[i], vi_and(vi_shift_left(h[i], 4), high2)), add);
            out[8] = vi_add8(vi_or(b[i], vi_and(vi_shift_left(h[i], 2), high2)), add);
            out[16] = vi_add8(vi_or(c[i], vi_and(h[i], high2)), add);
            out[24] = vi_add8(vi_or(d[i], vi_and(vi_shift_right(h[i], 2), high2)), add);
        }
    }
}

SAC_INLINE void q6_k_part(const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    int32_t offset = as_signed ? (int32_t)0xe0e0e0e0 : 0; /* -32 */
    unpack_q6_k_half(p + 64 * part, p + 128 + 32 * part, stride, offset, q);
}

#endif
