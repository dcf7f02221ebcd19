/* parked.h - rows of sessions on the host, which gave their pages to others. What several sessions had in common is there once, too: the
 * first of them brings it, and those after it find it there. All of a model take as much memory as its pages do, at most. */
#ifndef SAC_ENGINE_PARKED_H
#define SAC_ENGINE_PARKED_H

#include "engine.h"

#include <pthread.h>

/* What a row is: rows are the same where these are, and those of all rows before (engine.h). */
typedef struct sac_parked_key {
    sac_identity identity;
    int64_t number[SAC_POSITION_AXES];
    uint64_t page; /* on a device, where rows of two runs may be rounded otherwise, the very page it was in; else 0 */
} sac_parked_key;

struct sac_parked_block {
    uint8_t *rows; /* of n, as sac_kv_cache_to_block has them */
    int64_t n;
    size_t n_bytes, n_users;
    sac_parked_key *keys;   /* [n] of a sequence's first rows, which others may have; NULL: nobody has */
    sac_decoder_state like; /* with which settings they were made: nothing of it that is pointed to but methods and formats */
    sac_reduce reduce;
    struct sac_parked_block *next;
};

/* A model's. */
typedef struct sac_parked_list {
    pthread_mutex_t lock;
    sac_parked_block *known; /* those with keys */
    size_t n_bytes;
} sac_parked_list;

/* For n rows of the session. NO_MEMORY. */
sac_status sac_parked_take(sac_parked_block **out, const sac_session *s, int64_t n, sac_error *err);

/* A block that holds the first n rows of the session as they are, and is one more user's now; NULL: there is none. */
sac_parked_block *sac_parked_find(const sac_session *s, int64_t n);

/* The block has the session's first rows now: others may find it. Without memory for that nobody does. */
void sac_parked_tell(const sac_session *s, sac_parked_block *b);

void sac_parked_drop(const sac_session *s, sac_parked_block *b); /* one user less; NULL is fine */

/* All that the session has here; also of a session that is not whole yet. */
void sac_session_drop_parked(sac_session *s);

#endif
