/* An answer token by token: begin, steps, end. A step runs the token before it and then chooses, so that no
 * token is run that nobody asks to go on from. */
#include "step.h"

#include "ahead.h"
#include "clock.h"
#include "decoder_ahead.h"
#include "guide.h"
#include "mask_call.h"
#include "pages.h"
#include "renew.h"
#include "stop_strings.h"
#include "work.h"
#include "workspace.h"

#include <stdlib.h>
#include <string.h>

/* That bring all logits, behind one that told too few. */
enum { WHOLE_STEPS = 15 };

void sac_sampling_default(sac_sampling *s) {
    *s = (sac_sampling){.max_tokens = 512, .top_p = 1, .repetition_penalty = 1};
}

void sac_sampling_of_model(const sac_model *model, sac_sampling *s) {
    const sac_loaded_model *m = &model->loaded;
    sac_sampling_default(s);
    s->repetition_penalty = m->generation.repetition_penalty;
    s->controls = &m->generation.controls;
    /* as in transformers max_new_tokens goes before max_length, which the session sees at 0 */
    if (m->generation.controls.max_length) s->max_tokens = 0;
    if (m->generation.max_new_tokens) s->max_tokens = m->generation.max_new_tokens;
    if (!m->generation.do_sample) return;
    s->temperature = m->generation.temperature;
    s->top_k = m->generation.top_k;
    s->top_p = m->generation.top_p;
    s->min_p = m->generation.min_p;
}

sac_status sac_controls_of_model(sac_controls **out, const sac_model *m, sac_error *err) {
    return sac_controls_copy_of(out, &m->loaded.generation.controls, err);
}

/* ---------------------------------------------------------------- begin */

static sac_status check_sampling(const sac_sampling *o, sac_error *err) {
    if (o->max_tokens < 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "max_tokens %d: give 1 or more, or 0 for all that fits",
                        o->max_tokens);
    for (size_t i = 0; i < o->n_stop; i++)
        if (!o->stop[i] || !o->stop[i][0])
            return sac_fail(err, SAC_BAD_ARGUMENT, "stop text %zu is empty", i);
    if (o->top_logprobs < 0 || o->top_logprobs > SAC_MAX_TOP_LOGPROBS)
        return sac_fail(err, SAC_BAD_ARGUMENT, "top_logprobs %d: give 0 to %d", o->top_logprobs,
                        SAC_MAX_TOP_LOGPROBS);
    return SAC_OK;
}

/* Pointers, bias and texts in one block. */
static sac_status own_sampling(sac_reply *r, const sac_sampling *o, sac_sampler_config *config,
                               sac_error *err) {
    size_t texts = 0, pointers = o->n_stop * sizeof(char *), bias = o->n_logit_bias * sizeof *o->logit_bias;
    for (size_t i = 0; i < o->n_stop; i++) texts += strlen(o->stop[i]) + 1;
    if (pointers + bias == 0) return SAC_OK;
    r->owned = malloc(pointers + bias + texts);
    if (!r->owned) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu stop texts", o->n_stop);
    const char **stops = (const char **)(void *)r->owned;
    char *at = r->owned + pointers;
    if (bias) config->bias = memcpy(at, o->logit_bias, bias);
    config->n_bias = o->n_logit_bias;
    at += bias;
    for (size_t i = 0; i < o->n_stop; i++) {
        size_t n = strlen(o->stop[i]) + 1;
        stops[i] = memcpy(at, o->stop[i], n);
        at += n;
    }
    r->stops = stops;
    r->n_stops = o->n_stop;
    return SAC_OK;
}

