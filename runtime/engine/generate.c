/* generate.c - calls that only run the model: a prompt without an answer, tokens behind a sequence. */
#include "append.h"
#include "beginnings.h"
#include "call.h"
#include "work.h"

sac_status sac_session_prefill(sac_session *s, const sac_message *messages, size_t n_messages,
                               const sac_events *events, sac_error *err) {
    SAC_TRY(sac_work_check_outside(s, err));
    sac_work_begin(s->work, s, &(sac_input){.messages = messages, .n_messages = n_messages}, events);
    return sac_work_run(s->work, err);
}

/* The tokens stand behind the sequence, and the session is as ready for them as for a prompt. */
static sac_status enter(sac_session *s, const int32_t *ids, size_t n_ids, sac_error *err) {
    int64_t past = s->decoder.cache.n_rows, n = (int64_t)n_ids;
    SAC_TRY(sac_work_check_outside(s, err));
    if (n_ids == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "no tokens to append");
    SAC_TRY(sac_check_ids(s, ids, n_ids, err));
    if (past > 0 && s->held_adapter != s->decoder.adapter)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "the session holds tokens that were run with another adapter: reset it first");
    s->held_adapter = s->decoder.adapter;
    if (n_ids > (size_t)(s->memory.n_ctx - past))
        return sac_fail(err, SAC_TOO_LONG, "%zu tokens after %lld do not fit a context of %lld", n_ids,
                        (long long)past, (long long)s->memory.n_ctx);
    s->has_logits = false;
    sac_beginnings_withdraw(s);
    sac_decoder_count_on(&s->decoder);
    for (int64_t i = 0; i < n; i++) {
        s->ids[past + i] = ids[i];
        s->identity[past + i] = sac_token_identity(s, ids[i]);
    }
    sac_work_drop(s->work);
    return SAC_OK;
}

sac_status sac_session_append(sac_session *s, const int32_t *ids, size_t n_ids, float *all_logits,
                              sac_error *err) {
    SAC_TRY(enter(s, ids, n_ids, err));
    sac_call_enter(s, NULL);
    sac_status st = sac_append_whole(s, s->decoder.cache.n_rows, (int64_t)n_ids, all_logits, err);
    sac_call_leave(s);
    sac_beginnings_offer(s); /* the rows before */
    s->has_logits = st == SAC_OK;
    return st;
}

sac_status sac_session_begin_append(sac_session *s, const int32_t *ids, size_t n_ids, float *all_logits,
                                    const sac_events *events, sac_error *err) {
    SAC_TRY(enter(s, ids, n_ids, err));
    int64_t past = s->decoder.cache.n_rows;
    sac_work_begin_append(s->work, s, past, past + (int64_t)n_ids, all_logits, events);
    return SAC_OK;
}
