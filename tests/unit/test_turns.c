/* The scheduler's arithmetic, without a model and without a clock: whose turn it is, how long prompts may run between two steps,
 * and which rows of them a step takes along. */
#include "pass_cost.h"
#include "turns.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_near(double got, double want) {
    if (!(fabs(got - want) < 1e-9)) fail_msg("%g in place of %g", got, want);
}

/* ---------------------------------------------------------------- turns */

typedef struct runner {
    serve_turn turn;
    double piece_ns, tokens_a_piece;
    int64_t end_ns; /* when nothing was left */
} runner;

/* Runs all to their end in the order that the turns give. */
static void run_turns(runner *all, size_t n) {
    int64_t now = 0;
    for (;;) {
        serve_turn *turns[4];
        runner *of[4];
        size_t left = 0;
        for (size_t i = 0; i < n; i++) {
            if (all[i].turn.n_left <= 0) continue;
            turns[left] = &all[i].turn;
            of[left++] = &all[i];
        }
        if (left == 0) return;
        runner *r = of[serve_turn_next(turns, left)];
        size_t ran = 0;
        while (of[ran] != r) ran++;
        now += (int64_t)r->piece_ns;
        r->turn.n_left -= r->tokens_a_piece;
        serve_turn_count(turns, left, ran, (int64_t)r->piece_ns);
        if (r->turn.n_left <= 0) r->end_ns = now;
    }
}

static runner runner_of(uint64_t ticket, double n_tokens) {
    return (runner){.turn = {.ticket = ticket, .n_left = n_tokens}, .piece_ns = 10, .tokens_a_piece = 10};
}

static void like_prompts_run_one_after_the_other(void **state) {
    (void)state;
    runner r[] = {runner_of(3, 600), runner_of(1, 1000), runner_of(2, 900)};
    run_turns(r, 3);
    assert_int_equal(r[1].end_ns, 1000);
    assert_int_equal(r[2].end_ns, 1900);
    assert_int_equal(r[0].end_ns, 2500);
}

static void a_short_prompt_has_half_of_the_time(void **state) {
    (void)state;
    runner r[] = {runner_of(1, 1000), runner_of(2, 100)};
    run_turns(r, 2);
    assert_int_equal(r[1].end_ns, 190);
    assert_int_equal(r[0].end_ns, 1100);
    runner slow[] = {runner_of(1, 1000), runner_of(2, 100)};
    slow[0].piece_ns = 100; /* half of the time, not of the pieces */
    run_turns(slow, 2);
    assert_int_equal(slow[1].end_ns, 200);
}

/* However many come: each is held up by no more than it runs itself, and by those before it. */
static void the_oldest_prompt_never_starves(void **state) {
    (void)state;
    serve_turn old = {.ticket = 1, .n_left = 1000};
    int n_own = 0;
    for (uint64_t i = 2; i < 400; i++) {
        serve_turn young = {.ticket = i, .n_left = 1}, *both[] = {&young, &old};
        size_t next = serve_turn_next(both, 2);
        serve_turn_count(both, 2, next, 10);
        n_own += next == 1;
        assert_true(old.lent_ns <= old.own_ns + 10);
    }
    assert_int_equal(n_own, 199);
}

/* Least left first while the oldest has had its half, then the oldest; one with an earlier priority of its group before all. */
static void who_would_be_next(void **state) {
    (void)state;
    serve_turn t[] = {{.ticket = 4, .n_left = 30}, {.ticket = 1, .n_left = 1000}, {.ticket = 3, .n_left = 20}, {.ticket = 2, .n_left = 900}};
    serve_turn *all[] = {&t[0], &t[1], &t[2], &t[3]};
    size_t order[4];
    serve_turn_order(all, 4, order);
    assert_memory_equal(order, ((size_t[]){2, 0, 1, 3}), sizeof order);
    t[1].lent_ns = 1; /* more than its own: now the oldest, then the rest as if it were gone */
    serve_turn_order(all, 4, order);
    assert_memory_equal(order, ((size_t[]){1, 2, 0, 3}), sizeof order);
    t[3].priority = -1;
    serve_turn_order(all, 4, order);
    assert_memory_equal(order, ((size_t[]){3, 1, 2, 0}), sizeof order);
    serve_turn_order(all, 1, order);
    assert_int_equal(order[0], 0);
}

