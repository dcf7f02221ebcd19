#include "slot_metrics.h"
#include "metrics.h"
#include "request.h"
#include "usage.h"

#include <stdio.h>

double serve_slot_kept_ratio(const serve_slot *slot) {
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

static void count_prompt(serve_metrics *m, const sac_result *r, double kept) {
    serve_metrics_observe(m, SERVE_TIME_prompt_size, (double)r->n_prompt_tokens);
    serve_metrics_count(m, SERVE_COUNT_prompt_tokens, (double)r->n_prompt_tokens);
    serve_metrics_count(m, SERVE_COUNT_visual_tokens, (double)r->n_visual_tokens);
    count_media(m, r);
    serve_metrics_kept_ratio(m, kept);
}

/* Every choice looks the prompt up: the second finds what the first has left. */
void serve_slot_count_choice(const serve_slot *slot, const sac_result *r, double kept_ratio) {
    serve_metrics *m = slot->server->metrics;
    if (slot->choice == 0) count_prompt(m, r, kept_ratio);
    if (slot->choice == 0) serve_metrics_count(m, SERVE_COUNT_prompt_cached, (double)r->n_reused_tokens);
    serve_metrics_count(m, SERVE_COUNT_prefix_queries, (double)r->n_prompt_tokens);
    serve_metrics_count(m, SERVE_COUNT_prefix_hits, (double)r->n_reused_tokens);
    serve_metrics_count(m, SERVE_COUNT_prefilled_tokens, (double)(r->n_prompt_tokens - r->n_reused_tokens));
    serve_metrics_observe(m, SERVE_TIME_generation_size, (double)r->n_tokens);
    serve_metrics_count(m, SERVE_COUNT_generation_tokens, (double)r->n_tokens);
    serve_metrics_count(m, SERVE_COUNT_drafts, (double)r->n_drafts);
    serve_metrics_count(m, SERVE_COUNT_draft_tokens, (double)r->n_drafted_tokens);
    serve_metrics_count(m, SERVE_COUNT_accepted_tokens, (double)r->n_accepted_tokens);
    for (int place = 0; r->n_accepted_tokens && place < SERVE_N_PLACES; place++)
        serve_metrics_accepted(m, place, sac_session_accepted_at(slot->session, place));
    serve_metrics_success(m, r->finish_reason);
}

void serve_slot_note(const serve_slot *slot, const char *finish_reason) {
    const json_t *u = slot->answer.usage;
    serve_job *j = slot->job;
    const serve_request *r = j->request;
    serve_tally t = {.started_ns = j->started_ns,
                     .max_tokens = r->sampling.max_tokens,
                     .n_choices = r->n_choices,
                     .temperature = r->sampling.temperature,
                     .top_p = r->sampling.top_p};
    if (u) {
        t.n_prompt = serve_usage_prompt(u);
        t.n_cached = serve_usage_cached(u);
        t.n_answer = serve_usage_answer(u);
        t.n_media = (int64_t)r->n_media;
        t.first_ns = slot->n_all ? slot->first_ns : 0;
        t.last_ns = slot->n_all ? slot->last_ns : 0;
    }
    snprintf(t.reason, sizeof t.reason, "%s", finish_reason);
    pthread_mutex_lock(&j->lock);
    j->tally = t;
    pthread_mutex_unlock(&j->lock);
}

void serve_slot_count_times(const serve_slot *slot) {
    serve_metrics *m = slot->server->metrics;
    const serve_job *j = slot->job;
    if (!slot->n_all) return;
    serve_metrics_observe(m, SERVE_TIME_e2e, (double)(slot->last_ns - j->arrived_ns) * 1e-9);
    serve_metrics_observe(m, SERVE_TIME_decode, (double)(slot->last_ns - slot->first_ns) * 1e-9);
    serve_metrics_observe(m, SERVE_TIME_inference, (double)(slot->last_ns - j->started_ns) * 1e-9);
    if (slot->n_all > 1)
        serve_metrics_observe(m, SERVE_TIME_per_token,
                              (double)(slot->last_ns - slot->first_ns) * 1e-9 / (double)(slot->n_all - 1));
}
