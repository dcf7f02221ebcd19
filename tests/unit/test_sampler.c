#include "controls.h"
#include "largest.h"
#include "order.h"
#include "sampler.h"
#include "score_weight.h"
#include "test.h"

#include <math.h>

enum { VOCAB = 600 }; /* looked at in three stretches, the last one short */

typedef struct fixture {
    sac_arena arena;
    sac_sampler sampler;
} fixture;

static int setup(void **state) {
    static fixture f;
    sac_error err;
    assert_ok(sac_arena_open(&f.arena, sac_sampler_bytes(VOCAB), &err), err);
    assert_ok(sac_sampler_init(&f.sampler, VOCAB, &f.arena, &err), err);
    *state = &f;
    return 0;
}

static int teardown(void **state) {
    sac_arena_free(&((fixture *)*state)->arena);
    return 0;
}

#define FILTERS(t, k, p, m, r, s)                                                                            \
    { .temperature = (t), .top_k = (k), .top_p = (p), .min_p = (m), .repetition_penalty = (r), .seed = (s) }
static const sac_sampler_config off = {.top_p = 1, .repetition_penalty = 1};

static void fill(float *logits) {
    uint64_t seed = 11;
    for (int i = 0; i < VOCAB; i++) logits[i] = 4 * test_rand_float(&seed);
}

static void greedy_takes_the_first_of_equals(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    sac_error err;
    float logits[VOCAB] = {0};
    logits[7] = logits[9] = 3;
    assert_ok(sac_sampler_start(s, &off, &err), err);
    assert_int_equal(sac_sampler_next(s, logits, 0), 7);
}

/* By a plain loop, over sizes about those that are looked at together. */
static void greedy_is_the_first_of_the_largest(void **state) {
    static const int sizes[] = {1, 2, 15, 16, 17, 1023, 1024, 1025, 5003};
    uint64_t seed = 5;
    (void)state;
    for (size_t k = 0; k < SAC_COUNT(sizes); k++) {
        int n = sizes[k];
        sac_arena arena;
        sac_sampler s;
        sac_error err;
        float *logits = calloc((size_t)n, sizeof *logits);
        assert_ok(sac_arena_open(&arena, sac_sampler_bytes(n), &err), err);
        assert_ok(sac_sampler_init(&s, n, &arena, &err), err);
        assert_ok(sac_sampler_start(&s, &off, &err), err);
        for (int round = 0; round < 40; round++) {
            int32_t best = 0;
            for (int i = 0; i < n;
                 i++) { /* ties, numbers that are none, and in one round nothing above them */
                float f = floorf(20 * test_rand_float(&seed));
                logits[i] = round % 4 == 1 && i % 3 == 1 ? NAN : round == 2 || i % 7 == 5 ? -INFINITY : f;
            }
            for (int i = 1; i < n; i++)
                if (logits[i] > logits[best]) best = i;
            assert_int_equal(sac_sampler_next(&s, logits, 0), logits[best] > -INFINITY ? best : -1);
        }
        free(logits);
        sac_arena_free(&arena);
    }
}

static void repetition_penalty_works_on_both_signs(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    sac_error err;
    sac_sampler_config c = off;
    c.repetition_penalty = 2;
    assert_ok(sac_sampler_start(s, &c, &err), err);
    sac_sampler_see(s, 1);
    sac_sampler_see(s, 2);
    sac_sampler_see(s, -1); /* ignored */
    float logits[VOCAB];
    for (int i = 0; i < VOCAB; i++) logits[i] = -9;
    logits[1] = 4;
    logits[2] = -1;
    logits[3] = 2.5f;
    assert_int_equal(sac_sampler_next(s, logits, 0), 3);
    assert_float_equal(s->scores[1], 2, 0);
    assert_float_equal(s->scores[2], -2, 0);
    assert_float_equal(logits[1], 4, 0); /* what the caller sees stays raw */
}

