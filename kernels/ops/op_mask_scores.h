#ifndef SAC_OP_MASK_SCORES_H
#define SAC_OP_MASK_SCORES_H

#include "row_lists.h"

/* scores[r][j] becomes -infinity for every place j < n that is not on the row's list; the others stay. */
typedef struct sac_mask_scores_args {
    float *scores; /* [n_rows][stride] */
    int64_t stride, n;
    int n_rows;
    sac_row_lists lists; /* of places below n; n_lists divides n_rows */
} sac_mask_scores_args;

#endif