static sac_status start_reply(sac_session *s, const sac_sampling *o, sac_error *err) {
    sac_reply *r = &s->reply;
    SAC_TRY(check_sampling(o, err));
    sac_sampler_config config = {.temperature = o->temperature,
                                 .top_k = o->top_k,
                                 .top_p = o->top_p,
                                 .min_p = o->min_p,
                                 .repetition_penalty = o->repetition_penalty,
                                 .seed = o->seed,
                                 .presence_penalty = o->presence_penalty,
                                 .frequency_penalty = o->frequency_penalty};
    SAC_TRY(own_sampling(r, o, &config, err));
    if (o->controls) SAC_TRY(sac_controls_copy(&r->controls, o->controls, err));
    config.controls = &r->controls;
    if (o->presence_penalty == 0) config.presence_penalty = r->controls.presence_penalty;
    if (o->frequency_penalty == 0) config.frequency_penalty = r->controls.frequency_penalty;
    SAC_TRY(sac_guide_check(s, err));
    config.eos = s->model->loaded.stop_ids;
    config.n_eos = s->model->loaded.n_stop_ids;
    r->limit = o->max_tokens > 0 ? o->max_tokens : s->memory.n_ctx;
    if (o->max_tokens > 0) r->controls.max_length = 0;
    r->ignore_eos = o->ignore_eos;
    r->logprobs = o->logprobs;
    r->n_top = o->top_logprobs;
    return sac_sampler_start(&s->sampler, &config, err);
}

/* The prompt has been run: the first token can be chosen. */
static sac_status start_answer(sac_session *s, sac_error *err) {
    const sac_work *w = s->work;
    sac_reply *r = &s->reply;
    int64_t n_prompt = s->decoder.cache.n_rows, longest = r->controls.max_length;
    if (longest && longest <= n_prompt) {
        sac_reply_drop(s);
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "max_length is %lld and the prompt has %lld tokens: raise it, or give max_tokens",
                        (long long)longest, (long long)n_prompt);
    }
    if (longest && longest - n_prompt < r->limit) r->limit = longest - n_prompt;
    sac_status st = sac_guide_start(s, err);
    if (st != SAC_OK) {
        sac_reply_drop(s);
        return st;
    }
    sac_sampler_history(&s->sampler, s->ids, n_prompt, n_prompt + r->limit);
    for (int64_t i = 0; i < s->decoder.cache.n_rows; i++) sac_sampler_see(&s->sampler, s->ids[i]);
    const sac_model_chat *chat = &s->model->loaded.chat;
    if (!r->ignore_eos && w->input.messages)
        r->format_stops = chat->format ? sac_chat_stops(chat->format) : chat->stops;
    sac_detokenizer_reset(s->detokenizer);
    s->text[0] = 0;
    r->result = w->result;
    sac_ahead_start(s);
    r->result.finish_reason = "cancelled"; /* until it is finished */
    r->start_ns = w->start_ns;
    r->running = true;
    return SAC_OK;
}

sac_status sac_session_begin_work(sac_session *s, const sac_input *input, const sac_sampling *sampling,
                                  const sac_events *events, sac_error *err) {
    sac_sampling defaults;
    sac_sampling_default(&defaults);
    SAC_TRY(sac_work_check_outside(s, err));
    sac_work_begin(s->work, s, input, events);
    sac_status st = start_reply(s, sampling ? sampling : &defaults, err);
    if (st == SAC_OK) return SAC_OK;
    sac_work_drop(s->work);
    sac_reply_drop(s);
    return st;
}

/* After a piece, or all of them. */
static sac_status end_piece(sac_session *s, sac_status st, sac_error *err) {
    if (st != SAC_OK)
        sac_reply_drop(s);
    else if (sac_work_is_done(s->work) && !s->work->appends)
        return start_answer(s, err);
    return st;
}

sac_status sac_session_work_next(sac_session *s, bool *done, sac_error *err) {
    return sac_session_work_within(s, 0, done, err);
}

sac_status sac_session_work_within(sac_session *s, double seconds, bool *done, sac_error *err) {
    *done = false;
    SAC_TRY(sac_work_check_outside(s, err));
    if (sac_work_is_done(s->work))
        return sac_fail(err, SAC_BAD_ARGUMENT, "no work is under way: sac_session_begin_work comes first");
    SAC_TRY(end_piece(s, sac_work_next_within(s->work, seconds, err), err));
    *done = sac_work_is_done(s->work);
    return SAC_OK;
}

double sac_session_work_cost(const sac_session *s) {
    return sac_work_cost(s->work);
}

