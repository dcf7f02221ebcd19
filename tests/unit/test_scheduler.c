/* The scheduler round by round, without its thread and without HTTP: who runs when, what a cancelled prompt
 * leaves, and that an answer is the same whoever else is being answered. */
#define _GNU_SOURCE
#include "clock.h"
#include "job_end.h"
#include "metrics.h"
#include "pauses.h"
#include "request.h"
#include "rounds.h"
#include "say.h"
#include "scheduler.h"
#include "status.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_near(double got, double want) {
    if (!(fabs(got - want) < 1e-9)) fail_msg("%g in place of %g", got, want);
}

/* ---------------------------------------------------------------- turns */

typedef struct runner {
    serve_turn turn;
    double piece_ns, tokens_a_piece;
    int64_t end_ns; /* when nothing was left */
} runner;

/* Runs all to their end in the order that the turns give. */
static void run_turns(runner *all, size_t n) {
    int64_t now = 0;
    for (;;) {
        serve_turn *turns[4];
        runner *of[4];
        size_t left = 0;
        for (size_t i = 0; i < n; i++) {
            if (all[i].turn.n_left <= 0) continue;
            turns[left] = &all[i].turn;
            of[left++] = &all[i];
        }
        if (left == 0) return;
        runner *r = of[serve_turn_next(turns, left)];
        size_t ran = 0;
        while (of[ran] != r) ran++;
        now += (int64_t)r->piece_ns;
        r->turn.n_left -= r->tokens_a_piece;
        serve_turn_count(turns, left, ran, (int64_t)r->piece_ns);
        if (r->turn.n_left <= 0) r->end_ns = now;
    }
}

static runner runner_of(uint64_t ticket, double n_tokens) {
    return (runner){.turn = {.ticket = ticket, .n_left = n_tokens}, .piece_ns = 10, .tokens_a_piece = 10};
}

static void like_prompts_run_one_after_the_other(void **state) {
    (void)state;
    runner r[] = {runner_of(3, 600), runner_of(1, 1000), runner_of(2, 900)};
    run_turns(r, 3);
    assert_int_equal(r[1].end_ns, 1000);
    assert_int_equal(r[2].end_ns, 1900);
    assert_int_equal(r[0].end_ns, 2500);
}

static void a_short_prompt_has_half_of_the_time(void **state) {
    (void)state;
    runner r[] = {runner_of(1, 1000), runner_of(2, 100)};
    run_turns(r, 2);
    assert_int_equal(r[1].end_ns, 190);
    assert_int_equal(r[0].end_ns, 1100);
    runner slow[] = {runner_of(1, 1000), runner_of(2, 100)};
    slow[0].piece_ns = 100; /* half of the time, not of the pieces */
    run_turns(slow, 2);
    assert_int_equal(slow[1].end_ns, 200);
}

/* However many come: each is held up by no more than it runs itself, and by those before it. */
static void the_oldest_prompt_never_starves(void **state) {
    (void)state;
    serve_turn old = {.ticket = 1, .n_left = 1000};
    int n_own = 0;
    for (uint64_t i = 2; i < 400; i++) {
        serve_turn young = {.ticket = i, .n_left = 1}, *both[] = {&young, &old};
        size_t next = serve_turn_next(both, 2);
        serve_turn_count(both, 2, next, 10);
        n_own += next == 1;
        assert_true(old.lent_ns <= old.own_ns + 10);
    }
    assert_int_equal(n_own, 199);
}

/* ---------------------------------------------------------------- a server without its threads */

static sac_model *model;

typedef struct bench {
    serve_config config;
    serve_server *s;
} bench;

/* The server points into the bench. */
static void configure(bench *b, int n_slots) {
    serve_config_default(&b->config);
    b->config.n_slots = n_slots;
    b->config.session.n_ctx = 4096;
    b->config.session.prefill_chunk = 64;
    b->config.request_methods = true;
}

static void start_bench(bench *b) {
    sac_error err;
    b->s = malloc(sizeof *b->s);
    assert_non_null(b->s);
    serve_server_init(b->s, model, &b->config);
    assert_int_equal(serve_metrics_open(&b->s->metrics, &err), SAC_OK);
    assert_int_equal(serve_scheduler_open(b->s, &err), SAC_OK);
    atomic_store(&b->s->answers, true);
}

static void open_bench_of(bench *b, int n_slots, bool shares) {
    configure(b, n_slots);
    b->config.share_beginnings = shares;
    start_bench(b);
}

static void open_bench(bench *b, int n_slots) {
    open_bench_of(b, n_slots, true);
}

