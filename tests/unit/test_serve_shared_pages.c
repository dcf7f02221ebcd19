/* Eight questions at once about one long text, where keys and values are in pages: one prompt is run, and its pages are there once. And
 * where pages run out among them: all are answered. */
#include "scheduler.h"
#include "scheduler_bench.h"

enum { CTX = 1280, QUESTIONS = 8, WORDS = 800, ANSWER = 16 };

static size_t row_bytes;

/* Of two contexts and a bit: without pages in common three of the questions would have room at a time. */
static int open_paged_model(void **state) {
    return open_model_of_pages(state, CTX, 36, &row_bytes);
}

/* A bit more than one. */
static int open_tight_model(void **state) {
    return open_model_of_pages(state, CTX, 17, &row_bytes);
}

/* Whose beginning is everybody's. */
static json_t *question_of(int k, int n_words, int n_tokens) {
    json_t *q = question("number ", n_words, n_tokens);
    const char *text = json_string_value(json_object_get(json_array_get(json_object_get(q, "messages"), 0), "content"));
    json_t *whole = json_sprintf("%sWhich one is number %d, and why?", text, k);
    json_object_set_new(json_array_get(json_object_get(q, "messages"), 0), "content", whole);
    return q;
}

static json_t *answer_of(json_t *reply) {
    return json_incref(tokens_of(reply, 0));
}

static int64_t count_of(json_t *reply, bool cached) {
    const json_t *usage = json_object_get(reply, "usage");
    if (!cached) return json_integer_value(json_object_get(usage, "prompt_tokens"));
    return json_integer_value(json_object_get(json_object_get(usage, "prompt_tokens_details"), "cached_tokens"));
}

static size_t pages_used(void) {
    sac_kv_pages p;
    sac_model_kv_pages(bench_model(), &p);
    return p.n_pages - p.n_free;
}

static void open_paged_bench(bench *b, int n_slots) {
    configure(b, n_slots);
    b->config.session.n_ctx = CTX;
    b->config.share_beginnings = true;
    b->config.n_client_slots = n_slots;
    start_bench(b);
}

static json_t *alone[QUESTIONS];

/* In one slot, one after another. */
static void ask_them_alone(int n, int n_words, int n_tokens) {
    bench b;
    open_paged_bench(&b, 1);
    for (int k = 0; k < n; k++) {
        serve_job *j = ask_json(&b, question_of(k, n_words, n_tokens));
        run_to_the_end(&b, j);
        json_t *reply = reply_of(j);
        alone[k] = answer_of(reply);
        json_decref(reply);
    }
    close_bench(&b);
}

static int n_answering(const bench *b) {
    int n = 0;
    for (int i = 0; i < b->config.n_slots; i++) n += b->s->slots[i].decoding && !b->s->slots[i].lacks_pages;
    return n;
}

static void eight_questions_cost_one_prompt(void **state) {
    (void)state;
    bench b;
    serve_job *j[QUESTIONS];
    int64_t n_prompt = 0, n_run = 0;
    int most_answering = 0;
    ask_them_alone(QUESTIONS, WORDS, ANSWER);
    open_paged_bench(&b, QUESTIONS);
    for (int k = 0; k < QUESTIONS; k++) j[k] = ask_json(&b, question_of(k, WORDS, ANSWER));
    for (int i = 0; b.s->n_jobs; i++) {
        assert_true(i < 100000);
        run_a_round(&b);
        if (n_answering(&b) > most_answering) most_answering = n_answering(&b);
    }
    for (int i = 0; i < QUESTIONS; i++) sac_session_trim(b.s->slots[i].session);
    size_t n_held = 0; /* idle slots that still have the text, for the next question */
    for (int i = 0; i < QUESTIONS; i++) n_held += sac_session_n_tokens(b.s->slots[i].session) > WORDS;
    const double use = serve_scheduler_cache_use(b.s);
    const size_t used = pages_used();
    for (int k = 0; k < QUESTIONS; k++) {
        json_t *reply = reply_of(j[k]), *here = answer_of(reply);
        expect_same(alone[k], here, ANSWER);
        n_prompt = count_of(reply, false);
        n_run += n_prompt - count_of(reply, true);
        json_decref(here);
        json_decref(reply);
        json_decref(alone[k]);
    }
    sac_kv_pages p;
    sac_model_kv_pages(bench_model(), &p);
    const double prompts = (double)n_run / (double)n_prompt, rows = (double)(used * p.page_bytes) / (double)row_bytes / (double)n_prompt;
    print_message("%.3f prompts of %lld tokens, pages of %.2f of them (cache use %.2f), %d answers at a time, %.0f preemptions, %zu slots hold it\n",
                  prompts, (long long)n_prompt, rows, use, most_answering, metric(&b, "vllm:num_preemptions_total"), n_held);
    assert_true(prompts < 1.2); /* of a text a hundred times as long 1.002 */
    assert_true(rows < 2.5);    /* each has some 200 rows of its own, with those that a kernel may touch behind them */
    assert_true(use > 0 && use <= 1);
    assert_true(n_held > 4 && most_answering > 1); /* of such prompts alone the pages hold three; a slot may answer two */
    assert_int_equal((int)metric(&b, "vllm:num_preemptions_total"), 0);
    close_bench(&b);
    assert_int_equal(pages_used(), 0);
}

enum { OWN = 200, OWN_ANSWER = 520, MANY = 3, FEWER = 600, LONG_ANSWER = 60 };

/* Who was let in first outgrows the pages: what the others have of their own gives way, and when that is not enough what they have in
 * common. The host takes no more rows than the pages hold. */
static void where_pages_run_out(void **state) {
    (void)state;
    bench b;
    serve_job *j[MANY], *other;
    ask_them_alone(MANY, FEWER, LONG_ANSWER);
    open_paged_bench(&b, MANY + 1);
    other = ask(&b, "red ", OWN, OWN_ANSWER);
    run_until_it_answers(&b, other);
    for (int k = 0; k < MANY; k++) j[k] = ask_json(&b, question_of(k, FEWER, LONG_ANSWER));
    bool in_part = false, as_a_whole = false;
    for (int i = 0; b.s->n_jobs; i++) {
        assert_true(i < 100000);
        run_a_round(&b);
        for (int k = 0; k <= MANY; k++) {
            const sac_session *session = b.s->slots[k].session;
            if (!sac_session_is_parked(session)) continue;
            in_part = in_part || sac_session_paged_bytes(session) > 0;
            as_a_whole = as_a_whole || !sac_session_paged_bytes(session);
        }
    }
    assert_true(in_part && as_a_whole);
    assert_true(metric(&b, "vllm:num_preemptions_total") > 0);
    for (int k = 0; k < MANY; k++) {
        json_t *reply = reply_of(j[k]), *here = answer_of(reply);
        expect_same(alone[k], here, LONG_ANSWER);
        json_decref(here);
        json_decref(reply);
        json_decref(alone[k]);
    }
    json_t *reply = reply_of(other);
    assert_int_equal(json_array_size(tokens_of(reply, 0)), OWN_ANSWER);
    json_decref(reply);
    close_bench(&b);
    assert_int_equal(pages_used(), 0);
}

int main(void) {
    const struct CMUnitTest roomy[] = {cmocka_unit_test(eight_questions_cost_one_prompt)},
                            tight[] = {cmocka_unit_test(where_pages_run_out)};
    const int failed = cmocka_run_group_tests_name("serve_shared_pages", roomy, open_paged_model, close_model);
    return failed + cmocka_run_group_tests_name("serve_shared_pages_tight", tight, open_tight_model, close_model);
}
