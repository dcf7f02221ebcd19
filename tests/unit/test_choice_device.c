/* Tokens that a device chooses from its logits, without one (late_device.h): they are those of the host, and the logits come down
 * for those sessions alone whose choice needs them. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "batch.h"
#include "late_card.h"

enum { N_CTX = 120, SESSIONS = 3, STEPS = 9 };

typedef struct answers {
    int32_t token[STEPS][SESSIONS];
    size_t n_fetched; /* bytes, in all steps but the first, which chooses from the prompts' logits */
    bool has_logits[SESSIONS];
} answers;

typedef struct asked {
    card c;
    sac_session *s[SESSIONS];
    sac_batch *batch;
    size_t row_bytes; /* of logits */
} asked;

static void open_asked(asked *a, bool leave) {
    sac_error err;
    open_card(&a->c);
    late_holds_largest = true;
    for (int i = 0; i < SESSIONS; i++) {
        assert_ok(sac_session_create(&a->s[i], a->c.m, &(sac_session_config){.n_ctx = N_CTX, .kv = "f32"}, &err), err);
        sac_session_leave_logits(a->s[i], leave);
    }
    assert_ok(sac_batch_create(&a->batch, a->c.m, SESSIONS, &err), err);
    a->row_bytes = (size_t)a->s[0]->decoder.vocab * sizeof(float);
}

static void close_asked(asked *a) {
    sac_batch_free(a->batch);
    for (int i = 0; i < SESSIONS; i++) sac_session_free(a->s[i]);
    close_card(&a->c);
}

static sac_sampling greedy(void) {
    sac_sampling o;
    sac_sampling_default(&o);
    o.max_tokens = STEPS, o.ignore_eos = true;
    return o;
}

static void begin(asked *a, int i, const sac_sampling *o) {
    int32_t ids[40];
    sac_error err;
    for (int t = 0; t < 40; t++) ids[t] = 10 + (t * (7 + 4 * i) + i) % 250;
    sac_session_reset(a->s[i]);
    assert_ok(sac_session_begin_tokens(a->s[i], ids, (size_t)(20 + 5 * i), o, NULL, &err), err);
}

static const sac_sampling *thirds; /* session 2's; NULL: greedy */

/* Session 1 has a sampling and events of its own. */
static void answer(asked *a, bool together, const sac_sampling *second, const sac_events *its, answers *out) {
    const sac_sampling o = greedy();
    sac_error err;
    for (int i = 0; i < SESSIONS; i++) begin(a, i, i == 1 ? second : i == 2 && thirds ? thirds : &o);
    for (int t = 0; t < STEPS; t++) {
        sac_batch_item items[SESSIONS] = {{0}};
        if (t == 1) late_n_downloaded = 0;
        for (int i = 0; i < SESSIONS; i++) items[i].session = a->s[i], items[i].events = i == 1 ? its : NULL;
        if (together) assert_ok(sac_batch_step(a->batch, items, SESSIONS, &err), err);
        for (int i = 0; i < SESSIONS; i++) {
            if (!together)
                items[i].status = sac_session_step(a->s[i], items[i].events, &items[i].token, &items[i].done, &items[i].error);
            assert_ok(items[i].status, items[i].error);
            out->token[t][i] = items[i].token;
        }
    }
    out->n_fetched = late_n_downloaded;
    for (int i = 0; i < SESSIONS; i++) {
        out->has_logits[i] = sac_session_logits(a->s[i]) != NULL;
        sac_session_end(a->s[i], NULL);
    }
}

enum { ROWS = (STEPS - 1) * SESSIONS };

