/* block_layout.h - how a GPU holds GGUF's blocks: the stored bytes in another order, so that what a warp of
 * block_product.cuh reads at a time lies together and a lane finds whole words of the elements that its tensor core takes
 * from it.
 *
 * A matrix is in tiles of 16 rows and stretches of 256 elements, zeros behind the last row and the last element. A stretch
 * is in chunks of 64 elements, two groups A and B of 32. Of each 16 elements (a step) lane t of four has the four from
 * 4t on, a word with one a byte, in the order 4t, 4t + 2, 4t + 1, 4t + 3: a mask of halves gives two neighbours. Rows g
 * and g + 8 of a tile are those of lanes 4g to 4g + 3 of a warp. The parts of a matrix lie behind one another, each by
 * tiles, then stretches, and within:
 *
 *   codes    q8_0: [rows g, rows g + 8][4 chunks][32 lanes], 16 bytes: a word each for A's two steps and B's two
 *            q2_k, q3_k: as q6_k's high bits, bits 0 and 1
 *            others: [rows g, rows g + 8][2 pairs of chunks][32 lanes], 16 bytes: of each chunk a word each for A and B, the
 *            first step's low four bits in the low halves of bytes, the second step's in the high halves
 *   high     q6_k: [rows g, rows g + 8][32 lanes], a word a chunk: bits 4 and 5 of A's two steps, then of B's two
 *            q5_0, q5_1, q5_k (bit 4), q3_k (bit 2): [rows g, rows g + 8][32 lanes], a word for two chunks: a bit of each
 *            step of the first, then of the second
 *   scales   [16 rows], blocks of 32: d of each, or d and m, or the exponent; q4_k, q5_k: d, dmin and the 12 bytes; q2_k,
 *            q3_k, q6_k: the bytes of scales; iq4_xs: d and the bytes of scales
 *   more     [16 rows], q2_k: d and dmin; q3_k, q6_k: d
 *
 * Weights whose scales lie apart in files lie the same way, see code_layout.h. */
#ifndef SAC_CUDA_BLOCK_LAYOUT_H
#define SAC_CUDA_BLOCK_LAYOUT_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif
#include "dtype.h"

/* Types that only a GPU has, see code_layout.h. Constant, name. */
#define SAC_CODE_FORMATS(X)                                                                                  \
    X(C4_32, c4_32)                                                                                          \
    X(C4_64, c4_64)                                                                                          \
    X(C4_128, c4_128)                                                                                        \
    X(C8_32, c8_32)                                                                                          \
    X(C8_128, c8_128)                                                                                        \
    X(E4M3_128, e4m3_128)                                                                                    \
    X(NF4_32, nf4_32)                                                                                        \
    X(NF4_64, nf4_64)                                                                                        \
    X(E2M1_16, e2m1_16)                                                                                      \
    X(E2M1_32, e2m1_32)                                                                                      \
    X(E4M3_ROWS, e4m3_rows)

enum { SAC_BLOCK_TILE = 16, SAC_BLOCK_STRETCH = 256, SAC_BLOCK_CHUNK = 64, SAC_BLOCK_GROUP = 32 };

typedef enum sac_layout_part {
    SAC_BLOCK_CODES,
    SAC_BLOCK_HIGH,
    SAC_BLOCK_SCALES,
    SAC_BLOCK_MORE,
    SAC_N_BLOCK_PARTS
} sac_layout_part;

/* Where part p of a tile's stretch begins, from the matrix on: at[p] + (tile n_stretches + stretch) bytes[p]. */
typedef struct sac_block_layout {
    int64_t at[SAC_N_BLOCK_PARTS], n_stretches;
    int bytes[SAC_N_BLOCK_PARTS];
} sac_block_layout;

/* Whether a GPU holds rows of k elements of t: a block type, whole blocks, or one of SAC_CODE_FORMATS, eight at a time. */
bool sac_block_layout_has(sac_dtype t, int64_t k);
/* Of a matrix: n * sac_dtype_row_bytes(t, k), and the zeros. */
size_t sac_block_layout_bytes(sac_dtype t, int64_t n, int64_t k);
sac_block_layout sac_block_layout_of(sac_dtype t, int64_t n, int64_t k);

/* An [n][k] matrix as a file has it, at any even address, to one as a GPU has it, at a multiple of 16. */
void sac_block_layout_pack(sac_dtype t, int64_t n, int64_t k, const void *from, void *to);

#ifdef __cplusplus
}
#endif
#endif
