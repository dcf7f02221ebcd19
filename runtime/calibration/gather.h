/* gather.h - sums over the rows that meet a matrix. */
#ifndef SAC_CALIBRATION_GATHER_H
#define SAC_CALIBRATION_GATHER_H

#include "ops.h"

/* The inputs that one matrix, or several, are multiplied with. */
typedef struct sac_input_sums {
    int64_t cols, n_rows;
    double *h;         /* [cols][cols] sum of x x^T: the upper triangle until sac_input_sums_end */
    double *magnitude; /* [cols] sum of |x| */
} sac_input_sums;

/* Zeros. NO_MEMORY. */
sac_status sac_input_sums_begin(sac_input_sums *s, int64_t cols, sac_error *err);
void sac_input_sums_free(sac_input_sums *s); /* a zeroed one is fine */

/* Adds the rows of x, f32. ops and stream: of the CPU, which makes the products of all pairs of columns as a product of x's
 * transpose with itself. Scratch as for a product of rows of x. */
sac_status sac_input_sums_add(sac_input_sums *s, const sac_ops *ops, const sac_stream *stream, sac_mat x);

/* The lower triangle too. */
void sac_input_sums_end(sac_input_sums *s);

#endif