static void greedy_answers_bring_no_logits_down(void **state) {
    (void)state;
    asked a;
    const sac_sampling o = greedy();
    for (int together = 0; together < 2; together++) {
        answers want, got;
        open_asked(&a, false);
        answer(&a, together, &o, NULL, &want);
        assert_int_equal(want.n_fetched, ROWS * a.row_bytes);
        for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], true);
        answer(&a, together, &o, NULL, &got);
        assert_int_equal(got.n_fetched, 0);
        assert_memory_equal(want.token, got.token, sizeof want.token);
        for (int i = 0; i < SESSIONS; i++) assert_true(want.has_logits[i] && !got.has_logits[i]);
        begin(&a, 0, &o); /* a prompt's come down */
        assert_non_null(sac_session_logits(a.s[0]));
        sac_session_end(a.s[0], NULL);
        sac_error err;
        const int32_t next = 17; /* and so do those of tokens that are no answer's */
        answer(&a, together, &o, NULL, &got);
        assert_ok(sac_session_append(a.s[0], &next, 1, NULL, &err), err);
        assert_non_null(sac_session_logits(a.s[0]));
        close_asked(&a);
    }
}

/* With a temperature and top_k the best come down, as many of each row as of the one that wants most; beside a greedy answer. */
static void the_best_alone_come_down(void **state) {
    (void)state;
    static const int most[] = {7, 200};
    asked a;
    for (int together = 0; together < 2; together++) {
        open_asked(&a, false);
        for (size_t k = 0; k < SAC_COUNT(most); k++) {
            answers want, got;
            sac_sampling o = greedy();
            o.temperature = 3, o.top_k = most[k], o.top_p = 0.97, o.seed = 6;
            sac_sampling fewer = o;
            fewer.top_k = 5, fewer.seed = 7;
            thirds = &fewer;
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], false);
            answer(&a, together, &o, NULL, &want);
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], true);
            answer(&a, together, &o, NULL, &got);
            thirds = NULL;
            const int n_numbers = together ? SESSIONS * most[k] : most[k] + 5;
            assert_int_equal(got.n_fetched, (size_t)((STEPS - 1) * n_numbers) * (sizeof(int32_t) + sizeof(float)));
            assert_memory_equal(want.token, got.token, sizeof want.token);
            for (int i = 0; i < SESSIONS; i++) assert_true(!got.has_logits[i]);
        }
        close_asked(&a);
    }
}

/* Sessions that take two rows each of a batch of four go through the model in two passes of one step: the lists of the first are not
 * those of the second. */
static void each_pass_has_its_lists(void **state) {
    (void)state;
    enum { FOUR = 4 };
    card c;
    sac_error err;
    sac_batch *batch;
    sac_session *s[FOUR];
    int32_t token[2][STEPS][FOUR];
    open_card(&c);
    const sac_session_config config = {.n_ctx = N_CTX, .kv = "f32", .decode = "adore:sigma=attention,m=24,r=1,recent=8"};
    for (int i = 0; i < FOUR; i++) assert_ok(sac_session_create(&s[i], c.m, &config, &err), err);
    assert_int_equal(sac_decoder_step_rows(&s[0]->decoder), 2);
    assert_ok(sac_batch_create(&batch, c.m, FOUR, &err), err);
    for (int leaves = 0; leaves < 2; leaves++) {
        for (int i = 0; i < FOUR; i++) {
            int32_t ids[60];
            for (int t = 0; t < 60; t++) ids[t] = 10 + (t * (7 + 4 * i) + i) % 250;
            sac_sampling o = greedy();
            o.temperature = 3, o.top_k = 9, o.seed = (uint64_t)(5 + i);
            sac_session_reset(s[i]);
            sac_session_leave_logits(s[i], leaves);
            assert_ok(sac_session_begin_tokens(s[i], ids, (size_t)(45 + 5 * (i % 3)), &o, NULL, &err), err);
        }
        for (int t = 0; t < STEPS; t++) {
            sac_batch_item items[FOUR] = {{0}};
            for (int i = 0; i < FOUR; i++) items[i].session = s[i];
            assert_ok(sac_batch_step(batch, items, FOUR, &err), err);
            for (int i = 0; i < FOUR; i++) {
                assert_ok(items[i].status, items[i].error);
                token[leaves][t][i] = items[i].token;
            }
        }
        for (int i = 0; i < FOUR; i++) sac_session_end(s[i], NULL);
    }
    assert_memory_equal(token[0], token[1], sizeof token[0]);
    sac_batch_free(batch);
    for (int i = 0; i < FOUR; i++) sac_session_free(s[i]);
    close_card(&c);
}

