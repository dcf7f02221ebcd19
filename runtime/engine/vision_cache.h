/* vision_cache.h - visual embeddings kept by content: the same picture or video is not encoded twice.
 *
 * The key is a SHA-256 over the media's bytes, what was sampled from it, the processor and the model's
 * weights, so a client cannot make another client's picture match its own. Entries are dropped least recently
 * used first. Shared by the sessions of a model; every call takes a lock. */
#ifndef SAC_ENGINE_VISION_CACHE_H
#define SAC_ENGINE_VISION_CACHE_H

#include "positions.h"
#include "status.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct sac_vision_key {
    uint8_t hash[32];
} sac_vision_key;

typedef struct sac_vision_entry sac_vision_entry;

typedef struct sac_vision_cache {
    pthread_mutex_t lock;
    size_t capacity_bytes, used_bytes;
    sac_vision_entry *newest, *oldest;
    int64_t n_hits, n_misses;
} sac_vision_cache;

void sac_vision_cache_init(sac_vision_cache *c, size_t capacity_bytes); /* 0 = keeps nothing */
void sac_vision_cache_free(sac_vision_cache *c);

/* Embeddings as they lie in a sequence: blocks of block_rows rows, block b starting at row spans[b].first of
 * base. */
typedef struct sac_vision_blocks {
    float *base;
    const sac_prompt_span *spans; /* [n_blocks] */
    int64_t n_blocks, block_rows, cols;
} sac_vision_blocks;

/* Fills the blocks when the key is there with exactly that many rows and columns. */
bool sac_vision_cache_get(sac_vision_cache *c, const sac_vision_key *key, const sac_vision_blocks *to);

/* Keeps a copy; too large or no memory = not kept, which is no failure. */
void sac_vision_cache_put(sac_vision_cache *c, const sac_vision_key *key, const sac_vision_blocks *from);

#endif