static void close_bench(bench *b) {
    assert_int_equal(b->s->n_jobs, 0);
    serve_scheduler_close(b->s);
    serve_metrics_close(b->s->metrics);
    serve_server_destroy(b->s);
    free(b->s);
}

/* {"messages": ...} about as long as n_words tokens. */
static json_t *question(const char *word, int n_words, int n_tokens) {
    size_t each = strlen(word), n_bytes = each * (size_t)n_words;
    char *text = malloc(n_bytes);
    assert_non_null(text);
    for (int i = 0; i < n_words; i++) memcpy(text + each * (size_t)i, word, each);
    json_t *q =
        json_pack("{s:[{s:s, s:s%}], s:i, s:b, s:b, s:i}", "messages", "role", "user", "content", text,
                  n_bytes, "temperature", 0, "ignore_eos", 1, "logprobs", 1, "max_tokens", n_tokens);
    free(text);
    assert_non_null(q);
    return q;
}

/* A job that is made ready as a preparer does it, of a request that is taken over. */
static serve_job *ask_json(bench *b, json_t *q) {
    serve_server *s = b->s;
    serve_problem p = {0};
    char *body = json_dumps(q, 0);
    serve_job *j = serve_job_create(s, true);
    assert_true(serve_server_admit(s, j, &p));
    assert_ptr_equal(serve_queue_take(&s->intake), j);
    j->request = calloc(1, sizeof *j->request);
    assert_non_null(j->request);
    assert_true(serve_request_parse(j->request, &b->config, s->info.vocab, true, body, strlen(body), &p));
    j->priority = j->request->priority;
    j->trace = serve_trace_open(j->request, model);
    serve_queue_add(&s->ready, j);
    json_decref(q);
    free(body);
    return j;
}

static serve_job *ask(bench *b, const char *word, int n_words, int n_tokens) {
    return ask_json(b, question(word, n_words, n_tokens));
}

/* The slot that holds the job; NULL: it waits, or is over. */
static serve_slot *slot_of(const bench *b, const serve_job *j) {
    for (int i = 0; i < b->config.n_slots; i++)
        if (b->s->slots[i].job == j) return &b->s->slots[i];
    return NULL;
}

static bool has_begun_to_answer(const bench *b, const serve_job *j) {
    const serve_slot *slot = slot_of(b, j);
    return j->done || (slot && slot->n_tokens > 0);
}

/* What the scheduler does in one round, and then what its sayer's thread does: it ends when the server quits and nothing is left to say. */
static void run_a_round(bench *b) {
    serve_rounds_run(b->s->rounds);
    atomic_store(&b->s->quitting, true);
    serve_say_run(b->s);
    atomic_store(&b->s->quitting, false);
}

static void run_until_it_answers(bench *b, const serve_job *j) {
    for (int i = 0; !has_begun_to_answer(b, j); i++) {
        assert_true(i < 100000);
        run_a_round(b);
    }
}

/* To the last piece of its prompt. */
static void run_the_prompt(bench *b, const serve_job *j) {
    for (int i = 0; serve_slot_has_prompt(slot_of(b, j)); i++) {
        assert_true(i < 100000);
        run_a_round(b);
    }
}

static void run_to_the_end(bench *b, const serve_job *j) {
    for (int i = 0; !j->done; i++) {
        assert_true(i < 100000);
        run_a_round(b);
    }
}

/* Its reply; the job is let go of. */
static json_t *reply_of(serve_job *j) {
    assert_true(j->done);
    assert_int_equal(j->problem.status, 0);
    json_t *reply = json_loadb(j->out.data, j->out.n, 0, NULL);
    assert_non_null(reply);
    serve_job_release(j);
    return reply;
}

/* A choice's tokens and their logarithms of probability; borrowed. */
static json_t *tokens_of(json_t *reply, size_t choice) {
    const json_t *c = json_array_get(json_object_get(reply, "choices"), choice);
    return json_object_get(json_object_get(c, "logprobs"), "content");
}

static json_t *end_of(serve_job *j) {
    json_t *reply = reply_of(j), *tokens = json_incref(tokens_of(reply, 0));
    json_decref(reply);
    return tokens;
}

static json_t *answer_alone(const char *word, int n_words, int n_tokens) {
    bench b;
    open_bench(&b, 1);
    serve_job *j = ask(&b, word, n_words, n_tokens);
    run_to_the_end(&b, j);
    json_t *tokens = end_of(j);
    close_bench(&b);
    return tokens;
}

