/* Position schemes: which frequencies they leave alone and which they stretch. */
#include "rope.h"
#include "test.h"

#include <math.h>

enum { D = 64 };

/* Angle by which pair i turns from one position to the next. */
static double frequency(const sac_rope_config *c, int i) {
    static float table[2 * D];
    sac_rope_fill(c, &(sac_row_numbers){0}, 0, 2, 2, table);
    return atan2((double)table[D + 2 * i + 1], (double)table[D + 2 * i]);
}

static void ntk_stretches_the_lowest_frequency_alone(void **state) {
    (void)state;
    static const double factors[] = {1.5, 4, 32};
    for (size_t f = 0; f < SAC_COUNT(factors); f++) {
        sac_rope_config plain, ntk;
        sac_error err;
        char line[40];
        sac_rope_config_default(&plain, D);
        ntk = plain;
        snprintf(line, sizeof line, "ntk:factor=%g", factors[f]);
        assert_ok(sac_rope_scheme(&ntk, line, 2048, 2048, &err), err);
        assert_true(frequency(&ntk, 0) == frequency(&plain, 0));
        double before = 0;
        for (int i = 0; i < D / 2; i++) {
            double stretch = frequency(&plain, i) / frequency(&ntk, i);
            assert_true(stretch > before - 1e-5);
            before = stretch;
        }
        assert_true(fabs(before / factors[f] - 1) < 1e-4); /* angles are floats */
    }
}

static void ntk_takes_what_the_context_needs(void **state) {
    (void)state;
    sac_rope_config plain, ntk, automatic;
    sac_error err;
    sac_rope_config_default(&plain, D);
    ntk = automatic = plain;
    assert_ok(sac_rope_scheme(&ntk, "ntk:factor=4", 2048, 100, &err), err);
    assert_ok(sac_rope_scheme(&automatic, "ntk", 2048, 8192, &err), err);
    assert_true(ntk.theta == automatic.theta && ntk.theta > plain.theta);
}

static void schemes_that_change_nothing(void **state) {
    (void)state;
    static const char *const lines[] = {"model", "ntk:factor=1", "ntk"};
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        sac_rope_config plain, c;
        sac_error err;
        sac_rope_config_default(&plain, D);
        c = plain;
        assert_ok(sac_rope_scheme(&c, lines[i], 2048, 2048, &err), err);
        assert_true(c.theta == plain.theta && c.scaling == plain.scaling);
    }
}

static void senseless_schemes_are_refused(void **state) {
    (void)state;
    sac_rope_config c;
    sac_error err;
    sac_rope_config_default(&c, D);
    assert_int_equal(sac_rope_scheme(&c, "ntk:factor=-1", 2048, 8192, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_rope_scheme(&c, "alibi", 2048, 8192, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_rope_scheme(&c, "model:grid=1", 2048, 8192, &err), SAC_UNSUPPORTED); /* one axis */
    for (int axis = 0; axis < SAC_POSITION_AXES; axis++) { /* all pairs may turn by one axis */
        memset(c.axis_pairs, 0, sizeof c.axis_pairs);
        c.axis_pairs[axis] = D / 2;
        assert_ok(sac_rope_scheme(&c, "model:grid=1", 2048, 8192, &err), err);
        assert_true(c.grid_positions);
    }
    c.scaling = SAC_ROPE_LINEAR;
    assert_int_equal(sac_rope_scheme(&c, "ntk:factor=4", 2048, 8192, &err), SAC_UNSUPPORTED);
}

/* Each channel pair turns by the number of its axis, as plain rows of that number do. */
static void pairs_turn_by_their_axis(void **state) {
    (void)state;
    enum { ROWS = 12, HALF = D / 2, NUMBERS = 40 };
    static float plain[NUMBERS * D], got[ROWS * D];
    static const int axis_pairs[SAC_POSITION_AXES] = {10, 15, 7};
    int32_t ids[SAC_POSITION_AXES * 10];
    sac_rope_config c;
    sac_rope_config_default(&c, D);
    sac_rope_fill(&c, &(sac_row_numbers){0}, 0, NUMBERS, NUMBERS, plain);
    for (int i = 0; i < SAC_POSITION_AXES * 10; i++) ids[i] = (i * 7) % 29;
    sac_row_numbers numbers = {ids, 10, 10, 33}; /* two more rows behind those of the ids */
    for (int split = 0; split < 2; split++) {
        if (split) memcpy(c.axis_pairs, axis_pairs, sizeof axis_pairs);
        sac_rope_fill(&c, &numbers, 0, 5, ROWS, got);
        sac_rope_fill(&c, &numbers, 5, ROWS - 5, ROWS, got);
        for (int row = 0; row < ROWS; row++)
            for (int i = 0; i < HALF; i++) {
                int axis = !split || i < 10 ? 0 : i < 25 ? 1 : 2;
                int number = row < 10 ? ids[axis * 10 + row] : 33 + row - 10;
                assert_memory_equal(&got[row * D + 2 * i], &plain[number * D + 2 * i], 2 * sizeof(float));
            }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_turn_by_their_axis),
        cmocka_unit_test(ntk_stretches_the_lowest_frequency_alone),
        cmocka_unit_test(ntk_takes_what_the_context_needs),
        cmocka_unit_test(schemes_that_change_nothing),
        cmocka_unit_test(senseless_schemes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