/* How often each token is drawn over many steps. */
static void histogram(sac_sampler *s, const sac_sampler_config *c, int n, int counts[VOCAB]) {
    sac_error err;
    float logits[VOCAB];
    memset(counts, 0, VOCAB * sizeof *counts);
    assert_ok(sac_sampler_start(s, c, &err), err);
    fill(logits);
    for (int step = 0; step < n; step++) counts[sac_sampler_next(s, logits, (uint64_t)step)]++;
}

/* The distribution by definition: sort, cut, renormalise. */
static void expected(const sac_sampler_config *c, double p[VOCAB]) {
    float logits[VOCAB];
    int order[VOCAB];
    fill(logits);
    for (int i = 0; i < VOCAB; i++) order[i] = i;
    for (int i = 0; i < VOCAB; i++)
        for (int j = i + 1; j < VOCAB; j++)
            if (logits[order[j]] > logits[order[i]]) {
                int t = order[i];
                order[i] = order[j];
                order[j] = t;
            }
    int k = c->top_k > 0 && c->top_k < VOCAB ? c->top_k : VOCAB;
    double total = 0, sum = 0, kept = 0;
    for (int i = 0; i < k; i++) total += exp((double)logits[order[i]] / c->temperature);
    double best = exp((double)logits[order[0]] / c->temperature);
    memset(p, 0, VOCAB * sizeof *p);
    for (int i = 0; i < k; i++) {
        double e = exp((double)logits[order[i]] / c->temperature);
        if (i > 0 && (sum >= c->top_p * total || e < c->min_p * best)) break;
        sum += e;
        p[order[i]] = e;
        kept += e;
    }
    for (int i = 0; i < VOCAB; i++) p[i] /= kept;
}

static void draws_follow_the_filtered_distribution(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    const sac_sampler_config cases[] = {
        FILTERS(1.0, 0, 1, 0, 1, 3),     FILTERS(0.7, 5, 1, 0, 1, 4),       FILTERS(1.3, 0, 0.8, 0, 1, 5),
        FILTERS(1.0, 10, 0.6, 0, 1, 6),  FILTERS(1.0, 0, 1, 0.2, 1, 7),     FILTERS(0.8, 12, 0.9, 0.1, 1, 8),
        FILTERS(1.0, 1, 1, 0, 1, 9),     FILTERS(1.0, 0, 0.0001, 0, 1, 10), FILTERS(1.0, 500, 1, 0, 1, 11),
        FILTERS(1.0, 5000, 1, 0, 1, 12),
    };
    enum { n = 10000 };
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        int counts[VOCAB];
        double p[VOCAB];
        histogram(s, &cases[i], n, counts);
        expected(&cases[i], p);
        for (int t = 0; t < VOCAB; t++) {
            if (p[t] == 0) assert_int_equal(counts[t], 0);
            double sigma = sqrt(p[t] * (1 - p[t]) / n);
            assert_true(fabs(counts[t] / (double)n - p[t]) <= 5 * sigma + 2.0 / n);
        }
    }
}

/* Of equal scores the lower ids are taken; what has no number or -infinity never is. */
static void the_best_k_are_the_first_of_equals(void **state) {
    static const int sizes[] = {1, 2, 40, 256, 257};
    sac_sampler *s = &((fixture *)*state)->sampler;
    float logits[VOCAB];
    uint64_t seed = 3;
    for (int i = 0; i < VOCAB; i++) logits[i] = floorf(3 * test_rand_float(&seed));
    for (int i = 100; i < 130; i++) logits[i] = i % 2 ? -INFINITY : NAN;
    for (size_t n = 0; n < SAC_COUNT(sizes); n++) {
        const sac_sampler_config c = FILTERS(2.0, sizes[n], 1, 0, 1, n);
        bool drawn[VOCAB] = {false};
        int n_drawn = 0, n_better;
        sac_error err;
        assert_ok(sac_sampler_start(s, &c, &err), err);
        for (uint64_t step = 0; step < 5000; step++) drawn[sac_sampler_next(s, logits, step)] = true;
        for (int i = 0; i < VOCAB; i++) {
            n_better = 0;
            for (int j = 0; j < VOCAB; j++)
                n_better += logits[j] > logits[i] || (logits[j] == logits[i] && j < i);
            if (drawn[i]) assert_true(logits[i] > -INFINITY && n_better < sizes[n]);
            n_drawn += drawn[i];
        }
        assert_int_equal(n_drawn, sizes[n]);
    }
}

