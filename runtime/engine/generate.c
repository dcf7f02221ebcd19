#include "generate.h"

#include "clock.h"
#include <string.h>

/* ---------------------------------------------------------------- prefill */

static void yield(void *ctx) {
    sac_events_yield(((sac_call *)ctx)->events);
}

static sac_status on_layer(void *ctx, int layer, int n_layers) {
    sac_call *c = ctx;
    yield(c);
    SAC_TRY(sac_session_check_cancel(c->s, c->err));
    if (c->events && c->events->progress) c->events->progress(c->events->ctx, "prefill", layer, n_layers);
    return SAC_OK;
}

/* Rows of visual tokens from `past` on to where the decoder runs. */
static sac_status load_visual(sac_session *s, int64_t past) {
    for (int i = 0; i < s->decoder.n_visual; i++) {
        sac_visual_span v = s->decoder.visual[i];
        if (v.first + v.n > past)
            SAC_TRY(sac_decoder_load_rows(sac_model_decoder(s->model), &s->decoder, sac_decoder_stream(s),
                                          v.first, v.n));
    }
    return SAC_OK;
}

/* Hidden rows [past, n) become embeddings: text between the spans from the table, run by run, visual tokens
 * from their media. */
static sac_status embed_prompt(sac_call *c, int64_t past, int64_t n) {
    sac_session *s = c->s;
    int64_t at = past;
    for (int k = 0; k <= s->n_spans; k++) {
        int64_t end = k < s->n_spans ? s->spans[k].first : n;
        if (end > at)
            SAC_TRY(sac_decoder_embed(sac_model_decoder(s->model), &s->decoder, sac_decoder_ops(s),
                                      sac_decoder_stream(s), at, end - at, s->ids + at));
        int64_t after = k < s->n_spans ? end + s->spans[k].n : n;
        if (after > at) at = after;
    }
    for (size_t m = 0; m < s->n_media; m++)
        if (sac_prompt_media_end(s, m) > past)
            SAC_TRY(sac_media_encode(s, m, c->events, &c->result.seconds.media, &c->result.seconds.vision,
                                     c->err));
    return load_visual(s, past);
}

/* Where visual tokens stand, for methods that treat them apart. */
static void find_visual(sac_session *s) {
    s->decoder.n_visual = 0;
    s->decoder.visual = s->visual;
    for (int k = 0; k < s->n_spans; k++)
        s->visual[s->decoder.n_visual++] = (sac_visual_span){s->spans[k].first, s->spans[k].n};
}

/* Runs a prompt that stands in s->prompt; the logits of its last token are left in the session. */
static sac_status run_prompt(sac_call *c, sac_prompt *prompt) {
    sac_session *s = c->s;
    SAC_TRY(sac_prompt_place(s, prompt, c->err));
    find_visual(s);
    SAC_TRY(embed_prompt(c, prompt->n_reused, prompt->n_tokens));
    int64_t prefill_ns = sac_now_ns();
    SAC_TRY(sac_decoder_prefill(sac_model_decoder(s->model), &s->decoder, sac_decoder_ops(s),
                                sac_decoder_stream(s), prompt->n_reused, prompt->n_tokens - prompt->n_reused,
                                1, on_layer, c, c->err));
    SAC_TRY(sac_decoder_last_logits(sac_model_decoder(s->model), &s->decoder, sac_decoder_ops(s),
                                    sac_decoder_stream(s)));
    s->has_logits = true;
    c->result.seconds.prefill = sac_seconds_since(prefill_ns);
    c->result.n_prompt_tokens = prompt->n_tokens;
    c->result.n_visual_tokens = prompt->n_visual;
    c->result.n_reused_tokens = prompt->n_reused;
    c->result.prefill_is_short = s->decoder.prefill.is_short;
    return SAC_OK;
}

sac_status sac_run_messages(sac_call *c, const sac_message *messages, size_t n_messages) {
    sac_session *s = c->s;
    sac_prompt prompt;
    s->has_logits = false;
    int64_t media_ns = sac_now_ns();
    SAC_TRY(sac_media_prepare(s, messages, n_messages, c->err));
    c->result.seconds.media = sac_seconds_since(media_ns);
    SAC_TRY(sac_prompt_build(s, messages, n_messages, &prompt, c->err));
    return run_prompt(c, &prompt);
}