/* ---------------------------------------------------------------- pauses */

static void prompts_have_what_the_target_leaves(void **state) {
    (void)state;
    expect_near(serve_pause_share(0, 0.01), 0.01); /* no target: half of the time each, */
    expect_near(serve_pause_share(0, 0.3), 0.3);
    expect_near(serve_pause_piece(0, 0.01, 0), SERVE_PAUSE - 0.01); /* in pieces no longer than that, */
    expect_near(serve_pause_piece(0, 0.3, 0.1), 0.2);               /* or than a step */
    expect_near(serve_pause_piece(0, 0, 0), SERVE_PAUSE);
    expect_near(serve_pause_share(0.1, 0.03), 0.03);
    expect_near(serve_pause_share(0.1, 0.07), 0.03); /* less than half where the target wants it, */
    expect_near(serve_pause_share(0.1, 0.2), 0.05);  /* but never nothing */
    expect_near(serve_pause_piece(0.1, 0.03, 0.02), 0.05);
    expect_near(serve_pause_piece(0.1, 0.03, 0.0699), 0.07 / 4); /* the last piece before a step is not cut to nothing */
    expect_near(serve_pause_piece(0.02, 0, 0), 0.02);
    expect_near(serve_pause_step(0, 0.3), 0.3);
    expect_near(serve_pause_step(0.01, 0.3), 0.0125);
    expect_near(serve_pause_step(0.01, 0.002), 0.002);
    assert_int_equal(serve_pause_rows(0.1, 0.03, 0, 128), SERVE_PASS_LEAST); /* a step takes some rows along and measures; then */
    assert_int_equal(serve_pause_rows(0.1, 0.03, 0.0011, 128), 63);          /* as many as it has time for, */
    assert_int_equal(serve_pause_rows(0.1, 0.03, 0.0001, 128), 128);         /* or as it has room for, */
    assert_int_equal(serve_pause_rows(0.1, 0.03, 0.005, 128), 0);            /* but not a few */
}

/* ---------------------------------------------------------------- rows that steps take along */

/* Of a prompt no row of which has time, and of the next ones. */
static void a_refused_prompt_is_asked_once(void **state) {
    (void)state;
    serve_pass_cost c = {.step_s = 0.03, .bare_s = 0.03, .row_s = 0.005}; /* room for 14 rows, 16 are the least */
    bool first = false, second = false;
    assert_int_equal(serve_pass_ask(&c, 0.1, &first, 128), 0);
    assert_true(first);
    expect_near(c.row_s, 0.004);
    for (int i = 0; i < 9; i++) assert_int_equal(serve_pass_ask(&c, 0.1, &first, 128), 0); /* although there is room by now, */
    expect_near(c.row_s, 0.004);                                                           /* and rows count as before */
    assert_int_equal(serve_pass_ask(&c, 0.1, &second, 128), 17);
    assert_false(second);
    expect_near(c.row_s, 0.004);
}

/* After as many refusals as it takes: a row that seemed ten times too long is tried again, and learnt. */
static void rows_are_measured_again(void **state) {
    (void)state;
    serve_pass_cost c = {.step_s = 0.03, .bare_s = 0.03, .row_s = 0.04};
    int n_refused = 0;
    for (bool apart = false; !serve_pass_ask(&c, 0.1, &apart, 128); apart = false) assert_true(apart && ++n_refused < 20);
    assert_int_equal(n_refused, 10);
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 0.0459, .n_rows = 4, .n_prompt = 16});
    expect_near(c.row_s, 0.0159 / 16);
    expect_near(c.step_s, 0.03); /* of a step alone it tells nothing */
    bool apart = false;
    assert_int_equal(serve_pass_ask(&c, 0.1, &apart, 128), 70);
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 0.02, .n_rows = 4, .n_prompt = 30}); /* no row is for nothing */
    expect_near(c.row_s, 0.0001);
    c = (serve_pass_cost){.row_s = 1e-6};
    assert_int_equal(serve_pass_room(&c, 0.1, 128), 0); /* a step is measured first, */
    assert_int_equal(serve_pass_ask(&c, 0.1, &apart, 128), 0);
    assert_false(apart); /* which refuses nobody */
}

