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
    float *q;          /* [capacity][n_heads * head_dim]: queries at their other positions, then outputs; on a
                          device of the queries' type */
    float *lse[2];     /* [capacity][n_heads] of the first and of the second */
    int32_t *position; /* [capacity], that queries are turned back by; on a device [n_ctx], of a prompt */
    int64_t capacity;
    /* On a device: the above but for position is there, and */
    int32_t *device_turn, *device_rows; /* [n_ctx]; [capacity] 0, 1 .. */
    int64_t *device_start, n_listed;    /* [2] of device_rows; how many these are */
    int64_t n_sent;                     /* turns of device_turn, as in `position` */
} sac_join_scratch;

void sac_join_scratch_take(sac_join_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                           sac_arena *arena);
void sac_join_scratch_take_device(sac_join_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                                  sac_arena *arena);

/* On a device, once for a layer's prompt: its queries will stand at `place`. */
sac_status sac_join_send_place(sac_join_scratch *s, const sac_layer_attention *a, int32_t place);

/* There: queries [first, first + n) of the prompt go to the scratch, turned from where they stand to their
 * place, or as they are. */
sac_status sac_join_gather_queries(sac_join_scratch *s, const sac_layer_attention *a, int64_t first,
                                   int64_t n, bool turn);

/* Copies the layer's first n queries to the scratch, turned back from where they stand to `to` [n]. */
sac_status sac_join_copy_queries(sac_join_scratch *s, const sac_layer_attention *a, int64_t n,
                                 const int32_t *to);

/* The scratch's queries, then outputs. */
sac_mat sac_join_queries(const sac_join_scratch *s, const sac_attention_shape *shape, int64_t n);

/* o [n][n_heads * head_dim], of lse[0], becomes the attention over its keys and those of s->q, of lse[1]. */
void sac_join(const sac_join_scratch *s, const sac_attention_shape *shape, sac_mat o);

#endif
