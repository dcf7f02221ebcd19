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
 * themselves, for AMX; otherwise q8_0, q4_0 and q6_k stay unsigned, 128, 8 and 32 above them. kernels/ref/weights says what each format
 * means; these are the same by lanes. */
#ifndef SAC_LINEAR_QUANT_LANES_H
#define SAC_LINEAR_QUANT_LANES_H

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
    vi min[4]; /* pairs of int16, with has_minima */
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

#endif
