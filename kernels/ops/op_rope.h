#ifndef SAC_OP_ROPE_H
#define SAC_OP_ROPE_H

#include "rotation.h"

#include <stdbool.h>

typedef struct sac_rope_args {
    sac_mat x; /* [rows][n_heads * head_dim] */
    int n_heads, head_dim;
    sac_rotation rotation;
    const int32_t *pos; /* [rows], rows of cos_sin */
    bool back;
} sac_rope_args;

#endif
