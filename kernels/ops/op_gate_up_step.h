#ifndef SAC_OP_GATE_UP_STEP_H
#define SAC_OP_GATE_UP_STEP_H

#include "device.h"
#include "weight.h"

/* The way into the MLP of one token, or of one each of a few sequences: y = silu(a gate^T) * (a up^T), a as
 * above for each row. */
typedef struct sac_gate_up_step_args {
    sac_mat y, x; /* [rows][n], [rows][hidden] */
    const float *norm;
    float eps;
    sac_weight gate, up; /* [n][hidden] */
} sac_gate_up_step_args;

#endif
