#include "rounds.h"
#include "admission.h"
#include "clock.h"
#include "job_end.h"
#include "metrics.h"
#include "pauses.h"
#include "status.h"

#include <stdlib.h>
#include <string.h>

static bool drafts(const serve_config *c) {
    return c->session.draft && strcmp(c->session.draft, "none") != 0;
}

size_t serve_rounds_rows(const serve_config *c) {
    const size_t n = (size_t)c->n_slots;
    if (!drafts(c)) return n;
    return n + (n > SERVE_LEAST_GUESSES ? n : SERVE_LEAST_GUESSES);
}

sac_status serve_rounds_open(serve_rounds **out, serve_server *s, sac_error *err) {
    size_t n = (size_t)s->config->n_slots;
    serve_rounds *d = *out = calloc(1, sizeof *d);
    if (!d) return sac_fail_no_memory(err);
    d->server = s;
    d->items = calloc(n, sizeof *d->items);
    d->slots = calloc(n, sizeof *d->slots);
    d->turns = calloc(n, sizeof *d->turns);
    if (!d->items || !d->slots || !d->turns) return sac_fail_no_memory(err);
    return sac_batch_create_mixed(&d->batch, s->model, serve_rounds_rows(s->config), SERVE_PASS_ROWS, err);
}

void serve_rounds_close(serve_rounds *d) {
    if (!d) return;
    sac_batch_free(d->batch);
    free(d->items);
    free(d->slots);
    free(d->turns);
    free(d);
}

static size_t count_busy(const serve_server *s) {
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) n += s->slots[i].job != NULL;
    return n;
}

static bool has_cancelled(const serve_queue *q) {
    serve_job *j = q->first;
    while (j && !atomic_load(&j->cancelled)) j = j->queue_next;
    return j != NULL;
}

/* Under the server's lock. Those in the first queue are taken out within milliseconds anyway. */
static bool has_work(const serve_server *s) {
    return s->ready.first || has_cancelled(&s->media_queue);
}

bool serve_rounds_wait(serve_rounds *d) {
    serve_server *s = d->server;
    size_t busy = count_busy(s);
    pthread_mutex_lock(&s->lock);
    s->n_running = busy;
    while (!busy && !has_work(s) && !atomic_load(&s->quitting)) pthread_cond_wait(&s->stirred, &s->lock);
    pthread_mutex_unlock(&s->lock);
    return !atomic_load(&s->quitting);
}

/* ---------------------------------------------------------------- jobs that nobody waits for */

/* Out of the queue, chained by queue_next before those that were. Under the server's lock. */
static serve_job *take_cancelled(serve_queue *q, serve_job *taken) {
    for (serve_job *j = q->first, *next; j; j = next) {
        next = j->queue_next;
        if (!atomic_load(&j->cancelled)) continue;
        serve_queue_remove(q, j);
        j->queue_next = taken;
        taken = j;
    }
    return taken;
}

static void drop_cancelled(serve_server *s) {
    pthread_mutex_lock(&s->lock);
    serve_job *waiting = take_cancelled(&s->media_queue, take_cancelled(&s->ready, NULL));
    pthread_mutex_unlock(&s->lock);
    for (serve_job *next; waiting; waiting = next) {
        next = waiting->queue_next;
        serve_job_fail(waiting, SAC_CANCELLED, &(sac_error){0});
    }
    for (int i = 0; i < s->config->n_slots; i++) serve_slot_drop_cancelled(&s->slots[i]);
}

/* ---------------------------------------------------------------- new jobs */

static serve_refusal look(const serve_server *s) {
    serve_refusal r = {.n_added = s->ready.n_added, .n_waiting = s->ready.n, .ns = sac_now_ns()};
    for (int i = 0; i < s->config->n_slots; i++) {
        r.n_idle += !s->slots[i].job;
        r.n_prompts += serve_slot_has_prompt(&s->slots[i]);
    }
    return r;
}

/* Of many that wait each is weighed against all slots: not before every piece. */
static bool is_as_refused(const serve_refusal *had, const serve_refusal *now) {
    const int64_t a_while_ns = 50000000;
    return had->ns && now->ns - had->ns < a_while_ns && had->n_added == now->n_added && had->n_waiting == now->n_waiting &&
           had->n_idle == now->n_idle && had->n_prompts == now->n_prompts;
}

