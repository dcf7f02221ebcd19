/* latent_attention.h - queries, keys and values made of latents (multi-head latent attention, DeepSeek-V2, arXiv:2405.04434, sec. 2.1):
 *
 *   c = rmsnorm(linear(q_a, x));  q = linear(q, c)                          or q = linear(q, x)
 *   l, p = linear(kv_a, x);  l = rmsnorm(l);  k = linear(k, [l p]);  v = linear(v, [l p])
 *
 * Here every head gets keys and values of its own before they are turned and stored, so that they are a cache's, a format's and a
 * method's as any others are; the cache is larger than that of l and p alone would be. A head's channels are those that are turned,
 * rope_dim of them, then the others; values have as many, the last ones 0. The matrices k, v, q and o are made so when they are
 * loaded (models/bind_latent.c): what a head's key has of p is a one in each row of k, which changes no number. */
#ifndef SAC_LLM_LATENT_ATTENTION_H
#define SAC_LLM_LATENT_ATTENTION_H

#include "ops.h"

/* Sizes that all layers share. */
typedef struct sac_latent_shape {
    int kv_rank; /* numbers of l; 0: the model has no such attention */
    int q_rank;  /* of c; 0: queries are made of the row itself */
    int rope_dim, nope_dim,
        value_dim; /* channels of a head that are turned, that are not, of values in the files */
} sac_latent_shape;

/* Numbers of l and p together. */
static inline int sac_latent_width(const sac_latent_shape *s) {
    return s->kv_rank ? s->kv_rank + s->rope_dim : 0;
}

/* What one layer has besides q, k, v and o; borrowed from the model. */
typedef struct sac_latent_layer {
    sac_weight q_a, kv_a;              /* [q_rank][hidden], [width][hidden] */
    const float *q_a_bias, *kv_a_bias; /* NULL where absent */
    const float *q_a_norm, *kv_a_norm; /* [q_rank], [kv_rank] */
} sac_latent_layer;

#endif
