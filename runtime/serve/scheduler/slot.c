#define _GNU_SOURCE
#include "slot.h"
#include "clock.h"
#include "job_end.h"
#include "metrics.h"
#include "request.h"
#include "status.h"
#include "tokens.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- events */

static bool on_text(void *ctx, const char *utf8, size_t n) {
    serve_slot *slot = ctx;
    serve_answer_text(&slot->answer, utf8, n);
    return true;
}

static bool on_stopped(void *ctx) {
    const serve_slot *slot = ctx;
    return atomic_load(&slot->job->cancelled);
}

static void on_token(void *ctx, const sac_token_event *token) {
    serve_slot *slot = ctx;
    serve_metrics *m = slot->server->metrics;
    int64_t now = sac_now_ns();
    bool first = slot->n_tokens++ == 0;
    if (first) serve_answer_start(&slot->answer);
    if (slot->n_all++ == 0) {
        slot->first_ns = now;
        serve_metrics_observe(m, SERVE_TIME_first_token, (double)(now - slot->job->arrived_ns) * 1e-9);
        serve_metrics_observe(m, SERVE_TIME_prefill, (double)(now - slot->job->started_ns) * 1e-9);
    } else if (!first) {
        serve_metrics_observe(m, SERVE_TIME_inter_token, (double)(now - slot->last_ns) * 1e-9);
    }
    slot->last_ns = now;
    if (slot->constraint) serve_constraint_take(slot->constraint, token->id);
    if (slot->job->request->logprobs) serve_answer_token(&slot->answer, token);
}

static void on_logits(void *ctx, float *logits, int n_vocab) {
    serve_slot *slot = ctx;
    const serve_request *r = slot->job->request;
    if (slot->constraint) serve_constraint_mask(slot->constraint, logits, n_vocab);
    if (slot->n_tokens < r->min_tokens)
        for (size_t i = 0; i < slot->n_stop_ids; i++)
            if (slot->stop_ids[i] < n_vocab) logits[slot->stop_ids[i]] = -INFINITY;
}

static void on_kept(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    const serve_slot *slot = ctx;
    (void)layer;
    if (slot->places) serve_places_kept(slot->places, kept, n_kept, n_tokens);
}

/* ---------------------------------------------------------------- the end */

static void release(serve_slot *slot) {
    serve_answer_free(&slot->answer);
    serve_constraint_free(slot->constraint);
    serve_places_free(slot->places);
    slot->constraint = NULL;
    slot->places = NULL;
    slot->job = NULL;
    slot->decoding = slot->again = false;
    atomic_store(&slot->n_rows, 0);
}

static void fail(serve_slot *slot, sac_status st, const sac_error *err) {
    serve_job *j = slot->job;
    if (slot->session) sac_session_end(slot->session, NULL);
    release(slot);
    serve_job_fail(j, st, err);
}

static double kept_ratio(const serve_slot *slot) {
    sac_layer_report layer;
    double sum = 0;
    int n = 0;
    for (; sac_session_layer_stats(slot->session, n, &layer); n++) sum += layer.prefill_kept;
    return n ? sum / n : 1;
}

static void count_media(serve_metrics *m, const sac_result *r) {
    for (size_t i = 0; i < r->n_media; i++) {
        serve_metrics_count(m, SERVE_COUNT_frames, r->media[i].n_frames);
        if (r->media[i].from_cache)
            serve_metrics_count(m, SERVE_COUNT_embedding_hits, 1);
        else if (r->seconds.vision > 0) /* otherwise its rows came from the prefix cache */
            serve_metrics_count(m, SERVE_COUNT_embedding_misses, 1);
    }
    if (r->n_media) serve_metrics_observe(m, SERVE_TIME_vision, r->seconds.vision);
}

/* Once a request, by its first choice. */
static void count_prompt(serve_metrics *m, const sac_result *r, double kept) {
    serve_metrics_observe(m, SERVE_TIME_prompt_size, (double)r->n_prompt_tokens);
    serve_metrics_count(m, SERVE_COUNT_prompt_tokens, (double)r->n_prompt_tokens);
    serve_metrics_count(m, SERVE_COUNT_visual_tokens, (double)r->n_visual_tokens);
    count_media(m, r);
    serve_metrics_kept_ratio(m, kept);
}

/* Each looks the prompt up: the second finds the first's. */
static void count_choice(serve_metrics *m, const sac_result *r) {
    serve_metrics_count(m, SERVE_COUNT_prefix_queries, (double)r->n_prompt_tokens);
    serve_metrics_count(m, SERVE_COUNT_prefix_hits, (double)r->n_reused_tokens);
    serve_metrics_observe(m, SERVE_TIME_generation_size, (double)r->n_tokens);
    serve_metrics_count(m, SERVE_COUNT_generation_tokens, (double)r->n_tokens);
    serve_metrics_success(m, r->finish_reason);
}

/* Once a request, when all its choices are made. */
static void count_times(const serve_slot *slot) {
    serve_metrics *m = slot->server->metrics;
    const serve_job *j = slot->job;
    if (!slot->n_all) return;
    serve_metrics_observe(m, SERVE_TIME_e2e, (double)(slot->last_ns - j->arrived_ns) * 1e-9);
    serve_metrics_observe(m, SERVE_TIME_decode, (double)(slot->last_ns - slot->first_ns) * 1e-9);
    serve_metrics_observe(m, SERVE_TIME_inference, (double)(slot->last_ns - j->started_ns) * 1e-9);
}

