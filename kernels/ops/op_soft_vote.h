#ifndef SAC_OP_SOFT_VOTE_H
#define SAC_OP_SOFT_VOTE_H

#include "device.h"

/* votes[j] = ln sum_r exp(scores[r][j] - lse[r]): the sum over rows of their softmaxes, as a logarithm, so
 * that columns far below every row's best keep their order where the sum itself would underflow
 * (TokenSelect's soft vote, arXiv:2411.02886, eq. 7). Rows whose lse is -infinity have no vote. With n_groups
 * above 1 as many votes are held, each of n_rows rows of its own: scores [n_groups][n_rows][stride], lse
 * [n_groups][n_rows], votes [n_groups][stride]. */
typedef struct sac_soft_vote_args {
    const float *scores; /* [n_rows][stride] */
    int64_t stride, n;
    int n_rows;
    const float *lse;    /* [n_rows] */
    float *votes;        /* [n] */
    int n_groups;        /* 0 as 1 */
    const int32_t *skip; /* or NULL */
} sac_soft_vote_args;

#endif
