/* media_memo.h - small facts about media that were met before, by key: so that the turns of a conversation
 * neither read nor decode again what an earlier turn has measured. Shared by the sessions of a model; every
 * call takes a lock. */
#ifndef SAC_ENGINE_MEDIA_MEMO_H
#define SAC_ENGINE_MEDIA_MEMO_H

#include "vision_cache.h"

#define SAC_MEMO_ENTRIES 512 /* the one not used for longest goes */

typedef struct sac_memo_entry {
    sac_vision_key key;
    void *data; /* NULL = free */
    size_t n_bytes;
    uint64_t used;
} sac_memo_entry;

typedef struct sac_media_memo {
    pthread_mutex_t lock;
    uint64_t clock;
    sac_memo_entry entry[SAC_MEMO_ENTRIES];
} sac_media_memo;

void sac_memo_init(sac_media_memo *m);
void sac_memo_free(sac_media_memo *m);

/* A copy that the caller frees, or NULL when the key is not known. */
void *sac_memo_get(sac_media_memo *m, const sac_vision_key *key, size_t *n_bytes);
/* Keeps a copy; no memory = not kept, which is no failure. */
void sac_memo_put(sac_media_memo *m, const sac_vision_key *key, const void *data, size_t n_bytes);

#endif