static const float *sorted_by;

static int by_score(const void *a, const void *b) {
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    if (sorted_by[x] != sorted_by[y]) return sorted_by[x] < sorted_by[y] ? 1 : -1;
    return x < y ? -1 : x > y;
}

/* More than a few, ties and both zeros among them: against a sort. */
static void the_best_come_in_order(void **state) {
    enum { n = 3001, BANNED = 200 };
    static const int ks[] = {2500, 2900};
    static float logits[n];
    static int32_t order[n];
    sac_arena arena;
    sac_sampler s;
    sac_error err;
    uint64_t seed = 9;
    (void)state;
    assert_ok(sac_arena_open(&arena, sac_sampler_bytes(n), &err), err);
    assert_ok(sac_sampler_init(&s, n, &arena, &err), err);
    for (int32_t i = 0; i < n; i++) {
        float f = test_rand_float(&seed);
        logits[i] = i % 5 == 0 ? floorf(4 * f) : i % 5 == 1 ? -0.0f : 100 * f;
        if (i < BANNED) logits[i] = i % 2 ? NAN : -INFINITY;
        order[i] = i;
    }
    sorted_by = logits;
    qsort(order + BANNED, n - BANNED, sizeof *order, by_score);
    for (size_t k = 0; k < SAC_COUNT(ks); k++) {
        const sac_sampler_config c = FILTERS(1.0, ks[k], 1, 0, 1, 1);
        int n_taken = ks[k] < n - BANNED ? ks[k] : n - BANNED;
        assert_ok(sac_sampler_start(&s, &c, &err), err);
        sac_sampler_next(&s, logits, 0);
        assert_int_equal(s.n_taken, n_taken);
        assert_memory_equal(s.taken, order + BANNED, (size_t)n_taken * sizeof *order);
    }
    sac_arena_free(&arena);
}

/* As a callback forces a token. */
static void infinity_is_drawn_and_nothing_else(void **state) {
    const sac_sampler_config cases[] = {FILTERS(1.0, 0, 1, 0, 1, 1), FILTERS(1.0, 5, 0.9, 0.1, 1, 2), off};
    sac_sampler *s = &((fixture *)*state)->sampler;
    float logits[VOCAB], logprob;
    sac_logprob top[2];
    sac_error err;
    fill(logits);
    logits[300] = INFINITY;
    for (size_t n = 0; n < SAC_COUNT(cases); n++) {
        assert_ok(sac_sampler_start(s, &cases[n], &err), err);
        for (uint64_t step = 0; step < 100; step++) assert_int_equal(sac_sampler_next(s, logits, step), 300);
        assert_int_equal(sac_sampler_logprobs(s, 300, &logprob, top, 2), 2);
        assert_true(logprob == 0 && top[0].id == 300 && top[0].logprob == 0 && top[1].logprob == -INFINITY);
    }
}

/* Every token's, and those of the best, by definition. */
static void logprobs_are_those_of_the_softmax(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    const sac_sampler_config c = FILTERS(0.7, 0, 1, 0, 1, 1);
    sac_error err;
    sac_logprob top[3];
    float logits[VOCAB], logprob;
    double sum = 0;
    fill(logits);
    logits[VOCAB - 1] = -INFINITY;
    for (int i = 0; i < VOCAB; i++) sum += exp((double)logits[i] / 0.7);
    assert_ok(sac_sampler_start(s, &c, &err), err);
    sac_sampler_next(s, logits, 0);
    for (int i = 0; i < VOCAB - 1; i++) {
        assert_int_equal(sac_sampler_logprobs(s, i, &logprob, top, 3), 3);
        assert_true(fabs((double)logprob - ((double)logits[i] / 0.7 - log(sum))) < 2e-6);
        assert_true(top[0].logprob >= top[1].logprob && top[1].logprob >= top[2].logprob);
        assert_true(logprob <= top[2].logprob || i == top[0].id || i == top[1].id);
    }
}

