#ifndef SAC_OP_PATCHIFY_H
#define SAC_OP_PATCHIFY_H

#include "device.h"

/* Pixels of patches to rows of the patch embedding's input, colour by colour:
 *   y[i][c * area + p] = (pixels[i][p][c] / 255 - mean[c]) / std[c],   area = y.cols / 3
 * The embedding, a convolution whose stride is its kernel, is then one product. Whoever cuts a picture decides
 * which pixels are a patch and in which order patches come; a patch of several frames has theirs one behind
 * another. */
typedef struct sac_patchify_args {
    sac_mat y;             /* [n_patches][3 * area] */
    const uint8_t *pixels; /* [n_patches][area][3] RGB */
    float mean[3], std[3];
} sac_patchify_args;

#endif
