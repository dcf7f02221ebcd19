#include "scheduler.h"
#include "admission.h"
#include "dialect.h"
#include "kv_events.h"
#include "rounds.h"
#include "status.h"
#include "tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---------------------------------------------------------------- the slots */

static size_t n_workspaces(const serve_server *s) {
    return s->config->n_slots < SERVE_PROMPTS_AT_ONCE ? (size_t)s->config->n_slots : SERVE_PROMPTS_AT_ONCE;
}

static sac_status check_memory(serve_server *s, sac_error *err) {
    sac_memory_report plan;
    SAC_TRY(sac_session_plan(s->model, &s->config->session, &plan, err));
    s->n_ctx = plan.n_ctx;
    serve_methods_room(s, &plan);
    s->shared_bytes =
        plan.workspace_bytes * n_workspaces(s) +
        sac_batch_plan_mixed(s->model, serve_rounds_rows(s->config), serve_rounds_prompt_rows(s->config, s->model), NULL);
    sac_kv_pages pages;
    sac_model_kv_pages(s->model, &pages);
    s->shared_bytes += (plan.device_bytes ? 1 : 2) * pages.n_pages * pages.page_bytes; /* and rows that are parked */
    double all = (double)s->slot_bytes * s->config->n_slots + (double)s->shared_bytes;
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (all <= machine) return SAC_OK;
    return sac_fail(err, SAC_NO_MEMORY,
                    "%d slots of %lld tokens take %.1f GiB%s, this machine has %.1f: give a smaller --ctx, fewer --slots%s",
                    s->config->n_slots, (long long)plan.n_ctx, all / (1 << 30), pages.n_pages ? " with their pages and the room for rows that wait" : "",
                    machine / (1 << 30), pages.n_pages ? " or a smaller --kv-memory" : "");
}

static void say(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "saccade: %s\n", line);
}

/* What slots share, and what is kept of it. */
static sac_status open_beginnings(serve_server *s, sac_error *err) {
    const serve_config *c = s->config;
    SAC_TRY(sac_beginnings_open(&s->beginnings, s->model, err));
    if (!c->cache_memory_bytes) return SAC_OK;
    return sac_beginnings_keep(s->beginnings,
                               &(sac_store_options){.memory_bytes = c->cache_memory_bytes,
                                                    .dir = c->cache_dir,
                                                    .disk_bytes = c->cache_disk_bytes,
                                                    .say = say},
                               err);
}

static sac_status open_events(serve_server *s, sac_error *err) {
    serve_kv_options o;
    SAC_TRY(serve_kv_options_read(&o, s->config->kv_events_config, err));
    return serve_kv_events_open(&s->kv_events, s, &o, err);
}

sac_status serve_scheduler_open(serve_server *s, sac_error *err) {
    if (s->config->kv_memory_bytes) SAC_TRY(sac_model_page_kv(s->model, s->config->kv_memory_bytes, err));
    SAC_TRY(check_memory(s, err));
    SAC_TRY(sac_model_reserve_workspaces(s->model, n_workspaces(s), err));
    SAC_TRY(
        serve_tokens_open(&s->tokens, s->model, s->config->dialect ? s->config->dialect->marks : NULL, err));
    s->slots = calloc((size_t)s->config->n_slots, sizeof *s->slots);
    if (!s->slots) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d slots", s->config->n_slots);
    if (s->config->share_beginnings) SAC_TRY(open_beginnings(s, err));
    if (s->config->kv_events_config) SAC_TRY(open_events(s, err));
    for (int i = 0; i < s->config->n_slots; i++) {
        s->slots[i].server = s;
        SAC_TRY(serve_methods_session(s, &s->slots[i].methods, &s->slots[i].session, err));
    }
    return serve_rounds_open(&s->rounds, s, err);
}

void serve_scheduler_close(serve_server *s) {
    serve_rounds_close(s->rounds);
    for (int i = 0; s->slots && i < s->config->n_slots; i++) {
        serve_trace_free(s->slots[i].trace);
        sac_session_free(s->slots[i].session);
    }
    free(s->slots);
    sac_beginnings_close(s->beginnings);
    serve_kv_events_close(s->kv_events);
    serve_tokens_close(s->tokens);
}

double serve_scheduler_cache_use(serve_server *s) {
    double rows = 0;
    sac_kv_pages pages;
    sac_model_kv_pages(s->model, &pages);
    if (pages.n_pages) return (double)(pages.n_pages - pages.n_free) / (double)pages.n_pages;
    for (int i = 0; i < s->config->n_slots; i++) rows += (double)atomic_load(&s->slots[i].n_rows);
    return rows / ((double)s->config->n_slots * (double)s->n_ctx);
}

/* ---------------------------------------------------------------- the thread */

/* The model is ready when it has answered. */
static bool warm_up(serve_server *s) {
    sac_part part = {.kind = SAC_PART_TEXT, .text = "Hello"};
    sac_message m = {.role = "user", .parts = &part, .n_parts = 1};
    sac_sampling one;
    sac_sampling_default(&one);
    one.max_tokens = 1;
    sac_result result;
    bool ok = sac_session_generate(s->slots[0].session, &m, 1, &one, NULL, &result, NULL) == SAC_OK;
    sac_session_reset(s->slots[0].session);
    return ok;
}

void *serve_scheduler_run(void *server) {
    serve_server *s = server;
    atomic_store(&s->answers, warm_up(s));
    while (serve_rounds_wait(s->rounds)) serve_rounds_run(s->rounds);
    return NULL;
}
