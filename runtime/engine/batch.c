/* Steps of several sessions together. */
#include "batch.h"

#include "batch_draft.h"
#include "clock.h"
#include "decoder_pass.h"
#include "draft_model.h"
#include "mask_call.h"
#include "pages.h"
#include "renew.h"
#include "work.h"
#include "workspace.h"

#include <stdlib.h>
#include <string.h>

/* The largest number of sessions is bound by memory alone; this only keeps the sums in range. */
#define MAX_SESSIONS    65536
#define MAX_PROMPT_ROWS 65536

_Static_assert((int)SAC_BATCH_MOST_PROMPTS == (int)SAC_PASS_CHUNKS, "what the header lets in is what a pass has room for");

/* Rows have room on the host. */
static void lend_room(sac_batch *b) {
    b->rows.adapters = b->adapters;
    b->rows.first = b->first;
    b->rows.own = b->own;
}

/* Lists, and on the CPU all else: its rows and its stream. */
static sac_status take(sac_batch *b, sac_arena *a, sac_error *err) {
    const sac_model *m = b->model;
    size_t scratch =
        m->ops.linear_scratch_bytes((int64_t)(b->capacity + b->n_prompt), sac_decoder_widest(&m->loaded.decoder.config)) + 64;
    b->states = sac_arena_take(a, b->capacity * sizeof *b->states);
    b->ids = sac_arena_take(a, b->capacity * sizeof *b->ids);
    b->places = sac_arena_take(a, b->capacity * sizeof *b->places);
    b->adapters = sac_arena_take(a, b->capacity * sizeof *b->adapters);
    b->first = sac_arena_take(a, (b->capacity + 1) * sizeof *b->first);
    b->own = sac_arena_take(a, b->capacity * sizeof *b->own);
    b->n_guessed = sac_arena_take(a, b->capacity * sizeof *b->n_guessed);
    b->making_s = sac_arena_take(a, b->capacity * sizeof *b->making_s);
    b->lanes = sac_arena_take(a, b->capacity * sizeof *b->lanes);
    b->lane_of = sac_arena_take(a, b->capacity * sizeof *b->lane_of);
    b->passes = sac_arena_take(a, (b->capacity + 1) * sizeof *b->passes);
    if (sac_model_on_device(m)) return SAC_OK;
    sac_decoder_batch_take(&b->rows, sac_model_decoder(m), (int64_t)b->capacity, (int64_t)b->n_prompt, NULL, m->activations, a);
    lend_room(b);
    if (!a->base) { /* measuring */
        a->used_bytes += sac_stream_bytes(sac_pool_n_threads(m->pool), scratch);
        return SAC_OK;
    }
    b->ops = m->ops;
    return sac_stream_init(&b->stream, m->pool, a, scratch, err);
}

static size_t device_rows_bytes(const sac_model *m, size_t capacity, size_t n_prompt) {
    sac_arena arena = sac_arena_measure();
    sac_decoder_batch rows;
    sac_decoder_batch_take(&rows, sac_model_decoder(m), (int64_t)capacity, (int64_t)n_prompt, &m->device, m->activations, &arena);
    return arena.used_bytes;
}

/* Pinned, where the model is on a device: what is told of each row's logits. */
static size_t told_bytes(const sac_model *m, size_t capacity) {
    return sac_model_on_device(m) ? sac_told_room_bytes((int64_t)capacity, sac_model_decoder(m)->config.vocab) : 0;
}

/* On a device: a stream, a block of memory, and pinned memory of the host. */
static sac_status take_device(sac_batch *b, sac_error *err) {
    const sac_device *d = &b->model->device;
    if (!sac_model_on_device(b->model)) return SAC_OK;
    size_t n_bytes = device_rows_bytes(b->model, b->capacity, b->n_prompt);
    SAC_TRY(d->stream_open_first(d, &b->stream, sac_ops_scratch_bytes(d), err));
    SAC_TRY(sac_ops_open(&b->ops, &b->stream, err));
    SAC_TRY(d->alloc(d, n_bytes, &b->device_memory, err));
    b->device_bytes = b->stream.shared_scratch_bytes + n_bytes;
    sac_arena arena = sac_arena_over(b->device_memory, n_bytes);
    sac_decoder_batch_take(&b->rows, sac_model_decoder(b->model), (int64_t)b->capacity, (int64_t)b->n_prompt, d,
                           b->model->activations, &arena);
    lend_room(b);
    SAC_TRY(d->host_alloc(d, told_bytes(b->model, b->capacity), &b->pinned, err));
    sac_told_room_lay(&b->rows.told_room, b->pinned, (int64_t)b->capacity, sac_model_decoder(b->model)->config.vocab);
    return SAC_OK;
}

