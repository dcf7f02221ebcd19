/* join.h - attention over two disjoint sets of keys, computed apart and joined.
 *
 * Softmax over A and B together is the mean of the softmaxes over A and over B, weighed by their denominators
 * (Dao et al., arXiv:2205.14135): o = (o_A e^lse_A + o_B e^lse_B) / (e^lse_A + e^lse_B). So a query may meet
 * some keys at one position and some at another. */
#ifndef SAC_JOIN_H
#define SAC_JOIN_H

#include "sparse.h"

/* Room for the second of two attentions of up to `capacity` queries. */
typedef struct sac_join_scratch {
    float *q;          /* [capacity][n_heads * head_dim]: queries at their other positions, then outputs */
    float *lse[2];     /* [capacity][n_heads] of the first and of the second */
    int32_t *position; /* [capacity], that queries are turned back by */
    int64_t capacity;
} sac_join_scratch;

void sac_join_scratch_take(sac_join_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                           sac_arena *arena);

/* Copies the layer's first n queries to the scratch, turned back from where they stand to `to` [n]. */
sac_status sac_join_copy_queries(sac_join_scratch *s, const sac_layer_attention *a, int64_t n,
                                 const int32_t *to);

/* o [n][n_heads * head_dim], of lse[0], becomes the attention over its keys and those of s->q, of lse[1]. */
void sac_join(const sac_join_scratch *s, const sac_attention_shape *shape, sac_mat o);

#endif
