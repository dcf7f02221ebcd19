#ifndef SAC_OP_LINEAR_GROUP_H
#define SAC_OP_LINEAR_GROUP_H

#include "op_linear.h"

enum { SAC_LINEAR_GROUP_MOST = 3 };

/* Several products of the same rows: y[i] = x w[i]^T + bias[i] for i < n, each with linear's contract, on the
 * CPU also with linear's bits. A device may take them as one product: see sac_linear_group_join. */
typedef struct sac_linear_group_args {
    int n;                                    /* 1 to SAC_LINEAR_GROUP_MOST */
    sac_mat x;                                /* [m][k] */
    sac_mat y[SAC_LINEAR_GROUP_MOST];         /* [m][n of w[i]] */
    sac_weight w[SAC_LINEAR_GROUP_MOST];      /* [n of w[i]][k] */
    const float *bias[SAC_LINEAR_GROUP_MOST]; /* or NULL */
    bool fast, steady;                        /* as in sac_linear_args, as is: */
    int64_t n_unsteady;
} sac_linear_group_args;

/* Product i of the group. */
sac_linear_args sac_linear_group_part(const sac_linear_group_args *a, int i);

/* The whole group as one product, where it is one: weights of one type, each in one tensor, that lie behind one another, biases
 * that do so too or none, outputs side by side in the same rows. Of a few rows one product of a wide matrix
 * costs less than one of each part. */
bool sac_linear_group_join(const sac_linear_group_args *a, sac_linear_args *all);

#endif
