#ifndef SAC_OP_BLEND_ROWS_H
#define SAC_OP_BLEND_ROWS_H

#include "device.h"

#include <stdbool.h>

#define SAC_BLEND_TAPS 4

/* Weighted sums of rows, by one table for every tile: with n rows in the table and x_rows of x a tile,
 * y[t * n + i] = sum over k of weight[i][k] * x[t * x_rows + source[i][k]], or `fill` where source[i][0] is -1.
 * With bilinear weights it resizes a grid (torch's interpolate). x is of y's type, or f32. */
typedef struct sac_blend_rows_args {
    sac_mat y, x;
    const int32_t *source; /* [n][SAC_BLEND_TAPS] */
    const float *weight;   /* [n][SAC_BLEND_TAPS] */
    const float *fill;     /* [cols]; may be NULL when no source is -1 */
    int64_t n_tiles;       /* y.rows = n_tiles * n, x.rows = n_tiles * x_rows */
    bool shared;           /* x.rows = x_rows: every tile takes from the same rows */
    bool accumulate;       /* the sum or the filling is added to y */
} sac_blend_rows_args;

#endif
