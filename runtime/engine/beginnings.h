/* beginnings.h - rows of prompts that begin alike, taken over from one session by another instead of being run again.
 *
 * Sessions of a model that share a sac_beginnings offer what they hold of a prompt: rows that depend on nothing but the
 * tokens before (sac_decoder_shares), as a prompt made them, no row of an answer. A prompt that is placed takes the
 * longest beginning that another session offers, where that is longer than its own. Rows are the same where their
 * identities (token, picture or video and place in it, adapter) and their positions are, and those of all rows before;
 * these are compared themselves, no hash of them. On the CPU the answer is, bit for bit, that of a session that shares
 * nothing.
 *
 * Everything is under one lock, also the copying: a session takes back what it offers before it changes any of it. */
#ifndef SAC_ENGINE_BEGINNINGS_H
#define SAC_ENGINE_BEGINNINGS_H

#include "prompt.h"
#include "store.h"

#include <pthread.h>

struct sac_beginnings {
    const sac_model *model;
    pthread_mutex_t lock;
    sac_session *sharers; /* by next_sharer */
    sac_store *store;     /* or NULL; of rows that none of them holds any more */
    sac_beginnings_report report;
};

/* A prompt of the session has been run: others may have its rows. */
void sac_beginnings_offer(sac_session *s);

/* Nobody takes rows of the session any more, until it offers some again. What the store lacks of them it gets before. */
void sac_beginnings_withdraw(sac_session *s);

/* The prompt is placed, and n_reused rows of it are the session's own, of rows that are in pages: where another offers more it has from
 * now on that one's whole pages (kv_cache.h), for which it needs no memory. On failure it has no rows. */
sac_status sac_beginnings_share(sac_session *s, sac_prompt *prompt, sac_error *err);
bool sac_beginnings_may_share(const sac_session *s); /* pages at all */

/* Behind that, with memory for all rows of the prompt: takes more of them where there are, adds them to
 * n_reused, and offers what the session has by now. On failure it has the rows that it had, or none. */
sac_status sac_beginnings_take(sac_session *s, sac_prompt *prompt, sac_error *err);

/* Before the session is freed. */
void sac_beginnings_leave(sac_session *s);

#endif
