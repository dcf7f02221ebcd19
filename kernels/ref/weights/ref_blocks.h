/* ref_blocks.h - what GGUF's formats share: a block taken apart, and how rows and products follow from its parts. A format has a
 * static take_apart(block, parts) of its own and SAC_REF_BLOCKS behind it. */
#ifndef SAC_REF_BLOCKS_H
#define SAC_REF_BLOCKS_H

#include "quants.h"
#include "ref_weights.h"
#include "rounded_x.h"

/* 32 elements: w = d q, with a minimum d q + m. */
typedef struct sac_ref_block32 {
    float d, m;
    bool has_minimum;
    int8_t q[32];
} sac_ref_block32;

/* 256 elements, a scale for each `unit` (16 or 32) of them: w = d scale q, with minima d scale q - dmin min. */
typedef struct sac_ref_block256 {
    float d, dmin;
    bool has_minima;
    int unit, scale[16], min[16];
    int8_t q[256];
} sac_ref_block256;

typedef void (*sac_take_apart_32)(const void *block, sac_ref_block32 *b);
typedef void (*sac_take_apart_256)(const void *block, sac_ref_block256 *b);

void sac_ref_row_32(const void *row, size_t block_bytes, int64_t n, float *y, sac_take_apart_32 take_apart);
void sac_ref_row_256(const void *row, size_t block_bytes, int64_t n, float *y, sac_take_apart_256 take_apart);

/* Products with rows of sac_xblock_q8_0, sac_xblock_q8_1 where there is a minimum, sac_xblock_q8_k. */
float sac_ref_dot_32(const void *row, size_t block_bytes, const void *xq, int64_t n,
                     sac_take_apart_32 take_apart);
float sac_ref_dot_256(const void *row, size_t block_bytes, const void *xq, int64_t n,
                      sac_take_apart_256 take_apart);

/* The format of sac_block_<name>, of `size` elements, that meets rows of sac_xblock_<x>. */
#define SAC_REF_BLOCKS(name, size, x)                                                                        \
    static void row(const sac_weight *w, int64_t r, int64_t n, float *y) {                                   \
        sac_ref_row_##size(sac_ref_row_of(w, r), sizeof(sac_block_##name), n, y, take_apart);                \
    }                                                                                                        \
    static float dot(const void *row_of_w, const void *xq, int64_t n) {                                      \
        return sac_ref_dot_##size(row_of_w, sizeof(sac_block_##name), xq, n, take_apart);                    \
    }                                                                                                        \
    const sac_ref_weight sac_ref_weight_##name = {.holds = sac_ref_holds_rows,                               \
                                                  .row = row,                                                \
                                                  .x_block_bytes = sizeof(sac_xblock_##x),                   \
                                                  .round_x = sac_round_to_##x,                               \
                                                  .dot = dot};

#endif