static void tiny_temperatures_are_greedy(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    sac_error err;
    float logits[VOCAB];
    fill(logits);
    assert_ok(sac_sampler_start(s, &off, &err), err);
    int32_t best = sac_sampler_next(s, logits, 0);
    for (double t = 1e-6; t > 0; t *= 1e-20) {
        sac_sampler_config c = off;
        c.temperature = t;
        assert_ok(sac_sampler_start(s, &c, &err), err);
        for (uint64_t step = 0; step < 50; step++) assert_int_equal(sac_sampler_next(s, logits, step), best);
    }
}

static void same_seed_same_draws(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    const sac_sampler_config c = FILTERS(1.0, 0, 0.95, 0, 1, 77);
    int a[VOCAB], b[VOCAB];
    histogram(s, &c, 500, a);
    histogram(s, &c, 500, b);
    assert_memory_equal(a, b, sizeof a);
}

/* As the op top_k has them: the n best, equal ones by rising ids, NaN as if it were -infinity; by rising ids. */
static void best_of(const float *logits, int n, int32_t *ids, float *values) {
    float keys[VOCAB];
    int32_t all[VOCAB], order[VOCAB];
    bool is_in[VOCAB] = {false};
    int n_found = 0;
    for (int i = 0; i < VOCAB; i++) all[i] = i, keys[i] = isnan(logits[i]) ? -INFINITY : logits[i];
    sac_order_falling(keys, all, order, VOCAB);
    for (int i = 0; i < n; i++) is_in[order[i]] = true;
    for (int i = 0; i < VOCAB; i++)
        if (is_in[i]) ids[n_found] = i, values[n_found++] = logits[i];
}

/* What a device tells of logits, as its ops have it, of `extra` more of the best than are wanted. `logits` are edited. */
static sac_token_told tell(const sac_token_wanted *w, float *logits, int extra) {
    static int32_t ids[VOCAB];
    static float values[VOCAB], masses[VOCAB];
    static sac_score_edit edits[SAC_MOST_EDITS];
    const int n_edits = w->is_edited ? sac_sampler_edits(w->sampler, edits) : 0;
    for (int i = 0; i < n_edits; i++) {
        float *x = &logits[edits[i].id];
        *x += edits[i].bias;
        *x = *x < 0 ? *x * edits[i].repetition : *x / edits[i].repetition;
        *x -= edits[i].less;
    }
    sac_token_told t = {.is_told = true, .largest_at = sac_largest_at(logits, VOCAB), .drawn_at = -1};
    t.largest = logits[t.largest_at] > -INFINITY ? logits[t.largest_at] : -INFINITY;
    if (w->n_best > 1) {
        t.n_best = w->n_best + extra, t.best_at = ids, t.best = values;
        best_of(logits, t.n_best, ids, values);
    }
    if (w->scale == 0) return t;
    const sac_weighing by = {t.largest, w->scale};
    t.total = sac_score_of_all(by, logits, VOCAB, masses);
    if (w->u > 0) t.drawn_at = (int32_t)sac_score_draw(by, logits, VOCAB, masses, w->u * t.total);
    if (t.drawn_at >= 0 && t.drawn_at < VOCAB) t.drawn = logits[t.drawn_at];
    return t;
}

static void fill_round(float *logits, int round, uint64_t *seed) {
    for (int i = 0; i < VOCAB; i++) {
        const float x = 4 * test_rand_float(seed);
        logits[i] = round == 1 ? floorf(x) : round == 2 ? (i % 2 ? 0.0f : -0.0f) : round == 3 && i % 100 ? -INFINITY : x;
        if (round == 4 && i % 3 == 1) logits[i] = NAN;
        if (round == 5) logits[i] *= 4;
    }
    if (round == 6) logits[500] = logits[510] = INFINITY;
}

