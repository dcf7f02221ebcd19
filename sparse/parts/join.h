/* join.h - attention over two disjoint sets of keys, computed apart and joined.
 *
 * Softmax over A and B together is the mean of the softmaxes over A and over B, weighed by their denominators
 * (Dao et al., arXiv:2205.14135): o = (o_A e^lse_A + o_B e^lse_B) / (e^lse_A + e^lse_B). So a query may meet
 * some keys at one position and some at another. */
#ifndef SAC_JOIN_H
#define SAC_JOIN_H

#include "policy.h"

/* Room for the second of two attentions of up to `capacity` queries. */
typedef struct sac_join_scratch {
    void *q;       /* [capacity][n_heads * head_dim] where ops run: queries at their other positions, then
                      outputs */
    float *lse[2]; /* [capacity][n_heads] where ops run, of the first and of the second */
    int64_t capacity;
    sac_buffer turn;  /* int32_t [n_ctx] what the layer's queries are turned back by */
    int64_t n_turned; /* of them that the device has */
    int32_t *rows;    /* [capacity] where ops run: 0, 1 .. */
    bool is_listed;   /* they have been written */
} sac_join_scratch;

void sac_join_scratch_take(sac_join_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                           const sac_memory *memory);

/* Once for a layer: its queries from `first` on will stand at `to` [q.rows], or at to[0] all when `one`, no
 * later than where they stand. */
sac_status sac_join_place(sac_join_scratch *s, const sac_layer_attention *a, int64_t first, const int32_t *to,
                          bool one);

/* Copies the layer's queries [first, first + n) to the scratch and turns them to their places. */
sac_status sac_join_copy_queries(sac_join_scratch *s, const sac_layer_attention *a, int64_t first, int64_t n);

/* The scratch's queries, then outputs. */
sac_mat sac_join_queries(const sac_join_scratch *s, const sac_attention_shape *shape, int64_t n);

/* o [n][n_heads * head_dim], of lse[0], becomes the attention over its keys and those of s->q, of lse[1]. */
sac_status sac_join(const sac_join_scratch *s, const sac_layer_attention *a, sac_mat o);

#endif
