#ifndef SAC_OP_GATHER_ROWS_H
#define SAC_OP_GATHER_ROWS_H

#include "device.h"

/* y[i] = x[source[i]], or `fill` where source[i] is -1. */
typedef struct sac_gather_rows_args {
    sac_mat y, x;
    const int32_t *source; /* [y.rows] */
    const float *fill;     /* [cols]; may be NULL when no source is -1 */
} sac_gather_rows_args;

#endif
