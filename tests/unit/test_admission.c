/* Who is let into a slot and whose prompt is run, round by round: short ones between a long one's pieces, together where a step takes
 * both along, what begins alike once; priorities; and that nobody is put off for ever. */
#include "scheduler_bench.h"

/* A long one waits its turn outside, where others may still go before it. */
static void a_short_prompt_goes_between_a_long_one_waits(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 3);
    serve_job *first = ask(&b, "number ", LONG, 20), *like, *quick;
    run_rounds(&b, 5);
    like = ask(&b, "numbers ", LONG, 20);
    quick = ask(&b, "hello ", SHORT, 20);
    run_until_it_answers(&b, quick);
    assert_true(serve_slot_has_prompt(slot_of(&b, first)));
    assert_true(slot_of(&b, first)->turn.n_left > LONG / 2);
    run_the_prompt(&b, first);
    assert_null(slot_of(&b, like));
    run_all(&b);
    expect_answer(first, "number ", LONG, 20);
    expect_answer(like, "numbers ", LONG, 20);
    expect_answer(quick, "hello ", SHORT, 20);
    close_bench(&b);
}

/* Three prompts at once: each short beside the one before. */
static void several_prompts_run_at_once(void **state) {
    (void)state;
    bench b;
    open_bench_of(&b, 4, false); /* they begin alike, and none is to wait for another's rows */
    static const int n_words[] = {LONG, LONG / 4, SHORT};
    serve_job *jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = ask(&b, "number ", n_words[i], 20);
        run_rounds(&b, 3);
    }
    for (int i = 0; i < 3; i++) assert_true(serve_slot_has_prompt(slot_of(&b, jobs[i])));
    for (int i = 2; i >= 0; i--) {
        run_until_it_answers(&b, jobs[i]);
        for (int k = 0; k < i; k++) assert_true(serve_slot_has_prompt(slot_of(&b, jobs[k])));
    }
    for (int i = 0; i < 3; i++) {
        run_to_the_end(&b, jobs[i]);
        expect_answer(jobs[i], "number ", n_words[i], 20);
    }
    close_bench(&b);
}

/* The second and third prompt are nearly the first: they wait while it is run, and take its rows. */
static void prompts_that_begin_alike_are_run_once(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 4);
    static const int n_words[] = {LONG, LONG - 3, LONG + 5};
    serve_job *jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = ask(&b, "number ", n_words[i], 20);
        run_rounds(&b, 3);
    }
    while (serve_slot_has_prompt(slot_of(&b, jobs[0]))) {
        assert_true(!slot_of(&b, jobs[1]) && !slot_of(&b, jobs[2]));
        run_a_round(&b);
    }
    for (int i = 0; i < 3; i++) run_to_the_end(&b, jobs[i]);
    double prompts = metric(&b, "vllm:prompt_tokens_total"), run = metric(&b, "saccade:prefilled_tokens_total");
    assert_true(run < 1.1 * prompts / 3);
    assert_true(run + metric(&b, "vllm:prefix_cache_hits_total") == prompts);
    for (int i = 0; i < 3; i++) expect_answer(jobs[i], "number ", n_words[i], 20);
    close_bench(&b);
}

/* It is as long as the one that is run, and a pass has no room for both: outside others may go before it. */
static void a_prompt_waits_where_a_pass_has_no_room(void **state) {
    (void)state;
    bench b;
    serve_job *answers[2];
    begin_beside_answers(&b, answers);
    serve_job *first = ask(&b, "number ", 70, 4), *like = ask(&b, "red ", 80, 4);
    while (!has_begun_to_answer(&b, first)) {
        run_before_the_step(&b);
        assert_true(!slot_of(&b, first) || !serve_slot_has_prompt(slot_of(&b, first)) || !slot_of(&b, like));
    }
    run_all(&b);
    serve_job_release(like);
    serve_job_release(first);
    end_answers(&b, answers);
}

/* A word of the system's, the same for all, and one of the user's. */
static serve_job *ask_behind(bench *b, const char *before, int n_before, const char *word, int n_words) {
    json_t *q = question(word, n_words, 4), *system = question(before, n_before, 4), *m = json_array_get(json_object_get(system, "messages"), 0);
    json_object_set_new(m, "role", json_string("system"));
    json_array_insert(json_object_get(q, "messages"), 0, m);
    json_decref(system);
    return ask_json(b, q);
}

/* There would be room for both. Where the rows that they share take longer than a step the second one waits, and has none of them to run;
 * where they take less it does not. */
