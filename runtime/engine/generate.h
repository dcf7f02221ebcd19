/* generate.h - a call that runs the model: from a prompt to the logits of its last token. */
#ifndef SAC_ENGINE_GENERATE_H
#define SAC_ENGINE_GENERATE_H

#include "prompt.h"

typedef struct sac_call {
    sac_session *s;
    const sac_events *events;
    sac_error *err;
    int64_t start_ns;
    sac_result result;
} sac_call;

/* Around every call that runs the model; what the session was answering is given up. The call must not move
 * in between. */
void sac_call_begin(sac_call *c, sac_session *s, const sac_events *events, sac_error *err);
void sac_call_end(sac_call *c);

/* Media, vision and prefill. */
sac_status sac_run_messages(sac_call *c, const sac_message *messages, size_t n_messages);
sac_status sac_run_text(sac_call *c, const char *text, size_t n_bytes);
sac_status sac_run_tokens(sac_call *c, const int32_t *ids, size_t n_ids);

sac_status sac_check_ids(const sac_session *s, const int32_t *ids, size_t n_ids, sac_error *err);

static inline void sac_events_yield(const sac_events *e) {
    if (e && e->yield) e->yield(e->ctx);
}

#endif
