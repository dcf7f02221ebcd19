#ifndef SAC_OP_MIX_ROWS_H
#define SAC_OP_MIX_ROWS_H

#include "device.h"

#include <stdbool.h>

/* What the experts of a row made of it, weighted and added up in the order of `place`:
 * y[i] = sum over j of weights[i][j] x[place[i][j]], or y[i] += that. */
typedef struct sac_mix_rows_args {
    sac_mat y;            /* [n][cols] */
    sac_mat x;            /* [any][cols] */
    int n_used;           /* at least 1 */
    const float *weights; /* [n][n_used] */
    const int32_t *place; /* [n][n_used] rows of x */
    bool accumulate;
} sac_mix_rows_args;

#endif
