#ifndef SAC_OP_TOP_K_H
#define SAC_OP_TOP_K_H

#include "device.h"

/* The k best of each row of scores, as ascending indices: order by (score descending, index ascending), so
 * ties are settled. NaN counts as -infinity. */
typedef struct sac_top_k_args {
    const float *scores; /* [n_rows][stride] */
    int64_t stride, n;   /* n scores a row */
    int n_rows;
    int64_t k;           /* fewer when n is smaller */
    int32_t *indices;    /* [n_rows][min(k, n)] */
    const int32_t *skip; /* or NULL */
} sac_top_k_args;

#endif