/* ---------------------------------------------------------------- what changes scores, sums and log probabilities */

enum { TOP = 6 };

typedef struct seen_token {
    int32_t id;
    float logprob;
    int n_top;
    sac_logprob top[TOP];
} seen_token;

typedef struct watch {
    seen_token seen[STEPS];
    int n, n_masks;
} watch;

static void see_token(void *ctx, const sac_token_event *t) {
    watch *w = ctx;
    seen_token *s = &w->seen[w->n++];
    *s = (seen_token){.id = t->id, .logprob = t->logprob, .n_top = t->n_top};
    assert_true(t->n_top <= TOP);
    memcpy(s->top, t->top, (size_t)t->n_top * sizeof *t->top);
}

/* Others at every token; a few of which most may not come. */
static void mask_some(void *ctx, uint32_t *allowed, int n_vocab) {
    watch *w = ctx;
    for (int id = 0; id < n_vocab; id++)
        if ((id * 7 + w->n_masks) % (w->n_masks % 3 ? 3 : 50) == 0) allowed[id / 32] &= ~(1u << (id % 32));
    for (int id = 0; id < n_vocab && w->n_masks == 4; id++)
        if (id % 20 != 11) allowed[id / 32] &= ~(1u << (id % 32));
    w->n_masks++;
}

typedef struct told_case {
    double temperature, top_p, min_p, repetition, presence, frequency;
    int top_k, n_top; /* -1: no log probabilities */
    bool bias, controls, mask;
    int n_best; /* that come down of a row; -1: all logits, and the best once: those that top_p leaves are not among them */
} told_case;

/* vocab / 4 of the best where top_p or min_p choose. */
#define FEW -2
static const told_case told_cases[] = {
    {1.5, 1, 0, 1, 0, 0, 0, -1, false, false, false, 0},
    {0.2, 0.5, 0, 1, 0, 0, 0, -1, false, false, false, FEW},
    {0.5, 1, 0.3, 1, 0, 0, 0, -1, false, false, false, FEW},
    {50, 0.99, 0, 1, 0, 0, 0, -1, false, false, false, -1},
    {0, 1, 0, 1.4, 0, 0, 0, -1, false, false, false, 0},
    {0, 1, 0, 1, 1.5, -0.6, 0, -1, false, false, false, 0},
    {0, 1, 0, 1, 0, 0, 0, -1, true, true, false, 0},
    {0, 1, 0, 1, 0, 0, 0, -1, false, false, true, 0},
    {0, 1, 0, 1, 0, 0, 0, 0, false, false, false, 0},
    {0, 1, 0, 1, 0, 0, 0, TOP, false, false, false, TOP},
    {2, 1, 0, 1, 0, 0, 0, 1, false, false, true, 0},
    {0.2, 0.95, 0.3, 0.7, 0.3, 0.2, 0, TOP, true, true, true, FEW},
    {1.2, 0.95, 0, 1.1, 0, 0, 12, TOP, true, false, true, 12},
    {50, 0.99, 0, 1.3, 0, 0, 0, TOP, true, false, true, -1},
};

static sac_sampling sampling_of(const told_case *c, const sac_controls *controls) {
    static const sac_logit_bias bias[] = {{11, 3}, {30, -4}};
    sac_sampling o = greedy();
    o.temperature = c->temperature, o.top_p = c->top_p, o.min_p = c->min_p, o.top_k = c->top_k, o.seed = 9;
    o.repetition_penalty = c->repetition, o.presence_penalty = c->presence, o.frequency_penalty = c->frequency;
    if (c->bias) o.logit_bias = bias, o.n_logit_bias = 2;
    if (c->controls) o.controls = controls;
    if (c->n_top >= 0) o.logprobs = true, o.top_logprobs = c->n_top;
    return o;
}

