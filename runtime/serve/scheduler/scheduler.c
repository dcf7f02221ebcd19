/* scheduler.c - the one thread that runs the model: continuous batching.
 *
 * Every slot whose prompt is run makes a token a step, all slots in one batch. A new request's prompt runs
 * when a slot is idle; wherever the engine lets other work in (between layers and chunks), the others step,
 * but not for more than half of the time, so that neither the answers nor the prompt stand still. */
#define _GNU_SOURCE
#include "scheduler.h"
#include "clock.h"
#include "job_end.h"
#include "metrics.h"
#include "slot.h"
#include "status.h"
#include "tokens.h"

#include <stdlib.h>
#include <unistd.h>

typedef struct scheduler {
    serve_server *server;
    sac_batch *batch;
    sac_batch_item *items; /* [n_slots] */
    serve_slot **slots;    /* [n_slots], of the items */
    uint64_t ticket;
    int64_t stepped_ns, step_ns; /* when the last step ended, how long it took */
} scheduler;

/* ---------------------------------------------------------------- memory */

static sac_status check_memory(serve_server *s, sac_error *err) {
    sac_memory_report plan;
    SAC_TRY(sac_session_plan(s->model, &s->config->session, &plan, err));
    s->n_ctx = plan.n_ctx;
    serve_methods_room(s, &plan);
    double all = (double)s->slot_bytes * s->config->n_slots;
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
    if (all <= machine) return SAC_OK;
    return sac_fail(err, SAC_NO_MEMORY,
                    "%d slots of %lld tokens take %.1f GiB, this machine has %.1f: give a smaller --ctx or "
                    "fewer --slots",
                    s->config->n_slots, (long long)plan.n_ctx, all / (1 << 30), machine / (1 << 30));
}

sac_status serve_scheduler_open(serve_server *s, sac_error *err) {
    SAC_TRY(check_memory(s, err));
    SAC_TRY(serve_tokens_open(&s->tokens, s->model, err));
    s->slots = calloc((size_t)s->config->n_slots, sizeof *s->slots);
    if (!s->slots) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d slots", s->config->n_slots);
    for (int i = 0; i < s->config->n_slots; i++) {
        s->slots[i].server = s;
        SAC_TRY(sac_session_create(&s->slots[i].session, s->model, &s->config->session, err));
    }
    return SAC_OK;
}

void serve_scheduler_close(serve_server *s) {
    for (int i = 0; s->slots && i < s->config->n_slots; i++) {
        serve_trace_free(&s->slots[i].trace);
        sac_session_free(s->slots[i].session);
    }
    free(s->slots);
    serve_tokens_close(s->tokens);
}

double serve_scheduler_cache_use(serve_server *s) {
    double rows = 0;
    for (int i = 0; i < s->config->n_slots; i++) rows += (double)atomic_load(&s->slots[i].n_rows);
    return rows / ((double)s->config->n_slots * (double)s->n_ctx);
}

/* ---------------------------------------------------------------- jobs that nobody waits for */

/* Out of the queue: jobs that nobody waits for any more. Under the server's lock; they are chained by
 * queue_next. */
static serve_job *take_cancelled(serve_queue *q) {
    serve_job *taken = NULL;
    for (serve_job *j = q->first, *next; j; j = next) {
        next = j->queue_next;
        if (!atomic_load(&j->cancelled)) continue;
        serve_queue_remove(q, j);
        j->queue_next = taken;
        taken = j;
    }
    return taken;
}

static void fail_cancelled(serve_job *j) {
    for (serve_job *next; j; j = next) {
        next = j->queue_next;
        serve_job_fail(j, SAC_CANCELLED, &(sac_error){0});
    }
}

/* ---------------------------------------------------------------- steps */

