/* LongRoPE over its border, of a tiny Phi-3 whose keys are turned otherwise beyond 90 tokens: what an answer, a batch and a
 * conversation are there is what sequences are that were run whole. transformers' own numbers: test_parity. */
#include "saccade/saccade.h"
#include "status.h"
#include "test.h"

#include <math.h>

#define TINY "tests/golden/models/phi3_long"
enum { BORDER = 90, N_CTX = 200, VOCAB = 288, MOST = 120 };

static sac_model *model;
static sac_error err;

static int open_model(void **state) {
    (void)state;
    return sac_model_open(&model, TINY, NULL, &err) != SAC_OK;
}

static int close_model(void **state) {
    (void)state;
    sac_model_free(model);
    return 0;
}

static sac_session *session(const char *decode) {
    sac_session_config c;
    sac_session *s;
    sac_session_config_default(&c);
    c.n_ctx = N_CTX;
    c.kv = "f32";
    if (decode) c.decode = decode;
    assert_ok(sac_session_create(&s, model, &c, &err), err);
    return s;
}

static int32_t token(int i) {
    return 20 + (7 * i * i + 3 * i + 11) % 240;
}

static void fill(int32_t *ids, int n, int salt) {
    for (int i = 0; i < n; i++) ids[i] = token(i + salt);
}

static sac_sampling greedy(int n) {
    sac_sampling o;
    sac_sampling_default(&o);
    o.max_tokens = n;
    o.ignore_eos = true;
    return o;
}

/* Logits of a session that has seen nothing else. */
static void run_whole(const int32_t *ids, int n, float *logits) {
    sac_session *s = session(NULL);
    assert_ok(sac_session_append(s, ids, (size_t)n, NULL, &err), err);
    memcpy(logits, sac_session_logits(s), VOCAB * sizeof *logits);
    sac_session_free(s);
}

static double apart(const float *a, const float *b) {
    double most = 0, largest = 0;
    for (int i = 0; i < VOCAB; i++) {
        most = fmax(most, fabs((double)(a[i] - b[i])));
        largest = fmax(largest, fabs((double)b[i]));
    }
    return most / largest;
}

/* The prompt, and its greedy answer of n tokens behind it; returns how many tokens of it were reused. */
static int64_t answer(sac_session *s, int32_t *ids, int n_prompt, int n) {
    const sac_sampling o = greedy(n);
    sac_result r;
    int32_t id;
    assert_ok(sac_session_begin_tokens(s, ids, (size_t)n_prompt, &o, NULL, &err), err);
    for (bool done = false; !done;) assert_ok(sac_session_step(s, NULL, &id, &done, &err), err);
    sac_session_end(s, &r);
    assert_int_equal(r.n_tokens, n);
    memcpy(ids + n_prompt, r.tokens, (size_t)n * sizeof *ids);
    return r.n_reused_tokens;
}

static void steps_over_the_border_are_whole_sequences(void **state) {
    (void)state;
    static const char *const methods[] = {NULL, "quest:budget=64,page=8", "streaming:start=4,recent=400"};
    float want[VOCAB];
    for (size_t k = 0; k < SAC_COUNT(methods); k++) {
        int32_t ids[MOST];
        sac_session *s = session(methods[k]);
        fill(ids, MOST, 0);
        assert_ok(sac_session_append(s, ids, BORDER - 3, NULL, &err), err);
        for (int n = BORDER - 3; n < BORDER + 4; n++) {
            assert_ok(sac_session_append(s, &ids[n], 1, NULL, &err), err);
            run_whole(ids, n + 1, want);
            if (k != 1 || n == BORDER) assert_true(apart(sac_session_logits(s), want) < 1e-5);
        }
        assert_int_equal(sac_session_n_tokens(s), BORDER + 4);
        sac_session_free(s);
    }
}

/* Two appended at once, with the logits of both, of which the second is beyond. */
static void prompts_over_the_border_are_whole_sequences(void **state) {
    (void)state;
    int32_t ids[MOST];
    float want[VOCAB], found[2 * VOCAB];
    sac_session *s = session(NULL);
    fill(ids, MOST, 5);
    assert_ok(sac_session_append(s, ids, BORDER - 1, NULL, &err), err);
    assert_ok(sac_session_append(s, ids + BORDER - 1, 2, found, &err), err);
    run_whole(ids, BORDER + 1, want);
    assert_true(apart(found + VOCAB, want) < 1e-5);
    assert_true(apart(sac_session_logits(s), want) < 1e-5);
    run_whole(ids, BORDER, want); /* by the short factors, which the row before the last did not have */
    assert_true(apart(found, want) > 1e-3);
    sac_session_free(s);
}

static void a_batch_may_cross_the_border(void **state) {
    (void)state;
    enum { N = 3, N_STEPS = 20 };
    static const int lengths[N] = {BORDER - 8, BORDER - 30, BORDER + 5};
    int32_t alone[N][MOST], ids[MOST];
    sac_batch_item items[N];
    sac_batch *b;
    const sac_sampling o = greedy(N_STEPS);
    assert_ok(sac_batch_create(&b, model, N, &err), err);
    for (int i = 0; i < N; i++) {
        sac_session *s = session(NULL);
        fill(alone[i], lengths[i], 3 * i);
        answer(s, alone[i], lengths[i], N_STEPS);
        sac_session_free(s);
        fill(ids, lengths[i], 3 * i);
        items[i] = (sac_batch_item){.session = session(NULL)};
        assert_ok(sac_session_begin_tokens(items[i].session, ids, (size_t)lengths[i], &o, NULL, &err), err);
    }
    for (int step = 0; step < N_STEPS; step++) {
        assert_ok(sac_batch_step(b, items, N, &err), err);
        for (int i = 0; i < N; i++) {
            assert_ok(items[i].status, items[i].error);
            assert_int_equal(items[i].token, alone[i][lengths[i] + step]);
        }
    }
    for (int i = 0; i < N; i++) {
        sac_session_end(items[i].session, NULL);
        sac_session_free(items[i].session);
    }
    sac_batch_free(b);
}

