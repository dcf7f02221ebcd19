/* key_block.h - stored keys as floats, some rows at a time, and copies of them in few bits: for methods that
 * keep a summary of each key. Blocks are read on the CPU. */
#ifndef SAC_KEY_BLOCK_H
#define SAC_KEY_BLOCK_H

#include "packed_rows.h"
#include "policy.h"

#define SAC_KEY_BLOCK_ROWS 256

typedef struct sac_key_block {
    float *k; /* [n_kv_heads][SAC_KEY_BLOCK_ROWS][head_dim] */
    int head_dim;
} sac_key_block;

void sac_key_block_take(sac_key_block *b, const sac_attention_shape *shape, const sac_memory *memory);

/* Keys of rows [first, first + n), at most SAC_KEY_BLOCK_ROWS of them, as stored. */
sac_status sac_key_block_load(const sac_key_block *b, const sac_layer_attention *a, int64_t first, int64_t n);

static inline const float *sac_key_block_row(const sac_key_block *b, int head, int64_t i) {
    return b->k + (head * (int64_t)SAC_KEY_BLOCK_ROWS + i) * b->head_dim;
}

/* How many rows to load next of those from `first` on. */
static inline int64_t sac_key_block_next(int64_t first, int64_t end) {
    return end - first < SAC_KEY_BLOCK_ROWS ? end - first : SAC_KEY_BLOCK_ROWS;
}

/* A copy of keys, or of `head_dim` of their channels: one range a row and head, no values, no rows yet but
 * room for `capacity` of them, where ops run. */
sac_packed_rows sac_key_copy_take(const sac_attention_shape *shape, int64_t capacity, int head_dim, int bits,
                                  const sac_memory *memory);

/* Room for all rows of the context, in whole tiles of the packed layout, so that the last tile is like the
 * others. */
static inline int64_t sac_key_copy_capacity(const sac_attention_shape *shape) {
    return (shape->n_ctx + SAC_PACKED_TILE - 1) / SAC_PACKED_TILE * SAC_PACKED_TILE;
}

/* A row of the copy, on the CPU; codes [head_dim] is room. */
void sac_key_copy_put(const sac_packed_rows *copy, int head, int64_t row, const float *key, uint8_t *codes);

#endif
