#ifndef SAC_OP_SWIGLU_H
#define SAC_OP_SWIGLU_H

#include "op_linear.h"

/* y = act(gate) * up, or act(gate) where up has no data; y may be gate or up. */
typedef struct sac_swiglu_args {
    sac_mat y, gate, up;
    sac_activation act; /* SAC_ACT_NONE: SiLU, which most gates are */
} sac_swiglu_args;

static inline sac_activation sac_gate_activation(sac_activation act) {
    return act == SAC_ACT_NONE ? SAC_ACT_SILU : act;
}

#endif
