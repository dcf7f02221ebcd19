#ifndef SAC_OP_POOL_TOKENS_H
#define SAC_OP_POOL_TOKENS_H

#include "device.h"

/* Mean over stride x stride windows of each tile's grid of tokens; a remainder is not read.
 * y[(t * (g/s) + oy) * (g/s) + ox] = mean of x[(t * g + oy*s + dy) * g + ox*s + dx]. */
typedef struct sac_pool_tokens_args {
    sac_mat y, x; /* [n_tiles * (g/s)^2][n], [n_tiles * g^2][n] */
    int64_t n_tiles;
    int grid, stride;
} sac_pool_tokens_args;

#endif
