#ifndef SAC_OP_SCATTER_ROWS_H
#define SAC_OP_SCATTER_ROWS_H

#include "device.h"

#include <stdbool.h>

/* y[target[i]] = x[i], or y[target[i]] += x[i] when accumulate is set; without targets row i goes to row i. No target
 * twice; x is not y. */
typedef struct sac_scatter_rows_args {
    sac_mat y, x;
    const int32_t *target; /* [x.rows] rows of y, or NULL */
    bool accumulate;
} sac_scatter_rows_args;

#endif
