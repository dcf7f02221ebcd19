/* What a search keeps: the front, the better half, the choice, and how many questions there is time for. */
#include "test.h"

#include "tune_rank.h"
#include "tune_refine.h"
#include "tune_table.h"

#include <math.h>

static void a_point_beats_what_is_no_better_in_anything(void **state) {
    (void)state;
    const tune_point a = {0.5, 1, 0}, b = {0.5, 2, 0}, c = {0.4, 3, 0}, nothing = {NAN, 0, 0};
    assert_true(tune_beats(&a, &b));
    assert_false(tune_beats(&b, &a));
    assert_false(tune_beats(&a, &c));
    assert_false(tune_beats(&c, &a));
    assert_false(tune_beats(&a, &a));
    assert_true(tune_beats(&(tune_point){0.5, 0, 0}, &nothing));
    assert_false(tune_beats(&nothing, &a));
}

static void the_front_has_one_of_equals(void **state) {
    (void)state;
    const tune_point p[] = {{1, 0, 0}, {0.5, 0, 0}, {0.5, 0, 0}, {0.2, 3, 0}, {0.3, 3, 0}, {NAN, -9, 0}};
    bool front[6];
    tune_front(p, 6, front);
    const bool want[] = {false, true, false, true, false, false};
    for (int i = 0; i < 6; i++) assert_int_equal(front[i], want[i]);
}

/* Both lost none; the dearer one moved answers less, the third neither. */
static void the_safe_front_goes_by_risk(void **state) {
    (void)state;
    const tune_point p[] = {{1, 0, 0}, {0.4, 0, 2}, {0.5, 0, 1}, {0.6, 0, 1.5}, {0.5, 0, 1}, {NAN, 0, 0}};
    const bool want[] = {true, true, true, false, false, false};
    bool safe[6];
    tune_safe_front(p, 6, safe);
    for (int i = 0; i < 6; i++) assert_int_equal(safe[i], want[i]);
}

static void the_choice_is_the_cheapest_that_may_be(void **state) {
    (void)state;
    const tune_point p[] = {{0.9, 0, 0.1}, {0.3, 2, 2}, {0.5, 1, 3}, {0.5, 0, 2}, {NAN, 0, 0}};
    assert_int_equal(tune_choose(p, 5, (tune_limits){1, INFINITY}, NULL), 3);
    assert_int_equal(tune_choose(p, 5, (tune_limits){2, INFINITY}, NULL), 1);
    assert_int_equal(tune_choose(p, 5, (tune_limits){0, INFINITY}, NULL), 3);
    assert_int_equal(tune_choose(p, 5, (tune_limits){0, 1}, NULL), 0); /* the cheaper one moved answers too far */
    assert_true(tune_choose(p, 5, (tune_limits){-1, INFINITY}, NULL) == SIZE_MAX);
    assert_true(tune_choose(p, 0, (tune_limits){1, 1}, NULL) == SIZE_MAX);
    assert_true(tune_choose(&p[4], 1, (tune_limits){1, 1}, NULL) == SIZE_MAX);
}

/* Nothing stays within 0.5: what moved answers by 1.5 is nearer than the cheapest, which lost none by luck. Dense itself, whatever it costs, is no choice. */
static void the_limit_grows_until_something_is_within(void **state) {
    (void)state;
    const tune_point p[] = {{0.1, 0, 9}, {0.4, 0, 1.9}, {0.6, 0, 1.5}, {0.2, 1, 0}, {1, 0, 0}};
    tune_limits used;
    assert_int_equal(tune_choose(p, 5, (tune_limits){0, 0.5}, &used), 1);
    assert_true(used.moved > 1.99 && used.moved < 2.01 && used.lost < 0.01);
    assert_int_equal(tune_choose(p, 5, (tune_limits){0, 2}, &used), 1);
    assert_true(used.moved > 1.99 && used.moved < 2.01);
    assert_int_equal(tune_choose(p, 1, (tune_limits){0, 0.5}, &used), 0); /* there is nothing nearer */
    assert_true(used.moved > 15.9 && used.moved < 16.1);
    assert_int_equal(tune_choose(p, 5, (tune_limits){0, 0}, NULL), 0); /* nought doubled stays nought */
    assert_true(tune_choose(&p[3], 2, (tune_limits){0, 0.5}, &used) == SIZE_MAX);
}

