/* The scheduler round by round: steps and prompts in turn or in one pass, what a cancelled prompt
 * leaves, and that an answer is the same whoever else is being answered. Who is let in is in test_admission.c. */
#include "admission.h"
#include "clock.h"
#include "scheduler_bench.h"
#include "slot_methods.h"

static void answers_go_on_while_a_prompt_is_run(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "hello ", SHORT, 700), *second;
    run_until_it_answers(&b, first);
    second = ask(&b, "number ", LONG, 20);
    run_a_round(&b);
    int64_t before = slot_of(&b, first)->n_tokens, n_pieces = 0, n_steps = 0;
    while (!has_begun_to_answer(&b, second)) {
        assert_false(first->done); /* the prompt goes on, too */
        int64_t had = slot_of(&b, first)->n_tokens;
        run_a_round(&b);
        slot_of(&b, first)->n_tokens > had ? n_steps++ : n_pieces++;
    }
    assert_true(n_pieces + n_steps > 10); /* many rows of it may go along with steps */
    assert_true(n_steps > 5);
    assert_true(metric(&b, "saccade:mixed_steps_total") > 0);
    assert_int_equal(slot_of(&b, first)->n_tokens - before, n_steps);
    run_to_the_end(&b, second);
    run_to_the_end(&b, first);
    assert_true(metric(&b, "saccade:decode_rows_total") == 700 + 20);
    assert_true(metric(&b, "vllm:time_to_first_token_seconds_count") == 2);
    assert_true(metric(&b, "vllm:request_prefill_time_seconds_count") == 2);
    assert_true(metric(&b, "vllm:request_queue_time_seconds_count") == 2);
    expect_answer(first, "hello ", SHORT, 700);
    expect_answer(second, "number ", LONG, 20);
    close_bench(&b);
}

/* ---------------------------------------------------------------- prompts that steps take along */

/* A long prompt beside an answer with a decode method, which goes on meanwhile unless drafts make it short or a target is so small
 * that pieces of the prompt come seldom. Returns how many steps took
 * rows along. */
static double run_beside(bench *b, const char *decode) {
    json_t *q = question("hello ", SHORT, 1000);
    json_object_set_new(q, "saccade", json_pack("{s:s}", "decode", decode));
    serve_job *first = ask_json(b, q), *second;
    run_until_it_answers(b, first);
    while (b->s->rounds->cost.step_s <= 0) run_a_round(b); /* before it the prompt would begin in pieces */
    second = ask(b, "number ", LONG / 2, 2);
    for (int i = 0; !has_begun_to_answer(b, second); i++) {
        assert_true(i < 100000);
        assert_false(first->done && !b->config.session.draft && b->config.target_itl_s > 1); /* no target, no such promise */
        const double had = metric(b, "saccade:mixed_steps_total");
        run_a_round(b);
        const serve_slot *slot = slot_of(b, second);
        if (metric(b, "saccade:mixed_steps_total") > had && slot && serve_slot_has_prompt(slot))
            assert_true(sac_session_work_left(slot->session) > 0); /* logits come with the last rows */
    }
    const double n_mixed = metric(b, "saccade:mixed_steps_total");
    run_to_the_end(b, second);
    serve_job_cancel(first);
    run_to_the_end(b, first);
    serve_job_release(second);
    serve_job_release(first);
    return n_mixed;
}

static double count_mixed(const char *decode, const char *draft) {
    bench b;
    configure(&b, 2);
    b.config.target_itl_s = 60;
    b.config.session.draft = draft;
    start_bench(&b);
    const double n = run_beside(&b, decode);
    close_bench(&b);
    return n;
}

/* A prompt does not wait for the end of an answer whose steps run by themselves; one that drafts is not held up. */
static void prompts_go_on_beside_any_answer(void **state) {
    (void)state;
    assert_true(count_mixed("dense", NULL) > 2);
    assert_true(count_mixed("adore:sigma=attention", NULL) == 0);
    assert_true(count_mixed("dense", "lookup") == 0);
}

