/* key_copy.h - copies of the keys in few bits, for methods that estimate scores from them. */
#ifndef SAC_KEY_COPY_H
#define SAC_KEY_COPY_H

#include "packed_rows.h"
#include "policy.h"

/* A copy of keys, or of `head_dim` of their channels: one range a row and head, no values, no rows yet but
 * room for `capacity` of them, where ops run. */
sac_packed_rows sac_key_copy_take(const sac_attention_shape *shape, int64_t capacity, int head_dim, int bits,
                                  const sac_memory *memory);

/* Room for all rows of the context, in whole tiles of the packed layout, so that the last tile is like the
 * others. */
static inline int64_t sac_key_copy_capacity(const sac_attention_shape *shape) {
    return (shape->n_ctx + SAC_PACKED_TILE - 1) / SAC_PACKED_TILE * SAC_PACKED_TILE;
}

#endif