/* Beside two greedy sessions. */
static void what_changes_scores_is_done_there(void **state) {
    (void)state;
    sac_controls *controls;
    sac_error err;
    assert_ok(sac_controls_create(&controls, &err), err);
    assert_ok(sac_controls_set(controls, "logit_bias", "{\"14\": 2, \"17\": -1.5}", &err), err);
    asked a;
    for (int together = 0; together < 2; together++) {
        open_asked(&a, false);
        for (size_t k = 0; k < SAC_COUNT(told_cases); k++) {
            const told_case *c = &told_cases[k];
            const sac_sampling o = sampling_of(c, controls);
            answers want, got;
            watch w[2] = {{.n = 0}};
            sac_events e = {.ctx = &w[0], .token = see_token, .mask = c->mask ? mask_some : NULL};
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], false);
            answer(&a, together, &o, &e, &want);
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], true);
            e.ctx = &w[1];
            answer(&a, together, &o, &e, &got);
            assert_memory_equal(want.token, got.token, sizeof want.token);
            assert_memory_equal(&w[0], &w[1], sizeof w[0]);
            assert_int_equal(w[0].n_masks, c->mask ? STEPS : 0);
            const int few = a.s[0]->decoder.vocab / 4, n_best = c->n_best == FEW || c->n_best < 0 ? few : c->n_best;
            const bool all = c->n_best == -1;
            const size_t best = (size_t)n_best * (sizeof(int32_t) + sizeof(float)) * (together ? SESSIONS : 1);
            assert_int_equal(got.n_fetched, all ? best + (STEPS - 1) * a.row_bytes : (STEPS - 1) * best);
            for (int i = 0; i < SESSIONS; i++) assert_int_equal(got.has_logits[i], all && i == 1);
        }
        close_asked(&a);
    }
    sac_controls_free(controls);
}

static int n_seen;
static void see_logits(void *ctx, float *logits, int n_vocab) {
    (void)ctx;
    logits[n_vocab - 1] = -INFINITY;
    n_seen++;
}

/* Beside two sessions that leave theirs. */
static void what_needs_logits_gets_them(void **state) {
    (void)state;
    static const sac_events events = {.logits = see_logits};
    sac_controls *controls;
    sac_error err;
    enum { CASES = 4 };
    sac_sampling o[CASES];
    assert_ok(sac_controls_create(&controls, &err), err);
    assert_ok(sac_controls_set(controls, "suppress_tokens", "[12, 13]", &err), err);
    for (int k = 0; k < CASES; k++) o[k] = greedy();
    o[0].controls = controls;
    o[1].temperature = 2, o[1].controls = controls, o[1].logprobs = true;
    static const sac_logit_bias twice[] = {{11, -3}, {11, 1}};
    o[2].logit_bias = twice, o[2].n_logit_bias = 2;
    asked a;
    for (int together = 0; together < 2; together++) {
        answers want, got;
        open_asked(&a, false);
        for (int k = 0; k < CASES; k++) {
            const sac_events *its = k == 3 ? &events : NULL;
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], false);
            answer(&a, together, &o[k], its, &want);
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], true);
            answer(&a, together, &o[k], its, &got);
            assert_int_equal(got.n_fetched, (STEPS - 1) * a.row_bytes);
            assert_memory_equal(want.token, got.token, sizeof want.token);
            assert_true(!got.has_logits[0] && got.has_logits[1] && !got.has_logits[2]);
        }
        close_asked(&a);
    }
    assert_int_equal(n_seen, 2 * 2 * STEPS);
    sac_controls_free(controls);
}

/* Where rounding on the host could make two logits equal that are not, or where it is not wanted. */
static void some_models_and_limits_bring_all_down(void **state) {
    (void)state;
    const sac_sampling o = greedy();
    for (int k = 0; k < 3; k++) {
        asked a;
        answers got;
        open_asked(&a, true);
        sac_decoder_config *c = &a.c.m->device_decoder.decoder.config;
        if (k == 0) c->logit_softcap = 20;
        if (k == 1) c->logit_divisor = 3;
        if (k == 2) a.c.m->device.no_choice = true;
        for (int together = 0; together < 2; together++) {
            answers want;
            watch w[2] = {{.n = 0}};
            const sac_sampling changed = sampling_of(&told_cases[12], NULL);
            sac_events e = {.ctx = &w[0], .token = see_token, .mask = mask_some};
            answer(&a, together, &o, NULL, &got);
            assert_int_equal(got.n_fetched, ROWS * a.row_bytes);
            assert_true(got.has_logits[0]);
            answer(&a, together, &changed, &e, &got);
            assert_int_equal(got.n_fetched, ROWS * a.row_bytes);
            e.ctx = &w[1];
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], false);
            answer(&a, together, &changed, &e, &want);
            for (int i = 0; i < SESSIONS; i++) sac_session_leave_logits(a.s[i], true);
            assert_memory_equal(want.token, got.token, sizeof want.token);
            assert_memory_equal(&w[0], &w[1], sizeof w[0]);
        }
        close_asked(&a);
    }
}

