#include "mask_call.h"

/* Whose callback runs on the thread: one of another model may be within. */
typedef struct mask_call {
    const sac_model *model;
    const struct mask_call *outer;
} mask_call;

static _Thread_local const mask_call *innermost;

void sac_mask_call(void *session, uint32_t *allowed, int n_vocab) {
    const sac_session *s = session;
    const sac_events *e = s->events;
    const mask_call here = {s->model, innermost};
    innermost = &here;
    e->mask(e->ctx, allowed, n_vocab);
    innermost = here.outer;
}

sac_status sac_mask_check(const sac_model *m, sac_error *err) {
    for (const mask_call *c = innermost; c; c = c->outer)
        if (c->model == m)
            return sac_fail(err, SAC_BAD_ARGUMENT, "a mask callback (sac_events.mask) may run no session of its model: run it before or after the step");
    return SAC_OK;
}
