/* step.h - the parts of a step, for a session alone and for a batch. */
#ifndef SAC_ENGINE_STEP_H
#define SAC_ENGINE_STEP_H

#include "engine.h"

/* Whether a step may be made; the session is then at work until sac_step_leave. */
sac_status sac_step_check(sac_session *s, const sac_events *events, sac_error *err);
void sac_step_leave(sac_session *s, sac_status st, int64_t start_ns);

/* The token that has to be run before the next is chosen (s->reply.pending), written to the sequence. What the choice needs of
 * its logits is told to the decoder. */
int32_t sac_step_pending(sac_session *s);

/* Where that token was run ahead (ahead.h) it is written and its logits are there: nothing is to be run. */
bool sac_step_take_ahead(sac_session *s);

/* Runs that token, unless it was run ahead (ahead.h). Borrows a workspace. */
sac_status sac_step_run(sac_session *s, sac_error *err);

/* The first part of the following for which no callback is needed, if there is such: those of several
 * sessions may run side by side. */
void sac_step_choose_ahead(sac_session *s);

/* Chooses a token from the session's logits, and all that follows from it. */
sac_status sac_step_choose(sac_session *s, int32_t *token, bool *done, sac_error *err);

#endif
