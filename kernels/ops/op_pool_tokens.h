#ifndef SAC_OP_POOL_TOKENS_H
#define SAC_OP_POOL_TOKENS_H

#include "device.h"

/* Mean over stride x stride windows of each tile's grid of h x w tokens; a remainder is not read.
 * y[(t * (h/s) + oy) * (w/s) + ox] = mean of x[(t * h + oy*s + dy) * w + ox*s + dx]. */
typedef struct sac_pool_tokens_args {
    sac_mat y, x; /* [n_tiles * (h/s) * (w/s)][n], [n_tiles * h * w][n] */
    int64_t n_tiles;
    int h, w, stride;
} sac_pool_tokens_args;

#endif
