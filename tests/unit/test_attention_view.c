/* What the drawing of kept tokens collects from the prompts of a session. */
#include "attention_view.h"
#include "test.h"

static void later_prompts_may_be_longer(void **state) {
    (void)state;
    enum { LONG = 1 << 24 };
    static const int32_t first[] = {0, 3, 9}, last[] = {1, LONG - 1}, outside[] = {-1, 2, 5};
    attention_view v;
    sac_error err;
    assert_ok(attention_view_open(&v, 3, &err), err);
    attention_view_kept(&v, 0, first, 3, 10);
    attention_view_kept(&v, 1, last, 2, LONG);
    attention_view_kept(&v, 0, last, 2, LONG);
    attention_view_kept(&v, 1, outside, 3, 5); /* a shorter one; rows that are not there */
    attention_view_kept(&v, 3, first, 3, 10);  /* nor is this layer */
    assert_false(v.no_memory);
    assert_int_equal(v.n_tokens, LONG);
    assert_null(v.kept[2]);
    int64_t n[2] = {0};
    for (int64_t i = 0; i < LONG; i++)
        for (int l = 0; l < 2; l++) n[l] += v.kept[l][i];
    assert_int_equal(n[0], 5);
    assert_int_equal(n[1], 3);
    assert_true(v.kept[0][0] && v.kept[0][1] && v.kept[0][3] && v.kept[0][9] && v.kept[0][LONG - 1]);
    assert_true(v.kept[1][1] && v.kept[1][2] && v.kept[1][LONG - 1]);
    attention_view_free(&v);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(later_prompts_may_be_longer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