static serve_admitted ask_admission(serve_rounds *d) {
    const serve_refusal now = look(d->server);
    if (is_as_refused(&d->refusal, &now)) return (serve_admitted){0};
    const serve_admitted in = serve_admit(d->server);
    d->refusal = in.job ? (serve_refusal){0} : now;
    return in;
}

static bool admit_one(serve_rounds *d) {
    serve_server *s = d->server;
    size_t busy = count_busy(s);
    pthread_mutex_lock(&s->lock);
    serve_admitted in = ask_admission(d);
    s->n_running = busy + (in.job != NULL);
    pthread_mutex_unlock(&s->lock);
    if (in.job) serve_slot_begin(in.slot, in.job, ++d->ticket, in.n_left);
    return in.job != NULL;
}

/* ---------------------------------------------------------------- prompts */

static bool has_run_a_piece(const serve_slot *slot) {
    return serve_slot_has_prompt(slot) && slot->turn.own_ns > 0;
}

static size_t count_under_way(const serve_server *s) {
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) n += has_run_a_piece(&s->slots[i]);
    return n;
}

/* Those that may run their next piece. */
static size_t list_prompts(serve_rounds *d) {
    serve_server *s = d->server;
    bool may_begin = count_under_way(s) < SERVE_PROMPTS_AT_ONCE;
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (!serve_slot_has_prompt(slot) || (!may_begin && !has_run_a_piece(slot))) continue;
        d->slots[n] = slot;
        d->turns[n++] = &slot->turn;
    }
    return n;
}

static bool is_answering(const serve_server *s) {
    for (int i = 0; i < s->config->n_slots; i++)
        if (s->slots[i].decoding) return true;
    return false;
}

static double piece_seconds(const serve_rounds *d, int64_t now_ns) {
    const double target = d->server->config->target_itl_s;
    if (!is_answering(d->server)) return serve_pause_piece(target, 0, 0);
    return serve_pause_piece(target, d->step_s, (double)(now_ns - d->stepped_ns) * 1e-9);
}

/* The next piece of prompt i of the n that are listed. */
static void run_piece_of(serve_rounds *d, size_t i, size_t n) {
    int64_t start = sac_now_ns();
    serve_slot_run_piece(d->slots[i], piece_seconds(d, start));
    serve_turn_count(d->turns, n, i, sac_now_ns() - start);
    if (d->slots[i]->decoding) d->due_ns = 0; /* its first token takes no work of the model */
}

/* False: there is no prompt to be run. */
static bool run_piece(serve_rounds *d) {
    const size_t n = list_prompts(d);
    if (n > 0) run_piece_of(d, serve_turn_next(d->turns, n), n);
    return n > 0;
}

/* Of a prompt whose rows are all run: without them it would wait for one more step. */
static void run_logits(serve_rounds *d, const serve_slot *slot) {
    if (!serve_slot_has_prompt(slot) || sac_session_work_left(slot->session) > 0) return;
    const size_t n = list_prompts(d);
    for (size_t i = 0; i < n; i++) {
        if (d->slots[i] != slot) continue;
        run_piece_of(d, i, n);
        return;
    }
}

/* ---------------------------------------------------------------- answers */

static size_t list_answers(serve_rounds *d) {
    serve_server *s = d->server;
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (!slot->decoding) continue;
        d->slots[n] = slot;
        d->items[n++] = (sac_batch_item){.session = slot->session, .events = &slot->events};
    }
    return n;
}

/* A prompt that the next step takes along. */
typedef struct passenger {
    serve_slot *slot;
    size_t i, n; /* its place among the turns of so many */
    sac_batch_prompt prompt;
} passenger;

/* A sole one that drafts gains more by that than by rows that share its step: with these nothing is drafted. */
static bool is_drafting_alone(const serve_server *s) {
    int n = 0;
    for (int i = 0; i < s->config->n_slots; i++) n += s->slots[i].decoding;
    return n == 1 && drafts(s->config);
}

/* The prompt whose turn it is, where answers wait, its rows can join and leave the step in time. One that was refused goes apart
 * to its end; for the next one a row counts for less, so that it is measured again in a while. */