static void see_some(sac_sampler *s) {
    for (int i = 0; i < 200; i++) sac_sampler_see(s, 3 * i);
    for (int i = 0; i < 90; i++) sac_sampler_count(s, 7 * (i / 3) + 2);
}

static void expect_same_logprobs(const sac_logprob *a, const sac_logprob *b, int n) {
    for (int i = 0; i < n; i++) assert_true(a[i].id == b[i].id && !memcmp(&a[i].logprob, &b[i].logprob, sizeof(float)));
}

/* What is told of logits decides as all of them do, and gives the same log probabilities, to the bit: ties at the border, zeros of both
 * signs, infinities, numbers that are none; from as many of the best as are wanted and from more. Or all are asked for. */
static void what_is_told_decides_as_all_do(void **state) {
    enum { ROUNDS = 7, CASES = 17 };
    static const sac_logit_bias bias[] = {{3, 1}, {9, -2.5f}, {14, -0.0f}, {500, 8}};
    sac_sampler_config cases[CASES] = {
        FILTERS(1, 5, 1, 0, 1, 3),      FILTERS(0.7, 20, 0.8, 0, 1, 9),  FILTERS(2, 100, 0.95, 0.02, 1, 5),
        FILTERS(0.01, 2, 1, 0, 1, 1),   FILTERS(100, 64, 0.5, 0, 1, 77), FILTERS(1, 0, 1, 0, 1, 3),
        FILTERS(0.6, 0, 0.9, 0, 1, 4),  FILTERS(1, 0, 1, 0.05, 1, 5),    FILTERS(30, 0, 0.2, 0, 1, 6),
        FILTERS(30, 0, 0.9, 0, 1, 7),   FILTERS(0, 0, 1, 0, 1, 0),       FILTERS(0, 0, 1, 0, 1.3, 0),
        FILTERS(1.2, 0, 1, 0, 1.2, 8),  FILTERS(0.9, 0, 0.7, 0, 0.8, 9), FILTERS(0.9, 30, 1, 0, 1.1, 10),
        FILTERS(1, 0, 0.95, 0.01, 1, 2), FILTERS(0, 0, 1, 0, 1, 0)};
    cases[12].presence_penalty = 0.5, cases[13].frequency_penalty = -0.7, cases[14].presence_penalty = -2;
    for (int i = 12; i < CASES; i++) cases[i].bias = bias, cases[i].n_bias = SAC_COUNT(bias);
    sac_sampler *s = &((fixture *)*state)->sampler;
    uint64_t seed = 17;
    int n_told = 0, n_not = 0, n_other = 0;
    for (int n = 0; n < CASES * ROUNDS * 3; n++) {
        const sac_sampler_config *c = &cases[n / 3 % CASES];
        const int round = n / 3 / CASES, n_top = n % 3 ? 10 * (n % 3) - 10 : -1;
        float logits[VOCAB], changed[VOCAB];
        sac_error err;
        fill_round(logits, round, &seed);
        assert_ok(sac_sampler_start(s, c, &err), err);
        see_some(s);
        for (uint64_t step = 0; step < 5; step++) {
            sac_logprob top[2][20];
            float logprob[2];
            const sac_token_wanted w = sac_sampler_wants(s, step, n_top);
            assert_true(w.n_best > 0 && w.n_best <= VOCAB / 4);
            const int32_t want = sac_sampler_next(s, logits, step);
            const int listed = n_top >= 0 && want >= 0 ? sac_sampler_logprobs(s, want, &logprob[0], top[0], n_top) : -1;
            for (int i = 0; i < VOCAB; i++) s->scores[i] = NAN; /* whatever was there */
            memcpy(changed, logits, sizeof changed);
            const sac_token_told t = tell(&w, changed, w.n_best > 1 && step % 2 ? 28 : 0);
            if (!sac_sampler_is_told(s, &w, &t)) {
                n_not++;
                sac_sampler_load(s, changed);
                assert_int_equal(sac_sampler_choose_edited(s, step), want);
                continue;
            }
            n_told++;
            assert_int_equal(sac_sampler_choose_told(s, &t, step), want);
            n_other += want != t.largest_at;
            if (listed < 0) continue;
            assert_int_equal(sac_sampler_logprobs_told(s, &t, want, &logprob[1], top[1], n_top), listed);
            assert_memory_equal(&logprob[0], &logprob[1], sizeof logprob[0]);
            expect_same_logprobs(top[0], top[1], listed);
        }
    }
    assert_true(n_told > 1200 && n_not > 40 && n_other > 400);
}