/* That arrive together: as many as have workspaces go through the model with one step, the last one with another. */
static void short_prompts_share_a_pass(void **state) {
    (void)state;
    static const char *const words[] = {"number ", "red ", "house ", "green "};
    enum { N = 4, WORDS = 8, TOKENS = 6 };
    bench b;
    serve_job *answers[2], *jobs[N];
    begin_beside_answers(&b, answers);
    const double had = metric(&b, "saccade:mixed_steps_total");
    for (int i = 0; i < N; i++) jobs[i] = ask(&b, words[i], WORDS, TOKENS);
    while (!(metric(&b, "saccade:mixed_steps_total") > had)) run_before_the_step(&b);
    int n_run = 0;
    for (int i = 0; i < N; i++) n_run += slot_of(&b, jobs[i]) && !serve_slot_has_prompt(slot_of(&b, jobs[i]));
    assert_int_equal(n_run, SERVE_PROMPTS_AT_ONCE);
    for (int i = 0; i < N; i++)
        while (!has_begun_to_answer(&b, jobs[i])) run_before_the_step(&b);
    assert_true(metric(&b, "saccade:mixed_steps_total") - had < 2.5);
    run_all(&b);
    for (int i = 0; i < N; i++) expect_answer(jobs[i], words[i], WORDS, TOKENS);
    end_answers(&b, answers);
}

/* Its text is looked up in the time that the first one's last pass leaves, although a step is due: its rows go along with that pass. */
static void a_prompt_is_looked_up_before_the_last_pass_of_another(void **state) {
    (void)state;
    bench b;
    serve_job *answers[2];
    begin_beside_answers(&b, answers);
    double had = metric(&b, "saccade:mixed_steps_total");
    serve_job *first = ask(&b, "number ", SERVE_PASS_ROWS + 50, 4), *like;
    for (; metric(&b, "saccade:mixed_steps_total") < had + 0.5; run_before_the_step(&b)) assert_false(has_begun_to_answer(&b, first));
    const int n_left = (int)slot_of(&b, first)->turn.n_left;
    assert_true(n_left > 30 && n_left < SERVE_PASS_ROWS - 30);
    like = ask(&b, "red ", n_left / 2, 4); /* and some of the chat's own */
    had = metric(&b, "saccade:mixed_steps_total");
    while (serve_slot_has_prompt(slot_of(&b, first))) run_a_round(&b);
    run_a_round(&b);
    assert_true(has_begun_to_answer(&b, like) || !serve_slot_has_prompt(slot_of(&b, like)));
    assert_true(metric(&b, "saccade:mixed_steps_total") < had + 1.5);
    run_all(&b);
    expect_answer(like, "red ", n_left / 2, 4);
    expect_answer(first, "number ", SERVE_PASS_ROWS + 50, 4);
    end_answers(&b, answers);
}

/* ---------------------------------------------------------------- what a step takes */

/* Every slot answers, and still there are rows for what each guesses. */
static void answers_draft_side_by_side(void **state) {
    (void)state;
    bench b;
    sac_result r;
    configure(&b, 2);
    b.config.session.draft = "sparse:most=3,adapt=0,budget=16,page=4";
    start_bench(&b);
    serve_job *jobs[2] = {ask(&b, "hello ", SHORT, 200), ask(&b, "number ", SHORT, 200)};
    for (int i = 0; i < 2; i++) run_until_it_answers(&b, jobs[i]);
    for (int round = 0; round < 12; round++) run_a_round(&b);
    for (int i = 0; i < 2; i++) {
        const serve_slot *slot = slot_of(&b, jobs[i]);
        assert_non_null(slot);
        sac_session_end(slot->session, &r);
        if (r.n_drafted_tokens < 3) fail_msg("%lld drafted of %lld", (long long)r.n_drafted_tokens, (long long)r.n_tokens);
        serve_job_cancel(jobs[i]);
    }
    for (int i = 0; i < 2; i++) {
        run_to_the_end(&b, jobs[i]);
        serve_job_release(jobs[i]);
    }
    close_bench(&b);
}

/* A first token is no measure of a step. */
static void steps_without_the_model_are_not_measured(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 1);
    b.s->rounds->cost.step_s = 0.5;
    serve_job *j = ask(&b, "hello ", SHORT, 2);
    run_until_it_answers(&b, j);
    assert_true(b.s->rounds->cost.step_s >= 0.5 && b.s->rounds->cost.step_s <= 0.5);
    run_to_the_end(&b, j);
    assert_true(b.s->rounds->cost.step_s < 0.5 || b.s->rounds->cost.step_s > 0.5); /* the second one is */
    serve_job_release(j);
    close_bench(&b);
}

