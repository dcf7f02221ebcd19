#ifndef SAC_OP_KV_STORE_H
#define SAC_OP_KV_STORE_H

#include "kv_view.h"

/* Writes k and v [n][n_heads * head_dim] to rows [first, first + n) of the view, rounded to its dtype. */
typedef struct sac_kv_store_args {
    sac_kv_view kv;
    sac_mat k, v;
    int64_t first;
} sac_kv_store_args;

#endif