static void expect_same(const json_t *alone, const json_t *here, int n_tokens) {
    assert_int_equal(json_array_size(alone), n_tokens);
    assert_int_equal(json_array_size(here), n_tokens);
    for (size_t i = 0; i < (size_t)n_tokens; i++) {
        const json_t *want = json_array_get(alone, i), *got = json_array_get(here, i);
        assert_true(json_equal(json_object_get(want, "token"), json_object_get(got, "token")));
        double p = json_real_value(json_object_get(want, "logprob")),
               q = json_real_value(json_object_get(got, "logprob"));
        assert_true(p >= q && p <= q);
    }
}

static void expect_answer(serve_job *j, const char *word, int n_words, int n_tokens) {
    json_t *alone = answer_alone(word, n_words, n_tokens), *here = end_of(j);
    expect_same(alone, here, n_tokens);
    json_decref(alone);
    json_decref(here);
}

static double metric(const bench *b, const char *name) {
    serve_buffer page = {0};
    serve_metrics_write(b->s->metrics, "demo", &(serve_gauges){0}, &page);
    serve_buffer_add(&page, "", 1);
    char start[100];
    snprintf(start, sizeof start, "\n%s{", name);
    const char *line = strstr(page.data, start);
    assert_non_null(line);
    double value = strtod(strchr(line, '}') + 1, NULL);
    serve_buffer_free(&page);
    return value;
}

enum { LONG = 800, SHORT = 30 };

/* ---------------------------------------------------------------- rounds */

static void answers_go_on_while_a_prompt_is_run(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "hello ", SHORT, 700), *second;
    run_until_it_answers(&b, first);
    second = ask(&b, "number ", LONG, 20);
    run_a_round(&b);
    int64_t before = slot_of(&b, first)->n_tokens, n_pieces = 0, n_steps = 0;
    while (!has_begun_to_answer(&b, second)) {
        assert_false(first->done); /* the prompt goes on, too */
        int64_t had = slot_of(&b, first)->n_tokens;
        run_a_round(&b);
        slot_of(&b, first)->n_tokens > had ? n_steps++ : n_pieces++;
    }
    assert_true(n_pieces + n_steps > 10); /* many rows of it may go along with steps */
    assert_true(n_steps > 5);
    assert_true(metric(&b, "saccade:mixed_steps_total") > 0);
    assert_int_equal(slot_of(&b, first)->n_tokens - before, n_steps);
    run_to_the_end(&b, second);
    run_to_the_end(&b, first);
    assert_true(metric(&b, "saccade:decode_rows_total") == 700 + 20);
    assert_true(metric(&b, "vllm:time_to_first_token_seconds_count") == 2);
    assert_true(metric(&b, "vllm:request_prefill_time_seconds_count") == 2);
    assert_true(metric(&b, "vllm:request_queue_time_seconds_count") == 2);
    expect_answer(first, "hello ", SHORT, 700);
    expect_answer(second, "number ", LONG, 20);
    close_bench(&b);
}

/* ---------------------------------------------------------------- prompts that steps take along */

/* A long prompt beside an answer with a decode method, which goes on meanwhile unless drafts make it short or a target is so small
 * that pieces of the prompt come seldom. Returns how many steps took
 * rows along. */
static double run_beside(bench *b, const char *decode) {
    json_t *q = question("hello ", SHORT, 1000);
    json_object_set_new(q, "saccade", json_pack("{s:s}", "decode", decode));
    serve_job *first = ask_json(b, q), *second;
    run_until_it_answers(b, first);
    while (b->s->rounds->step_s <= 0) run_a_round(b); /* before it the prompt would begin in pieces */
    second = ask(b, "number ", LONG / 2, 2);
    for (int i = 0; !has_begun_to_answer(b, second); i++) {
        assert_true(i < 100000);
        assert_false(first->done && !b->config.session.draft && b->config.target_itl_s > 1); /* no target, no such promise */
        const double had = metric(b, "saccade:mixed_steps_total");
        run_a_round(b);
        const serve_slot *slot = slot_of(b, second);
        if (metric(b, "saccade:mixed_steps_total") > had && slot && serve_slot_has_prompt(slot))
            assert_true(sac_session_work_left(slot->session) > 0); /* logits come with the last rows */
    }
    const double n_mixed = metric(b, "saccade:mixed_steps_total");
    run_to_the_end(b, second);
    serve_job_cancel(first);
    run_to_the_end(b, first);
    serve_job_release(second);
    serve_job_release(first);
    return n_mixed;
}

static double count_mixed(const char *decode, const char *draft) {
    bench b;
    configure(&b, 2);
    b.config.target_itl_s = 60;
    b.config.session.draft = draft;
    start_bench(&b);
    const double n = run_beside(&b, decode);
    close_bench(&b);
    return n;
}

