#ifndef SAC_OP_MEAN_ROWS_H
#define SAC_OP_MEAN_ROWS_H

#include "device.h"

/* y[g][c] = scale * sum of x[row][c] over the rows of group g: x's rows are cut into n_groups equal parts. With a
 * divisor every row is divided by it before it is added; variants may divide the sum. */
typedef struct sac_mean_rows_args {
    float *y; /* [n_groups][x.cols] */
    sac_mat x;
    float scale;
    float divisor;    /* 0: none */
    int64_t n_groups; /* 0 as 1 */
} sac_mean_rows_args;

#endif