/* None where no prompt of the model may go into a pass (sac_prefill_pass_rows). */
static size_t prompt_rows_of(const sac_model *m, size_t n) {
    const sac_decoder *d = sac_model_decoder(m);
    return d->n_adapters || d->config.linear.n_heads || d->config.sees_spans ? 0 : n;
}

size_t sac_batch_plan_mixed(const sac_model *m, size_t max_sessions, size_t prompt_rows, size_t *device_bytes) {
    sac_batch b = {.model = m, .capacity = max_sessions, .n_prompt = prompt_rows_of(m, prompt_rows)};
    sac_arena host = sac_arena_measure();
    if (device_bytes) *device_bytes = 0;
    if (device_bytes && sac_model_on_device(m))
        *device_bytes = sac_ops_scratch_bytes(&m->device) + device_rows_bytes(m, max_sessions, b.n_prompt);
    if (take(&b, &host, NULL) != SAC_OK) return 0;
    host.used_bytes += told_bytes(m, max_sessions);
    const sac_model *drafts[SAC_BATCH_DRAFTS];
    const size_t n = sac_draft_models_list(m->draft_models, drafts, SAC_BATCH_DRAFTS);
    for (size_t i = 0; i < n && !sac_model_on_device(m); i++) host.used_bytes += sac_batch_plan_mixed(drafts[i], max_sessions, 0, NULL);
    return host.used_bytes;
}

size_t sac_batch_plan(const sac_model *m, size_t max_sessions, size_t *device_bytes) {
    return sac_batch_plan_mixed(m, max_sessions, 0, device_bytes);
}

sac_status sac_batch_create(sac_batch **out, const sac_model *m, size_t max_sessions, sac_error *err) {
    return sac_batch_create_mixed(out, m, max_sessions, 0, err);
}

/* For the draft models that are open. On a device sessions draft by themselves. */
static sac_status create_drafts(sac_batch *b, sac_error *err) {
    const sac_model *drafts[SAC_BATCH_DRAFTS];
    if (sac_model_on_device(b->model)) return SAC_OK;
    const size_t n = sac_draft_models_list(b->model->draft_models, drafts, SAC_BATCH_DRAFTS);
    while (b->n_drafts < n) {
        SAC_TRY(sac_batch_create(&b->drafts[b->n_drafts], drafts[b->n_drafts], b->capacity, err));
        b->n_drafts++;
    }
    return SAC_OK;
}

sac_status sac_batch_create_mixed(sac_batch **out, const sac_model *m, size_t max_sessions, size_t prompt_rows,
                                  sac_error *err) {
    *out = NULL;
    if (max_sessions < 1 || max_sessions > MAX_SESSIONS)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a batch of %zu sessions: give 1 to %d", max_sessions,
                        MAX_SESSIONS);
    if (prompt_rows > MAX_PROMPT_ROWS)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a batch with %zu rows of prompts: give at most %d", prompt_rows,
                        MAX_PROMPT_ROWS);
    sac_batch *b = calloc(1, sizeof *b);
    if (!b) return sac_fail(err, SAC_NO_MEMORY, "no memory for a batch");
    b->model = m;
    b->capacity = max_sessions;
    b->n_prompt = prompt_rows_of(m, prompt_rows);
    sac_arena measure = sac_arena_measure();
    sac_status st = take(b, &measure, err);
    if (st == SAC_OK) st = sac_arena_open(&b->arena, measure.used_bytes, err);
    if (st == SAC_OK) st = take(b, &b->arena, err);
    if (st == SAC_OK) memset(b->passes, 0, (b->capacity + 1) * sizeof *b->passes);
    if (st == SAC_OK) st = take_device(b, err);
    if (st == SAC_OK) st = create_drafts(b, err);
    if (st != SAC_OK) {
        sac_batch_free(b);
        return st;
    }
    *out = b;
    return SAC_OK;
}

void sac_batch_free(sac_batch *b) {
    if (!b) return;
    if (b->stream.device) {
        sac_ops_close(&b->stream);
        b->model->device.stream_close(&b->stream);
        b->model->device.free(&b->model->device, b->device_memory);
        b->model->device.host_free(&b->model->device, b->pinned);
    }
    while (b->n_drafts) sac_batch_free(b->drafts[--b->n_drafts]);
    sac_arena_free(&b->arena);
    free(b);
}

