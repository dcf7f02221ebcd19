/* Drafts on a device, without one (late_device.h): passes of several rows give the tokens and logits of steps one by one, but for
 * rounding; what is refused; and a device that fails. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "batch.h"
#include "draft_test.h"
#include "late_card.h"

enum { N_CTX = 200, ANSWER = 48 };

static sac_session *session_on(const card *c, const char *draft) {
    return session_of(c->m, "f32", N_CTX, draft);
}

/* Ops that a device joins round otherwise than those that they join. */
static void alike(const seen *a, const seen *b) {
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->result.n_tokens, b->result.n_tokens);
    assert_memory_equal(a->ids, b->ids, (size_t)a->result.n_tokens * sizeof *a->ids);
    for (int i = 0; i < a->n * a->vocab; i++)
        if (!(fabsf(a->logits[i] - b->logits[i]) <= 1e-4f * (1 + fabsf(a->logits[i]))))
            fail_msg("logit %d of token %d: %g, drafted %g", i % a->vocab, i / a->vocab, a->logits[i], b->logits[i]);
}

/* Tokens that repeat, so that guesses are right, then others. */
static void force(seen *x, int period) {
    static int32_t ids[ANSWER];
    for (int i = 0; i < ANSWER; i++) ids[i] = i < 30 ? 5 + (N_PROMPT + i) % period : 40 + i * 7 % 90;
    x->forced = ids, x->n_forced = ANSWER;
}

static void passes_give_what_steps_give(void **state) {
    (void)state;
    static const char *const drafts[] = {"lookup", "lookup:most=3", "lookup:most=31", "sparse:most=4,adapt=0,method=quest,page=4,budget=24,skip=0",
                                         "sparse:most=4,adapt=0,method=quest,page=4,budget=24,skip=0,every=6",
                                         "sparse:most=3,adapt=0,method=tokenselect,k=12,init=2,local=6"};
    card c;
    open_card(&c);
    sac_session *plain = session_on(&c, NULL);
    sac_sampling o = step_sampling(ANSWER);
    o.ignore_eos = true;
    for (size_t d = 0; d < SAC_COUNT(drafts); d++) {
        sac_session *drafted = session_on(&c, drafts[d]);
        const bool repeats = !strncmp(drafts[d], "lookup", 6); /* the others guess what the model would say */
        int64_t n_accepted = 0, n_drafted = 0;
        for (int period = 4; period < 8; period++) { /* the same session again: of its first answer nothing may be left */
            seen want = {0}, got = {0};
            if (repeats) force(&want, period), force(&got, period);
            late_prompt = LATE_STREAMS;
            answer(&want, plain, repeated(period), N_PROMPT, &o);
            late_prompt = 0; /* what nobody waits for is not done */
            answer(&got, drafted, repeated(period), N_PROMPT, &o);
            alike(&want, &got);
            n_accepted += got.result.n_accepted_tokens, n_drafted += got.result.n_drafted_tokens;
            assert_int_equal(want.result.n_drafted_tokens, 0);
            drop(&want), drop(&got);
            sac_session_reset(plain), sac_session_reset(drafted);
        }
        assert_true(n_accepted > 32 && n_drafted > n_accepted);
        sac_session_free(drafted);
    }
    late_prompt = LATE_STREAMS;
    sac_session_free(plain);
    close_card(&c);
}

/* In a batch of several they step as the others do, alone as without one. */
static void batches_take_them(void **state) {
    (void)state;
    card c;
    open_card(&c);
    sac_error err;
    sac_session *s[3];
    sac_batch *b;
    int32_t tokens[2][3][ANSWER];
    sac_sampling o = step_sampling(ANSWER);
    o.ignore_eos = true;
    for (int drafts = 0; drafts < 2; drafts++) {
        for (int i = 0; i < 3; i++) {
            s[i] = session_on(&c, drafts ? "lookup" : NULL);
            assert_ok(sac_session_begin_tokens(s[i], repeated(4 + i), N_PROMPT, &o, NULL, &err), err);
        }
        assert_ok(sac_batch_create(&b, c.m, 9, &err), err); /* rows to spare */
        for (int t = 0; t < ANSWER; t++) {
            sac_batch_item items[3] = {{0}};
            const size_t n = t < 20 ? 3 : 1; /* the first goes on alone, and drafts */
            for (size_t i = 0; i < n; i++) items[i].session = s[i];
            assert_ok(sac_batch_step(b, items, n, &err), err);
            for (size_t i = 0; i < n; i++) {
                assert_ok(items[i].status, items[i].error);
                tokens[drafts][i][t] = items[i].token;
            }
        }
        for (int i = 0; i < 3; i++) {
            sac_result r;
            sac_session_end(s[i], &r);
            assert_true(drafts && i == 0 ? r.n_drafted_tokens > 0 : !r.n_drafted_tokens);
            sac_session_free(s[i]);
        }
        sac_batch_free(b);
    }
    assert_memory_equal(tokens[0][0], tokens[1][0], sizeof tokens[0][0]);
    for (int i = 1; i < 3; i++) assert_memory_equal(tokens[0][i], tokens[1][i], 20 * sizeof(int32_t));
    close_card(&c);
}

typedef struct masked {
    int n_calls, vocab;
} masked;

static void allow(void *ctx, uint32_t *bits, int n_vocab) {
    masked *m = ctx;
    m->n_calls++;
    m->vocab = n_vocab;
    bits[0] &= ~1u; /* no token 0 */
}

