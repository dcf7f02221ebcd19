#ifndef SAC_OP_JOIN_ATTENTION_H
#define SAC_OP_JOIN_ATTENTION_H

#include "op_attention.h"

/* Attention over two disjoint sets of keys, found apart, becomes that over both (sac_attention_args: lse):
 * o = (o e^lse + other e^other_lse) / (e^lse + e^other_lse), o itself where neither saw a key. */
typedef struct sac_join_attention_args {
    sac_mat o, other;             /* [n][n_heads * head_dim] */
    const float *lse, *other_lse; /* [n][n_heads] */
    int n_heads;
} sac_join_attention_args;

#endif
