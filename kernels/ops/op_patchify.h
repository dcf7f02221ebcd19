#ifndef SAC_OP_PATCHIFY_H
#define SAC_OP_PATCHIFY_H

#include "device.h"

/* Pixels to rows of the patch embedding's input: y[(tile * g + gy) * g + gx][(c * p + py) * p + px] = (pixel
 * / 255 - mean[c]) / std[c], with g = size / p patches a side; a remainder of size / p at the right and
 * bottom is not read (a convolution without padding). */
typedef struct sac_patchify_args {
    sac_mat y;            /* [n_tiles * g * g][3 * p * p] */
    const uint8_t *tiles; /* [n_tiles][size][size][3] RGB */
    int64_t n_tiles;
    int size, patch;
    float mean[3], std[3];
} sac_patchify_args;

#endif
