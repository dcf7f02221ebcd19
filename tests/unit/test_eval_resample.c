/* Intervals and the randomisation test against the closed forms that they must agree with, and against counts by hand. */
#include "test.h"

#include "eval_resample.h"
#include "eval_score.h"

#include <math.h>

static sac_error err;

/* gained, lost and equal questions. */
static size_t fill(double *v, int gained, int lost, int equal) {
    size_t n = 0;
    for (int i = 0; i < gained; i++) v[n++] = 1;
    for (int i = 0; i < lost; i++) v[n++] = -1;
    for (int i = 0; i < equal; i++) v[n++] = 0;
    return n;
}

/* Where answers are right or wrong, it is McNemar's exact test. */
static void flips_are_mcnemar(void **state) {
    (void)state;
    double v[64], p;
    for (int gained = 0; gained < 9; gained++)
        for (int lost = 0; lost < 8; lost++) {
            const eval_pairs pairs = {.n = gained + lost + 20, .gained = gained, .lost = lost};
            size_t n = fill(v, gained, lost, 20);
            assert_ok(eval_sign_flip(&(eval_sample){.score = v, .n = n}, &p, &err), err);
            assert_true(fabs(p - eval_mcnemar(&pairs)) < 1e-12);
        }
}

/* 12 and 24 that differ: more than are counted one by one. */
static void many_flips_are_near(void **state) {
    (void)state;
    double v[64], p, again;
    const eval_pairs pairs = {.n = 40, .gained = 12, .lost = 24};
    size_t n = fill(v, 12, 24, 4);
    assert_ok(eval_sign_flip(&(eval_sample){.score = v, .n = n}, &p, &err), err);
    assert_true(fabs(p - eval_mcnemar(&pairs)) < 0.01);
    assert_ok(eval_sign_flip(&(eval_sample){.score = v, .n = n}, &again, &err), err);
    assert_memory_equal(&p, &again, sizeof p);
}

/* By hand: .5, .25, -.25 sum to .5; with signs .5 + .25 - .25, .5 + .25 + .25, .5 - .25 - .25, .5 - .25 + .25 and
 * their opposites: 6 of 8 are as far from 0 as .5. */
static void flips_of_fractions(void **state) {
    (void)state;
    const double v[] = {0.5, 0, 0.25, -0.25};
    double p;
    assert_ok(eval_sign_flip(&(eval_sample){.score = v, .n = 4}, &p, &err), err);
    assert_true(fabs(p - 0.75) < 1e-12);
    assert_ok(eval_sign_flip(&(eval_sample){.score = v, .n = 0}, &p, &err), err);
    assert_true(fabs(p - 1) < 1e-12);
}

/* Where answers are right or wrong, about as wide as Agresti and Min's, and with a width where none differs. */
static void pairs_are_as_wide(void **state) {
    (void)state;
    static const int cases[][3] = {{0, 0, 50}, {1, 5, 100}, {10, 3, 60}, {20, 20, 200}, {0, 12, 30}};
    static double v[400];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n = fill(v, cases[i][0], cases[i][1], cases[i][2]);
        const eval_pairs pairs = {.n = (int64_t)n, .gained = cases[i][0], .lost = cases[i][1]};
        double low, high, difference = eval_paired(&pairs, &low, &high);
        eval_estimate e;
        assert_ok(eval_bootstrap_pairs(&(eval_sample){.score = v, .n = n}, &e, &err), err);
        assert_true(fabs(e.value - difference) < 1e-12);
        double near = 0.2 * (high - low);
        assert_true(fabs(e.low - low) < near && fabs(e.high - high) < near);
    }
}

/* 1, 1 and 0 of one task, 0 of another: the mean of 2/3 and 0, not of four. */
static void means_over_groups(void **state) {
    (void)state;
    const double v[] = {1, 0, 1, 0};
    const size_t group[] = {1, 0, 1, 1};
    eval_estimate e, plain;
    assert_ok(eval_bootstrap(&(eval_sample){v, group, 4, 2}, 0, 1, &e, &err), err);
    assert_true(fabs(e.value - 1.0 / 3) < 1e-12);
    assert_true(e.low >= 0 && e.low < e.value && e.high > e.value && e.high <= 1);
    assert_ok(eval_bootstrap(&(eval_sample){.score = v, .n = 4}, 0, 1, &plain, &err), err);
    assert_true(fabs(plain.value - 0.5) < 1e-12);
    double p;
    assert_ok(eval_sign_flip(&(eval_sample){v, group, 4, 2}, &p, &err), err);
    assert_true(fabs(p - 0.5) < 1e-12); /* two differ, the same way */
}

/* All right in all of nine groups: no draw is beyond 1, and there is a width. */
static void groups_that_agree(void **state) {
    (void)state;
    static double v[180];
    static size_t group[180];
    eval_estimate e;
    for (size_t i = 0; i < 180; i++) v[i] = 1, group[i] = i / 20;
    assert_ok(eval_bootstrap(&(eval_sample){v, group, 180, 9}, 0, 1, &e, &err), err);
    assert_true(fabs(e.value - 1) < 1e-12 && fabs(e.high - 1) < 1e-12);
    assert_true(e.low < 1 && e.low > 0.97);
}

/* Of right and wrong answers to 9 x 20 questions the interval has the true mean about 19 times of 20. */
static void groups_are_covered(void **state) {
    (void)state;
    static const double right[] = {
        0.9, 0.97}; /* the share, and where two made-up ones in each group would be at their worst */
    static double v[180];
    static size_t group[180];
    uint64_t random = 7;
    for (size_t k = 0; k < 2; k++) {
        int inside = 0;
        for (int round = 0; round < 100; round++) {
            eval_estimate e;
            for (size_t i = 0; i < 180; i++) {
                random = random * 6364136223846793005u + 1442695040888963407u;
                v[i] = (double)(random >> 33) < right[k] * 2147483648.0;
                group[i] = i / 20;
            }
            assert_ok(eval_bootstrap(&(eval_sample){v, group, 180, 9}, 0, 1, &e, &err), err);
            inside += e.low <= right[k] && e.high >= right[k];
        }
        assert_true(inside >= 89);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flips_are_mcnemar),  cmocka_unit_test(many_flips_are_near),
        cmocka_unit_test(flips_of_fractions), cmocka_unit_test(pairs_are_as_wide),
        cmocka_unit_test(means_over_groups),  cmocka_unit_test(groups_that_agree),
        cmocka_unit_test(groups_are_covered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
