#ifndef SAC_OP_EXPERT_LINEAR_H
#define SAC_OP_EXPERT_LINEAR_H

#include "op_linear.h"

/* Rows that stand in order of their expert (op_route.h), each with its expert's matrix: y = x w^T. On the CPU a row's bits
 * are those that linear with `steady` gives it, whatever rows are beside it. A device takes matrices of one type
 * that lie at even distances in its memory. */
typedef struct sac_expert_linear_args {
    sac_mat y;           /* [m][n] */
    sac_mat x;           /* [m][k] */
    const sac_weight *w; /* [n][k]; expert e has w[e * w_step], which the host reads */
    int64_t w_step;
    int n_experts;
    const int32_t *starts; /* [n_experts + 1] the first row of each; the last is m */
    const int32_t *expert; /* [m] of each row */
    bool fast;             /* as in sac_linear_args */
} sac_expert_linear_args;

#endif
