#ifndef SAC_OP_EMBED_H
#define SAC_OP_EMBED_H

#include "device.h"
#include "weight.h"

/* y[i] = table[ids[i]], dequantised, times scale. */
typedef struct sac_embed_args {
    sac_mat y;          /* [n][hidden] */
    sac_weight table;   /* [vocab][hidden] */
    const int32_t *ids; /* [n], each in [0, vocab) */
    float scale;        /* 0: 1 */
} sac_embed_args;

#endif
