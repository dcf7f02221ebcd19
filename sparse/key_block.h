/* key_block.h - stored keys as floats, some rows at a time, and copies of them in few bits: for methods that
 * keep a summary of each key. */
#ifndef SAC_KEY_BLOCK_H
#define SAC_KEY_BLOCK_H

#include "packed_rows.h"
#include "sparse.h"

#define SAC_KEY_BLOCK_ROWS 256

typedef struct sac_key_block {
    float *k; /* [n_kv_heads][SAC_KEY_BLOCK_ROWS][head_dim] */
    int head_dim;
} sac_key_block;

void sac_key_block_take(sac_key_block *b, const sac_attention_shape *shape, sac_arena *arena);

/* Keys of rows [first, first + n), at most SAC_KEY_BLOCK_ROWS of them, as stored. */
sac_status sac_key_block_load(const sac_key_block *b, const sac_layer_attention *a, int64_t first, int64_t n);

static inline const float *sac_key_block_row(const sac_key_block *b, int head, int64_t i) {
    return b->k + (head * (int64_t)SAC_KEY_BLOCK_ROWS + i) * b->head_dim;
}

/* How many rows to load next of those from `first` on. */
static inline int64_t sac_key_block_next(int64_t first, int64_t end) {
    return end - first < SAC_KEY_BLOCK_ROWS ? end - first : SAC_KEY_BLOCK_ROWS;
}

/* A copy of keys, or of `head_dim` of their channels: one range a row and head, no values, no rows yet. */
sac_packed_rows sac_key_copy_take(const sac_attention_shape *shape, int head_dim, int bits, sac_arena *arena);

/* A row of the copy; codes [head_dim] is room. */
void sac_key_copy_put(const sac_packed_rows *copy, int head, int64_t row, const float *key, uint8_t *codes);

#endif
