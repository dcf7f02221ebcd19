/* block_memory.h - old tokens in blocks, each known by a few of its keys (InfLLM).
 *
 * A token is given weight by the queries of the windows that it lies in. Once no window of a later query can
 * reach a block, the tokens of it that were given most represent it, for each query head: their keys' mean,
 * without positions. */
#ifndef SAC_BLOCK_MEMORY_H
#define SAC_BLOCK_MEMORY_H

#include "policy.h"

typedef struct sac_block_memory {
    /* Settings, before _take: first tokens in no block; tokens of a window, of a block, that represent one;
     * one query in so many is asked (probe). */
    int64_t init, local, block, repr, probe;
    int n_layers;
    int64_t max_blocks;
    int64_t *n_blocks; /* [n_layers]; block i holds tokens init + i * block and on */
    float *keys;       /* [n_layers][max_blocks][n_heads * head_dim] */
    int64_t *n_known;  /* [n_layers] rows that `received` counts */
    float *received;   /* [n_layers][n_heads][n_ctx]: weight that a token got while in windows */
    int32_t *probes;   /* [chunk] */
    float *sums;       /* [n_heads][local + chunk] */
    int32_t *best;     /* [n_heads][repr] */
    float *raw_keys;   /* [n_kv_heads][block][head_dim]: keys of a block without positions */
    int32_t *rows;     /* [block] */
} sac_block_memory;

/* For chunks of up to `chunk` queries. */
void sac_block_memory_take(sac_block_memory *m, int64_t chunk, const sac_attention_shape *shape,
                           sac_arena *arena);
void sac_block_memory_begin(sac_block_memory *m); /* a new sequence */

/* A chunk's queries, not yet overwritten: makes blocks of what their windows have left, then notes what they
 * give weight to. */
sac_status sac_block_memory_learn(sac_block_memory *m, const sac_layer_attention *chunk);

static inline float *sac_block_memory_key(const sac_block_memory *m, const sac_layer_attention *a,
                                          int64_t block) {
    return m->keys + ((int64_t)a->layer * m->max_blocks + block) * a->q.cols;
}

#endif
