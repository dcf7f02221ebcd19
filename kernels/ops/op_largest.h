#ifndef SAC_OP_LARGEST_H
#define SAC_OP_LARGEST_H

#include "device.h"

/* Of each row the largest number and where it is, the first one among equals (0 and -0 are equal): the likeliest token, from
 * logits. NaN counts for nothing; but where a row begins with NaN, or has nothing above -INFINITY, `at` is 0 and the value
 * -INFINITY. So it is what sac_largest_at (largest.h) says. Exact: no backend may round. */
typedef struct sac_largest_args {
    const float *x;    /* [n_rows][stride] */
    int64_t stride, n; /* n numbers a row, 1 to INT32_MAX */
    int n_rows;        /* at most 65,535 */
    int32_t *at;       /* [n_rows] */
    float *value;      /* [n_rows] */
} sac_largest_args;

#endif