/* One answer, or two with idle slots beside them, whose rows guesses may have. */
static void count_guesses(int n_slots, size_t n_answers) {
    bench b;
    configure(&b, n_slots);
    b.config.session.draft = "lookup";
    start_bench(&b);
    serve_job *jobs[2];
    for (size_t i = 0; i < n_answers; i++) run_until_it_answers(&b, jobs[i] = ask(&b, i ? "and " : "hello ", SHORT, 100));
    serve_pass_cost *c = &b.s->rounds->cost;
    size_t n_none = 0, n_bare = 0, n_ahead = 0;
    const double long_s = 1e3;
    while (!jobs[0]->done && !jobs[n_answers - 1]->done) {
        *c = (serve_pass_cost){.step_s = long_s, .bare_s = long_s};
        b.s->rounds->due_ns = 0;
        run_a_round(&b);
        size_t n_guessed;
        const size_t n = sac_batch_ran(b.s->rounds->batch, &n_guessed);
        assert_int_equal(c->step_s < long_s, n > 0);
        assert_int_equal(c->bare_s < long_s, n > 0 && !n_guessed);
        assert_true(n - n_guessed <= n_answers && (n > n_guessed || !n));
        n_none += n_answers - (n - n_guessed);
        n_bare += n && !n_guessed;
        n_ahead += n_guessed;
    }
    assert_true(n_bare > 0 && n_none > 0 && n_ahead >= n_none); /* what was not run had been guessed */
    for (size_t i = 0; i < n_answers; i++) {
        run_to_the_end(&b, jobs[i]);
        expect_answer(jobs[i], i ? "and " : "hello ", SHORT, 100);
    }
    close_bench(&b);
}

/* What was guessed right takes no time, guesses take some. */
static void steps_that_guess_are_measured_apart(void **state) {
    (void)state;
    count_guesses(1, 1);
    count_guesses(4, 2);
}

/* ---------------------------------------------------------------- what fails or leaves */

/* A device that failed stays failed: the server takes no more, and says why it ends. */
static void a_failed_device_breaks_the_server(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 1);
    serve_problem p = {0};
    sac_error err = {.status = SAC_DEVICE, .text = "card 0 fell off the bus"};
    serve_job *bad = ask(&b, "hello ", SHORT, 5), *failed = ask(&b, "hello ", SHORT, 5), *next;
    assert_ptr_equal(serve_queue_take(&b.s->ready), bad);
    serve_job_fail(bad, SAC_BAD_ARGUMENT, &(sac_error){.text = "a request's own fault"});
    assert_false(atomic_load(&b.s->broken));
    assert_ptr_equal(serve_queue_take(&b.s->ready), failed);
    serve_job_fail(failed, SAC_DEVICE, &err);
    assert_true(atomic_load(&b.s->broken));
    assert_string_equal(b.s->failure.text, err.text);
    next = serve_job_create(b.s, true);
    assert_false(serve_server_admit(b.s, next, &p));
    assert_int_equal(p.status, 503);
    serve_job_release(next);
    serve_job_release(bad);
    serve_job_release(failed);
    close_bench(&b);
}

/* At its next piece, and the others do not notice. */
static void a_prompt_that_is_cancelled_frees_its_slot(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "hello ", SHORT, 100), *second, *third;
    run_until_it_answers(&b, first);
    second = ask(&b, "number ", LONG, 20);
    run_rounds(&b, 5);
    serve_slot *slot = slot_of(&b, second);
    assert_true(serve_slot_has_prompt(slot));
    assert_true(slot->turn.n_left > LONG / 8);
    serve_job_cancel(second);
    run_a_round(&b);
    assert_null(slot->job);
    expect_cancelled(second);
    assert_false(first->done);
    third = ask(&b, "number ", SHORT, 20);
    run_a_round(&b);
    assert_ptr_equal(slot_of(&b, third), slot);
    run_all(&b);
    expect_answer(first, "hello ", SHORT, 100);
    expect_answer(third, "number ", SHORT, 20);
    close_bench(&b);
}

static void what_waits_is_cancelled_too(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 1);
    serve_job *first = ask(&b, "number ", LONG, 5), *second;
    run_rounds(&b, 5);
    second = ask(&b, "hello ", SHORT, 5);
    run_a_round(&b);
    assert_int_equal(b.s->ready.n, 1);
    serve_job_cancel(second);
    run_a_round(&b);
    assert_int_equal(b.s->ready.n, 0);
    expect_cancelled(second);
    run_to_the_end(&b, first);
    expect_answer(first, "number ", LONG, 5);
    close_bench(&b);
}

/* ---------------------------------------------------------------- first tokens, choices, pieces */

/* The first token takes no work of the model: it does not wait until a step is due. */
static void a_prompt_that_is_run_has_its_first_token_at_once(void **state) {
    (void)state;
    bench b;
    open_bench(&b, 2);
    serve_job *first = ask(&b, "number ", LONG, 20), *quick;
    run_rounds(&b, 5);
    quick = ask(&b, "hello ", SHORT, 20);
    do {
        b.s->rounds->stepped_ns = sac_now_ns();
        b.s->rounds->due_ns = INT64_MAX / 2;
        run_a_round(&b);
    } while (serve_slot_has_prompt(slot_of(&b, quick)));
    run_a_round(&b);
    assert_true(has_begun_to_answer(&b, quick));
    assert_true(serve_slot_has_prompt(slot_of(&b, first)));
    run_all(&b);
    serve_job_release(quick);
    serve_job_release(first);
    close_bench(&b);
}

