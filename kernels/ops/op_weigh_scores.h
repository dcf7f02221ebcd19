#ifndef SAC_OP_WEIGH_SCORES_H
#define SAC_OP_WEIGH_SCORES_H

#include "device.h"

/* Of each row of scores what all weigh beside the best one, and a token drawn by its weight; operations and their order are those
 * of score_weight.h, and no backend may round otherwise. Rows whose scale is 0 are left out, and nothing is written of them. What
 * is per row may be pinned memory of the host. */
typedef struct sac_weigh_scores_args {
    const float *x;     /* [n_rows][stride] */
    int64_t stride, n;  /* n scores a row, 1 to INT32_MAX */
    int n_rows;         /* at most 65,535 */
    const float *best;  /* [n_rows] the largest of each, as `largest` says; finite, else what is written is of no use */
    const float *scale; /* [n_rows] one over the temperature (sac_score_scale) */
    const double *u;    /* [n_rows] above 0 and below 1: what share of the weight the token is to pass; below 0: none is drawn */
    double *total;      /* [n_rows] the weight of all */
    int32_t *at;        /* [n_rows] the token in which `u` of `total` is passed, or n where rounding leaves none; -1: none was
                         * asked for */
    float *value;       /* [n_rows] its score; 0 where there is none */
} sac_weigh_scores_args;

#endif
