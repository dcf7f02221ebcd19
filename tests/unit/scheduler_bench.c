#define _GNU_SOURCE
#include "scheduler_bench.h"

#include "clock.h"
#include "metrics.h"
#include "request.h"
#include "say.h"
#include "scheduler.h"
#include "status.h"

static sac_model *model;

/* The server points into the bench. */
void configure(bench *b, int n_slots) {
    serve_config_default(&b->config);
    b->config.n_slots = n_slots;
    b->config.session.n_ctx = 4096;
    b->config.session.prefill_chunk = 64;
    b->config.request_methods = true;
}

void start_bench(bench *b) {
    sac_error err;
    b->s = malloc(sizeof *b->s);
    assert_non_null(b->s);
    serve_server_init(b->s, model, &b->config);
    assert_int_equal(serve_metrics_open(&b->s->metrics, &err), SAC_OK);
    assert_int_equal(serve_scheduler_open(b->s, &err), SAC_OK);
    atomic_store(&b->s->answers, true);
}

void open_bench_of(bench *b, int n_slots, bool shares) {
    configure(b, n_slots);
    b->config.share_beginnings = shares;
    start_bench(b);
}

void open_bench(bench *b, int n_slots) {
    open_bench_of(b, n_slots, true);
}

void close_bench(bench *b) {
    assert_int_equal(b->s->n_jobs, 0);
    serve_scheduler_close(b->s);
    serve_metrics_close(b->s->metrics);
    serve_server_destroy(b->s);
    free(b->s);
}

/* {"messages": ...} about as long as n_words tokens. */
json_t *question(const char *word, int n_words, int n_tokens) {
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
serve_job *ask_json(bench *b, json_t *q) {
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

serve_job *ask(bench *b, const char *word, int n_words, int n_tokens) {
    return ask_json(b, question(word, n_words, n_tokens));
}

/* The slot that holds the job; NULL: it waits, or is over. */
serve_slot *slot_of(const bench *b, const serve_job *j) {
    for (int i = 0; i < b->config.n_slots; i++)
        if (b->s->slots[i].job == j) return &b->s->slots[i];
    return NULL;
}

bool has_begun_to_answer(const bench *b, const serve_job *j) {
    const serve_slot *slot = slot_of(b, j);
    return j->done || (slot && slot->n_tokens > 0);
}

/* What the scheduler does in one round, and then what its sayer's thread does: it ends when the server quits and nothing is left to say. */
void run_a_round(bench *b) {
    serve_rounds_run(b->s->rounds);
    atomic_store(&b->s->quitting, true);
    serve_say_run(b->s);
    atomic_store(&b->s->quitting, false);
}

void run_rounds(bench *b, int n) {
    for (int i = 0; i < n; i++) run_a_round(b);
}

void run_all(bench *b) {
    for (int i = 0; b->s->n_jobs; i++) {
        assert_true(i < 100000);
        run_a_round(b);
    }
}

void run_until_it_answers(bench *b, const serve_job *j) {
    for (int i = 0; !has_begun_to_answer(b, j); i++) {
        assert_true(i < 100000);
        run_a_round(b);
    }
}

/* To the last piece of its prompt. */
void run_the_prompt(bench *b, const serve_job *j) {
    for (int i = 0; serve_slot_has_prompt(slot_of(b, j)); i++) {
        assert_true(i < 100000);
        run_a_round(b);
    }
}

void run_to_the_end(bench *b, const serve_job *j) {
    for (int i = 0; !j->done; i++) {
        assert_true(i < 100000);
        run_a_round(b);
    }
}

/* Its reply; the job is let go of. */
json_t *reply_of(serve_job *j) {
    assert_true(j->done);
    assert_int_equal(j->problem.status, 0);
    json_t *reply = json_loadb(j->out.data, j->out.n, 0, NULL);
    assert_non_null(reply);
    serve_job_release(j);
    return reply;
}

/* A choice's tokens and their logarithms of probability; borrowed. */
json_t *tokens_of(json_t *reply, size_t choice) {
    const json_t *c = json_array_get(json_object_get(reply, "choices"), choice);
    return json_object_get(json_object_get(c, "logprobs"), "content");
}

static json_t *end_of(serve_job *j) {
    json_t *reply = reply_of(j), *tokens = json_incref(tokens_of(reply, 0));
    json_decref(reply);
    return tokens;
}

json_t *answer_alone(const char *word, int n_words, int n_tokens) {
    bench b;
    open_bench(&b, 1);
    serve_job *j = ask(&b, word, n_words, n_tokens);
    run_to_the_end(&b, j);
    json_t *tokens = end_of(j);
    close_bench(&b);
    return tokens;
}

void expect_same(const json_t *alone, const json_t *here, int n_tokens) {
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

void expect_answer(serve_job *j, const char *word, int n_words, int n_tokens) {
    json_t *alone = answer_alone(word, n_words, n_tokens), *here = end_of(j);
    expect_same(alone, here, n_tokens);
    json_decref(alone);
    json_decref(here);
}

/* Two answers go on and a step is measured; there is all the time that prompts' rows may take. */
void begin_beside_answers(bench *b, serve_job *answers[2]) {
    configure(b, 6);
    b->config.target_itl_s = 60;
    start_bench(b);
    answers[0] = ask(b, "hello ", SHORT, 80);
    run_until_it_answers(b, answers[0]);
    answers[1] = ask(b, "and ", SHORT, 80);
    run_until_it_answers(b, answers[1]);
    while (b->s->rounds->cost.step_s <= 0) run_a_round(b);
    b->s->rounds->cost.row_s = 1e-6;
}

void end_answers(bench *b, serve_job *answers[2]) {
    for (int i = 0; i < 2; i++) run_to_the_end(b, answers[i]);
    expect_answer(answers[0], "hello ", SHORT, 80);
    expect_answer(answers[1], "and ", SHORT, 80);
    close_bench(b);
}

/* A round in which no step is due. */
void run_before_the_step(bench *b) {
    b->s->rounds->stepped_ns = sac_now_ns();
    b->s->rounds->due_ns = INT64_MAX / 2;
    run_a_round(b);
}

double metric(const bench *b, const char *name) {
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


int open_model(void **state) {
    sac_error err;
    sac_model_options o;
    (void)state;
    sac_model_options_default(&o);
    o.n_threads = 1;
    return sac_model_open(&model, "models/demo", &o, &err);
}

int open_model_of_pages(void **state, int64_t n_ctx, size_t parts, size_t *row_bytes) {
    sac_session_config c;
    sac_memory_report r;
    sac_error err;
    if (open_model(state)) return -1;
    sac_session_config_default(&c);
    c.n_ctx = n_ctx;
    if (sac_session_plan(model, &c, &r, &err) != SAC_OK) return -1;
    if (row_bytes) *row_bytes = r.kv_bytes_per_token;
    return sac_model_page_kv(model, r.kv_bytes_per_token * (size_t)n_ctx * parts / 16, &err);
}

sac_model *bench_model(void) {
    return model;
}

int close_model(void **state) {
    (void)state;
    sac_model_free(model);
    return 0;
}

void expect_cancelled(serve_job *j) {
    assert_true(j->done);
    assert_int_equal(j->problem.status, 503);
    serve_job_release(j);
}
