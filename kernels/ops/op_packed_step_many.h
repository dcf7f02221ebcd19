#ifndef SAC_OP_PACKED_STEP_MANY_H
#define SAC_OP_PACKED_STEP_MANY_H

#include "op_packed_step.h"

typedef struct sac_packed_step_many_args {
    const sac_packed_step_args *each;
    int n;
} sac_packed_step_many_args;

#endif
