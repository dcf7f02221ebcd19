#ifndef SAC_OP_SWIGLU_H
#define SAC_OP_SWIGLU_H

#include "device.h"

/* y = silu(gate) * up; y may be gate or up. */
typedef struct sac_swiglu_args {
    sac_mat y, gate, up;
} sac_swiglu_args;

#endif
