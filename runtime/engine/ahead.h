/* ahead.h - tokens of an answer that were run before they were chosen. A step asks first whether the token before it is
 * one of those: then its logits are there, and nothing is run. */
#ifndef SAC_ENGINE_AHEAD_H
#define SAC_ENGINE_AHEAD_H

#include "engine.h"

enum { SAC_AHEAD_A_ROW = 50 }; /* what a refused row takes of a draft's credit */

/* An answer begins. */
void sac_ahead_start(sac_session *s);

/* What was run ahead is forgotten: its rows lie behind the sequence's end, and go. */
void sac_ahead_drop(sac_session *s);

/* Whether the pending token (s->reply.pending) was drafted and run. Otherwise what was run ahead is forgotten. */
bool sac_ahead_has(sac_session *s);
/* It becomes the last of the sequence, and its logits are the decoder's; to be written by sac_step_pending before. */
void sac_ahead_take(sac_session *s);

/* Runs `id`, which sac_step_pending has written at row `past`, and what is drafted behind it. */
sac_status sac_ahead_run(sac_session *s, int64_t past, int32_t id, sac_error *err);

/* Guesses of tokens, at most `most`, at what follows row `past`, which sac_step_pending has written, to s->ahead.ids[1 ..]; of a
 * draft that costs nothing to make, else 0. Returns how many. */
int sac_ahead_guess(sac_session *s, int64_t past, int most);

/* ---- of a pass of several sessions (batch_draft.h) */

/* Tokens, at most `most`, that a draft which takes time may have in it; share_s: what a pass without drafts takes of each, 0: nobody
 * knows yet. */
int sac_ahead_room_shared(sac_session *s, int64_t past, int most, double share_s);
/* Afterwards, n were run. */
void sac_ahead_was_run(sac_session *s, int n);

#endif