/* As servers run them: logits stay on the device where a choice is told, and guesses of the model itself choose from their own. */
static void guesses_leave_what_is_wanted_alone(void **state) {
    (void)state;
    card c;
    open_card(&c);
    int32_t tokens[3][ANSWER];
    int64_t n_accepted[3];
    sac_error err;
    sac_sampling o = step_sampling(ANSWER);
    o.ignore_eos = true;
    for (int k = 0; k < 3; k++) { /* steps; drafts; drafts whose logits stay */
        sac_session *s = session_on(&c, k ? "sparse:most=4,adapt=0,method=quest,page=4,budget=24,skip=0" : NULL);
        sac_session_leave_logits(s, k == 2);
        masked m = {0};
        const sac_events e = {.ctx = &m, .mask = allow};
        assert_ok(sac_session_begin_tokens(s, repeated(5), N_PROMPT, &o, NULL, &err), err);
        int n = 0;
        for (bool done = false; !done; n++) assert_ok(sac_session_step(s, &e, &tokens[k][n], &done, &err), err);
        sac_result r;
        sac_session_end(s, &r);
        n_accepted[k] = r.n_accepted_tokens;
        assert_int_equal(n, ANSWER);
        assert_int_equal(m.n_calls, ANSWER);
        sac_session_free(s);
    }
    assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
    assert_memory_equal(tokens[0], tokens[2], sizeof tokens[0]);
    assert_true(n_accepted[1] > 0);
    assert_int_equal(n_accepted[1], n_accepted[2]);
    close_card(&c);
}

/* Of passes and guesses of a greedy answer no logits come down; until somebody wants to see them, for whom what was run ahead is run
 * again. */
static void greedy_passes_leave_logits_there(void **state) {
    (void)state;
    card c;
    open_card(&c);
    static const char *const drafts[] = {"lookup", "sparse:most=4,adapt=0,method=quest,page=4,budget=24,skip=0",
                                         "sparse:most=4,adapt=0,method=quest,page=4,budget=24,skip=0,every=5"};
    int32_t tokens[2][ANSWER];
    int64_t n_all = 0;
    sac_error err;
    sac_sampling o = step_sampling(ANSWER);
    o.ignore_eos = true;
    for (size_t d = 0; d < 2 * SAC_COUNT(drafts); d++) {
        const bool looks = d >= SAC_COUNT(drafts);
        int64_t n_accepted = 0;
        for (int k = 0; k < 2; k++) {
            sac_session *s = session_on(&c, k ? drafts[d % SAC_COUNT(drafts)] : NULL);
            sac_session_leave_logits(s, true);
            assert_ok(sac_session_begin_tokens(s, repeated(5), N_PROMPT, &o, NULL, &err), err);
            seen x = {0};
            const sac_events e = {.ctx = &x, .logits = see};
            int n = 0;
            for (bool done = false; !done; n++) {
                if (n == 1) late_n_downloaded = 0; /* the first is chosen of the prompt's */
                assert_ok(sac_session_step(s, looks && n % 7 == 6 ? &e : NULL, &tokens[k][n], &done, &err), err);
            }
            assert_int_equal(n, ANSWER);
            if (!looks) assert_int_equal(late_n_downloaded, 0);
            if (looks) assert_int_equal(x.n, ANSWER / 7);
            for (int i = 0; i < x.n; i++) { /* those of the step, whose likeliest token was chosen */
                const float *row = x.logits + i * x.vocab;
                for (int v = 0; v < x.vocab; v++) assert_true(row[v] <= row[tokens[k][7 * i + 6]]);
            }
            drop(&x);
            sac_result r;
            sac_session_end(s, &r);
            if (k) n_accepted = r.n_accepted_tokens;
            sac_session_free(s);
        }
        assert_memory_equal(tokens[0], tokens[1], sizeof tokens[0]);
        n_all += n_accepted;
    }
    assert_true(n_all > 20);
    close_card(&c);
}

static void refuses_what_it_has_no_ops_for(void **state) {
    (void)state;
    static const char *const drafts[] = {"eagle3:tests/golden/eagle/none"};
    card c;
    open_card(&c);
    for (size_t i = 0; i < SAC_COUNT(drafts); i++) {
        sac_session_config config;
        sac_session *s = NULL;
        sac_error err = {0};
        sac_session_config_default(&config);
        config.n_ctx = N_CTX, config.draft = drafts[i];
        assert_int_equal(sac_session_create(&s, c.m, &config, &err), SAC_UNSUPPORTED);
        assert_null(s);
        assert_says(err, "use lookup, sparse or model there");
    }
    close_card(&c);
}

/* Whatever op or copy of an answer fails, the step says so; the session can go. */
static void a_fault_ends_the_answer(void **state) {
    (void)state;
    int n_faults = 0;
    sac_sampling o = step_sampling(ANSWER);
    o.ignore_eos = true;
    for (sac_status st = SAC_DEVICE; st != SAC_OK; n_faults += st != SAC_OK) {
        card c;
        sac_error err = {0};
        int32_t token;
        open_card(&c);
        sac_session *s = session_on(&c, "lookup");
        assert_ok(sac_session_begin_tokens(s, repeated(4), N_PROMPT, &o, NULL, &err), err);
        late_fail_at = 1 + 7 * n_faults;
        st = SAC_OK;
        for (bool done = false; st == SAC_OK && !done;) st = sac_session_step(s, NULL, &token, &done, &err);
        assert_true(st == SAC_OK || st == SAC_DEVICE);
        assert_null(strchr(err.text, '\n'));
        sac_session_end(s, NULL);
        late_fail_at = 0, late_failed = false;
        sac_session_free(s);
        close_card(&c);
    }
    assert_true(n_faults > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_give_what_steps_give),
        cmocka_unit_test(batches_take_them),
        cmocka_unit_test(guesses_leave_what_is_wanted_alone),
        cmocka_unit_test(greedy_passes_leave_logits_there),
        cmocka_unit_test(refuses_what_it_has_no_ops_for),
        cmocka_unit_test(a_fault_ends_the_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
