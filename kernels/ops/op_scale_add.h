#ifndef SAC_OP_SCALE_ADD_H
#define SAC_OP_SCALE_ADD_H

#include "device.h"

/* y += x, each column of x times its scale: a residual with LayerScale (Touvron et al., arXiv:2103.17239, sec. 3). */
typedef struct sac_scale_add_args {
    sac_mat y, x;
    const float *scale; /* [cols] */
} sac_scale_add_args;

#endif
