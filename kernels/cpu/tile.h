/* tile.h - the register-tiled product that linear and attention share, and the packing of its right side.
 *
 *   c[i][j] = c[i][j] * rescale[i] + sum over k of a[i][k] * b[k][j]      (rescale NULL: c starts from zero)
 *
 * A tile is up to SAC_TILE_ROWS rows by one or two vectors of columns; its sums stay in registers for all k.
 * Each sum is taken in the order of k by fused multiply-adds, whatever the shape of the tile: a row's result
 * does not depend on which rows are computed beside it. */
#ifndef SAC_TILE_H
#define SAC_TILE_H

#include "dtype.h"

/* a: rows a_stride floats apart; b: k rows of n_vectors vectors, b_stride floats apart; c likewise. */
typedef void (*sac_tile_fn)(int64_t k, const float *a, int64_t a_stride, const float *b, int64_t b_stride,
                            float *c, int64_t c_stride, const float *rescale);

/* AVX-512: 24 of 32 registers hold sums; AVX2: 12 of 16. Two vectors wide, so that a panel is 32 or 16
 * columns. */
#define SAC_TILE_ROWS_AVX512 12
#define SAC_TILE_ROWS_AVX2   6

extern const sac_tile_fn sac_tiles_avx512[2][SAC_TILE_ROWS_AVX512]; /* [vectors - 1][rows - 1] */
extern const sac_tile_fn sac_tiles_avx2[2][SAC_TILE_ROWS_AVX2];

/* Packs n rows (F32, F16 or BF16), k elements of each, as f32 columns: out[c][j] = row[j][c], `width` floats
 * a row. Columns from n to width repeat the last row: their sums are never read. out holds SAC_PACK_ROWS(k)
 * rows, the last of them zero padding. width, a multiple of two vectors of floats, is at most SAC_PACK_WIDTH;
 * n <= width. */
#define SAC_PACK_ROWS(k) (((k) + 7) & ~(int64_t)7)
#define SAC_PACK_WIDTH   32
void sac_pack_avx512(sac_dtype t, const void *const *row, int64_t n, int64_t k, float *out, int width);
void sac_pack_avx2(sac_dtype t, const void *const *row, int64_t n, int64_t k, float *out, int width);

#endif