double sac_session_work_left(const sac_session *s) {
    return sac_work_left(s->work);
}

static sac_status begin(sac_session *s, const sac_input *input, const sac_sampling *sampling,
                        const sac_events *events, sac_error *err) {
    SAC_TRY(sac_session_begin_work(s, input, sampling, events, err));
    return end_piece(s, sac_work_run(s->work, err), err);
}

sac_status sac_session_begin(sac_session *s, const sac_message *messages, size_t n_messages,
                             const sac_sampling *sampling, const sac_events *events, sac_error *err) {
    return begin(s, &(sac_input){.messages = messages, .n_messages = n_messages}, sampling, events, err);
}

sac_status sac_session_begin_text(sac_session *s, const char *text, size_t n_bytes,
                                  const sac_sampling *sampling, const sac_events *events, sac_error *err) {
    return begin(s, &(sac_input){.text = text, .n_text_bytes = n_bytes}, sampling, events, err);
}

sac_status sac_session_begin_tokens(sac_session *s, const int32_t *ids, size_t n_ids,
                                    const sac_sampling *sampling, const sac_events *events, sac_error *err) {
    return begin(s, &(sac_input){.ids = ids, .n_ids = n_ids}, sampling, events, err);
}

/* ---------------------------------------------------------------- steps */

sac_status sac_step_check(sac_session *s, const sac_events *events, sac_error *err) {
    const sac_reply *r = &s->reply;
    SAC_TRY(sac_mask_check(s->model, err));
    if (!r->running || r->busy)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        r->busy ? "this session is at work: other sessions may be stepped meanwhile"
                                : "a step before sac_session_begin");
    if (r->done) return sac_fail(err, SAC_BAD_ARGUMENT, "the answer is finished: no further step");
    s->events = events;
    s->reply.busy = true;
    return SAC_OK;
}

void sac_step_leave(sac_session *s, sac_status st, int64_t start_ns) {
    s->events = NULL;
    s->reply.busy = false;
    s->decoder.wanted = (sac_token_wanted){0};
    s->reply.result.seconds.decode += sac_seconds_since(start_ns);
    if (st != SAC_OK && !sac_session_is_waiting(s, st)) s->reply.done = true;
}

static bool is_stop_id(const sac_loaded_model *m, int32_t id) {
    for (int i = 0; i < m->n_stop_ids; i++)
        if (m->stop_ids[i] == id) return true;
    return false;
}

/* Ends the answer whatever ignore_eos says. */
static bool is_own_stop(const sac_reply *r, int32_t id) {
    const int32_t *ids = r->controls.pool + r->controls.stop_token_ids.at;
    for (int32_t i = 0; i < r->controls.stop_token_ids.n; i++)
        if (ids[i] == id) return true;
    return false;
}

static bool is_late(const sac_reply *r) {
    return r->controls.max_time > 0 && sac_seconds_since(r->start_ns) > r->controls.max_time;
}

/* What is read of the logits of the token that is run next. Where the best were not enough, as with a flat distribution, they are
 * not asked for again at once. */
static sac_token_wanted wanted(sac_session *s) {
    sac_reply *r = &s->reply;
    const sac_events *e = s->events;
    if (r->n_whole > 0 && r->n_whole--) return (sac_token_wanted){0};
    if (!s->leaves_logits || (e && e->logits) || sac_controls_guide(&r->controls)) return (sac_token_wanted){0};
    sac_token_wanted w = sac_sampler_wants(&s->sampler, (uint64_t)r->result.n_tokens, r->logprobs ? r->n_top : -1);
    if (e && e->mask) w.mask = sac_mask_call, w.mask_ctx = s;
    return w;
}

void sac_step_choose_ahead(sac_session *s) {
    sac_reply *r = &s->reply;
    const sac_events *e = s->events;
    const sac_token_told *t = &s->decoder.told;
    const uint64_t at = (uint64_t)r->result.n_tokens;
    if (t->is_told) {
        r->choice = sac_sampler_choose_told(&s->sampler, t, at);
    } else {
        if (!t->is_edited && ((e && (e->logits || e->mask)) || sac_controls_guide(&r->controls))) return;
        sac_sampler_load(&s->sampler, s->decoder.logits);
        r->choice = t->is_edited ? sac_sampler_choose_edited(&s->sampler, at) : sac_sampler_choose(&s->sampler, at);
        if (t->is_edited) r->n_whole = WHOLE_STEPS;
    }
    r->chosen = true;
}

