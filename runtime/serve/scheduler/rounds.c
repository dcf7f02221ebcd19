#include "rounds.h"
#include "admission.h"
#include "clock.h"
#include "job_end.h"
#include "metrics.h"
#include "pauses.h"
#include "preemption.h"
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

static bool is_on_device(const sac_model *m) {
    size_t device_bytes;
    sac_batch_plan(m, 1, &device_bytes);
    return device_bytes > 0;
}

size_t serve_rounds_prompt_rows(const serve_config *c, const sac_model *m) {
    if (c->pass_rows >= 0) return c->pass_rows < SERVE_PASS_LEAST ? 0 : (size_t)c->pass_rows;
    return is_on_device(m) ? 0 : SERVE_PASS_ROWS;
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
    d->most_prompt = serve_rounds_prompt_rows(s->config, s->model);
    d->tile = is_on_device(s->model) ? SERVE_PASS_TILE : 1;
    d->cost.n_unlearnt = is_on_device(s->model);
    return sac_batch_create_mixed(&d->batch, s->model, serve_rounds_rows(s->config), d->most_prompt, err);
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

/* ---------------------------------------------------------------- what there is */

static size_t count_answers(const serve_server *s) {
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) n += s->slots[i].decoding && !s->slots[i].lacks_pages;
    return n;
}

static bool is_answering(const serve_server *s) {
    return count_answers(s) > 0;
}

/* A sole one that drafts gains more by that than by rows that share its step: with these nothing is drafted. */
static bool is_drafting_alone(const serve_server *s) {
    return count_answers(s) == 1 && drafts(s->config);
}

/* Whether a step may take rows of prompts along. */
static bool may_mix(const serve_server *s) {
    return is_answering(s) && !is_drafting_alone(s);
}

static size_t pass_room(const serve_rounds *d) {
    return (size_t)serve_pass_room(&d->cost, d->server->config->target_itl_s, (int64_t)d->most_prompt);
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
    const serve_next_pass pass = {may_mix(d->server) ? pass_room(d) : 0, serve_pass_step_rows(&d->cost)};
    const serve_admitted in = serve_admit(d->server, &pass);
    d->refusal = in.job ? (serve_refusal){0} : now;
    return in;
}

static bool admit_one(serve_rounds *d) {
    serve_server *s = d->server;
    size_t busy = count_busy(s);
    if (serve_owes_pages(s)) return false;
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

/* Whether it has pages that others wait for, and would keep them until it begins. */
static bool holds_up(const serve_server *s, const serve_slot *slot) {
    return serve_lacks_pages(s) && slot->session && sac_session_paged_bytes(slot->session) > 0;
}

/* Those that may run their next piece. */
static size_t list_prompts(serve_rounds *d) {
    serve_server *s = d->server;
    bool may_begin = count_under_way(s) < SERVE_PROMPTS_AT_ONCE;
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (!serve_slot_has_prompt(slot) || slot->lacks_pages || (!may_begin && !has_run_a_piece(slot) && !holds_up(s, slot))) continue;
        d->slots[n] = slot;
        d->turns[n++] = &slot->turn;
    }
    return n;
}

static double piece_seconds(const serve_rounds *d, int64_t now_ns) {
    const double target = d->server->config->target_itl_s;
    if (!is_answering(d->server)) return serve_pause_piece(target, 0, 0);
    return serve_pause_piece(target, d->cost.step_s, (double)(now_ns - d->stepped_ns) * 1e-9);
}

/* The next piece of prompt i of the n that are listed, of about so many seconds at most. */
static void run_piece_of(serve_rounds *d, size_t i, size_t n, double seconds) {
    int64_t start = sac_now_ns();
    serve_slot_run_piece(d->slots[i], seconds);
    serve_turn_count(d->turns, n, i, sac_now_ns() - start);
    if (d->slots[i]->decoding) d->due_ns = 0; /* its first token takes no work of the model */
}

/* False: there is no prompt to be run. */
static bool run_piece(serve_rounds *d) {
    const size_t n = list_prompts(d);
    if (n > 0) run_piece_of(d, serve_turn_next(d->turns, n), n, piece_seconds(d, sac_now_ns()));
    return n > 0;
}