/* A prompt does not wait for the end of an answer whose steps run by themselves; one that drafts is not held up. */
static void prompts_go_on_beside_any_answer(void **state) {
    (void)state;
    assert_true(count_mixed("dense", NULL) > 2);
    assert_true(count_mixed("adore:sigma=attention", NULL) == 0);
    assert_true(count_mixed("dense", "lookup") == 0);
}

/* Every slot answers, and still there are rows for what each guesses. */
static void answers_draft_side_by_side(void **state) {
    (void)state;
    bench b;
    sac_result r;
    configure(&b, 2);
    b.config.session.draft = "sparse:most=3,adapt=0,budget=16,page=4";
    start_bench(&b);
    serve_job *jobs[2] = {ask(&b, "hello ", SHORT, 200), ask(&b, "number ", SHORT, 200)};
    for (int i = 0; i < 2; i++) run_until_it_answers(&b, jobs[i]);
    for (int round = 0; round < 12; round++) run_a_round(&b);
    for (int i = 0; i < 2; i++) {
        const serve_slot *slot = slot_of(&b, jobs[i]);
        assert_non_null(slot);
        sac_session_end(slot->session, &r);
        if (r.n_drafted_tokens < 3) fail_msg("%lld drafted of %lld", (long long)r.n_drafted_tokens, (long long)r.n_tokens);
        serve_job_cancel(jobs[i]);
    }
    for (int i = 0; i < 2; i++) {
        run_to_the_end(&b, jobs[i]);
        serve_job_release(jobs[i]);
    }
    close_bench(&b);
}

/* A first token is no measure of a step. */
static void steps_without_the_model_are_not_measured(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 1);
    b.s->rounds->step_s = 0.5;
    serve_job *j = ask(&b, "hello ", SHORT, 2);
    run_until_it_answers(&b, j);
    expect_near(b.s->rounds->step_s, 0.5);
    run_to_the_end(&b, j);
    assert_true(b.s->rounds->step_s < 0.5 || b.s->rounds->step_s > 0.5); /* the second one is */
    serve_job_release(j);
    close_bench(&b);
}

static void expect_cancelled(serve_job *j) {
    assert_true(j->done);
    assert_int_equal(j->problem.status, 503);
    serve_job_release(j);
}

/* A device that failed stays failed: the server takes no more, and says why it ends. */
static void a_failed_device_breaks_the_server(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 1);
    serve_problem p = {0};
    sac_error err = {.status = SAC_DEVICE, .text = "card 0 fell off the bus"};
    serve_job *bad = ask(&b, "hello ", SHORT, 5), *failed = ask(&b, "hello ", SHORT, 5), *next;
    assert_ptr_equal(serve_queue_take(&b.s->ready), bad);
    serve_job_fail(bad, SAC_BAD_ARGUMENT, &(sac_error){.text = "a request's own fault"});
    assert_false(atomic_load(&b.s->broken));
    assert_ptr_equal(serve_queue_take(&b.s->ready), failed);
    serve_job_fail(failed, SAC_DEVICE, &err);
    assert_true(atomic_load(&b.s->broken));
    assert_string_equal(b.s->failure.text, err.text);
    next = serve_job_create(b.s, true);
    assert_false(serve_server_admit(b.s, next, &p));
    assert_int_equal(p.status, 503);
    serve_job_release(next);
    serve_job_release(bad);
    serve_job_release(failed);
    close_bench(&b);
}

/* At its next piece, and the others do not notice. */
static void a_prompt_that_is_cancelled_frees_its_slot(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "hello ", SHORT, 100), *second, *third;
    run_until_it_answers(&b, first);
    second = ask(&b, "number ", LONG, 20);
    for (int i = 0; i < 5; i++) run_a_round(&b);
    serve_slot *slot = slot_of(&b, second);
    assert_true(serve_slot_has_prompt(slot));
    assert_true(slot->turn.n_left > LONG / 8);
    serve_job_cancel(second);
    run_a_round(&b);
    assert_null(slot->job);
    expect_cancelled(second);
    assert_false(first->done);
    third = ask(&b, "number ", SHORT, 20);
    run_a_round(&b);
    assert_ptr_equal(slot_of(&b, third), slot);
    run_to_the_end(&b, third);
    run_to_the_end(&b, first);
    expect_answer(first, "hello ", SHORT, 100);
    expect_answer(third, "number ", SHORT, 20);
    close_bench(&b);
}

static void what_waits_is_cancelled_too(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 1);
    serve_job *first = ask(&b, "number ", LONG, 5), *second;
    for (int i = 0; i < 5; i++) run_a_round(&b);
    second = ask(&b, "hello ", SHORT, 5);
    run_a_round(&b);
    assert_int_equal(b.s->ready.n, 1);
    serve_job_cancel(second);
    run_a_round(&b);
    assert_int_equal(b.s->ready.n, 0);
    expect_cancelled(second);
    run_to_the_end(&b, first);
    expect_answer(first, "number ", LONG, 5);
    close_bench(&b);
}