/* A prompt of the session's own tokens and some more: what is reused, and that the answer is a fresh session's. */
static void ask_on(sac_session *s, const int32_t *before, int n_before, int n, bool reuses) {
    int32_t ids[MOST], fresh[MOST];
    sac_session *other = session(NULL);
    memcpy(ids, before, (size_t)n_before * sizeof *ids);
    for (int i = n_before; i < n; i++) ids[i] = token(1000 + i);
    memcpy(fresh, ids, sizeof ids);
    const int64_t n_reused = answer(s, ids, n, 4);
    assert_int_equal(n_reused > 0, reuses);
    assert_int_equal(answer(other, fresh, n, 4), 0);
    assert_memory_equal(ids, fresh, (size_t)(n + 4) * sizeof *ids);
    sac_session_free(other);
}

static void conversations_reuse_on_their_side_of_the_border(void **state) {
    (void)state;
    int32_t ids[MOST];
    sac_session *s = session(NULL);
    fill(ids, MOST, 9);
    answer(s, ids, BORDER - 20, 8);
    ask_on(s, ids, BORDER - 20, BORDER - 10, true);
    ask_on(s, ids, BORDER - 20, BORDER + 6, false);
    ask_on(s, ids, BORDER - 20, BORDER + 9, true); /* rows that the one before turned by the long factors */
    ask_on(s, ids, BORDER - 20, BORDER - 10, false);
    answer(s, ids, BORDER - 5, 12); /* over the border while it answers */
    ask_on(s, ids, BORDER + 7, BORDER + 12, true);
    sac_session_free(s);
}

/* Rows are shared below the border alone, and those of a session that has crossed it with nobody. */
static void beginnings_are_shared_below_the_border(void **state) {
    (void)state;
    enum { N = 5 };
    static const int lengths[N] = {BORDER - 10, BORDER - 6, BORDER + 5, BORDER - 4, BORDER - 2};
    static const bool takes[N] = {false, true, false, true, true}; /* the fourth crosses while it answers */
    int32_t ids[MOST], fresh[MOST];
    sac_session *sessions[N];
    sac_beginnings *b;
    sac_beginnings_report r;
    int64_t n_taken = 0;
    assert_ok(sac_beginnings_open(&b, model, &err), err);
    for (int i = 0; i < N; i++) {
        sac_session *other = session(NULL);
        sessions[i] = session(NULL);
        assert_ok(sac_session_join(sessions[i], b, &err), err);
        fill(ids, MOST, 4);
        memcpy(fresh, ids, sizeof ids);
        answer(sessions[i], ids, lengths[i], 8);
        answer(other, fresh, lengths[i], 8);
        assert_memory_equal(ids, fresh, (size_t)(lengths[i] + 8) * sizeof *ids);
        sac_beginnings_get_report(b, &r);
        assert_int_equal(r.n_taken - n_taken, takes[i]);
        n_taken = r.n_taken;
        sac_session_free(other);
    }
    for (int i = 0; i < N; i++) sac_session_free(sessions[i]);
    sac_beginnings_close(b);
}

static bool cancel_now(void *ctx, const char *utf8, size_t n) {
    (void)utf8, (void)n;
    return --*(int *)ctx > 0;
}

/* What is left behind by an answer that was given up on either side changes nothing. */
static void answers_that_are_left_change_nothing(void **state) {
    (void)state;
    int32_t ids[MOST];
    sac_session *s = session(NULL);
    for (int after = 1; after < 9; after += 3) {
        int left = after;
        const sac_events e = {.ctx = &left, .text = cancel_now};
        const sac_sampling o = greedy(12);
        sac_status st;
        int32_t id;
        fill(ids, MOST, 2);
        assert_ok(sac_session_begin_tokens(s, ids, BORDER - 4, &o, &e, &err), err);
        bool done = false;
        do st = sac_session_step(s, &e, &id, &done, &err);
        while (st == SAC_OK && !done);
        sac_session_end(s, NULL);
        ask_on(s, ids, BORDER - 4, BORDER + 2, sac_session_n_tokens(s) > BORDER);
        ask_on(s, ids, 40, 50, false);
    }
    sac_session_free(s);
}

static void drafts_stay_below_the_border(void **state) {
    (void)state;
    sac_session_config c;
    sac_session *s;
    sac_session_config_default(&c);
    c.draft = "lookup";
    c.n_ctx = BORDER + 1;
    assert_int_equal(sac_session_create(&s, model, &c, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "LongRoPE"));
    assert_non_null(strstr(err.text, "--ctx 90 or less"));
    c.n_ctx = BORDER;
    assert_ok(sac_session_create(&s, model, &c, &err), err);
    sac_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_over_the_border_are_whole_sequences),
        cmocka_unit_test(prompts_over_the_border_are_whole_sequences),
        cmocka_unit_test(a_batch_may_cross_the_border),
        cmocka_unit_test(conversations_reuse_on_their_side_of_the_border),
        cmocka_unit_test(beginnings_are_shared_below_the_border),
        cmocka_unit_test(answers_that_are_left_change_nothing),
        cmocka_unit_test(drafts_stay_below_the_border),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
