/* vision_cache.h - visual rows kept by content: the same picture or video is not encoded twice.
 *
 * The key is a SHA-256 over the media's bytes, what was sampled from it, the processor and the model's
 * weights, so a client cannot make another client's picture match its own. Entries are dropped least recently
 * used first. Shared by the sessions of a model; every call takes a lock, and none holds it while rows are copied:
 * whoever copies an entry's rows has a reference to it, and its memory is used again after the last one is
 * released.
 *
 * Rows are kept in the memory and in the type that the decoder takes them in. On the CPU each entry is a block of
 * the heap. On a device all are parts of one block of it, as large as the capacity, that is taken when the model
 * is loaded: an entry takes the first gap that is large enough, and where there is none, entries that nobody uses
 * are dropped until there is one. */
#ifndef SAC_ENGINE_VISION_CACHE_H
#define SAC_ENGINE_VISION_CACHE_H

#include "device.h"

#include <pthread.h>

typedef struct sac_vision_key {
    uint8_t hash[32];
} sac_vision_key;

typedef struct sac_vision_entry {
    sac_vision_key key;
    void *rows;     /* where the decoder runs */
    size_t n_bytes; /* of them */
    /* The rest is the cache's own. */
    size_t taken_bytes;                     /* of the capacity */
    int n_users;                            /* references that are out */
    bool is_listed;                         /* may be found */
    struct sac_vision_entry *newer, *older; /* of those listed */
    struct sac_vision_entry *before, *next; /* of all, on a device in the order of their places */
} sac_vision_entry;

typedef struct sac_vision_cache {
    pthread_mutex_t lock;
    const sac_device *device; /* NULL: the host */
    uint8_t *block;           /* [capacity_bytes] of it */
    size_t capacity_bytes, used_bytes;
    sac_vision_entry *newest, *oldest;
    sac_vision_entry *first; /* of all */
    int64_t n_hits, n_misses;
} sac_vision_cache;

/* Capacity 0 keeps nothing. `device` NULL: the host; otherwise it outlives the cache, and NO_MEMORY where it has
 * no room for the block. After a failure too the cache is to be freed. */
sac_status sac_vision_cache_init(sac_vision_cache *c, size_t capacity_bytes, const sac_device *device,
                                 sac_error *err);
/* No reference may be out. */
void sac_vision_cache_free(sac_vision_cache *c);

/* A reference to the entry of that key and exactly that size, or NULL. */
sac_vision_entry *sac_vision_cache_find(sac_vision_cache *c, const sac_vision_key *key, size_t n_bytes);

/* Room for rows, with a reference, that nobody else finds yet. NULL: too large, no memory or all of it in use;
 * then they are not kept, which is no failure. */
sac_vision_entry *sac_vision_cache_reserve(sac_vision_cache *c, const sac_vision_key *key, size_t n_bytes);

/* The rows are written, for the streams of all sessions: from here on they are found, in place of what was kept
 * by that key before. */
void sac_vision_cache_publish(sac_vision_cache *c, sac_vision_entry *e);

/* Gives a reference back, when no copy is on its way any more. */
void sac_vision_cache_release(sac_vision_cache *c, sac_vision_entry *e);

#endif
