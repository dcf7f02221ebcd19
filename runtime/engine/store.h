/* store.h - rows of beginnings that no session holds any more: in host memory (store_index.h), and where a folder is given
 * on disk (store_file.h).
 *
 * What a session offers to others (beginnings.h) is copied block by block, by a thread of the store's own while the session
 * answers, and what is left of it when the session takes the offer back. A prompt that is placed looks here for more rows
 * than it has, and gets them in pieces. Only whole blocks are kept.
 *
 * Everything is under the lock of the sac_beginnings, which is held while a block is copied, not while a file is read or
 * written. */
#ifndef SAC_ENGINE_STORE_H
#define SAC_ENGINE_STORE_H

#include "prompt.h"

typedef struct sac_store sac_store;

/* *b has no sessions yet. */
sac_status sac_store_open(sac_store **out, sac_beginnings *b, const sac_store_options *o, sac_error *err);
/* Writes what is to be written. No session shares *b any more. */
void sac_store_close(sac_store *t);

/* Whoever is told of blocks from here on. Before any session joins. */
void sac_store_watch_by(sac_store *t, void (*event)(void *ctx, const sac_block_event *e), void *ctx);

/* A session joins: what its blocks are found by from their first on. Under the lock. */
sac_status sac_store_enter(const sac_store *t, sac_session *s, sac_error *err);
/* s->n_shared rows of it are offered: they are copied soon. Under the lock. */
void sac_store_offer(sac_store *t, sac_session *s);
/* They are about to change: what is not copied yet is copied now. Under the lock. */
void sac_store_save(sac_store *t, sac_session *s);

/* Adds its part. Under the lock. */
void sac_store_report(const sac_store *t, sac_beginnings_report *r);

/* Rows of a placed prompt on their way from the store. */
typedef struct sac_store_walk {
    sac_store_key key; /* of the block before */
    int64_t n_blocks;  /* behind us */
    int64_t n, most;   /* rows that the session has; that it may have */
} sac_store_walk;

/* Are there more rows than the prompt reuses already? Then the session gives up those that steps of an answer have made, and
 * *w begins. */
bool sac_store_walk_begin(sac_store_walk *w, sac_session *s, const sac_prompt *prompt);
/* The next piece: some blocks. *done: prompt->n_reused counts what the session has now. On failure it has those that it had
 * before the piece, or none. */
sac_status sac_store_walk_next(sac_store_walk *w, sac_session *s, sac_prompt *prompt, bool *done, sac_error *err);

#endif
