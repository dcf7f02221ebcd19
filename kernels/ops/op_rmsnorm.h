#ifndef SAC_OP_RMSNORM_H
#define SAC_OP_RMSNORM_H

#include "device.h"

/* y = x / sqrt(mean(x^2) + eps) * w; y may be x. */
typedef struct sac_rmsnorm_args {
    sac_mat y, x;   /* [rows][n] */
    const float *w; /* [n] */
    float eps;
} sac_rmsnorm_args;

#endif