/* A long one waits its turn outside, where others may still go before it. */
static void a_short_prompt_goes_between_a_long_one_waits(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 3);
    serve_job *first = ask(&b, "number ", LONG, 20), *like, *quick;
    for (int i = 0; i < 5; i++) run_a_round(&b);
    like = ask(&b, "numbers ", LONG, 20);
    quick = ask(&b, "hello ", SHORT, 20);
    run_until_it_answers(&b, quick);
    assert_true(serve_slot_has_prompt(slot_of(&b, first)));
    assert_true(slot_of(&b, first)->turn.n_left > LONG / 2);
    run_the_prompt(&b, first);
    assert_null(slot_of(&b, like));
    run_to_the_end(&b, like);
    run_to_the_end(&b, quick);
    run_to_the_end(&b, first);
    expect_answer(first, "number ", LONG, 20);
    expect_answer(like, "numbers ", LONG, 20);
    expect_answer(quick, "hello ", SHORT, 20);
    close_bench(&b);
}

/* Three prompts at once: each short beside the one before. */
static void several_prompts_run_at_once(void **state) {
    (void)state;
    bench b;
    open_bench_of(&b, 4, false); /* they begin alike, and none is to wait for another's rows */
    static const int n_words[] = {LONG, LONG / 4, SHORT};
    serve_job *jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = ask(&b, "number ", n_words[i], 20);
        for (int k = 0; k < 3; k++) run_a_round(&b);
    }
    for (int i = 0; i < 3; i++) assert_true(serve_slot_has_prompt(slot_of(&b, jobs[i])));
    for (int i = 2; i >= 0; i--) {
        run_until_it_answers(&b, jobs[i]);
        for (int k = 0; k < i; k++) assert_true(serve_slot_has_prompt(slot_of(&b, jobs[k])));
    }
    for (int i = 0; i < 3; i++) {
        run_to_the_end(&b, jobs[i]);
        expect_answer(jobs[i], "number ", n_words[i], 20);
    }
    close_bench(&b);
}

/* The second and third prompt are nearly the first: they wait while it is run, and take its rows. */
static void prompts_that_begin_alike_are_run_once(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 4);
    static const int n_words[] = {LONG, LONG - 3, LONG + 5};
    serve_job *jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = ask(&b, "number ", n_words[i], 20);
        for (int k = 0; k < 3; k++) run_a_round(&b);
    }
    while (serve_slot_has_prompt(slot_of(&b, jobs[0]))) {
        assert_true(!slot_of(&b, jobs[1]) && !slot_of(&b, jobs[2]));
        run_a_round(&b);
    }
    for (int i = 0; i < 3; i++) run_to_the_end(&b, jobs[i]);
    double prompts = metric(&b, "vllm:prompt_tokens_total"), run = metric(&b, "saccade:prefilled_tokens_total");
    assert_true(run < 1.1 * prompts / 3);
    assert_true(run + metric(&b, "vllm:prefix_cache_hits_total") == prompts);
    for (int i = 0; i < 3; i++) expect_answer(jobs[i], "number ", n_words[i], 20);
    close_bench(&b);
}

/* The first one's client leaves in the middle of its prompt: the next one runs it itself, the last one waits for that. */
static void who_waits_for_one_that_leaves_goes_on(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 4);
    static const int n_words[] = {LONG, LONG - 3, LONG + 5};
    serve_job *jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = ask(&b, "number ", n_words[i], 20);
        for (int k = 0; k < 5; k++) run_a_round(&b);
    }
    assert_true(slot_of(&b, jobs[0]) && !slot_of(&b, jobs[1]) && !slot_of(&b, jobs[2]));
    serve_job_cancel(jobs[0]);
    run_a_round(&b);
    expect_cancelled(jobs[0]);
    assert_true(serve_slot_has_prompt(slot_of(&b, jobs[1])));
    for (; serve_slot_has_prompt(slot_of(&b, jobs[1])); run_a_round(&b)) assert_null(slot_of(&b, jobs[2]));
    for (int i = 1; i < 3; i++) run_to_the_end(&b, jobs[i]);
    assert_true(metric(&b, "saccade:prefilled_tokens_total") < 1.1 * metric(&b, "vllm:prompt_tokens_total") / 2);
    for (int i = 1; i < 3; i++) expect_answer(jobs[i], "number ", n_words[i], 20);
    close_bench(&b);
}

