#ifndef SAC_OP_TOP_P_H
#define SAC_OP_TOP_P_H

#include "device.h"

#include <stdbool.h>

/* The smallest set that weighs at least p of the whole, whole classes of equal weights at a time (Twilight,
 * arXiv:2502.02770, Algorithm 1, with an exact search over the bits of the threshold): row r keeps weights >=
 * threshold[r]. Weights are not negative (NaN weighs nothing and is not kept); n_kept[r] is how many pass.
 * The threshold is one of the weights: p >= 1 keeps all (threshold 0), p <= 0 the largest, a row without
 * weights has threshold 0.
 * With `scores` a number s (not +infinity) stands for the weight exp(s), and thresholds are such numbers too.
 * Scores so close that their weights round to one float may be taken for equal. NaN is -infinity, which
 * weighs nothing and is never kept: a row of nothing else has threshold +infinity. */
typedef struct sac_top_p_args {
    const float *weights;  /* [n_rows][stride] */
    const int64_t *counts; /* [n_rows] weights in a row, or NULL = n each */
    int64_t stride, n;
    int n_rows;
    double p;
    float *threshold; /* [n_rows] */
    int64_t *n_kept;  /* [n_rows] */
    bool scores;
} sac_top_p_args;

#endif
