/* linear_quant_weights.h - blocks of VF rows of quantised weights, unpacked to vectors of four elements a
 * row. quants.c says what each format means; this file is the same by lanes. `as_signed` gives the elements
 * themselves, for AMX; otherwise q8_0, q4_0 and q6_k stay unsigned, 128, 8 and 32 above them. */
#ifndef SAC_LINEAR_QUANT_WEIGHTS_H
#define SAC_LINEAR_QUANT_WEIGHTS_H

#include "linear_quant_simd.h"

#define SAC_LQ_ONE_COPY                                                                                      \
    static __attribute__((noinline)) /* large, and called for hundreds of products or more */

typedef struct weights32 {
    vi q[8];
    vf d, m;
} weights32;

typedef struct head256 {
    vf scale[16]; /* q4_k: 8 of 32 elements, q6_k: 16 of 16 */
    vf d, dmin;
    vi min[4]; /* q4_k: pairs of int16 */
} head256;

typedef struct weights256 {
    vi q[64];
    head256 head;
} weights256;

SAC_INLINE bool is_k_quant(sac_dtype t) {
    return t == SAC_DTYPE_Q4_K || t == SAC_DTYPE_Q6_K;
}
SAC_INLINE size_t weights_bytes(sac_dtype t) {
    return is_k_quant(t) ? sizeof(weights256) : sizeof(weights32);
}

SAC_INLINE size_t block_bytes_of(sac_dtype t) { /* a constant where t is one */
    switch (t) {
    case SAC_DTYPE_Q8_0: return 34;
    case SAC_DTYPE_Q4_0: return 18;
    case SAC_DTYPE_Q4_1: return 20;
    case SAC_DTYPE_Q4_K: return 144;
    default: return 210;
    }
}

/* ---- weights ---- */

SAC_INLINE void unpack_nibbles(const uint8_t *p, size_t stride, vi low[4], vi high[4]) {
    vi rows[4], nibble = vi_set1(0x0f0f0f0f);
    vi_load_rows(p, stride, rows);
    for (int i = 0; i < 4; i++) {
        low[i] = vi_and(rows[i], nibble);
        high[i] = vi_and(vi_shift_right(rows[i], 4), nibble);
    }
}

SAC_INLINE void unpack32(sac_dtype t, const uint8_t *p, size_t stride, bool as_signed, weights32 *w) {
    vi head = vi_load_words(p, stride);
    w->d = vf_f16_low(head);
    if (t == SAC_DTYPE_Q4_1) w->m = vf_f16_high(head);
    if (t == SAC_DTYPE_Q8_0) {
        vi_load_rows(p + 2, stride, w->q);
        vi_load_rows(p + 18, stride, w->q + 4);
        for (int i = 0; i < 8 && !as_signed; i++) w->q[i] = vi_from_q8(w->q[i]);
        return;
    }
    unpack_nibbles(p + (t == SAC_DTYPE_Q4_1 ? 4 : 2), stride, w->q, w->q + 4);
    for (int i = 0; i < 8 && as_signed && t == SAC_DTYPE_Q4_0; i++)
        w->q[i] = vi_add8(w->q[i], vi_set1((int32_t)0xf8f8f8f8));
}

/* sac_q4_k_scales, four of them a lane */
SAC_INLINE void unpack_q4_k_scales(const vi bytes[4], head256 *w) {
    vi low6 = vi_set1(0x3f3f3f3f), low4 = vi_set1(0x0f0f0f0f), high2 = vi_set1(0x30303030);
    vi scale[2] = {vi_and(bytes[1], low6),
                   vi_or(vi_and(bytes[3], low4), vi_and(vi_shift_right(bytes[1], 2), high2))};
    vi min[2] = {vi_and(bytes[2], low6), vi_or(vi_and(vi_shift_right(bytes[3], 4), low4),
                                               vi_and(vi_shift_right(bytes[2], 2), high2))};
    vi byte0 = vi_set1(0xff), byte2 = vi_set1(0xff0000);
    for (int i = 0; i < 2; i++) {
        w->scale[4 * i] = vi_to_float(vi_and(scale[i], byte0));
        w->scale[4 * i + 1] = vi_to_float(vi_and(vi_shift_right(scale[i], 8), byte0));
        w->scale[4 * i + 2] = vi_to_float(vi_and(vi_shift_right(scale[i], 16), byte0));
        w->scale[4 * i + 3] = vi_to_float(vi_shift_right(scale[i], 24));
        /* pairs (0, 1) and (2, 3): bytes b0 b1 b2 b3 to b0 0 b1 0 and b2 0 b3 0 */
        w->min[2 * i] = vi_or(vi_and(min[i], byte0), vi_and(vi_shift_left(min[i], 8), byte2));
        w->min[2 * i + 1] =
            vi_or(vi_and(vi_shift_right(min[i], 16), byte0), vi_and(vi_shift_right(min[i], 8), byte2));
    }
}

SAC_INLINE void unpack_q4_k_head(const uint8_t *p, size_t stride, head256 *w) {
    vi bytes[4];
    vi_load_rows(p, stride, bytes);
    w->d = vf_f16_low(bytes[0]);
    w->dmin = vf_f16_high(bytes[0]);
    unpack_q4_k_scales(bytes, w);
}

SAC_INLINE void unpack_q6_k_head(const uint8_t *p, size_t stride, head256 *w) {
    vi scale[4];
    vi_load_rows(p + 192, stride, scale);
    for (int i = 0; i < 4; i++) {
        w->scale[4 * i] = vi_to_float(vi_shift_right_signed(vi_shift_left(scale[i], 24), 24));
        w->scale[4 * i + 1] = vi_to_float(vi_shift_right_signed(vi_shift_left(scale[i], 16), 24));
        w->scale[4 * i + 2] = vi_to_float(vi_shift_right_signed(vi_shift_left(scale[i], 8), 24));
        w->scale[4 * i + 3] = vi_to_float(vi_shift_right_signed(scale[i], 24));
    }
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

/* A block of 256 falls into parts of 64 (q4_k) or 128 (q6_k) elements that are unpacked together. */
SAC_INLINE int groups_a_part(sac_dtype t) {
    return t == SAC_DTYPE_Q4_K ? 2 : 4;
}

SAC_INLINE void unpack_part(sac_dtype t, const uint8_t *p, size_t stride, int part, bool as_signed, vi *q) {
    if (t == SAC_DTYPE_Q4_K) {
        unpack_nibbles(p + 16 + 32 * part, stride, q, q + 8);
        unpack_nibbles(p + 32 + 32 * part, stride, q + 4, q + 12);
    } else {
        int32_t offset = as_signed ? (int32_t)0xe0e0e0e0 : 0; /* -32 */
        unpack_q6_k_half(p + 64 * part, p + 128 + 32 * part, stride, offset, q);
    }
}

SAC_INLINE void unpack_head(sac_dtype t, const uint8_t *p, size_t stride, head256 *w) {
    if (t == SAC_DTYPE_Q4_K)
        unpack_q4_k_head(p, stride, w);
    else
        unpack_q6_k_head(p, stride, w);
}

/* One block of VF rows; w is a weights32 or weights256. */
SAC_INLINE void unpack(sac_dtype t, const uint8_t *p, size_t stride, bool as_signed, void *w) {
    weights256 *large = w;
    if (!is_k_quant(t)) {
        unpack32(t, p, stride, as_signed, w);
        return;
    }
    unpack_head(t, p, stride, &large->head);
    for (int part = 0; part < 8 / groups_a_part(t); part++)
        unpack_part(t, p, stride, part, as_signed, large->q + 8 * groups_a_part(t) * part);
}

#endif