sac_status sac_run_text(sac_call *c, const char *text, size_t n_bytes) {
    sac_prompt prompt;
    c->s->has_logits = false;
    sac_media_release(c->s);
    SAC_TRY(sac_prompt_of_text(c->s, text, n_bytes, &prompt, c->err));
    return run_prompt(c, &prompt);
}

sac_status sac_run_tokens(sac_call *c, const int32_t *ids, size_t n_ids) {
    sac_prompt prompt;
    c->s->has_logits = false;
    sac_media_release(c->s);
    SAC_TRY(sac_prompt_of_tokens(c->s, ids, n_ids, &prompt, c->err));
    return run_prompt(c, &prompt);
}

void sac_call_begin(sac_call *c, sac_session *s, const sac_events *events, sac_error *err) {
    *c = (sac_call){.s = s, .events = events, .err = err, .start_ns = sac_now_ns()};
    atomic_store(&s->cancel, false);
    sac_reply_drop(s);
    s->events = events;
    s->reply.busy = true;
    s->decoder.pause = (sac_pause){yield, c};
}

void sac_call_end(sac_call *c) {
    sac_media_close(c->s);
    c->s->events = NULL;
    c->s->reply.busy = false;
    c->s->decoder.pause = (sac_pause){0};
}

/* ---------------------------------------------------------------- the public calls */

sac_status sac_session_prefill(sac_session *s, const sac_message *messages, size_t n_messages,
                               const sac_events *events, sac_error *err) {
    sac_call c;
    sac_call_begin(&c, s, events, err);
    sac_status st = sac_run_messages(&c, messages, n_messages);
    sac_call_end(&c);
    return st;
}

/* n tokens as a prompt goes: the prefill policy. */
static sac_status append_prompt(sac_call *c, int64_t past, int64_t n, float *all_logits) {
    sac_session *s = c->s;
    const sac_decoder *d = sac_model_decoder(s->model);
    const sac_ops *ops = sac_decoder_ops(s);
    const sac_stream *stream = sac_decoder_stream(s);
    if (all_logits && n > 1 && s->decoder.prefill.policy->keep)
        return sac_fail(c->err, SAC_UNSUPPORTED, "prefill policy %s drops tokens, so not all have logits",
                        s->decoder.prefill.policy->name);
    SAC_TRY(sac_decoder_embed(d, &s->decoder, ops, stream, past, n, s->ids + past));
    s->decoder.n_visual = 0;
    SAC_TRY(
        sac_decoder_prefill(d, &s->decoder, ops, stream, past, n, all_logits ? n : 1, on_layer, c, c->err));
    if (all_logits) SAC_TRY(sac_decoder_logits(d, &s->decoder, ops, stream, past, n, all_logits));
    return sac_decoder_last_logits(d, &s->decoder, ops, stream);
}

/* One token as an answer's go: the decode policy. */
static sac_status append_step(sac_call *c, int64_t past, float *logits) {
    sac_session *s = c->s;
    const sac_decoder *d = sac_model_decoder(s->model);
    SAC_TRY(sac_decoder_step(d, &s->decoder, sac_decoder_ops(s), sac_decoder_stream(s), past, s->ids[past],
                             c->err));
    if (logits) memcpy(logits, s->decoder.logits, (size_t)d->config.vocab * sizeof *logits);
    return SAC_OK;
}

sac_status sac_session_append(sac_session *s, const int32_t *ids, size_t n_ids, float *all_logits,
                              sac_error *err) {
    int64_t past = s->decoder.cache.n_rows, n = (int64_t)n_ids;
    if (n_ids == 0) return sac_fail(err, SAC_BAD_ARGUMENT, "no tokens to append");
    SAC_TRY(sac_check_ids(s, ids, n_ids, err));
    if (n_ids > (size_t)(s->memory.n_ctx - past))
        return sac_fail(err, SAC_TOO_LONG, "%zu tokens after %lld do not fit a context of %lld", n_ids,
                        (long long)past, (long long)s->memory.n_ctx);
    s->has_logits = false;
    for (int64_t i = 0; i < n; i++) {
        s->ids[past + i] = ids[i];
        s->identity[past + i] = (uint64_t)(uint32_t)ids[i];
    }
    sac_call c;
    sac_call_begin(&c, s, NULL, err);
    /* What begins a sequence is its prompt, be it one token: methods learn and set their budgets there. */
    sac_status st =
        n == 1 && past > 0 ? append_step(&c, past, all_logits) : append_prompt(&c, past, n, all_logits);
    sac_call_end(&c);
    s->has_logits = st == SAC_OK;
    return st;
}
