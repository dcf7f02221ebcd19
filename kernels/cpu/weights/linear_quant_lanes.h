/* linear_quant_lanes.h - blocks of VF rows of quantised weights, unpacked to vectors of four elements a row: what
 * the formats' own files (<name>_lanes.h) share. A format has there
 *
 *   <NAME>_BYTES                                            of a block
 *   <name>_unpack(p, stride, as_signed, weights32 *)         blocks of 32 elements
 *   <name>_head(p, stride, head256 *)                        blocks of 256: scales and minima,
 *   <name>_part(p, stride, part, as_signed, q)               and the elements, in parts of
 *   <NAME>_PART_GROUPS                                      groups of 32
 *
 * p is the block of the first row, `stride` bytes from that of the next. `as_signed` gives the elements
 * themselves, for AMX; otherwise they stay unsigned, as far above them as linear_quant_formats.h says. kernels/ref/weights
 * says what each format means; these are the same by lanes. */
#ifndef SAC_LINEAR_QUANT_LANES_H
#define SAC_LINEAR_QUANT_LANES_H

#include "linear_quant_formats.h"
#include "linear_quant_simd.h"

#define SAC_LQ_ONE_COPY                                                                                      \
    static __attribute__((noinline)) /* large, and called for hundreds of products or more */

typedef struct weights32 {
    vi q[8];
    vf d, m;
} weights32;

typedef struct head256 {
    vf scale[16]; /* 8 of 32 elements, or 16 of 16 */
    vf d, dmin;
    vi min[8]; /* pairs of int16, where there are minima */
} head256;

typedef struct weights256 {
    vi q[64];
    head256 head;
} weights256;

SAC_INLINE void unpack_nibbles(const uint8_t *p, size_t stride, vi low[4], vi high[4]) {
    vi rows[4], nibble = vi_set1(0x0f0f0f0f);
    vi_load_rows(p, stride, rows);
    for (int i = 0; i < 4; i++) {
        low[i] = vi_and(rows[i], nibble);
        high[i] = vi_and(vi_shift_right(rows[i], 4), nibble);
    }
}

/* What codes of four bits stand for, in every 16 bytes; unsigned, so much above it. */
SAC_INLINE vi table_of(const int8_t values[16], bool as_signed, int above) {
    vi table = vi_repeat16(values);
    if (as_signed) return table;
    return above == SAC_LQ_EIGHT_BITS ? vi_from_q8(table) : vi_add8(table, vi_set1(0x01010101 * above));
}
SAC_INLINE void unpack_places(const uint8_t *p, size_t stride, vi table, vi q[8]) {
    unpack_nibbles(p, stride, q, q + 4);
    for (int i = 0; i < 8; i++) q[i] = vi_look_up(table, q[i]);
}

/* Bits 4 i to 4 i + 3 of each word to the fifth bits of the four bytes of q[i]: their product with these four powers of two puts
 * each of them where it belongs, and nothing else there. */
SAC_INLINE void add_fifth_bits(vi bits, vi q[8]) {
    vi spread = vi_set1(1 << 4 | 1 << 11 | 1 << 18 | 1 << 25), four = vi_set1(15),
       fifth = vi_set1(0x10101010);
    for (int i = 0; i < 8; i++, bits = vi_shift_right(bits, 4))
        q[i] = vi_or(q[i], vi_and(vi_mul(vi_and(bits, four), spread), fifth));
}

/* The four bytes of each word as numbers, without and with a sign, and as two pairs of int16. */
SAC_INLINE void bytes_to_float(vi bytes, vf out[4]) {
    vi one = vi_set1(0xff);
    out[0] = vi_to_float(vi_and(bytes, one));
    out[1] = vi_to_float(vi_and(vi_shift_right(bytes, 8), one));
    out[2] = vi_to_float(vi_and(vi_shift_right(bytes, 16), one));
    out[3] = vi_to_float(vi_shift_right(bytes, 24));
}
SAC_INLINE void signed_bytes_to_float(vi bytes, vf out[4]) {
    out[0] = vi_to_float(vi_shift_right_signed(vi_shift_left(bytes, 24), 24));
    out[1] = vi_to_float(vi_shift_right_signed(vi_shift_left(bytes, 16), 24));
    out[2] = vi_to_float(vi_shift_right_signed(vi_shift_left(bytes, 8), 24));
    out[3] = vi_to_float(vi_shift_right_signed(bytes, 24));
}
SAC_INLINE void bytes_to_pairs(vi bytes, vi out[2]) {
    vi byte0 = vi_set1(0xff), byte2 = vi_set1(0xff0000); /* b0 b1 b2 b3 to b0 0 b1 0 and b2 0 b3 0 */
    out[0] = vi_or(vi_and(bytes, byte0), vi_and(vi_shift_left(bytes, 8), byte2));
    out[1] = vi_or(vi_and(vi_shift_right(bytes, 16), byte0), vi_and(vi_shift_right(bytes, 8), byte2));
}

#endif