/* A step of session 1 that changes, sums and lists, alone or beside another, of which the work or copy number `at` fails; how many
 * there are. */
static int step_that_fails(bool together, int at, sac_status *st) {
    const sac_sampling o = greedy(), changed = sampling_of(&told_cases[12], NULL);
    watch w = {.n = 0};
    const sac_events e = {.ctx = &w, .token = see_token, .mask = mask_some};
    sac_batch_item items[2] = {{0}};
    sac_error err;
    asked a;
    open_asked(&a, true);
    for (int i = 0; i < 2; i++) {
        begin(&a, i, i ? &changed : &o);
        items[i].session = a.s[i], items[i].events = i ? &e : NULL;
        assert_ok(sac_session_step(a.s[i], items[i].events, &items[i].token, &items[i].done, &err), err);
    }
    late_fail_at = at;
    if (together)
        assert_ok(sac_batch_step(a.batch, items, 2, &err), err);
    else
        items[1].status = sac_session_step(a.s[1], &e, &items[1].token, &items[1].done, &err);
    *st = items[1].status;
    const int n = at - late_fail_at;
    if (!late_failed) late_fail_at = 0;
    close_asked(&a);
    return n;
}

static void a_card_that_fails_is_said(void **state) {
    (void)state;
    enum { NONE = 1000000, LAST = 7 };
    for (int together = 0; together < 2; together++) {
        sac_status st;
        const int n = step_that_fails(together, NONE, &st);
        assert_int_equal(st, SAC_OK);
        assert_true(n > LAST);
        for (int at = n - LAST; at <= n; at++) {
            step_that_fails(together, at, &st);
            assert_int_equal(st, SAC_DEVICE);
        }
    }
}

/* As the host says it. */
static void no_numbers_are_said(void **state) {
    (void)state;
    const sac_sampling o = greedy();
    for (int k = 0; k < 4; k++) {
        const bool leave = k & 1, together = k & 2;
        asked a;
        sac_batch_item items[2] = {{0}};
        sac_error err;
        open_asked(&a, leave);
        for (int i = 0; i < 2; i++) begin(&a, i, &o), items[i].session = a.s[i];
        assert_ok(sac_batch_step(a.batch, items, 2, &err), err);
        const sac_tensor *embed = &a.c.m->loaded.decoder.embed.tensor;
        for (int64_t i = 0; i < embed->dim[0] * embed->dim[1]; i++) a.c.embed[i] = NAN;
        if (together) assert_ok(sac_batch_step(a.batch, items, 2, &err), err);
        for (int i = 0; i < 2; i++) {
            if (!together) items[i].status = sac_session_step(a.s[i], NULL, &items[i].token, &items[i].done, &items[i].error);
            assert_int_equal(items[i].status, SAC_BAD_ARGUMENT);
            assert_non_null(strstr(items[i].error.text, "logits are not numbers"));
        }
        close_asked(&a);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_answers_bring_no_logits_down), cmocka_unit_test(what_needs_logits_gets_them),
        cmocka_unit_test(the_best_alone_come_down), cmocka_unit_test(each_pass_has_its_lists), cmocka_unit_test(what_changes_scores_is_done_there),
        cmocka_unit_test(some_models_and_limits_bring_all_down), cmocka_unit_test(a_card_that_fails_is_said),
        cmocka_unit_test(no_numbers_are_said)};
    return cmocka_run_group_tests_name("choice on a device", tests, NULL, NULL);
}
