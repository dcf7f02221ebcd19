/* call.c - what every call on a session needs. */
#include "call.h"

#include <stdlib.h>

sac_status sac_model_check_vision(const sac_model *m, sac_error *err) {
    if (m->loaded.has_vision) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "this model reads text only (family %s): give a model with a vision tower for pictures "
                    "and videos",
                    m->loaded.family);
}

sac_status sac_session_check_cancel(sac_session *s, sac_error *err) {
    const sac_events *e = s->events;
    if (atomic_load_explicit(&s->cancel, memory_order_relaxed) || (e && e->stopped && e->stopped(e->ctx)))
        return sac_fail(err, SAC_CANCELLED, "cancelled");
    return SAC_OK;
}

void sac_reply_drop(sac_session *s) {
    free(s->reply.owned);
    sac_controls_clear(&s->reply.controls);
    s->reply = (sac_reply){.text = s->text, .capacity = s->text_capacity, .busy = s->reply.busy};
}

void sac_call_enter(sac_session *s, const sac_events *events) {
    atomic_store(&s->cancel, false);
    sac_reply_drop(s);
    s->events = events;
    s->reply.busy = true;
}

void sac_call_leave(sac_session *s) {
    s->events = NULL;
    s->reply.busy = false;
}

sac_status sac_check_ids(const sac_session *s, const int32_t *ids, size_t n_ids, sac_error *err) {
    int vocab = s->model->loaded.decoder.config.vocab;
    for (size_t i = 0; i < n_ids; i++)
        if (ids[i] < 0 || ids[i] >= vocab)
            return sac_fail(err, SAC_BAD_ARGUMENT, "token id %d is not in the vocabulary of %d", ids[i],
                            vocab);
    return SAC_OK;
}
