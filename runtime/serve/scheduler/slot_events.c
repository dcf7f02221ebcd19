#include "slot_events.h"
#include "clock.h"
#include "metrics.h"
#include "progress.h"
#include "request.h"
#include "token_limits.h"

static bool on_text(void *ctx, const char *utf8, size_t n) {
    serve_slot *slot = ctx;
    serve_answer_text(&slot->answer, utf8, n);
    return true;
}

/* Asked within a piece that is long. */
static bool on_stopped(void *ctx) {
    const serve_slot *slot = ctx;
    return atomic_load(&slot->job->cancelled);
}

static void count_first(serve_slot *slot, int64_t now) {
    serve_metrics *m = slot->server->metrics;
    const serve_job *j = slot->job;
    slot->first_ns = now;
    serve_metrics_observe(m, SERVE_TIME_first_token, (double)(now - j->arrived_ns) * 1e-9);
    serve_metrics_observe(m, SERVE_TIME_prefill, (double)(now - j->started_ns) * 1e-9);
}

static void on_token(void *ctx, const sac_token_event *token) {
    serve_slot *slot = ctx;
    int64_t now = sac_now_ns();
    bool first = slot->n_tokens++ == 0;
    if (first) serve_answer_start(&slot->answer);
    if (slot->n_all++ == 0)
        count_first(slot, now);
    else if (!first)
        serve_metrics_observe(slot->server->metrics, SERVE_TIME_inter_token,
                              (double)(now - slot->last_ns) * 1e-9);
    slot->last_ns = now;
    if (slot->constraint) serve_constraint_take(slot->constraint, token->id);
    serve_answer_token(&slot->answer, token);
}

static void exclude(const int32_t *ids, size_t n, uint32_t *allowed, int n_vocab) {
    for (size_t i = 0; i < n; i++)
        if (ids[i] < n_vocab) allowed[ids[i] / 32] &= ~(1u << (ids[i] % 32));
}

static void on_mask(void *ctx, uint32_t *allowed, int n_vocab) {
    serve_slot *slot = ctx;
    const serve_request *r = slot->job->request;
    if (slot->constraint) serve_constraint_mask(slot->constraint, allowed, n_vocab);
    if (r->allowed) serve_limits_mask(r, allowed, n_vocab);
    if (slot->n_tokens >= r->min_tokens) return;
    const int32_t *ids;
    const size_t n = sac_controls_stop_ids(r->sampling.controls, &ids); /* the request's, or those of the server's settings */
    exclude(slot->stop_ids, slot->n_stop_ids, allowed, n_vocab);
    exclude(ids, n, allowed, n_vocab);
}

/* Media and the prompt, of the first choice; tokens of the answer tell of themselves. */
static void on_progress(void *ctx, const char *stage, int64_t done, int64_t total) {
    serve_slot *slot = ctx;
    if (slot->choice > 0 || slot->decoding) return;
    serve_progress_tell(slot->job, stage, -1, done, total);
}

void serve_slot_on_kept(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    const serve_slot *slot = ctx;
    if (slot->places) serve_places_kept(slot->places, layer, kept, n_kept, n_tokens);
}

sac_events serve_slot_events(serve_slot *slot) {
    const serve_request *r = slot->job->request;
    const bool limits = slot->constraint || r->min_tokens || r->allowed;
    return (sac_events){.ctx = slot,
                        .text = on_text,
                        .stopped = on_stopped,
                        .token = on_token,
                        .progress = r->want_progress ? on_progress : NULL,
                        .mask = limits ? on_mask : NULL};
}
