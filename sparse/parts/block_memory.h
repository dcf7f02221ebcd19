/* block_memory.h - old tokens in blocks, each known by a few of its keys (InfLLM).
 *
 * A token is given weight by the queries of the windows that it lies in. Once no window of a later query can
 * reach a block, the tokens of it that were given most represent it, for each query head: their keys' mean,
 * without positions. */
#ifndef SAC_BLOCK_MEMORY_H
#define SAC_BLOCK_MEMORY_H

#include "starts.h"

typedef struct sac_block_memory {
    /* Settings, before _take: first tokens in no block; tokens of a window, of a block, that represent one;
     * one query in so many is asked (probe). */
    int64_t init, local, block, repr, probe;
    int n_layers;
    int64_t chunk; /* the most queries at a time */
    int64_t max_blocks;
    int64_t *n_blocks; /* [n_layers]; block i holds tokens init + i * block and on */
    int64_t *n_known;  /* [n_layers] rows that `received` counts */
    sac_buffer probes; /* int32_t [chunk] */
    /* Where ops run. */
    float *keys;        /* [n_layers][max_blocks][n_heads * head_dim] */
    float *received;    /* [n_layers][n_heads][n_ctx]: weight that a token got while in windows */
    float *sums;        /* [n_heads][local + chunk] */
    float *zeros;       /* [n_heads][chunk] */
    int32_t *best;      /* [n_heads][repr] */
    float *raw_keys;    /* [n_kv_heads][block][head_dim]: keys of a block without positions */
    float *best_keys;   /* [n_heads][repr][head_dim] of these */
    int32_t *rows;      /* [block] */
    int64_t *start;     /* [2] of that list */
    sac_starts starts;  /* of `best`, a list for each key-value head */
    int32_t *in_order;  /* [the larger of n_heads and chunk]: 0, 1 .. */
    int64_t n_in_order; /* of them; 0 until they are written */
    int64_t most_in_order;
} sac_block_memory;

/* For chunks of up to `chunk` queries. */
void sac_block_memory_take(sac_block_memory *m, int64_t chunk, const sac_attention_shape *shape,
                           const sac_memory *memory);
void sac_block_memory_begin(sac_block_memory *m); /* a new sequence */

/* A chunk's queries, not yet overwritten: makes blocks of what their windows have left, then notes what they
 * give weight to. */
sac_status sac_block_memory_learn(sac_block_memory *m, const sac_layer_attention *chunk);

static inline float *sac_block_memory_key(const sac_block_memory *m, const sac_layer_attention *a,
                                          int64_t block) {
    return m->keys + ((int64_t)a->layer * m->max_blocks + block) * a->q.cols;
}

#endif