size_t sac_batch_bytes(const sac_batch *b) {
    size_t n_bytes = b->arena.capacity_bytes + b->device_bytes + (b->pinned ? told_bytes(b->model, b->capacity) : 0);
    for (size_t i = 0; i < b->n_drafts; i++) n_bytes += sac_batch_bytes(b->drafts[i]);
    return n_bytes;
}

/* ---------------------------------------------------------------- a step */

static sac_status check(const sac_batch *b, sac_batch_item *items, size_t n, sac_error *err) {
    SAC_TRY(sac_mask_check(b->model, err));
    if (n > b->capacity)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%zu sessions in a batch made for %zu", n, b->capacity);
    for (size_t i = 0; i < n; i++) {
        items[i].token = -1;
        items[i].done = false;
        if (items[i].session->model != b->model)
            return sac_fail(err, SAC_BAD_ARGUMENT, "session %zu of the batch is of another model", i);
    }
    return SAC_OK;
}

/* Marks every session as at work, which also finds one that is given twice; or none. */
static sac_status enter(sac_batch_item *items, size_t n, sac_error *err) {
    for (size_t i = 0; i < n; i++) {
        sac_status st = sac_step_check(items[i].session, items[i].events, err);
        if (st == SAC_OK) continue;
        while (i-- > 0) sac_step_leave(items[i].session, SAC_OK, sac_now_ns());
        return st;
    }
    return SAC_OK;
}

/* In a row of the batch, or in a workspace where the step has more rows. */
static sac_status lend_rows(sac_batch *b, sac_session *s, sac_error *err) {
    if (s->decoder.n_spare > 0) return sac_session_borrow(s, SAC_FOR_STEP, err);
    sac_decoder_batch_lend(&b->rows, sac_model_decoder(b->model), &s->decoder);
    return SAC_OK;
}

static void count_rows(sac_batch *b, size_t n, size_t n_guessed) {
    b->n_ran += n + n_guessed;
    b->n_ran_ahead += n_guessed;
}

/* A device may have no workspace for rows of drafts while prompts have theirs: then the step goes without. */
static bool goes_without(const sac_session *s, sac_status st) {
    return st == SAC_NO_MEMORY && s->decoder.device && s->reply.pending && !sac_renew_is_due(s) && !sac_session_lacks(s);
}

static void run_alone(sac_batch *b, sac_batch_item *item) {
    sac_session *s = item->session;
    int64_t past = s->decoder.cache.n_rows;
    if (s->decoder.n_ahead || sac_renew_is_due(s)) {
        item->status = sac_step_run(s, &item->error);
        if (item->status == SAC_OK) count_rows(b, 1, (size_t)s->ahead.n);
        if (!goes_without(s, item->status)) return;
    }
    item->status = lend_rows(b, s, &item->error);
    if (item->status != SAC_OK) return;
    item->status = sac_decoder_step(sac_model_decoder(b->model), &s->decoder, &b->ops, &b->stream, past,
                                    sac_step_pending(s), &item->error);
    if (item->status == SAC_OK) count_rows(b, 1, 0);
    sac_decoder_give_back(&s->decoder);
    sac_session_give_back(s);
}

/* Some draft, and the others may go along. */
static bool may_draft(sac_decoder_state *const *states, size_t n) {
    bool some = false;
    for (size_t i = 0; i < n; i++) {
        if (!sac_decoder_may_go_along(states[i])) return false;
        some = some || states[i]->n_ahead;
    }
    return some;
}

/* The prompts of a step, which its first pass takes. */
typedef struct prompt_list {
    sac_batch_prompt *of; /* [n] */
    size_t n;
    bool taken;
} prompt_list;

/* While callbacks of the step may run: these may not touch what was checked. */
static void hold_prompts(sac_batch_prompt *of, size_t n, bool inside) {
    for (size_t i = 0; i < n; i++) of[i].session->work->inside = inside;
}

static void take_none(sac_batch_prompt *p, sac_status st) {
    p->rows = 0;
    p->status = st;
}

/* Those of whom nobody has given up, as chunks; of[i] is whose. */
static int64_t enter_prompts(const sac_batch *b, prompt_list *p, sac_pass_chunk *chunks, sac_batch_prompt **of) {
    int64_t n = 0;
    for (size_t i = 0; i < p->n && !p->taken; i++) {
        sac_batch_prompt *one = &p->of[i];
        sac_work *w = one->session->work;
        one->status = sac_work_enter_pass(w, &b->stream, &one->error);
        if (one->status != SAC_OK) {
            one->rows = 0;
            sac_reply_drop(one->session);
            continue;
        }
        if (sac_prefill_pass_rows(&w->prefill, (int64_t)one->rows) != (int64_t)one->rows) { /* a callback changed what it needs */
            w->inside = false;
            take_none(one, SAC_OK);
            continue;
        }
        chunks[n] = (sac_pass_chunk){&w->prefill, (int64_t)one->rows};
        of[n++] = one;
    }
    p->taken = true;
    return n;
}