static void what_begins_alike_waits_as_long_as_it_pays(void **state) {
    (void)state;
    enum { ALIKE = 25, OWN = 20 };
    for (int pays = 0; pays < 2; pays++) {
        bench b;
        serve_job *answers[2];
        begin_beside_answers(&b, answers);
        const double had = metric(&b, "vllm:prefix_cache_hits_total"), step_s = b.s->rounds->cost.bare_s;
        b.s->rounds->cost.row_s = step_s * (pays ? 2.0 : 0.5) / ALIKE;
        serve_job *first = ask_behind(&b, "number ", ALIKE, "red ", OWN), *like = ask_behind(&b, "number ", ALIKE, "blue ", OWN);
        bool together = false;
        while (!has_begun_to_answer(&b, first)) {
            run_before_the_step(&b);
            b.s->rounds->cost.row_s = step_s * (pays ? 2.0 : 0.5) / ALIKE;
            const serve_slot *slot = slot_of(&b, first);
            together = together || (slot && serve_slot_has_prompt(slot) && slot_of(&b, like));
        }
        assert_int_equal(together, !pays);
        run_to_the_end(&b, like);
        run_to_the_end(&b, first);
        assert_int_equal(metric(&b, "vllm:prefix_cache_hits_total") - had > ALIKE / 2, pays);
        serve_job_release(like);
        serve_job_release(first);
        end_answers(&b, answers);
    }
}

/* The first one's client leaves in the middle of its prompt: the next one runs it itself, the last one waits for that. */
static void who_waits_for_one_that_leaves_goes_on(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 4);
    static const int n_words[] = {LONG, LONG - 3, LONG + 5};
    serve_job *jobs[3];
    for (int i = 0; i < 3; i++) {
        jobs[i] = ask(&b, "number ", n_words[i], 20);
        run_rounds(&b, 5);
    }
    assert_true(slot_of(&b, jobs[0]) && !slot_of(&b, jobs[1]) && !slot_of(&b, jobs[2]));
    serve_job_cancel(jobs[0]);
    run_a_round(&b);
    expect_cancelled(jobs[0]);
    assert_true(serve_slot_has_prompt(slot_of(&b, jobs[1])));
    for (; serve_slot_has_prompt(slot_of(&b, jobs[1])); run_a_round(&b)) assert_null(slot_of(&b, jobs[2]));
    for (int i = 1; i < 3; i++) run_to_the_end(&b, jobs[i]);
    assert_true(metric(&b, "saccade:prefilled_tokens_total") < 1.1 * metric(&b, "vllm:prompt_tokens_total") / 2);
    for (int i = 1; i < 3; i++) expect_answer(jobs[i], "number ", n_words[i], 20);
    close_bench(&b);
}

/* Without sharing a short one goes between as ever, whatever it begins with. */
static void without_sharing_nobody_waits(void **state) {
    (void)state;
    bench b;
    open_bench_of(&b, 2, false);
    serve_job *first = ask(&b, "number ", LONG, 5), *second;
    run_rounds(&b, 5);
    second = ask(&b, "number ", LONG / 4, 5);
    run_a_round(&b);
    assert_true(slot_of(&b, second) && serve_slot_has_prompt(slot_of(&b, first)));
    run_to_the_end(&b, first);
    run_to_the_end(&b, second);
    assert_true(metric(&b, "vllm:prefix_cache_hits_total") == 0);
    serve_job_release(first);
    serve_job_release(second);
    close_bench(&b);
}

/* What a slot holds of a prompt does not count: it is short. */
static void a_conversation_that_is_known_goes_between(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "number ", LONG, 5), *other, *again;
    run_until_it_answers(&b, first);
    serve_slot *slot = slot_of(&b, first);
    run_to_the_end(&b, first);
    other = ask(&b, "numbers ", LONG, 5);
    run_rounds(&b, 5);
    assert_ptr_not_equal(slot_of(&b, other), slot);
    again = ask(&b, "number ", LONG, 5);
    run_a_round(&b);
    assert_ptr_equal(slot_of(&b, again), slot);
    run_to_the_end(&b, again);
    assert_true(serve_slot_has_prompt(slot_of(&b, other)));
    run_to_the_end(&b, other);
    expect_answer(first, "number ", LONG, 5);
    expect_answer(again, "number ", LONG, 5);
    expect_answer(other, "numbers ", LONG, 5);
    close_bench(&b);
}

/* However many short ones come. */
static void a_long_prompt_comes_to_its_end(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 3);
    serve_job *first = ask(&b, "number ", LONG, 5), *quick = NULL;
    int n_between = 0;
    for (int i = 0; !has_begun_to_answer(&b, first); i++) {
        assert_true(i < 7000);
        if (quick && quick->done) {
            serve_job_release(quick);
            quick = NULL;
            n_between++;
        }
        if (!quick) quick = ask(&b, "hello ", SHORT + i % 7, 1);
        run_a_round(&b);
    }
    assert_true(n_between > 5);
    run_to_the_end(&b, quick);
    serve_job_release(quick);
    run_to_the_end(&b, first);
    expect_answer(first, "number ", LONG, 5);
    close_bench(&b);
}

