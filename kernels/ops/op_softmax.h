#ifndef SAC_OP_SOFTMAX_H
#define SAC_OP_SOFTMAX_H

#include "device.h"

/* lse[r] = ln sum_j exp(scores[r][j]) over a row's first counts[r] (or n) scores, -infinity when there are
 * none above -infinity; and, where asked for, weights[r][j] = exp(scores[r][j] - lse[r]), 0 in a row without
 * lse. */
typedef struct sac_softmax_args {
    const float *scores; /* [n_rows][stride] */
    int64_t stride, n;
    const int64_t *counts; /* [n_rows] or NULL */
    int n_rows;
    float *lse;          /* [n_rows] */
    float *weights;      /* [n_rows][stride] or NULL; may be scores */
    const int32_t *skip; /* or NULL */
} sac_softmax_args;

#endif
