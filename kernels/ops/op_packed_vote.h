#ifndef SAC_OP_PACKED_VOTE_H
#define SAC_OP_PACKED_VOTE_H

#include "packed_view.h"

/* votes[i] = what soft_vote makes of packed_scores' scores of rows first + i, i < n, and their lse, where a
 * device gains by doing all of it in one go; where one does not, scores and lse are room for it. */
typedef struct sac_packed_vote_args {
    float *votes; /* [n] */
    int64_t n;
    sac_mat q;            /* [1][n_heads * head_dim] */
    sac_packed_rows keys; /* values are not read */
    int n_heads;
    float scale;
    int64_t first;
    float *scores; /* [n_heads][stride] what is written is nobody's */
    int64_t stride;
    float *lse;          /* [n_heads] */
    const int32_t *skip; /* or NULL */
} sac_packed_vote_args;

#endif
