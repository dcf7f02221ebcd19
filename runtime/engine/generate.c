/* generate.c - calls that only run the model: a prompt without an answer, tokens behind a sequence. */
#include "beginnings.h"
#include "call.h"
#include "renew.h"
#include "work.h"
#include "workspace.h"

#include <string.h>

sac_status sac_session_prefill(sac_session *s, const sac_message *messages, size_t n_messages,
                               const sac_events *events, sac_error *err) {
    sac_work_begin(s->work, s, &(sac_input){.messages = messages, .n_messages = n_messages}, events);
    return sac_work_run(s->work, err);
}

typedef struct asker {
    sac_session *s;
    sac_error *err;
} asker;

static sac_status may_go_on(void *ctx, int layer, int n_layers) {
    const asker *a = ctx;
    (void)layer, (void)n_layers;
    return sac_session_check_cancel(a->s, a->err);
}

static sac_status check_all_logits(const sac_session *s, int64_t n, const float *all_logits, sac_error *err) {
    if (!all_logits || n == 1 || !s->decoder.prefill.policy->keep) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "prefill policy %s drops tokens, so not all have logits",
                    s->decoder.prefill.policy->name);
}

/* n tokens as a prompt goes: the prefill policy. */
static sac_status append_prompt(sac_session *s, int64_t past, int64_t n, float *all_logits, sac_error *err) {
    const sac_decoder *d = sac_model_decoder(s->model);
    const sac_ops *ops = sac_decoder_ops(s);
    const sac_stream *stream = sac_decoder_stream(s);
    SAC_TRY(check_all_logits(s, n, all_logits, err));
    SAC_TRY(sac_decoder_embed(d, &s->decoder, ops, stream, past, n, s->ids + past));
    s->decoder.n_visual = 0;
    SAC_TRY(sac_decoder_prefill(d, &s->decoder, ops, stream, past, n, all_logits ? n : 1, may_go_on,
                                &(asker){s, err}, err));
    if (all_logits) SAC_TRY(sac_decoder_logits(d, &s->decoder, ops, stream, past, n, all_logits));
    return sac_decoder_last_logits(d, &s->decoder, ops, stream);
}

/* One token as an answer's go: the decode policy. */
static sac_status append_step(sac_session *s, int64_t past, float *logits, sac_error *err) {
    const sac_decoder *d = sac_model_decoder(s->model);
    SAC_TRY(
        sac_decoder_step(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past, s->ids[past], err));
    if (logits) memcpy(logits, s->decoder.logits, (size_t)d->config.vocab * sizeof *logits);
    return SAC_OK;
}

static sac_status append(sac_session *s, int64_t past, int64_t n, float *all_logits, sac_error *err) {
    /* What begins a sequence is its prompt, be it one token: methods learn and set their budgets there. */
    bool is_step = n == 1 && past > 0;
    if (sac_decoder_turns_anew(&s->decoder, past + n)) {
        SAC_TRY(check_all_logits(s, n, all_logits, err));
        return sac_renew(s, past + n, n, all_logits, err);
    }
    SAC_TRY(sac_session_borrow(s, is_step ? SAC_FOR_STEP : SAC_FOR_PROMPT, err));
    sac_status st = is_step ? append_step(s, past, all_logits, err) : append_prompt(s, past, n, all_logits, err);
    sac_session_give_back(s);
    return st;
}

sac_status sac_session_append(sac_session *s, const int32_t *ids, size_t n_ids, float *all_logits,
                              sac_error *err) {
    int64_t past = s->decoder.cache.n_rows, n = (int64_t)n_ids;
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
    sac_call_enter(s, NULL);
    sac_status st = append(s, past, n, all_logits, err);
    sac_call_leave(s);
    sac_beginnings_offer(s); /* the rows before */
    s->has_logits = st == SAC_OK;
    return st;
}