/* Without sharing a short one goes between as ever, whatever it begins with. */
static void without_sharing_nobody_waits(void **state) {
    (void)state;
    bench b;
    open_bench_of(&b, 2, false);
    serve_job *first = ask(&b, "number ", LONG, 5), *second;
    for (int k = 0; k < 5; k++) run_a_round(&b);
    second = ask(&b, "number ", LONG / 4, 5);
    run_a_round(&b);
    assert_true(slot_of(&b, second) && serve_slot_has_prompt(slot_of(&b, first)));
    run_to_the_end(&b, first);
    run_to_the_end(&b, second);
    assert_true(metric(&b, "vllm:prefix_cache_hits_total") == 0);
    serve_job_release(first);
    serve_job_release(second);
    close_bench(&b);
}

/* The first token takes no work of the model: it does not wait until a step is due. */
static void a_prompt_that_is_run_has_its_first_token_at_once(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "number ", LONG, 20), *quick;
    for (int i = 0; i < 5; i++) run_a_round(&b);
    quick = ask(&b, "hello ", SHORT, 20);
    do {
        b.s->rounds->stepped_ns = sac_now_ns();
        b.s->rounds->due_ns = INT64_MAX / 2;
        run_a_round(&b);
    } while (serve_slot_has_prompt(slot_of(&b, quick)));
    run_a_round(&b);
    assert_true(has_begun_to_answer(&b, quick));
    assert_true(serve_slot_has_prompt(slot_of(&b, first)));
    run_to_the_end(&b, quick);
    run_to_the_end(&b, first);
    serve_job_release(quick);
    serve_job_release(first);
    close_bench(&b);
}

/* What a slot holds of a prompt does not count: it is short. */
static void a_conversation_that_is_known_goes_between(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "number ", LONG, 5), *other, *again;
    run_until_it_answers(&b, first);
    serve_slot *slot = slot_of(&b, first);
    run_to_the_end(&b, first);
    other = ask(&b, "numbers ", LONG, 5);
    for (int i = 0; i < 5; i++) run_a_round(&b);
    assert_ptr_not_equal(slot_of(&b, other), slot);
    again = ask(&b, "number ", LONG, 5);
    run_a_round(&b);
    assert_ptr_equal(slot_of(&b, again), slot);
    run_to_the_end(&b, again);
    assert_true(serve_slot_has_prompt(slot_of(&b, other)));
    run_to_the_end(&b, other);
    expect_answer(first, "number ", LONG, 5);
    expect_answer(again, "number ", LONG, 5);
    expect_answer(other, "numbers ", LONG, 5);
    close_bench(&b);
}

/* One after the other in the one slot, between the steps of another answer; greedily all are the same. */
static void choices_begin_the_prompt_again(void **state) {
    (void)state;
    enum { CHOICES = 3, TOKENS = 12 };
    bench b;
    open_bench(&b, 2);
    serve_job *other = ask(&b, "hello ", SHORT, 300), *j;
    run_until_it_answers(&b, other);
    json_t *q = question("number ", LONG / 2, TOKENS), *alone = answer_alone("number ", LONG / 2, TOKENS);
    json_object_set_new(q, "n", json_integer(CHOICES));
    j = ask_json(&b, q);
    run_a_round(&b);
    const serve_slot *slot = slot_of(&b, j);
    for (int seen = 0; !j->done; run_a_round(&b)) {
        assert_ptr_equal(slot_of(&b, j), slot);
        assert_true(slot->choice == seen || slot->choice == seen + 1);
        if (slot->choice == seen + 1) assert_true(++seen < CHOICES && serve_slot_has_prompt(slot));
    }
    assert_true(metric(&b, "vllm:prompt_tokens_total") * (CHOICES - 1) <
                metric(&b, "vllm:prefix_cache_queries_total"));
    assert_true(metric(&b, "vllm:time_to_first_token_seconds_count") == 2);
    json_t *reply = reply_of(j);
    for (size_t i = 0; i < CHOICES; i++) expect_same(alone, tokens_of(reply, i), TOKENS);
    json_decref(reply);
    json_decref(alone);
    run_to_the_end(&b, other);
    expect_answer(other, "hello ", SHORT, 300);
    close_bench(&b);
}

/* However many short ones come. */
static void a_long_prompt_comes_to_its_end(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 3);
    serve_job *first = ask(&b, "number ", LONG, 5), *quick = NULL;
    int n_between = 0;
    for (int i = 0; !has_begun_to_answer(&b, first); i++) {
        assert_true(i < 7000);
        if (quick && quick->done) {
            serve_job_release(quick);
            quick = NULL;
            n_between++;
        }
        if (!quick) quick = ask(&b, "hello ", SHORT + i % 7, 1);
        run_a_round(&b);
    }
    assert_true(n_between > 5);
    run_to_the_end(&b, quick);
    serve_job_release(quick);
    run_to_the_end(&b, first);
    expect_answer(first, "number ", LONG, 5);
    close_bench(&b);
}