/* One after the other in the one slot, between the steps of another answer; greedily all are the same. */
static void choices_begin_the_prompt_again(void **state) {
    (void)state;
    enum { CHOICES = 3, TOKENS = 12 };
    bench b;
    open_bench(&b, 2);
    serve_job *other = ask(&b, "hello ", SHORT, 300), *j;
    run_until_it_answers(&b, other);
    json_t *q = question("number ", LONG / 2, TOKENS), *alone = answer_alone("number ", LONG / 2, TOKENS);
    json_object_set_new(q, "n", json_integer(CHOICES));
    j = ask_json(&b, q);
    run_a_round(&b);
    const serve_slot *slot = slot_of(&b, j);
    for (int seen = 0; !j->done; run_a_round(&b)) {
        assert_ptr_equal(slot_of(&b, j), slot);
        assert_true(slot->choice == seen || slot->choice == seen + 1);
        if (slot->choice == seen + 1) assert_true(++seen < CHOICES && serve_slot_has_prompt(slot));
    }
    assert_true(metric(&b, "vllm:prompt_tokens_total") * (CHOICES - 1) <
                metric(&b, "vllm:prefix_cache_queries_total"));
    assert_true(metric(&b, "vllm:time_to_first_token_seconds_count") == 2);
    json_t *reply = reply_of(j);
    for (size_t i = 0; i < CHOICES; i++) expect_same(alone, tokens_of(reply, i), TOKENS);
    json_decref(reply);
    json_decref(alone);
    run_to_the_end(&b, other);
    expect_answer(other, "hello ", SHORT, 300);
    close_bench(&b);
}

/* Of a prompt; by number, as the clock of a busy machine tells little. */
static int count_pieces(double target_s) {
    bench b;
    open_bench(&b, 2);
    b.config.target_itl_s = target_s;
    serve_job *j = ask(&b, "number ", 3 * LONG, 1);
    int n = 0;
    for (; !has_begun_to_answer(&b, j); n++) run_a_round(&b);
    run_to_the_end(&b, j);
    serve_job_release(j);
    close_bench(&b);
    return n;
}

static void pieces_are_cut_to_the_target(void **state) {
    (void)state;
    const int n_cut = count_pieces(1e-6), n_whole = count_pieces(60);
    enum { LAYERS = 9, LEAST = 20 }; /* of attention; the last layer's is of one query */
    if (n_cut < n_whole + (LAYERS - 1) * LEAST) fail_msg("%d pieces, uncut %d", n_cut, n_whole);
}

/* A session that cannot share the server's beginnings is none of its: nothing is left of it. */
static void a_session_that_cannot_join_is_freed(void **state) {
    (void)state;
    bench b;
    sac_error err;
    sac_model *other;
    sac_session *s = NULL;
    open_bench(&b, 1);
    sac_beginnings *own = b.s->beginnings;
    assert_int_equal(sac_model_open(&other, "models/demo", NULL, &err), SAC_OK);
    assert_int_equal(sac_beginnings_open(&b.s->beginnings, other, &err), SAC_OK);
    assert_int_equal(serve_methods_session(b.s, &b.s->slots[0].methods, &s, &err), SAC_BAD_ARGUMENT);
    assert_null(s);
    sac_beginnings_close(b.s->beginnings);
    sac_model_free(other);
    b.s->beginnings = own;
    close_bench(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_go_on_while_a_prompt_is_run),
        cmocka_unit_test(prompts_go_on_beside_any_answer),
        cmocka_unit_test(short_prompts_share_a_pass),
        cmocka_unit_test(a_prompt_is_looked_up_before_the_last_pass_of_another),
        cmocka_unit_test(answers_draft_side_by_side),
        cmocka_unit_test(steps_without_the_model_are_not_measured),
        cmocka_unit_test(steps_that_guess_are_measured_apart),
        cmocka_unit_test(a_failed_device_breaks_the_server),
        cmocka_unit_test(a_prompt_that_is_cancelled_frees_its_slot),
        cmocka_unit_test(what_waits_is_cancelled_too),
        cmocka_unit_test(a_prompt_that_is_run_has_its_first_token_at_once),
        cmocka_unit_test(choices_begin_the_prompt_again),
        cmocka_unit_test(pieces_are_cut_to_the_target),
        cmocka_unit_test(a_session_that_cannot_join_is_freed),
    };
    return cmocka_run_group_tests_name("the scheduler", tests, open_model, close_model);
}