/* Of a prompt whose rows are all run: without them it would wait for one more step. */
static void run_logits(serve_rounds *d, const serve_slot *slot) {
    if (!serve_slot_has_prompt(slot) || sac_session_work_left(slot->session) > 0) return;
    const size_t n = list_prompts(d);
    for (size_t i = 0; i < n; i++) {
        if (d->slots[i] != slot) continue;
        run_piece_of(d, i, n, piece_seconds(d, sac_now_ns()));
        return;
    }
}

/* ---------------------------------------------------------------- answers */

static size_t list_answers(serve_rounds *d) {
    serve_server *s = d->server;
    size_t n = 0;
    for (int i = 0; i < s->config->n_slots; i++) {
        serve_slot *slot = &s->slots[i];
        if (!slot->decoding || slot->lacks_pages) continue;
        d->slots[n] = slot;
        d->items[n++] = (sac_batch_item){.session = slot->session, .events = &slot->events};
    }
    return n;
}

/* Prompts that the next step takes along. */
typedef struct passengers {
    serve_slot *slots[SERVE_PROMPTS_AT_ONCE];
    size_t turns[SERVE_PROMPTS_AT_ONCE]; /* their places among the n_turns */
    sac_batch_prompt prompts[SERVE_PROMPTS_AT_ONCE];
    size_t n, n_turns;
} passengers;

/* A prompt's next rows, as many as there is room for; false: none. */
static bool take_along(const serve_rounds *d, passengers *p, size_t turn, size_t *room) {
    serve_slot *slot = d->slots[turn];
    const size_t rows = slot->goes_apart ? 0 : serve_slot_pass_rows(slot, *room);
    if (rows == 0) return false;
    *room -= rows;
    p->slots[p->n] = slot;
    p->turns[p->n] = turn;
    p->prompts[p->n++] = (sac_batch_prompt){.session = slot->session, .rows = rows};
    return true;
}

/* What the target leaves of a pass behind n rows that begins now. */
static double left_s(const serve_rounds *d, int64_t n) {
    return serve_pass_left(&d->cost, d->server->config->target_itl_s, n, (double)(sac_now_ns() - d->stepped_ns) * 1e-9);
}

/* The prompt whose turn it is, where answers wait, its rows can join and leave the step in time; where it leaves room, those after
 * it. */
static bool find_passengers(serve_rounds *d, passengers *p) {
    size_t order[SERVE_MOST_TURNS];
    p->n = 0;
    p->n_turns = may_mix(d->server) ? list_prompts(d) : 0;
    if (p->n_turns == 0) return false;
    serve_turn_order(d->turns, p->n_turns, order);
    serve_slot *first = d->slots[order[0]];
    if (!serve_slot_pass_rows(first, d->most_prompt)) return false;
    size_t room = (size_t)serve_pass_ask(&d->cost, d->server->config->target_itl_s, &first->goes_apart, (int64_t)d->most_prompt);
    room = serve_pass_whole(room, count_answers(d->server), d->tile);
    if (!take_along(d, p, order[0], &room)) return false;
    if (d->cost.row_s > 0) { /* of the time that is gone, those after it have none */
        const double left = left_s(d, (int64_t)p->prompts[0].rows) / d->cost.row_s;
        if (left < (double)room) room = (size_t)left;
    }
    for (size_t i = 1; i < p->n_turns && p->n < SERVE_PROMPTS_AT_ONCE && room > 0; i++) take_along(d, p, order[i], &room);
    return true;
}

/* A piece that comes before the rows of a prompt which may share the next pass, while the step is not due, or in the time that the
 * pass leaves behind the rows of the prompt whose turn it is: then they go along. Not where that prompt goes apart, whose time it would
 * be. */
static bool run_opening(serve_rounds *d, bool due) {
    size_t order[SERVE_MOST_TURNS];
    const size_t room = may_mix(d->server) ? pass_room(d) : 0, n = room ? list_prompts(d) : 0;
    if (n < 2) return false;
    serve_turn_order(d->turns, n, order);
    const serve_slot *first = d->slots[order[0]];
    const size_t n_first = serve_slot_pass_rows(first, room);
    if (first->goes_apart || !n_first || (due && n_first >= room)) return false;
    const double seconds = due ? left_s(d, (int64_t)n_first) : piece_seconds(d, sac_now_ns());
    const double least = due ? serve_pause_room(d->server->config->target_itl_s, d->cost.step_s) / 4 : 0; /* as serve_pause_piece */
    if (!(seconds > least)) return false;
    for (size_t i = 1; i < n; i++) {
        const serve_slot *slot = d->slots[order[i]];
        if (slot->turn.n_left > (double)d->most_prompt || !serve_slot_is_opening(slot)) continue;
        run_piece_of(d, order[i], n, seconds);
        return true;
    }
    return false;
}