/* Of these the middle one is chosen, and refined first; then what is within twice the limit. What lost too many and what costs too much end as they stand. */
static void what_would_be_chosen_is_first_in_order(void **state) {
    (void)state;
    const tune_point p[] = {{0.05, 3, 9}, {0.1, 0, 9}, {0.2, 0, 1.5}, {0.5, 0, 0.4}, {0.7, 0, 0}, {1, 0, 0}, {0.1, 2, 0}};
    const size_t want[] = {3, 4, 2, 1, 0, 5, 6};
    size_t order[7];
    tune_order(p, 7, (tune_limits){1, 1}, order);
    for (int i = 0; i < 7; i++) assert_int_equal(order[i], want[i]);
}

static double drawn(uint64_t *random) {
    *random = *random * 6364136223846793005ull + 1442695040888963407ull;
    return (double)(*random >> 40) / (1 << 24);
}

/* Fronts on which what is cheap moves answers most: the first of those within the limit stands in the middle, and is kept. */
static void the_cut_keeps_what_is_chosen(void **state) {
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 300; round++) {
        tune_point p[24];
        bool keep[24];
        for (int i = 0; i < 24; i++) {
            double cost = 0.04 * (i + drawn(&random));
            p[i] = (tune_point){cost, drawn(&random) < 0.2, 8 * pow(1 - cost, 4) * drawn(&random)};
        }
        const tune_limits limits = {0, 0.2};
        const size_t chosen = tune_choose(p, 24, limits, NULL);
        const double cost = p[chosen].cost;
        size_t n = 0;
        assert_true(chosen < 24);
        assert_true(tune_keep(p, 24, 8, 1, chosen, keep));
        for (size_t i = 0; i < 24; i++)
            if (keep[i]) p[n++] = p[i];
        assert_int_equal(n, 8);
        assert_true(fabs(p[tune_choose(p, n, limits, NULL)].cost - cost) < 1e-12);
    }
}

/* Both ends go on, what is beaten does not. */
static void half_of_the_kept_lose_little_half_are_the_front(void **state) {
    (void)state;
    const tune_point p[] = {{0.9, 0, 0}, {0.8, 0, 0},  {0.7, 1, 0}, {0.1, 9, 0},
                            {0.4, 5, 0}, {0.95, 4, 0}, {0.5, 9, 0}, {0.99, 9, 0}};
    bool keep[8];
    assert_true(tune_keep(p, 8, 4, 1, SIZE_MAX, keep));
    const bool want[] = {false, true, true, true, true, false, false, false};
    for (int i = 0; i < 8; i++) assert_int_equal(keep[i], want[i]);
    assert_true(tune_keep(p, 8, 8, 1, SIZE_MAX, keep));
    for (int i = 0; i < 8; i++) assert_true(keep[i]);
}

/* None of five lost an answer: the cheapest goes on, and so does what moved answers least. */
static void what_is_safe_goes_on_beside_what_is_cheap(void **state) {
    (void)state;
    const tune_point p[] = {{0.3, 0, 4}, {0.4, 0, 3}, {0.5, 0, 2}, {0.7, 0, 1}, {0.75, 0, 2}, {0.8, 0, 0.1}};
    const bool want[] = {true, true, true, false, false, true};
    bool keep[6];
    assert_true(tune_keep(p, 6, 4, 0, SIZE_MAX, keep));
    for (int i = 0; i < 6; i++) assert_int_equal(keep[i], want[i]);
}