static void leave_prompts(const sac_pass_chunk *chunks, sac_batch_prompt **of, int64_t n, sac_status st, const sac_error *err) {
    for (int64_t i = 0; i < n; i++) {
        of[i]->status = sac_work_leave_pass(of[i]->session->work, st);
        if (st == SAC_OK) {
            of[i]->rows = (size_t)chunks[i].n;
            continue;
        }
        of[i]->rows = 0;
        of[i]->error = *err;
        sac_reply_drop(of[i]->session);
    }
}

static sac_status run_pass(sac_batch *b, size_t n, int64_t n_guessed, const sac_pass_chunk *chunks, int64_t n_chunks, sac_error *err) {
    const sac_decoder *d = sac_model_decoder(b->model);
    if (n_guessed)
        return sac_decoder_batch_step_ahead(d, &b->rows, &b->ops, &b->stream, b->states, b->first, b->ids, (int64_t)n, err);
    return sac_decoder_pass(d, &b->rows, &b->ops, &b->stream, b->states, b->ids, (int64_t)n, chunks, n_chunks, err);
}

/* The items at n places, and prompts that no pass has taken yet. */
static void run_together(sac_batch *b, sac_batch_item *items, const size_t *places, size_t n, prompt_list *p) {
    sac_error err = {0};
    sac_pass_chunk chunks[SAC_PASS_CHUNKS];
    sac_batch_prompt *of[SAC_PASS_CHUNKS];
    const int64_t n_chunks = enter_prompts(b, p, chunks, of);
    for (size_t i = 0; i < n; i++) {
        sac_session *s = items[places[i]].session;
        b->states[i] = &s->decoder;
        b->ids[i] = sac_step_pending(s);
    }
    const bool may = !n_chunks && may_draft(b->states, n);
    int64_t n_guessed = 0;
    sac_status st = may ? sac_batch_guess(b, items, places, n, &n_guessed, &err) : SAC_OK;
    const int64_t start_ns = sac_now_ns();
    if (st == SAC_OK) st = run_pass(b, n, n_guessed, chunks, n_chunks, &err);
    if (st == SAC_OK) count_rows(b, n, (size_t)n_guessed);
    leave_prompts(chunks, of, n_chunks, st, &err);
    if (st == SAC_OK && may) sac_batch_guessed(b, items, places, n, sac_seconds_since(start_ns)); /* a pass without guesses earns too */
    for (size_t i = 0; st != SAC_OK && i < n; i++) {
        items[places[i]].status = st;
        items[places[i]].error = err;
    }
}

/* As many at a time as have room in the rows of the batch. */
static void run_places(sac_batch *b, sac_batch_item *items, const size_t *places, size_t n, prompt_list *p) {
    for (size_t i = 0, m; i < n; i += m) {
        int64_t rows = 0;
        for (m = 0; i + m < n; m++) {
            rows += sac_decoder_step_rows(&items[places[i + m]].session->decoder);
            if (rows > b->rows.capacity) break;
        }
        if (m > 1 || (m == 1 && p->n && !p->taken))
            run_together(b, items, places + i, m, p);
        else
            run_alone(b, &items[places[i]]), m = 1;
    }
}

/* Of the step's own rows and of those that it may run ahead. */
static sac_status make_room(const sac_batch *b, sac_session *s, sac_error *err) {
    if (sac_renew_is_due(s)) return SAC_OK; /* in a stream of its own */
    return sac_session_make_room(s, &b->stream, s->decoder.cache.n_rows + 1 + s->decoder.n_spare + s->decoder.n_ahead, err);
}

/* Runs the pending tokens of all sessions that have one and may go on. */
static void run_pending(sac_batch *b, sac_batch_item *items, size_t n, prompt_list *p) {
    size_t n_together = 0;
    for (size_t i = 0; i < n; i++) {
        sac_session *s = items[i].session;
        items[i].status = sac_session_check_cancel(s, &items[i].error);
        if (items[i].status != SAC_OK || !s->reply.pending) continue;
        items[i].status = make_room(b, s, &items[i].error);
        if (items[i].status != SAC_OK || sac_step_take_ahead(s)) continue;
        if (sac_renew_is_due(s) || sac_decoder_step_rows(&s->decoder) > b->rows.capacity)
            run_alone(b, &items[i]);
        else
            b->places[n_together++] = i;
    }
    run_places(b, items, b->places, n_together, p);
}

