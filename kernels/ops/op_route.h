#ifndef SAC_OP_ROUTE_H
#define SAC_OP_ROUTE_H

#include "device.h"

#include <stdbool.h>

/* Experts of a layer (Shazeer et al., arXiv:1701.06538, sec. 2), or of a row, at most: kernels keep them in registers. */
enum { SAC_ROUTE_MOST_EXPERTS = 1024 };

/* Which experts see which rows: of each row the n_used that score highest, best first; the first of equal ones, and NaN
 * below every number. Each of them sees the row once, as a row of its own, and these stand in order of the expert,
 * then of the row: expert e has rows starts[e] to starts[e + 1] of all n * n_used, whatever the scores are.
 *
 * With `sigmoid` an expert's score is 1 / (1 + exp(-x)) of what the router gives it, whatever the others' are, and what
 * chooses is that plus its bias (DeepSeek-V3, arXiv:2412.19437, eq. 13 to 16). Experts may stand in groups of one size:
 * only those of the groups whose two best add up to most can be chosen (sec. 2.1.2). All of it as in f32. */
typedef struct sac_route_args {
    sac_mat scores; /* [n][experts], F32 */
    int n_used;     /* 1 to the number of experts, or to those of n_groups_used groups */
    bool
        normed; /* weights of a row add up to 1: of softmax that of the chosen scores alone, otherwise that of all */
    bool sigmoid;      /* no softmax; the fields below are looked at with it only */
    const float *bias; /* [experts]; NULL: none */
    int n_groups;      /* that divide the experts, at least two in each; 0 or 1: all are one */
    int n_groups_used; /* 1 to n_groups */
    float factor;      /* of all weights; 0: 1 */
    float *weights;    /* [n][n_used] */
    int32_t *place;    /* [n][n_used] where the row stands for that expert */
    int32_t *source,
        *expert;     /* [n * n_used] of each that stands there: which of the n rows, for which expert */
    int32_t *starts; /* [experts + 1] */
} sac_route_args;

#endif