static void finish(serve_slot *slot) {
    serve_job *j = slot->job;
    count_times(slot);
    serve_answer_finish(&slot->answer);
    release(slot);
    serve_job_end(j, NULL);
}

static void finish_choice(serve_slot *slot) {
    serve_metrics *m = slot->server->metrics;
    sac_result result;
    sac_session_end(slot->session, &result);
    double kept = kept_ratio(slot);
    if (slot->choice == 0) {
        count_prompt(m, &result, kept);
        if (slot->places) slot->answer.places = serve_places_json(slot->places, slot->session);
    }
    count_choice(m, &result);
    serve_answer_choice(&slot->answer, &result, kept);
    slot->decoding = false;
    slot->again = ++slot->choice < slot->job->request->n_choices;
    if (!slot->again) finish(slot);
}

bool serve_slot_drop_cancelled(serve_slot *slot) {
    if (!slot->job || !atomic_load(&slot->job->cancelled)) return false;
    fail(slot, SAC_CANCELLED, &(sac_error){0});
    return true;
}

void serve_slot_stepped(serve_slot *slot, const sac_batch_item *item) {
    atomic_store(&slot->n_rows, sac_session_n_tokens(slot->session));
    if (item->status != SAC_OK)
        fail(slot, item->status, &item->error);
    else if (item->done)
        finish_choice(slot);
}

/* ---------------------------------------------------------------- the beginning */

/* Another session in place of this one: the old one goes first, so that a slot never takes two's memory. */
static sac_status change_methods(serve_slot *slot, const serve_methods *methods, sac_error *err) {
    serve_methods had = slot->methods;
    sac_session_free(slot->session);
    slot->session = NULL;
    slot->methods = *methods; /* the session's configuration points into it */
    sac_session_config c = serve_methods_config(slot->server, &slot->methods);
    sac_status st = sac_session_create(&slot->session, slot->server->model, &c, err);
    if (st == SAC_OK) return SAC_OK;
    slot->methods = had;
    c = serve_methods_config(slot->server, &slot->methods);
    sac_session_create(&slot->session, slot->server->model, &c, NULL);
    return st;
}

static sac_status begin_session(serve_slot *slot, sac_error *err) {
    const serve_request *r = slot->job->request;
    sac_sampling sampling = r->sampling;
    sampling.seed = serve_choice_seed(r->sampling.seed, slot->choice);
    if (!slot->session || !serve_methods_equal(&slot->methods, r->methods))
        SAC_TRY(change_methods(slot, r->methods, err));
    bool observe = slot->places && slot->choice == 0;
    sac_session_observe_kept(slot->session, observe ? on_kept : NULL, slot);
    sac_session_reset_stats(slot->session);
    if (!r->is_chat)
        return sac_session_begin_text(slot->session, r->prompt, strlen(r->prompt), &sampling, &slot->events,
                                      err);
    return sac_session_begin(slot->session, r->messages, r->n_messages, &sampling, &slot->events, err);
}

static bool begin_choice(serve_slot *slot, void (*yield)(void *ctx)) {
    sac_error err = {0};
    slot->again = false;
    slot->n_tokens = 0;
    slot->events.yield = yield;
    if (slot->constraint) serve_constraint_restart(slot->constraint);
    sac_status st = begin_session(slot, &err);
    slot->events.yield = NULL;
    if (st != SAC_OK) {
        fail(slot, st, &err);
        return false;
    }
    slot->decoding = true;
    return true;
}

void serve_slot_again(serve_slot *slot, void (*yield)(void *ctx)) {
    if (slot->again) begin_choice(slot, yield);
}

static bool prepare(serve_slot *slot, serve_problem *p) {
    const serve_request *r = slot->job->request;
    serve_answer_begin(&slot->answer, slot->job);
    if (r->schema || r->json_object) {
        slot->constraint = serve_constraint_open(slot->server->tokens, r->schema, p);
        if (!slot->constraint) return false;
    }
    if (r->want_places) slot->places = serve_places_open();
    slot->events = (sac_events){.ctx = slot, .text = on_text, .stopped = on_stopped, .token = on_token};
    if (slot->constraint || r->min_tokens) slot->events.logits = on_logits;
    return true;
}

bool serve_slot_begin(serve_slot *slot, serve_job *j, void (*yield)(void *ctx)) {
    serve_problem p = {0};
    slot->job = j;
    slot->choice = 0;
    slot->n_all = 0;
    j->started_ns = slot->first_ns = slot->last_ns = sac_now_ns();
    serve_metrics_observe(slot->server->metrics, SERVE_TIME_queue,
                          (double)(j->started_ns - j->arrived_ns) * 1e-9);
    slot->n_stop_ids = sac_model_stop_ids(slot->server->model, &slot->stop_ids);
    if (!prepare(slot, &p)) {
        release(slot);
        serve_job_end(j, &p);
        return false;
    }
    serve_trace_free(&slot->trace);
    serve_trace_make(&slot->trace, j->request);
    return begin_choice(slot, yield);
}