/* Dense is asked anyway. */
static void what_costs_as_much_as_dense_is_dropped_first(void **state) {
    (void)state;
    const tune_point p[] = {{1, 0, 0}, {0.9, 5, 5}, {1.1, -1, 0}, {0.5, 9, 9}};
    const bool want[] = {false, true, false, true};
    bool keep[4];
    assert_true(tune_keep(p, 4, 2, 0, SIZE_MAX, keep));
    for (int i = 0; i < 4; i++) assert_int_equal(keep[i], want[i]);
    assert_true(tune_keep(p, 4, 3, 0, SIZE_MAX, keep));
    assert_true(keep[0] && keep[1] && !keep[2] && keep[3]);
}

static void as_many_are_kept_as_asked(void **state) {
    (void)state;
    tune_point p[50];
    bool keep[50];
    for (int i = 0; i < 50; i++) p[i] = (tune_point){i % 5 ? 0.03 * i : NAN, (i * 7) % 11 - 3, i % 3};
    for (size_t n = 1; n <= 50; n++) {
        size_t kept = 0;
        assert_true(tune_keep(p, 50, n, 0.5, n % 3 ? 49 : SIZE_MAX, keep));
        for (int i = 0; i < 50; i++) kept += keep[i];
        assert_int_equal(kept, n);
        assert_true(n % 3 == 0 || keep[49]);
    }
}

static double answers(const tune_plan *p) {
    double n = (double)p->test_questions * (double)(p->finalists + 1) +
               (double)p->refined * (double)p->questions[p->n_rungs - 1];
    for (size_t i = 0; i < p->n_rungs; i++)
        n += (double)p->settings[i] * (double)(p->questions[i] - (i ? p->questions[i - 1] : 0));
    return n;
}

static void a_plan_fits_the_time(void **state) {
    (void)state;
    for (double time = 300; time < 1e6; time *= 1.3) {
        const tune_bounds b = {
            .settings = 100, .tuning_questions = 168, .test_questions = 168, .fewest = 4, .answers = time};
        tune_plan p = tune_make_plan(&b);
        assert_true(answers(&p) <= time);
        assert_true(p.finalists <= 8 || p.test_questions == b.test_questions);
        assert_true(p.n_rungs >= 1 && p.n_rungs <= TUNE_MAX_RUNGS);
        assert_true(p.questions[p.n_rungs - 1] <= 168 && p.test_questions <= 168);
        for (size_t i = 1; i < p.n_rungs; i++)
            assert_true(p.settings[i] < p.settings[i - 1] && p.questions[i] > p.questions[i - 1]);
    }
    tune_plan some = tune_make_plan(&(tune_bounds){18, 84, 40, 4, INFINITY});
    assert_int_equal(some.questions[some.n_rungs - 1], 84); /* nothing is left unasked where there is time */
    assert_int_equal(some.refined, 9);
    assert_true(some.questions[0] <= 21);
    tune_plan all = tune_make_plan(&(tune_bounds){100, 30, 40, 4, INFINITY});
    assert_int_equal(all.questions[all.n_rungs - 1], 30);
    assert_int_equal(all.settings[0], 100);
    assert_int_equal(all.test_questions, 40);
}

static void a_family_is_all_its_lines(void **state) {
    (void)state;
    const char *text = "prefill=a:x={1|2|3},k={@/4|9} kv={b|c:d=1}";
    assert_int_equal(tune_family_count(text), 12);
    char *line = tune_family_line(text, 0, 1000), *last = tune_family_line(text, 11, 1000),
         *small = tune_family_line(text, 0, 10);
    assert_string_equal(line, "prefill=a:x=1,k=240 kv=b");
    assert_string_equal(last, "prefill=a:x=3,k=9 kv=c:d=1");
    assert_string_equal(small, "prefill=a:x=1,k=64 kv=b");
    free(line);
    free(last);
    free(small);
}

