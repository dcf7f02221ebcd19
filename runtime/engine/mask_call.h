/* mask_call.h - around a session's mask callback (sac_events.mask). On a device it is called while the step is at work, in a workspace
 * that is lent to it: a session of the same model that were run then would wait for what waits for it. */
#ifndef SAC_ENGINE_MASK_CALL_H
#define SAC_ENGINE_MASK_CALL_H

#include "engine.h"

/* The callback of the call that the session is in, as ops and samplers call it: ctx is the session. */
void sac_mask_call(void *session, uint32_t *allowed, int n_vocab);

/* BAD_ARGUMENT within a callback of a session of the model, on the thread that it was called on. */
sac_status sac_mask_check(const sac_model *m, sac_error *err);

#endif