/* Of all by their weight, where rounding left none: the best, as of all logits. */
static void a_draw_that_ends_behind_all_is_the_best(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    const sac_sampler_config c = FILTERS(1, 0, 1, 0, 1, 1);
    sac_token_told t = {.is_told = true, .largest_at = 17, .largest = 2, .drawn_at = VOCAB, .total = 3};
    sac_error err;
    float logprob;
    assert_ok(sac_sampler_start(s, &c, &err), err);
    assert_int_equal(sac_sampler_choose_told(s, &t, 0), 17);
    assert_int_equal(sac_sampler_logprobs_told(s, &t, 17, &logprob, NULL, 0), 0);
    assert_true(fabs((double)logprob + log(3)) < 1e-6);
    t.drawn_at = 4, t.drawn = 1.5f;
    assert_int_equal(sac_sampler_choose_told(s, &t, 0), 4);
    assert_int_equal(sac_sampler_logprobs_told(s, &t, 4, &logprob, NULL, 0), 0);
    assert_true(fabs((double)logprob + 0.5 + log(3)) < 1e-6);
}

/* By hand: biases and penalties of tokens, each once. */
static void edits_are_listed(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    static const sac_logit_bias bias[] = {{40, 1.5f}, {2, -3}};
    sac_sampler_config c = off;
    sac_score_edit e[SAC_MOST_EDITS];
    sac_error err;
    c.bias = bias, c.n_bias = 2, c.repetition_penalty = 1.25, c.presence_penalty = 0.5, c.frequency_penalty = 0.25;
    assert_ok(sac_sampler_start(s, &c, &err), err);
    for (int32_t id = 1; id < 4; id++) sac_sampler_see(s, id), sac_sampler_see(s, id);
    for (int i = 0; i < 3; i++) sac_sampler_count(s, 7);
    sac_sampler_see(s, VOCAB + 3); /* a visual token's */
    assert_int_equal(sac_sampler_edits(s, e), 5);
    static const sac_score_edit want[] = {{40, 1.5f, 1, 0}, {2, -3, 1.25f, 0}, {1, 0, 1.25f, 0}, {3, 0, 1.25f, 0}, {7, 0, 1.25f, 1.25f}};
    for (int i = 0; i < 5; i++) {
        assert_int_equal(e[i].id, want[i].id);
        assert_true(e[i].bias == want[i].bias && e[i].repetition == want[i].repetition && e[i].less == want[i].less);
    }
}

static void more_edits_than_have_room_want_all(void **state) {
    enum { MANY = SAC_MOST_EDITS + 10 };
    (void)state;
    sac_arena arena;
    sac_sampler s;
    sac_error err;
    sac_sampler_config c = off;
    c.repetition_penalty = 1.1;
    assert_ok(sac_arena_open(&arena, sac_sampler_bytes(MANY), &err), err);
    assert_ok(sac_sampler_init(&s, MANY, &arena, &err), err);
    assert_ok(sac_sampler_start(&s, &c, &err), err);
    for (int32_t i = 0; i < SAC_MOST_EDITS; i++) sac_sampler_see(&s, i);
    assert_int_equal(sac_sampler_wants(&s, 0, -1).n_best, 1);
    sac_sampler_see(&s, 5);
    assert_int_equal(sac_sampler_wants(&s, 0, -1).n_best, 1);
    sac_sampler_see(&s, SAC_MOST_EDITS);
    assert_int_equal(sac_sampler_wants(&s, 0, -1).n_best, 0);
    assert_ok(sac_sampler_start(&s, &c, &err), err);
    assert_int_equal(sac_sampler_wants(&s, 0, -1).n_best, 1);
    sac_arena_free(&arena);
}