/* Every family can be read, and a list that is cut short has some of each. */
static void the_table_is_of_method_lines(void **state) {
    (void)state;
    for (int want = 0; want < TUNE_WANTS; want++) {
        method_list list = {0};
        sac_error err = {0};
        size_t families = 0;
        assert_ok(tune_table_add(&list, (tune_want)want, 4000, &err), err);
        for (size_t i = 0; i < tune_n_families; i++) families += tune_families[i].wants >> want & 1;
        assert_true(list.n > families && list.n < METHOD_LIST_MAX_LINES);
        for (size_t i = 0; i < list.n; i++)
            for (int k = 0; k < METHOD_PARTS; k++)
                assert_true(!list.lines[i].part[k] || !strpbrk(list.lines[i].part[k], "{}|@ "));
        method_list_free(&list);
    }
}

static size_t find_line(const method_list *list, const char *name) {
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->lines[i].name, name)) return i;
    return SIZE_MAX;
}

/* Pairs that do not meet, then one setting moved; a cache's bits stay, and nothing is there twice. */
static void near_the_best_is_more(void **state) {
    (void)state;
    static const char *const lines[] = {"prefill=zipvl:tau=0.9,skip=0", "kv=kivi:bits=4", "decode=snapkv:cap=128",
                                        "decode=twilight:base=quest,base.budget=640,p=0.95"};
    static const char *const made[] = {
        "prefill=zipvl:tau=0.9,skip=0 kv=kivi:bits=4", "kv=kivi:bits=4 decode=snapkv:cap=128",
        "prefill=zipvl:tau=0.94,skip=0", "prefill=zipvl:tau=0.8333,skip=0", "prefill=zipvl:tau=0.9,skip=1",
        "decode=snapkv:cap=176", "decode=snapkv:cap=96", "decode=twilight:base=quest,base.budget=896,p=0.95",
        "decode=twilight:base=quest,base.budget=640,p=0.97"};
    method_list list = {0};
    sac_error err = {0};
    size_t best[4], n, again;
    assert_ok(tune_table_add_line(&list, "kv=f16", &err), err); /* dense */
    for (size_t i = 0; i < 4; i++) {
        assert_ok(tune_table_add_line(&list, lines[i], &err), err);
        best[i] = i + 1;
    }
    assert_ok(tune_refine(&list, best, 4, 100, &n, &err), err);
    assert_int_equal(list.n, 5 + n);
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        if (find_line(&list, made[i]) == SIZE_MAX) fail_msg("%s was not made", made[i]);
    for (size_t i = 0; i < list.n; i++) {
        assert_null(strstr(list.lines[i].name, "skip=-"));
        assert_null(strstr(list.lines[i].name, "bits=5"));
        for (size_t k = 0; k < i; k++) assert_string_not_equal(list.lines[i].name, list.lines[k].name);
    }
    assert_ok(tune_refine(&list, best, 4, 100, &again, &err), err);
    assert_int_equal(again, 0);
    method_list_free(&list);
    assert_ok(tune_table_add_line(&list, lines[0], &err), err);
    assert_ok(tune_refine(&list, (size_t[]){0}, 1, 2, &n, &err), err);
    assert_int_equal(n, 2); /* no more than asked for */
    method_list_free(&list);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_beats_what_is_no_better_in_anything),
        cmocka_unit_test(the_front_has_one_of_equals),
        cmocka_unit_test(the_safe_front_goes_by_risk),
        cmocka_unit_test(the_choice_is_the_cheapest_that_may_be),
        cmocka_unit_test(the_limit_grows_until_something_is_within),
        cmocka_unit_test(what_would_be_chosen_is_first_in_order),
        cmocka_unit_test(the_cut_keeps_what_is_chosen),
        cmocka_unit_test(half_of_the_kept_lose_little_half_are_the_front),
        cmocka_unit_test(what_is_safe_goes_on_beside_what_is_cheap),
        cmocka_unit_test(what_costs_as_much_as_dense_is_dropped_first),
        cmocka_unit_test(as_many_are_kept_as_asked),
        cmocka_unit_test(a_plan_fits_the_time),
        cmocka_unit_test(a_family_is_all_its_lines),
        cmocka_unit_test(the_table_is_of_method_lines),
        cmocka_unit_test(near_the_best_is_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