/* Of logits that the callbacks have to see. */
static sac_status choose_seen(sac_session *s, const sac_events *e, sac_error *err) {
    sac_sampler_load(&s->sampler, s->decoder.logits);
    SAC_TRY(sac_guide_choose(s, err));
    if (e && e->logits) e->logits(e->ctx, s->sampler.scores, s->sampler.vocab);
    if (e && e->mask) sac_sampler_mask(&s->sampler, sac_mask_call, s);
    s->reply.choice = sac_sampler_choose(&s->sampler, (uint64_t)s->reply.result.n_tokens);
    return SAC_OK;
}

static sac_status choose(sac_session *s, const sac_events *e, int32_t *id, sac_error *err) {
    sac_reply *r = &s->reply;
    if (!r->chosen) sac_step_choose_ahead(s);
    if (!r->chosen) SAC_TRY(choose_seen(s, e, err));
    r->chosen = false;
    *id = r->choice;
    if (*id >= 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT,
                    e && e->logits ? "the logits callback leaves no token that may come"
                    : e && e->mask ? "no token is left that may come: the mask and the settings of sampling exclude all"
                                   : "the model's logits are not numbers, or the settings of sampling exclude all tokens");
}

static void tell_token(const sac_session *s, const sac_events *e, int32_t id) {
    if (!e || !e->token) return;
    sac_logprob top[SAC_MAX_TOP_LOGPROBS];
    sac_token_event event = {.id = id, .top = top};
    if (s->reply.logprobs && s->decoder.told.is_told)
        event.n_top = sac_sampler_logprobs_told(&s->sampler, &s->decoder.told, id, &event.logprob, top, s->reply.n_top);
    else if (s->reply.logprobs)
        event.n_top = sac_sampler_logprobs(&s->sampler, id, &event.logprob, top, s->reply.n_top);
    e->token(e->ctx, &event);
}

/* The answer is complete but for what the detokenizer still holds. */
static sac_status finish(sac_session *s, sac_outcome out, const char *reason, sac_error *err) {
    sac_reply *r = &s->reply;
    if (out == SAC_GO_ON) {
        sac_text_span rest = sac_detokenizer_flush(s->detokenizer);
        out = sac_reply_append(r, s->events, rest.text, rest.n_bytes);
    }
    if ((out == SAC_GO_ON || out == SAC_FULL) && !sac_reply_send(r, s->events)) out = SAC_LEFT;
    if (out == SAC_LEFT) return sac_fail(err, SAC_CANCELLED, "cancelled by the receiver of the text");
    r->result.finish_reason = reason;
    r->done = true;
    return SAC_OK;
}

sac_status sac_step_choose(sac_session *s, int32_t *token, bool *done, sac_error *err) {
    sac_reply *r = &s->reply;
    const sac_events *e = s->events;
    int32_t id;
    *token = -1;
    *done = false;
    SAC_TRY(choose(s, e, &id, err));
    if (r->result.n_tokens == 0) r->result.seconds.first_token = sac_seconds_since(r->start_ns);
    if ((!r->ignore_eos && is_stop_id(&s->model->loaded, id)) || is_own_stop(r, id)) {
        SAC_TRY(finish(s, SAC_GO_ON, "stop", err));
        *done = true;
        return SAC_OK;
    }
    int64_t n = ++r->result.n_tokens;
    s->answer[n - 1] = id;
    tell_token(s, e, id);
    sac_sampler_count(&s->sampler, id);
    sac_text_span piece = sac_detokenizer_feed(s->detokenizer, id);
    sac_outcome out = sac_reply_append(r, e, piece.text, piece.n_bytes);
    bool ends = out == SAC_GO_ON && sac_stop_string_ends(s, id);
    if (e && e->progress) e->progress(e->ctx, "decode", n, r->limit);
    r->pending =
        out == SAC_GO_ON && !ends && n < r->limit && s->decoder.cache.n_rows < s->memory.n_ctx && !is_late(r);
    if (!r->pending) SAC_TRY(finish(s, out, ends || out == SAC_STOPPED ? "stop" : "length", err));
    *token = id;
    *done = r->done;
    return SAC_OK;
}

