#ifndef SAC_OP_OUT_STEP_H
#define SAC_OP_OUT_STEP_H

#include "device.h"
#include "weight.h"

/* The way out of a layer of one token, or of one token each of a few sequences, where a device gains by doing it in one
 * go: x += o wo^T (+ o_bias); with a = x / sqrt(mean (x^2) + eps) * norm for each row, wide = silu(a gate^T) * (a up^T);
 * x += wide down^T. Weights may ask for rounded x (sac_weight.x_rounding): each product rounds its rows as linear and
 * gate_up_step do. A device may round a to x's type. */
typedef struct sac_out_step_args {
    sac_mat x;           /* [rows][hidden], in and out */
    sac_mat o;           /* [rows][k of wo] what attention gives */
    sac_mat wide;        /* [rows][n of gate] written */
    sac_weight wo;       /* [hidden][k] */
    const float *o_bias; /* [hidden] or NULL */
    const float *norm;   /* [hidden] */
    float eps;
    sac_weight gate, up, down; /* [n][hidden] x 2, [hidden][n] */
} sac_out_step_args;

#endif
