#ifndef SAC_OP_CHANNEL_SUMS_H
#define SAC_OP_CHANNEL_SUMS_H

#include "kv_view.h"

/* How much each channel of a key-value head weighs in q . k: sums[h][c] = sum of |q_c k_c| over the tokens of
 * q, whose keys are the rows from `first` on, and the query heads that read head h. */
typedef struct sac_channel_sums_args {
    float *sums;    /* [kv.n_heads][head_dim] */
    sac_mat q;      /* [n][n_heads * head_dim] */
    sac_kv_view kv; /* v is not read */
    int64_t first;
    int n_heads;
} sac_channel_sums_args;

#endif