int32_t sac_step_pending(sac_session *s) {
    int64_t past = s->decoder.cache.n_rows;
    int32_t id = s->answer[s->reply.result.n_tokens - 1];
    s->ids[past] = id;
    s->identity[past] = sac_token_identity(s, id);
    s->reply.pending = false;
    s->decoder.wanted = wanted(s);
    return id;
}

bool sac_step_take_ahead(sac_session *s) {
    const int n_whole = s->reply.n_whole;
    if (!sac_ahead_has(s)) return false;
    sac_step_pending(s);
    if (!sac_decoder_may_accept(sac_model_decoder(s->model), &s->decoder)) { /* a callback has come, which sees logits */
        sac_ahead_drop(s);
        s->reply.pending = true;
        s->reply.n_whole = n_whole; /* it is asked for once more */
        return false;
    }
    sac_ahead_take(s);
    return true;
}

sac_status sac_step_run(sac_session *s, sac_error *err) {
    int64_t past = s->decoder.cache.n_rows;
    if (sac_step_take_ahead(s)) return SAC_OK;
    if (sac_renew_is_due(s)) {
        s->decoder.cache.anew = true;
        SAC_TRY(sac_session_make_room_apart(s, past + 1, err)); /* until there is, the token is pending */
        sac_step_pending(s);
        return sac_renew(s, past + 1, 1, NULL, err);
    }
    SAC_TRY(sac_session_borrow(s, SAC_FOR_STEP, err));
    sac_status st = sac_session_make_room(s, sac_decoder_stream(s), past + 1 + s->decoder.n_spare + s->decoder.n_ahead, err);
    if (st == SAC_OK) st = sac_ahead_run(s, past, sac_step_pending(s), err);
    sac_session_give_back(s);
    return st;
}

static sac_status step(sac_session *s, int32_t *token, bool *done, sac_error *err) {
    SAC_TRY(sac_session_check_cancel(s, err));
    if (s->reply.pending) SAC_TRY(sac_step_run(s, err));
    return sac_step_choose(s, token, done, err);
}

sac_status sac_session_step(sac_session *s, const sac_events *events, int32_t *token, bool *done,
                            sac_error *err) {
    int64_t start_ns = sac_now_ns();
    *token = -1;
    *done = false;
    SAC_TRY(sac_step_check(s, events, err));
    sac_status st = step(s, token, done, err);
    sac_step_leave(s, st, start_ns);
    return st;
}

/* ---------------------------------------------------------------- end, and all in one */

void sac_session_end(sac_session *s, sac_result *result) {
    sac_reply *r = &s->reply;
    if (result) *result = (sac_result){0};
    if (s->work->inside) return;
    sac_work_drop(s->work);
    if (result && r->running) {
        *result = r->result;
        result->text = s->text;
        result->n_text_bytes = r->n_bytes;
        result->tokens = s->answer;
        result->media = s->reports;
        result->n_media = s->n_media;
        result->seconds.total = sac_seconds_since(r->start_ns);
    }
    sac_reply_drop(s);
}

sac_status sac_session_generate(sac_session *s, const sac_message *messages, size_t n_messages,
                                const sac_sampling *sampling, const sac_events *events, sac_result *result,
                                sac_error *err) {
    *result = (sac_result){0};
    SAC_TRY(sac_session_begin(s, messages, n_messages, sampling, events, err));
    sac_status st = SAC_OK;
    int32_t token;
    for (bool done = false; st == SAC_OK && !done;) st = sac_session_step(s, events, &token, &done, err);
    sac_session_end(s, st == SAC_OK ? result : NULL);
    return st;
}