/* The one free slot goes to the short job that came later, then to the long one. */
static void the_shortest_is_first_in_line(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "number ", LONG, 150), *like, *quick;
    for (int i = 0; i < 5; i++) run_a_round(&b);
    like = ask(&b, "numbers ", LONG, 5);
    quick = ask(&b, "hello ", SHORT, 5);
    run_until_it_answers(&b, quick); /* between the pieces of the first */
    assert_null(slot_of(&b, like));
    run_to_the_end(&b, quick);
    run_to_the_end(&b, like);
    run_to_the_end(&b, first);
    expect_answer(like, "numbers ", LONG, 5);
    expect_answer(quick, "hello ", SHORT, 5);
    expect_answer(first, "number ", LONG, 150);
    close_bench(&b);
}

/* One slot, and whenever it is free a short job waits, too: the long one is begun as the fourth at the latest. */
static void a_long_job_is_not_put_off_for_ever(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 1);
    serve_job *short_ones[64] = {ask(&b, "hello ", SHORT, 3)}, *like = NULL;
    int n_before = 0, n_short = 1;
    for (int i = 0; !like || !slot_of(&b, like); i++) {
        assert_true(i < 20000);
        while (b.s->ready.n < 2) {
            serve_job *j = ask(&b, like ? "hello " : "number ", like ? SHORT : LONG / 2, 2);
            assert_true(n_short < 64);
            if (like)
                short_ones[n_short++] = j;
            else
                like = j;
        }
        const size_t waiting = b.s->ready.n;
        run_a_round(&b);
        n_before += b.s->ready.n < waiting;
    }
    assert_true(n_before > 1 && n_before <= SERVE_OLDEST_TURN + 1);
    run_to_the_end(&b, like);
    expect_answer(like, "number ", LONG / 2, 2);
    while (b.s->n_jobs) run_a_round(&b);
    for (int i = 0; i < n_short; i++) serve_job_release(short_ones[i]);
    close_bench(&b);
}

static serve_job *ask_with_priority(bench *b, const char *word, int n_words, int priority) {
    json_t *q = question(word, n_words, 5);
    json_object_set_new(q, "priority", json_integer(priority));
    return ask_json(b, q);
}

/* It runs before one that was begun, as long as itself, and before a shorter one that waits. */
static void an_earlier_priority_goes_first(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 4);
    serve_job *first = ask(&b, "number ", LONG, 5), *shorter, *urgent;
    for (int i = 0; i < 5; i++) run_a_round(&b);
    shorter = ask_with_priority(&b, "hello ", LONG / 2, 1);
    urgent = ask_with_priority(&b, "numbers ", LONG, -1);
    run_a_round(&b);
    assert_true(slot_of(&b, urgent) && !slot_of(&b, shorter));
    const double left = slot_of(&b, first)->turn.n_left;
    run_until_it_answers(&b, urgent);
    assert_true(slot_of(&b, first)->turn.n_left >= left);
    run_to_the_end(&b, first);
    run_to_the_end(&b, shorter);
    run_to_the_end(&b, urgent);
    expect_answer(first, "number ", LONG, 5);
    expect_answer(shorter, "hello ", LONG / 2, 5);
    expect_answer(urgent, "numbers ", LONG, 5);
    close_bench(&b);
}

/* Another client's priority is its own affair, unless all share them. */
static void priorities_of_others(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        bench b;
        open_bench(&b, 4);
        b.config.shared_priorities = b.s->ready.shared_priorities = shared;
        serve_job *first = ask(&b, "number ", LONG, 2), *urgent;
        for (int i = 0; i < 5; i++) run_a_round(&b);
        urgent = ask_with_priority(&b, "numbers ", LONG, -1);
        urgent->client = 7;
        run_a_round(&b);
        assert_int_equal(slot_of(&b, urgent) != NULL, shared);
        run_to_the_end(&b, first);
        run_to_the_end(&b, urgent);
        serve_job_release(first);
        serve_job_release(urgent);
        close_bench(&b);
    }
}

/* ---------------------------------------------------------------- pauses */