static bool find_passenger(serve_rounds *d, passenger *p) {
    if (d->step_s <= 0 || !is_answering(d->server) || is_drafting_alone(d->server)) return false; /* a step is measured first */
    p->n = list_prompts(d);
    if (p->n == 0) return false;
    p->i = serve_turn_next(d->turns, p->n);
    p->slot = d->slots[p->i];
    if (p->slot->goes_apart || !serve_slot_pass_rows(p->slot, SERVE_PASS_ROWS)) return false;
    const int64_t most = serve_pause_rows(d->server->config->target_itl_s, d->step_s, d->row_s, SERVE_PASS_ROWS);
    if (most == 0) {
        p->slot->goes_apart = true;
        d->row_s *= 0.8;
        return false;
    }
    const size_t rows = serve_slot_pass_rows(p->slot, (size_t)most);
    p->prompt = (sac_batch_prompt){.session = p->slot->session, .rows = rows};
    return rows > 0;
}

/* What a step with rows of a prompt took. The next one is due at once: the prompt goes on with it. */
static void count_passenger(serve_rounds *d, passenger *p, int64_t took_ns) {
    const double more = (double)took_ns * 1e-9 - d->step_s;
    d->row_s = (more > 0 ? more : 0.1 * d->step_s) / (double)p->prompt.rows;
    d->due_ns = 0;
    serve_turn_count(d->turns, p->n, p->i, more > 0 ? (int64_t)(more * 1e9) : 1);
    serve_metrics_count(d->server->metrics, SERVE_COUNT_mixed_steps, 1);
    serve_metrics_count(d->server->metrics, SERVE_COUNT_mixed_rows, (double)p->prompt.rows);
}

/* Whether a token of the step stood behind another one: a first one takes no work of the model. */
static bool has_run_model(const serve_rounds *d, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (d->items[i].status == SAC_OK && d->slots[i]->n_tokens > (d->items[i].token >= 0)) return true;
    return false;
}

/* After a step that was to take a prompt along: to the logits of one that has ended; and where every answer went through the model by
 * itself the prompt goes apart, as it will hardly be otherwise for the next step. */
static void go_on(serve_rounds *d, const passenger *p, bool ran) {
    if (p->prompt.status != SAC_OK) return;
    if (p->prompt.rows)
        run_logits(d, p->slot);
    else if (ran)
        run_piece(d);
}

/* One token for each answer, with rows of a prompt or NULL; false: there is none. */
static bool step(serve_rounds *d, passenger *p) {
    size_t n = list_answers(d);
    if (n == 0) return false;
    sac_error err;
    int64_t start = sac_now_ns();
    /* a failure of all is in every item's status, too */
    sac_batch_step_with(d->batch, d->items, n, p ? &p->prompt : NULL, p != NULL, &err);
    const bool ran = has_run_model(d, n);
    for (size_t i = 0; i < n; i++) serve_slot_stepped(d->slots[i], &d->items[i]);
    d->stepped_ns = sac_now_ns();
    const int64_t took = d->stepped_ns - start;
    if (p && p->prompt.status == SAC_OK && p->prompt.rows) {
        count_passenger(d, p, took);
    } else {
        if (ran) d->step_s = serve_pause_step(d->step_s, (double)took * 1e-9);
        d->due_ns = (int64_t)(serve_pause_share(d->server->config->target_itl_s, d->step_s) * 1e9);
    }
    if (p) serve_slot_passed(p->slot, &p->prompt);
    serve_metrics_count(d->server->metrics, SERVE_COUNT_batch_steps, 1);
    serve_metrics_count(d->server->metrics, SERVE_COUNT_batch_rows, (double)n);
    if (p) go_on(d, p, ran);
    return true;
}

/* ---------------------------------------------------------------- a round */

void serve_rounds_run(serve_rounds *d) {
    drop_cancelled(d->server);
    while (admit_one(d)) {
    }
    bool due = sac_now_ns() - d->stepped_ns >= d->due_ns;
    passenger p;
    if (find_passenger(d, &p) && step(d, &p)) return;
    if (due && step(d, NULL)) return;
    if (!run_piece(d)) step(d, NULL);
}
