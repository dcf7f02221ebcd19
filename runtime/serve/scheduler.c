/* scheduler.c - the one thread that runs the model. */
#define _GNU_SOURCE
#include "answer.h"
#include "clock.h"
#include "metrics.h"
#include "server.h"

#include <stdlib.h>

struct serve_slot {
    sac_session *session;
    serve_job *job;
    serve_answer answer;
    int64_t first_ns, last_ns;
};

static sac_status check_memory(serve_server *s, sac_error *err) {
    sac_memory_report plan;
    SAC_TRY(sac_session_plan(s->model, &s->config->session, &plan, err));
    s->n_ctx = plan.n_ctx;
    s->session_bytes = plan.total_bytes;
    return SAC_OK;
}

sac_status serve_scheduler_open(serve_server *s, sac_error *err) {
    SAC_TRY(check_memory(s, err));
    s->slots = calloc((size_t)s->config->n_slots, sizeof *s->slots);
    if (!s->slots) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d slots", s->config->n_slots);
    for (int i = 0; i < s->config->n_slots; i++)
        SAC_TRY(sac_session_create(&s->slots[i].session, s->model, &s->config->session, err));
    return SAC_OK;
}

void serve_scheduler_close(serve_server *s) {
    for (int i = 0; s->slots && i < s->config->n_slots; i++) sac_session_free(s->slots[i].session);
    free(s->slots);
}

double serve_scheduler_cache_use(serve_server *s) {
    (void)s;
    return 0;
}

static bool on_text(void *ctx, const char *utf8, size_t n) {
    serve_slot *slot = ctx;
    serve_answer_text(&slot->answer, utf8, n);
    return true;
}

static bool on_stopped(void *ctx) {
    const serve_slot *slot = ctx;
    return atomic_load(&slot->job->cancelled);
}

static void finish(serve_job *j, sac_status st, const sac_error *err) {
    serve_problem p = {0};
    if (st == SAC_CANCELLED && atomic_load(&j->timed_out))
        serve_refuse(&p, 408, NULL, "timeout", "the request was not answered in %g s", j->request.timeout_s);
    else if (st == SAC_CANCELLED)
        serve_refuse(&p, 503, NULL, "cancelled", "the request was cancelled");
    else if (st != SAC_OK)
        serve_refuse_status(&p, st, err);
    serve_job_finish(j, &p);
}

static void run_job(serve_server *s, serve_slot *slot, serve_job *j) {
    slot->job = j;
    serve_answer_begin(&slot->answer, j);
    sac_events events = {.ctx = slot, .text = on_text, .stopped = on_stopped};
    sac_result result;
    sac_error err;
    const serve_request *r = &j->request;
    sac_status st =
        sac_session_generate(slot->session, r->messages, r->n_messages, &r->sampling, &events, &result, &err);
    if (st == SAC_OK) serve_answer_finish(&slot->answer, &result, 1, NULL);
    serve_answer_free(&slot->answer);
    finish(j, st, &err);
    serve_server_dismiss(s, j);
}

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
    for (;;) {
        pthread_mutex_lock(&s->lock);
        serve_job *j = NULL;
        while (!atomic_load(&s->quitting) && !(j = serve_queue_take(&s->ready)))
            pthread_cond_wait(&s->stirred, &s->lock);
        pthread_mutex_unlock(&s->lock);
        if (!j) return NULL;
        run_job(s, &s->slots[0], j);
    }
}
