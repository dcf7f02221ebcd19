#ifndef SAC_OP_LAYERNORM_H
#define SAC_OP_LAYERNORM_H

#include "device.h"

/* y = (x - mean) / sqrt(var + eps) * w + b; y may be x. */
typedef struct sac_layernorm_args {
    sac_mat y, x;
    const float *w, *b;
    float eps;
} sac_layernorm_args;

#endif
