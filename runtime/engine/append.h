/* append.h - tokens behind a sequence: in one go, and as work in pieces (work.h). The session's ids hold them already. */
#ifndef SAC_ENGINE_APPEND_H
#define SAC_ENGINE_APPEND_H

#include "work.h"

/* Runs the n tokens behind the first `past`, as sac_session_append says. */
sac_status sac_append_whole(sac_session *s, int64_t past, int64_t n, float *all_logits, sac_error *err);

/* The cache has the rows of n tokens behind the first `past`. Many have the bits of a prompt's rows; few have not, nor has a step's. */
void sac_append_count(sac_session *s, int64_t past, int64_t n);

/* ---- of a work that appends */

/* Whether it goes as a prompt does. Otherwise it is one step, or a sequence that is run anew: one piece. */
bool sac_append_is_cut(const sac_work *w);
/* Borrows a workspace; the tokens' embeddings stand in it. UNSUPPORTED: not all logits can be had. */
sac_status sac_append_embed(sac_work *w, sac_error *err);
/* Some more rows of w->all_logits, after the prefill: as many as w->most_head takes, 16 at least, of one chunk. No row's bits depend on it. */
sac_status sac_append_logits(sac_work *w);

#endif