static size_t count_taken(const passengers *p) {
    size_t n = 0;
    for (size_t i = 0; p && i < p->n; i++) n += p->prompts[i].status == SAC_OK ? p->prompts[i].rows : 0;
    return n;
}

/* Each has run by its share of the step's time. The next step is due at once: the prompts go on with it. */
static void count_passengers(serve_rounds *d, const passengers *p, size_t n_rows) {
    const double row_ns = d->cost.row_s * 1e9;
    for (size_t i = 0; i < p->n; i++)
        serve_turn_count(d->turns, p->n_turns, p->turns[i], 1 + (int64_t)(row_ns * (double)p->prompts[i].rows));
    d->due_ns = 0;
    serve_metrics_count(d->server->metrics, SERVE_COUNT_mixed_steps, 1);
    serve_metrics_count(d->server->metrics, SERVE_COUNT_mixed_rows, (double)n_rows);
}

/* Learns of the step that has come back, and says when the next one is due. */
static serve_pass_ran learn(serve_rounds *d, const passengers *p, int64_t took_ns) {
    serve_pass_ran ran = {.took_s = (double)took_ns * 1e-9, .n_prompt = count_taken(p)};
    ran.n_rows = sac_batch_ran(d->batch, &ran.n_guessed);
    serve_pass_learn(&d->cost, &ran);
    if (ran.n_prompt)
        count_passengers(d, p, ran.n_prompt);
    else
        d->due_ns = (int64_t)(serve_pause_share(d->server->config->target_itl_s, d->cost.step_s) * 1e9);
    return ran;
}

/* After a step that was to take prompts along: to the logits of those that have ended; and where every answer went through the model
 * by itself the prompt whose turn it is goes apart, as it will hardly be otherwise for the next step. */
static void go_on(serve_rounds *d, const passengers *p, const serve_pass_ran *ran) {
    for (size_t i = 0; i < p->n; i++)
        if (p->prompts[i].status == SAC_OK && p->prompts[i].rows) run_logits(d, p->slots[i]);
    if (!ran->n_prompt && ran->n_rows && p->n && p->prompts[0].status == SAC_OK) run_piece(d);
}

/* One token for each answer, with rows of prompts or NULL; false: there is none. */
static bool step(serve_rounds *d, passengers *p) {
    size_t n = list_answers(d);
    if (n == 0) return false;
    sac_error err;
    int64_t start = sac_now_ns();
    /* a failure of all is in every item's status, too */
    sac_batch_step_with(d->batch, d->items, n, p ? p->prompts : NULL, p ? p->n : 0, &err);
    for (size_t i = 0; i < n; i++) serve_slot_stepped(d->slots[i], &d->items[i]);
    d->stepped_ns = sac_now_ns();
    const serve_pass_ran ran = learn(d, p, d->stepped_ns - start);
    for (size_t i = 0; p && i < p->n; i++) serve_slot_passed(p->slots[i], &p->prompts[i]);
    serve_metrics_count(d->server->metrics, SERVE_COUNT_batch_steps, 1);
    serve_metrics_count(d->server->metrics, SERVE_COUNT_batch_rows, (double)n);
    if (p) go_on(d, p, &ran);
    return true;
}

/* ---------------------------------------------------------------- a round */

void serve_rounds_run(serve_rounds *d) {
    drop_cancelled(d->server);
    serve_preempt(d->server);
    while (admit_one(d)) {
    }
    bool due = sac_now_ns() - d->stepped_ns >= d->due_ns;
    if (run_opening(d, due)) return;
    passengers p;
    if (find_passengers(d, &p) && step(d, &p)) return;
    if (due && step(d, NULL)) return;
    if (!run_piece(d)) step(d, NULL);
}
