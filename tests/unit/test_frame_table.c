#include "frame_table.h"
#include "test.h"

static sac_frame_table table_of(const int64_t *pts, int n, const int64_t *keys, int n_keys) {
    sac_frame_table t = {0};
    sac_error err = {0};
    for (int i = 0; i < n; i++) assert_ok(sac_frame_table_add(&t, pts[i], &err), err);
    for (int i = 0; i < n_keys; i++) assert_ok(sac_frame_table_add_key(&t, keys[i], keys[i] - 3, &err), err);
    return t;
}

static void sorts_and_ranks(void **state) {
    (void)state;
    const int64_t pts[] = {0, 40, 10, 20, 30, 90, 60, 50}, keys[] = {50, 0};
    sac_frame_table t = table_of(pts, 8, keys, 2);
    assert_true(sac_frame_table_finish(&t));
    const int64_t sorted[] = {0, 10, 20, 30, 40, 50, 60, 90};
    assert_memory_equal(t.pts, sorted, sizeof sorted);
    for (int k = 0; k < 8; k++) assert_int_equal(sac_frame_table_rank(&t, sorted[k]), k);
    assert_int_equal(sac_frame_table_rank(&t, -5), 0);
    assert_int_equal(sac_frame_table_rank(&t, 89), 7);
    assert_int_equal(sac_frame_table_rank(&t, 91), 8);
    assert_true(sac_frame_table_has(&t, 60));
    assert_false(sac_frame_table_has(&t, 61));
    assert_int_equal(sac_frame_table_key_for(&t, -1), -1);
    assert_int_equal(sac_frame_table_key_for(&t, 49), 0);
    assert_int_equal(sac_frame_table_key_for(&t, 50), 1);
    assert_int_equal(t.keys[1].seek_ts, 47);
    double mean;
    int64_t shortest, longest;
    assert_true(sac_frame_table_steps(&t, &mean, &shortest, &longest));
    assert_true(shortest == 10 && longest == 30 && mean == 90.0 / 7);
    sac_frame_table_free(&t);
}

static void equal_times_are_told(void **state) {
    (void)state;
    const int64_t pts[] = {0, 10, 10};
    sac_frame_table t = table_of(pts, 3, NULL, 0);
    assert_false(sac_frame_table_finish(&t));
    sac_frame_table_free(&t);
    assert_true(sac_frame_table_finish(&t)); /* nothing at all is in order */
    sac_frame_table_free(&t);
}

static void keeps_what_was_shown(void **state) {
    (void)state;
    const int64_t pts[] = {0, 10, 20, 30, 40, 50}, shown[] = {20, 30};
    sac_frame_table t = table_of(pts, 6, NULL, 0);
    assert_true(sac_frame_table_keep(&t, INT64_MIN, 31, shown, 2)); /* two leading frames never appeared */
    assert_int_equal(t.n_frames, 4);
    assert_int_equal(t.pts[0], 20);
    assert_true(sac_frame_table_keep(&t, 40, INT64_MAX, NULL, 0)); /* nor the last two */
    assert_int_equal(t.n_frames, 2);
    const int64_t strange[] = {25};
    assert_false(sac_frame_table_keep(&t, 0, 100, strange, 1));
    assert_int_equal(t.n_frames, 2);
    sac_frame_table_free(&t);
}

static void grows(void **state) {
    (void)state;
    sac_frame_table t = {0}, other = {0};
    sac_error err = {0};
    for (int64_t k = 0; k < 5000; k++) {
        assert_ok(sac_frame_table_add(&t, (k * 7919) % 5000, &err), err);
        assert_ok(sac_frame_table_add_key(&t, k, k, &err), err);
    }
    assert_true(sac_frame_table_finish(&t));
    for (int64_t k = 0; k < 5000; k++) assert_int_equal(t.pts[k], k);
    assert_ok(sac_frame_table_add(&t, 5000, &err), err); /* after spare room was given back */
    sac_frame_table_take_keys(&other, &t);
    assert_true(other.n_keys == 5000 && t.n_keys == 0 && !t.keys);
    sac_frame_table_free(&t);
    sac_frame_table_free(&other);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_and_ranks),
        cmocka_unit_test(equal_times_are_told),
        cmocka_unit_test(keeps_what_was_shown),
        cmocka_unit_test(grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
