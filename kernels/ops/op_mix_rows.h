#ifndef SAC_OP_MIX_ROWS_H
#define SAC_OP_MIX_ROWS_H

#include "device.h"

/* y[i] += sum over k of weight[i % period][k] * table[source[i % period][k]]: rows of a table between its own, such as
 * positions on a grid of another size. */
typedef struct sac_mix_rows_args {
    sac_mat y;          /* [rows][n] */
    const float *table; /* [table_rows][n] */
    int64_t table_rows;
    const int32_t *source; /* [period][n_taps] rows of the table */
    const float *weight;   /* [period][n_taps] */
    int64_t period;
    int n_taps;
} sac_mix_rows_args;

#endif