static void choose_one(void *ctx, int64_t i, int thread) {
    sac_batch_item *item = (sac_batch_item *)ctx + i;
    (void)thread;
    if (item->status == SAC_OK) sac_step_choose_ahead(item->session);
}

/* Sessions whose choice takes a while: one that looks at all logits, or sorts the best. */
static size_t n_looking(const sac_batch_item *items, size_t n) {
    size_t looking = 0;
    for (size_t i = 0; i < n; i++) {
        const sac_token_told *t = &items[i].session->decoder.told;
        looking += items[i].status == SAC_OK && (!t->is_told || t->n_best > 128);
    }
    return looking;
}

size_t sac_session_pass_rows(const sac_session *s, size_t most) {
    return (size_t)sac_work_pass_rows(s->work, most < INT64_MAX ? (int64_t)most : INT64_MAX);
}

static bool is_twice(const sac_batch_prompt *prompts, size_t i) {
    for (size_t k = 0; k < i; k++)
        if (prompts[k].session == prompts[i].session) return true;
    return false;
}

/* Items have no work under way, so none is a prompt. */
static sac_status check_prompts(const sac_batch *b, const sac_batch_prompt *prompts, size_t n, sac_error *err) {
    size_t rows = 0;
    if (n > SAC_BATCH_MOST_PROMPTS)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%zu prompts in a pass: give at most %d", n, SAC_BATCH_MOST_PROMPTS);
    for (size_t i = 0; i < n; i++) {
        const sac_session *s = prompts[i].session;
        if (s->model != b->model) return sac_fail(err, SAC_BAD_ARGUMENT, "prompt %zu of the batch is of another model", i);
        if (is_twice(prompts, i)) return sac_fail(err, SAC_BAD_ARGUMENT, "prompt %zu of the batch is given twice", i);
        if (!prompts[i].rows || prompts[i].rows > b->n_prompt || sac_session_pass_rows(s, prompts[i].rows) != prompts[i].rows)
            return sac_fail(err, SAC_BAD_ARGUMENT, "%zu rows of prompt %zu of the batch: sac_session_pass_rows says how many may be",
                            prompts[i].rows, i);
        rows += prompts[i].rows;
    }
    if (rows > b->n_prompt)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%zu rows of prompts in a batch made for %zu", rows, b->n_prompt);
    return SAC_OK;
}

size_t sac_batch_ran(const sac_batch *b, size_t *n_guessed) {
    if (n_guessed) *n_guessed = b->n_ran_ahead;
    return b->n_ran;
}

sac_status sac_batch_step(sac_batch *b, sac_batch_item *items, size_t n, sac_error *err) {
    return sac_batch_step_with(b, items, n, NULL, 0, err);
}

sac_status sac_batch_step_with(sac_batch *b, sac_batch_item *items, size_t n, sac_batch_prompt *of, size_t n_prompts,
                               sac_error *err) {
    int64_t start_ns = sac_now_ns();
    sac_error own;
    if (!err) err = &own;
    b->n_ran = b->n_ran_ahead = 0;
    sac_status st = check(b, items, n, err);
    if (st == SAC_OK) st = check_prompts(b, of, n_prompts, err);
    if (st == SAC_OK) st = enter(items, n, err);
    if (st != SAC_OK) {
        for (size_t i = 0; i < n; i++) {
            items[i].status = st;
            items[i].error = *err;
        }
        for (size_t i = 0; i < n_prompts; i++) {
            take_none(&of[i], st);
            of[i].error = *err;
        }
        return st;
    }
    prompt_list p = {.of = of, .n = n_prompts};
    hold_prompts(of, n_prompts, true);
    run_pending(b, items, n, &p);
    if (!p.taken) hold_prompts(of, n_prompts, false);
    for (size_t i = 0; i < n_prompts && !p.taken; i++) take_none(&of[i], SAC_OK);
    if (n_looking(items, n) > 1) sac_pool_run(b->model->pool, (int64_t)n, choose_one, items);
    for (size_t i = 0; i < n; i++) {
        sac_batch_item *item = &items[i];
        if (item->status == SAC_OK)
            item->status = sac_step_choose(item->session, &item->token, &item->done, &item->error);
        sac_step_leave(item->session, item->status, start_ns);
    }
    return SAC_OK;
}