static void what_nothing_tells_wants_all(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    static const sac_logit_bias twice[] = {{3, 1}, {3, 2}};
    static const sac_controls longer = {.min_length = 3};
    sac_sampler_config c[3];
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(c); i++) c[i] = off;
    c[0].bias = twice, c[0].n_bias = 2;
    c[1].controls = &longer;
    c[2].temperature = 1, c[2].top_k = VOCAB - 1;
    for (size_t i = 0; i < SAC_COUNT(c); i++) {
        assert_ok(sac_sampler_start(s, &c[i], &err), err);
        assert_int_equal(sac_sampler_wants(s, 0, -1).n_best, i == 2 ? VOCAB - 1 : 0);
    }
    assert_int_equal(sac_sampler_wants(s, 0, VOCAB + 1).n_best, 0);
    assert_ok(sac_sampler_start(s, &off, &err), err);
    const sac_token_wanted w = sac_sampler_wants(s, 0, -1);
    assert_true(w.n_best == 1 && w.scale == 0 && !w.is_edited);
}

static void clear_most(void *ctx, uint32_t *bits, int n) {
    for (int i = 0; i < n; i++) {
        assert_true(bits[i / 32] >> (i % 32) & 1);
        if (i != *(int *)ctx) bits[i / 32] &= ~(1u << (i % 32));
    }
}

static void a_mask_leaves_what_it_leaves(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    float logits[VOCAB];
    sac_error err;
    fill(logits);
    assert_ok(sac_sampler_start(s, &off, &err), err);
    for (int id = 0; id < VOCAB; id += 31) {
        sac_sampler_load(s, logits);
        sac_sampler_mask(s, clear_most, &id);
        assert_int_equal(sac_sampler_choose(s, 0), id);
        assert_true(s->scores[id] == logits[id]);
    }
}

static void bad_settings_are_named(void **state) {
    sac_sampler *s = &((fixture *)*state)->sampler;
    sac_error err;
    sac_sampler_config c = off;
    c.top_p = NAN;
    assert_int_equal(sac_sampler_start(s, &c, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "top_p"));
    c = off;
    c.temperature = -1;
    assert_int_equal(sac_sampler_start(s, &c, &err), SAC_BAD_ARGUMENT);
    c = off;
    c.repetition_penalty = 0;
    assert_int_equal(sac_sampler_start(s, &c, &err), SAC_BAD_ARGUMENT);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(greedy_takes_the_first_of_equals),
        cmocka_unit_test(greedy_is_the_first_of_the_largest),
        cmocka_unit_test(repetition_penalty_works_on_both_signs),
        cmocka_unit_test(draws_follow_the_filtered_distribution),
        cmocka_unit_test(the_best_k_are_the_first_of_equals),
        cmocka_unit_test(the_best_come_in_order),
        cmocka_unit_test(infinity_is_drawn_and_nothing_else),
        cmocka_unit_test(logprobs_are_those_of_the_softmax),
        cmocka_unit_test(same_seed_same_draws),
        cmocka_unit_test(tiny_temperatures_are_greedy),
        cmocka_unit_test(bad_settings_are_named),
        cmocka_unit_test(what_is_told_decides_as_all_do),
        cmocka_unit_test(a_draw_that_ends_behind_all_is_the_best),
        cmocka_unit_test(edits_are_listed),
        cmocka_unit_test(more_edits_than_have_room_want_all),
        cmocka_unit_test(what_nothing_tells_wants_all),
        cmocka_unit_test(a_mask_leaves_what_it_leaves),
    };
    return cmocka_run_group_tests_name("sampler", tests, setup, teardown);
}
