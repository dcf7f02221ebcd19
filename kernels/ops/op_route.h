#ifndef SAC_OP_ROUTE_H
#define SAC_OP_ROUTE_H

#include "device.h"

#include <stdbool.h>

/* Experts of a layer (Shazeer et al., arXiv:1701.06538, sec. 2), or of a row, at most: kernels keep them in registers. */
enum { SAC_ROUTE_MOST_EXPERTS = 1024 };

/* Which experts see which rows: of each row the n_used that score highest, best first; the first of equal ones, and NaN
 * below every number. Each of them sees the row once, as a row of its own, and these stand in order of the expert,
 * then of the row: expert e has rows starts[e] to starts[e + 1] of all n * n_used, whatever the scores are. */
typedef struct sac_route_args {
    sac_mat scores; /* [n][experts], F32 */
    int n_used;     /* 1 to the number of experts */
    bool normed;    /* softmax of a row's chosen scores; otherwise what softmax of all scores gives these */
    float *weights; /* [n][n_used] */
    int32_t *place; /* [n][n_used] where the row stands for that expert */
    int32_t *source,
        *expert;     /* [n * n_used] of each that stands there: which of the n rows, for which expert */
    int32_t *starts; /* [experts + 1] */
} sac_route_args;

#endif
