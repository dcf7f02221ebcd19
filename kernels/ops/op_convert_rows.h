#ifndef SAC_OP_CONVERT_ROWS_H
#define SAC_OP_CONVERT_ROWS_H

#include "device.h"

/* y = x, rounded to y's type: F32, F16 or BF16, as x's. The rows of y may be those of x where elements of both types
 * have the same size. */
typedef struct sac_convert_rows_args {
    sac_mat y, x; /* [rows][cols] */
} sac_convert_rows_args;

#endif
