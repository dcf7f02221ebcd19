/* call.h - what every call on a session needs. */
#ifndef SAC_ENGINE_CALL_H
#define SAC_ENGINE_CALL_H

#include "engine.h"

/* Around every call that runs the model: what was asked to cancel is forgotten, what the session was answering
 * is given up, and it counts as at work until sac_call_leave. */
void sac_call_enter(sac_session *s, const sac_events *events);
void sac_call_leave(sac_session *s);

sac_status sac_check_ids(const sac_session *s, const int32_t *ids, size_t n_ids, sac_error *err);

#endif
