/* Who is let in where pages of keys and values run out (preemption.h), round by round. */
#include "scheduler_bench.h"

enum { CTX = 1024 };

static int open_paged_model(void **state) {
    return open_model_of_pages(state, CTX, 19, NULL);
}

/* The second prompt waits for the first one's pages. When it may have them a short one comes, which would be run first and could take
 * them: it is let in once they are taken. */
static void nobody_is_let_in_before_pages_are_taken(void **state) {
    (void)state;
    bench b;
    configure(&b, 4);
    b.config.session.n_ctx = CTX;
    start_bench(&b);
    serve_job *first = ask(&b, "number ", 700, 200), *second, *quick;
    run_until_it_answers(&b, first);
    second = ask(&b, "red ", 600, 4);
    for (int i = 0; !slot_of(&b, second) || !slot_of(&b, second)->lacks_pages; i++) {
        assert_true(i < 1000);
        run_a_round(&b);
    }
    quick = ask(&b, "hello ", SHORT, 4);
    run_rounds(&b, 5);
    assert_null(slot_of(&b, quick));
    assert_true(slot_of(&b, second)->lacks_pages);
    serve_job_cancel(first);
    bool had_to_wait = false;
    for (int i = 0; !slot_of(&b, quick); i++) {
        assert_true(i < 1000 && !second->done);
        had_to_wait = had_to_wait || sac_session_lacks(slot_of(&b, second)->session) > 0;
        run_a_round(&b);
    }
    assert_true(had_to_wait);
    assert_int_equal(sac_session_lacks(slot_of(&b, second)->session), 0);
    assert_true(serve_slot_has_prompt(slot_of(&b, second))); /* then it is, beside the prompt */
    run_all(&b);
    expect_cancelled(first);
    json_decref(reply_of(second));
    json_decref(reply_of(quick));
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(nobody_is_let_in_before_pages_are_taken)};
    return cmocka_run_group_tests_name("admission_pages", tests, open_paged_model, close_model);
}