/* Behind rows of one prompt, for those of others and what comes before them; less what has gone by. */
static void what_a_pass_leaves(void **state) {
    (void)state;
    const serve_pass_cost c = {.step_s = 0.04, .bare_s = 0.03, .row_s = 0.001}, fresh = {.step_s = 0.04, .bare_s = 0.03};
    expect_near(serve_pass_left(&c, 0.1, 20, 0), 0.05);
    expect_near(serve_pass_left(&c, 0.1, 20, 0.015), 0.035);
    expect_near(serve_pass_left(&c, 0.1, 70, 0), 0);
    expect_near(serve_pass_left(&c, 0.1, 50, 0.03), 0);
    expect_near(serve_pass_left(&fresh, 0.1, 0, 0), 0);
    expect_near(serve_pass_step_rows(&c), 30);
    expect_near(serve_pass_step_rows(&fresh), 0);
}

/* A step that guesses takes longer than one beside rows of prompts, where nobody does; one that was guessed takes no time. */
static void guesses_are_no_part_of_a_row(void **state) {
    (void)state;
    serve_pass_cost c = {0};
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 1e-6});
    expect_near(c.step_s, 0);
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 0.05, .n_rows = 8, .n_guessed = 6});
    expect_near(c.step_s, 0.05);
    expect_near(c.bare_s, 0);
    assert_int_equal(serve_pass_room(&c, 0.1, 128), SERVE_PASS_LEAST);
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 0.03, .n_rows = 2});
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 0.04, .n_rows = 8, .n_guessed = 6});
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 1e-6});
    expect_near(c.step_s, 0.0375); /* as a pause has been; more by a quarter at most */
    expect_near(c.bare_s, 0.03);
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 0.0499, .n_rows = 2, .n_prompt = 20});
    expect_near(c.row_s, 0.0199 / 20);
    assert_int_equal(serve_pass_room(&c, 0.1, 128), 70);
}

/* On a device, where it loads kernels: the next one of so few rows is measured. */
static void a_first_pass_tells_nothing(void **state) {
    (void)state;
    serve_pass_cost c = {.step_s = 0.005, .bare_s = 0.005, .n_unlearnt = 1};
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 0.25, .n_rows = 4, .n_prompt = 16});
    expect_near(c.row_s, 0);
    bool apart = false;
    assert_int_equal(serve_pass_ask(&c, 0.05, &apart, 1152), SERVE_PASS_LEAST);
    serve_pass_learn(&c, &(serve_pass_ran){.took_s = 0.0066, .n_rows = 4, .n_prompt = 16});
    expect_near(c.row_s, 0.0001);
    assert_int_equal(serve_pass_ask(&c, 0.05, &apart, 1152), 450);
}

/* Steps and rows of prompts fill whole tiles together, unless that leaves hardly a row. */
static void passes_fill_tiles(void **state) {
    (void)state;
    assert_int_equal(serve_pass_whole(128, 3, 1), 128);
    assert_int_equal(serve_pass_whole(1152, 8, 64), 1144);
    assert_int_equal(serve_pass_whole(447, 8, 64), 440);
    assert_int_equal(serve_pass_whole(56, 8, 64), 56);
    assert_int_equal(serve_pass_whole(55, 8, 64), 55);
    assert_int_equal(serve_pass_whole(16, 0, 64), 16);
    assert_int_equal(serve_pass_whole(100, 50, 64), 78);
    assert_int_equal(serve_pass_whole(90, 120, 64), 72);
    assert_int_equal(serve_pass_whole(70, 120, 64), 70); /* 8 are too few */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_first_pass_tells_nothing),
        cmocka_unit_test(passes_fill_tiles),
        cmocka_unit_test(like_prompts_run_one_after_the_other),
        cmocka_unit_test(a_short_prompt_has_half_of_the_time),
        cmocka_unit_test(the_oldest_prompt_never_starves),
        cmocka_unit_test(who_would_be_next),
        cmocka_unit_test(prompts_have_what_the_target_leaves),
        cmocka_unit_test(a_refused_prompt_is_asked_once),
        cmocka_unit_test(rows_are_measured_again),
        cmocka_unit_test(what_a_pass_leaves),
        cmocka_unit_test(guesses_are_no_part_of_a_row),
    };
    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
