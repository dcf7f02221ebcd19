#ifndef SAC_OP_PATTERN_ROWS_H
#define SAC_OP_PATTERN_ROWS_H

#include "device.h"

#include <stdbool.h>

enum { SAC_PATTERN_ROWS_MAX = 800000 }; /* n_rows on any GPU: its marks lie in shared memory */

/* Row lists of blocks of queries (attention's list_block) out of a pattern of columns and strips (MInference,
 * arXiv:2407.02490). Block b's queries stand at rows begin = first + b * block to end = min(begin + block,
 * n_rows); its list l has, ascending and each once, the rows below `end`
 *   of a column: `width` rows from width * columns[l][..] on (a negative column is none),
 *   of a strip: [begin - c, begin + block - c) for c = diagonals[l][..],
 *   with `own`, of the columns that the block itself touches.
 * With by_block every block has columns of its own, [n_blocks][n_lists][n_columns]. List number b * n_lists +
 * l is rows[start[..]] on, start[0] = 0, and pairs[..] is how many pairs of a query and a row no later than
 * it there are in it. rows has room for all. */
typedef struct sac_pattern_rows_args {
    int32_t *rows;
    int64_t *start, *pairs; /* pairs [n_blocks * n_lists] */
    const int32_t *columns, *diagonals;
    int64_t n_columns, n_diagonals, width;
    int64_t first, block, n_blocks, n_rows;
    int n_lists;
    bool by_block, own;
} sac_pattern_rows_args;

#endif