/* The one free slot goes to the short job that came later, then to the long one. */
static void the_shortest_is_first_in_line(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "number ", LONG, 150), *like, *quick;
    run_rounds(&b, 5);
    like = ask(&b, "numbers ", LONG, 5);
    quick = ask(&b, "hello ", SHORT, 5);
    run_until_it_answers(&b, quick); /* between the pieces of the first */
    assert_null(slot_of(&b, like));
    run_all(&b);
    expect_answer(like, "numbers ", LONG, 5);
    expect_answer(quick, "hello ", SHORT, 5);
    expect_answer(first, "number ", LONG, 150);
    close_bench(&b);
}

/* One slot, and whenever it is free a short job waits, too: the long one is begun as the fourth at the latest. */
static void a_long_job_is_not_put_off_for_ever(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 1);
    serve_job *short_ones[64] = {ask(&b, "hello ", SHORT, 3)}, *like = NULL;
    int n_before = 0, n_short = 1;
    for (int i = 0; !like || !slot_of(&b, like); i++) {
        assert_true(i < 20000);
        while (b.s->ready.n < 2) {
            serve_job *j = ask(&b, like ? "hello " : "number ", like ? SHORT : LONG / 2, 2);
            assert_true(n_short < 64);
            if (like)
                short_ones[n_short++] = j;
            else
                like = j;
        }
        const size_t waiting = b.s->ready.n;
        run_a_round(&b);
        n_before += b.s->ready.n < waiting;
    }
    assert_true(n_before > 1 && n_before <= SERVE_OLDEST_TURN + 1);
    run_to_the_end(&b, like);
    expect_answer(like, "number ", LONG / 2, 2);
    while (b.s->n_jobs) run_a_round(&b);
    for (int i = 0; i < n_short; i++) serve_job_release(short_ones[i]);
    close_bench(&b);
}

static serve_job *ask_with_priority(bench *b, const char *word, int n_words, int priority) {
    json_t *q = question(word, n_words, 5);
    json_object_set_new(q, "priority", json_integer(priority));
    return ask_json(b, q);
}

/* It runs before one that was begun, as long as itself, and before a shorter one that waits. */
static void an_earlier_priority_goes_first(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 4);
    serve_job *first = ask(&b, "number ", LONG, 5), *shorter, *urgent;
    run_rounds(&b, 5);
    shorter = ask_with_priority(&b, "hello ", LONG / 2, 1);
    urgent = ask_with_priority(&b, "numbers ", LONG, -1);
    run_a_round(&b);
    assert_true(slot_of(&b, urgent) && !slot_of(&b, shorter));
    const double left = slot_of(&b, first)->turn.n_left;
    run_until_it_answers(&b, urgent);
    assert_true(slot_of(&b, first)->turn.n_left >= left);
    run_all(&b);
    expect_answer(first, "number ", LONG, 5);
    expect_answer(shorter, "hello ", LONG / 2, 5);
    expect_answer(urgent, "numbers ", LONG, 5);
    close_bench(&b);
}

/* Another client's priority is its own affair, unless all share them. */
static void priorities_of_others(void **state) {
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        bench b;
        open_bench(&b, 4);
        b.config.shared_priorities = b.s->ready.shared_priorities = shared;
        serve_job *first = ask(&b, "number ", LONG, 2), *urgent;
        run_rounds(&b, 5);
        urgent = ask_with_priority(&b, "numbers ", LONG, -1);
        urgent->client = 7;
        run_a_round(&b);
        assert_int_equal(slot_of(&b, urgent) != NULL, shared);
        run_all(&b);
        serve_job_release(first);
        serve_job_release(urgent);
        close_bench(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_prompt_goes_between_a_long_one_waits),
        cmocka_unit_test(several_prompts_run_at_once),
        cmocka_unit_test(prompts_that_begin_alike_are_run_once),
        cmocka_unit_test(a_prompt_waits_where_a_pass_has_no_room),
        cmocka_unit_test(what_begins_alike_waits_as_long_as_it_pays),
        cmocka_unit_test(who_waits_for_one_that_leaves_goes_on),
        cmocka_unit_test(without_sharing_nobody_waits),
        cmocka_unit_test(a_conversation_that_is_known_goes_between),
        cmocka_unit_test(a_long_prompt_comes_to_its_end),
        cmocka_unit_test(the_shortest_is_first_in_line),
        cmocka_unit_test(a_long_job_is_not_put_off_for_ever),
        cmocka_unit_test(an_earlier_priority_goes_first),
        cmocka_unit_test(priorities_of_others),
    };
    return cmocka_run_group_tests_name("admission", tests, open_model, close_model);
}
