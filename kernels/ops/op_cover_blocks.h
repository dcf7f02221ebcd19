#ifndef SAC_OP_COVER_BLOCKS_H
#define SAC_OP_COVER_BLOCKS_H

#include "device.h"

/* For each block of queries and head the blocks of keys that hold a share of what all get (XAttention,
 * arXiv:2503.16428, section 2.2). Block b's queries stand at rows begin = first + b * block to end = min(begin +
 * block, n_rows); it has the blocks of keys j < (end + block - 1) / block. Its own, from begin / block on, are
 * always chosen, with them the n_local - 1 before these and the n_first first ones of all; the others
 * follow by falling sum, equal ones from the first on, as long as those chosen hold less than cover * total.
 * Sums count in whole 2^-40ths, so that every variant chooses the same (what is not above 0 counts as 0, more
 * than 4096 as 4096). columns[b][h] are the numbers of the chosen, ascending, then -1. */
typedef struct sac_cover_blocks_args {
    int32_t *columns;  /* [n_blocks][n_heads][stride] */
    const float *sums; /* [n_blocks][n_heads][stride] */
    int64_t stride;    /* at least (n_rows + block - 1) / block */
    int n_heads;
    int64_t first, block, n_blocks, n_rows;
    int64_t n_first, n_local; /* n_local at least 1 */
    double cover;
} sac_cover_blocks_args;

enum { SAC_COVER_MOST = 4096 }; /* more than this a sum does not count */

/* A sum in whole 2^-40ths. */
static inline int64_t sac_cover_parts(float sum) {
    float most = (float)SAC_COVER_MOST;
    return sum > 0 ? (int64_t)((double)(sum < most ? sum : most) * 0x1p40) : 0;
}

#endif