static void prompts_have_what_the_target_leaves(void **state) {
    (void)state;
    expect_near(serve_pause_share(0, 0.01), 0.01); /* no target: half of the time each, */
    expect_near(serve_pause_share(0, 0.3), 0.3);
    expect_near(serve_pause_piece(0, 0.01, 0), SERVE_PAUSE - 0.01); /* in pieces no longer than that, */
    expect_near(serve_pause_piece(0, 0.3, 0.1), 0.2);               /* or than a step */
    expect_near(serve_pause_piece(0, 0, 0), SERVE_PAUSE);
    expect_near(serve_pause_share(0.1, 0.03), 0.03);
    expect_near(serve_pause_share(0.1, 0.07), 0.03); /* less than half where the target wants it, */
    expect_near(serve_pause_share(0.1, 0.2), 0.05);  /* but never nothing */
    expect_near(serve_pause_piece(0.1, 0.03, 0.02), 0.05);
    expect_near(serve_pause_piece(0.1, 0.03, 0.0699), 0.07 / 4); /* the last piece before a step is not cut to nothing */
    expect_near(serve_pause_piece(0.02, 0, 0), 0.02);
    expect_near(serve_pause_step(0, 0.3), 0.3);
    expect_near(serve_pause_step(0.01, 0.3), 0.0125);
    expect_near(serve_pause_step(0.01, 0.002), 0.002);
    assert_int_equal(serve_pause_rows(0.1, 0.03, 0, 128), SERVE_PASS_LEAST); /* a step takes some rows along and measures; then */
    assert_int_equal(serve_pause_rows(0.1, 0.03, 0.0011, 128), 63);          /* as many as it has time for, */
    assert_int_equal(serve_pause_rows(0.1, 0.03, 0.0001, 128), 128);         /* or as it has room for, */
    assert_int_equal(serve_pause_rows(0.1, 0.03, 0.005, 128), 0);            /* but not a few */
}

/* Of a prompt; by number, as the clock of a busy machine tells little. */
static int count_pieces(double target_s) {
    bench b;
    open_bench(&b, 2);
    b.config.target_itl_s = target_s;
    serve_job *j = ask(&b, "number ", 3 * LONG, 1);
    int n = 0;
    for (; !has_begun_to_answer(&b, j); n++) run_a_round(&b);
    run_to_the_end(&b, j);
    serve_job_release(j);
    close_bench(&b);
    return n;
}

static void pieces_are_cut_to_the_target(void **state) {
    (void)state;
    const int n_cut = count_pieces(1e-6), n_whole = count_pieces(60);
    enum { LAYERS = 9, LEAST = 20 }; /* of attention; the last layer's is of one query */
    if (n_cut < n_whole + (LAYERS - 1) * LEAST) fail_msg("%d pieces, uncut %d", n_cut, n_whole);
}

static int open_model(void **state) {
    sac_error err;
    sac_model_options o;
    (void)state;
    sac_model_options_default(&o);
    o.n_threads = 1;
    return sac_model_open(&model, "models/demo", &o, &err);
}

static int close_model(void **state) {
    (void)state;
    sac_model_free(model);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(like_prompts_run_one_after_the_other),
        cmocka_unit_test(a_short_prompt_has_half_of_the_time),
        cmocka_unit_test(the_oldest_prompt_never_starves),
        cmocka_unit_test(answers_go_on_while_a_prompt_is_run),
        cmocka_unit_test(prompts_go_on_beside_any_answer),
        cmocka_unit_test(answers_draft_side_by_side),
        cmocka_unit_test(steps_without_the_model_are_not_measured),
        cmocka_unit_test(a_failed_device_breaks_the_server),
        cmocka_unit_test(a_prompt_that_is_cancelled_frees_its_slot),
        cmocka_unit_test(what_waits_is_cancelled_too),
        cmocka_unit_test(a_short_prompt_goes_between_a_long_one_waits),
        cmocka_unit_test(several_prompts_run_at_once),
        cmocka_unit_test(prompts_that_begin_alike_are_run_once),
        cmocka_unit_test(who_waits_for_one_that_leaves_goes_on),
        cmocka_unit_test(without_sharing_nobody_waits),
        cmocka_unit_test(a_prompt_that_is_run_has_its_first_token_at_once),
        cmocka_unit_test(a_conversation_that_is_known_goes_between),
        cmocka_unit_test(choices_begin_the_prompt_again),
        cmocka_unit_test(a_long_prompt_comes_to_its_end),
        cmocka_unit_test(the_shortest_is_first_in_line),
        cmocka_unit_test(a_long_job_is_not_put_off_for_ever),
        cmocka_unit_test(an_earlier_priority_goes_first),
        cmocka_unit_test(priorities_of_others),
        cmocka_unit_test(prompts_have_what_the_target_leaves),
        cmocka_unit_test(pieces_are_cut_to_the_target),
    };
    return cmocka_run_group_tests_name("the scheduler", tests, open_model, close_model);
}