/* One token for every slot that decodes; how many there were. */
static size_t step(scheduler *d) {
    serve_server *s = d->server;
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (!slot->decoding || serve_slot_drop_cancelled(slot)) continue;
        d->slots[n] = slot;
        d->items[n++] = (sac_batch_item){.session = slot->session, .events = &slot->events};
    }
    if (n == 0) return 0;
    sac_error err;
    int64_t start = sac_now_ns();
    sac_batch_step(d->batch, d->items, n, &err); /* a failure of all is in every item's status, too */
    for (size_t i = 0; i < n; i++) serve_slot_stepped(d->slots[i], &d->items[i]);
    d->stepped_ns = sac_now_ns();
    d->step_ns = d->stepped_ns - start;
    serve_metrics_count(s->metrics, SERVE_COUNT_batch_steps, 1);
    serve_metrics_count(s->metrics, SERVE_COUNT_batch_rows, (double)n);
    return n;
}

/* Called from within a prompt's run, which may be long: those who wait learn in it that their time is up. */
static void on_yield(void *ctx) {
    const serve_slot *slot = ctx;
    serve_server *s = slot->server;
    scheduler *d = s->scheduler_state;
    pthread_mutex_lock(&s->lock);
    serve_job *cancelled = take_cancelled(&s->ready);
    pthread_mutex_unlock(&s->lock);
    fail_cancelled(cancelled);
    if (sac_now_ns() - d->stepped_ns >= d->step_ns) step(d);
}

/* ---------------------------------------------------------------- new work */

/* The idle slot that holds most of the conversation; of several, the one that has not been used for longest.
 */
static serve_slot *choose_slot(scheduler *d, const serve_request *r) {
    serve_server *s = d->server;
    serve_trace trace;
    serve_slot *best = NULL;
    double most = -1;
    serve_trace_make(&trace, r);
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (slot->job) continue;
        bool same = slot->session && serve_methods_equal(&slot->methods, r->methods);
        double shared = same ? serve_trace_shared(&trace, &slot->trace) : -0.5; /* its rows would be lost */
        if (shared > most || (shared >= most && best && slot->used < best->used)) {
            most = shared;
            best = slot;
        }
    }
    serve_trace_free(&trace);
    return best;
}

static size_t n_busy(const serve_server *s) {
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) n += s->slots[i].job != NULL;
    return n;
}

/* The next job when a slot is idle. Waits when there is nothing at all to do; *quit when the server ends. */
static serve_job *take_job(scheduler *d, bool *quit) {
    serve_server *s = d->server;
    serve_job *j = NULL, *cancelled = NULL;
    size_t busy = n_busy(s);
    pthread_mutex_lock(&s->lock);
    s->n_running = busy;
    for (;;) {
        cancelled = take_cancelled(&s->ready);
        if (busy < (size_t)s->config->n_slots) j = serve_queue_take(&s->ready);
        *quit = atomic_load(&s->quitting);
        if (j || cancelled || busy || *quit) break;
        pthread_cond_wait(&s->stirred, &s->lock);
    }
    if (j) s->n_running++;
    pthread_mutex_unlock(&s->lock);
    fail_cancelled(cancelled);
    return j;
}

/* Choices that follow others to the same prompt. Not from within another's prompt: that would begin prompts
 * within prompts. */
static void go_on(scheduler *d) {
    for (int i = 0; i < d->server->config->n_slots; i++) serve_slot_again(&d->server->slots[i], on_yield);
}

static void start(scheduler *d, serve_job *j) {
    serve_slot *slot = choose_slot(d, j->request);
    slot->used = ++d->ticket;
    serve_slot_begin(slot, j, on_yield);
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

static bool open_state(scheduler *d, serve_server *s) {
    size_t n = (size_t)s->config->n_slots;
    *d = (scheduler){.server = s};
    d->items = calloc(n, sizeof *d->items);
    d->slots = calloc(n, sizeof *d->slots);
    s->scheduler_state = d;
    return d->items && d->slots && sac_batch_create(&d->batch, s->model, n, NULL) == SAC_OK;
}

static void close_state(scheduler *d) {
    sac_batch_free(d->batch);
    free(d->items);
    free(d->slots);
}

void *serve_scheduler_run(void *server) {
    serve_server *s = server;
    scheduler d;
    bool quit = false;
    if (open_state(&d, s)) atomic_store(&s->answers, warm_up(s));
    while (!quit) {
        serve_job *j = take_job(&d, &quit);
        go_on(&d);
        if (j) start(&d, j);
        step(&d);
    }
    close_state(&d);
    return NULL;
}
