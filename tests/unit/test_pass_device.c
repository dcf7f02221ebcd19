/* Rows of prompts in passes with steps on a device, without one (late_device.h): what the prompts' own streams have in flight is
 * waited for, logits are those of running apart, memory is what the plan says, and a fault leaves sessions that can begin anew. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "late_card.h"

#include "batch.h"
#include "pass_test.h"
#include "work.h"

#include <math.h>

enum { PROMPTS = 2, AT_ONCE = LATE_STREAMS };

/* Ops that a device joins round otherwise than those that they join. */
static void expect(const answer *want, const answer *got) {
    assert_int_equal(want->n, got->n);
    for (int i = 0; i < want->n; i++)
        for (int c = 0; c < MOST_VOCAB; c++)
            if (!(fabsf(want->logits[i][c] - got->logits[i][c]) <= 1e-4f * (1 + fabsf(want->logits[i][c]))))
                fail_msg("logit %d of token %d: %g, apart %g", c, i, got->logits[i][c], want->logits[i][c]);
}

static void begin(sac_session *s, const sac_message *q, bool in_pieces) {
    const sac_sampling o = sampling();
    const sac_input in = {.messages = q, .n_messages = 1};
    sac_error err;
    if (in_pieces)
        assert_ok(sac_session_begin_work(s, &in, &o, NULL, &err), err);
    else
        assert_ok(sac_session_begin(s, q, 1, &o, NULL, &err), err);
}

static void alone(const sac_model *m, sac_session *s, const sac_message *q, answer *a) {
    memset(a, 0, sizeof *a);
    late_prompt = AT_ONCE;
    begin(s, q, false);
    step_to_end(m, s, a);
    sac_session_reset(s);
}

/* Sessions that answer, in other formats and by other methods, and those whose prompts go along. */
typedef struct table {
    sac_batch *b; /* made first: its stream does at once what the others' do late */
    sac_session *answers[ANSWERING], *prompts[PROMPTS];
    const sac_message *q, *p[PROMPTS];
} table;

static void open_table(table *t, const sac_model *m) {
    static const char *const kv[ANSWERING] = {"f32", "mixed:gap=32", "f16"},
                             *const decode[ANSWERING] = {"dense", "dense", "quest:page=3,budget=30,skip=0"};
    sac_error err;
    assert_ok(sac_batch_create_mixed(&t->b, m, ANSWERING, ROOM, &err), err);
    for (int i = 0; i < ANSWERING; i++) t->answers[i] = step_session(m, NULL, decode[i], kv[i], 1024);
    for (int i = 0; i < PROMPTS; i++) t->prompts[i] = step_session(m, NULL, NULL, i ? "f16" : "f32", 1024);
}

static void close_table(table *t) {
    for (int i = 0; i < ANSWERING; i++) sac_session_free(t->answers[i]);
    for (int i = 0; i < PROMPTS; i++) sac_session_free(t->prompts[i]);
    sac_batch_free(t->b);
}

/* Of prompts that pieces have brought to their rows: not done before a pass waits for them. */
static void begin_all(table *t, sac_batch_item *items) {
    sac_error err;
    late_prompt = AT_ONCE;
    for (int i = 0; i < ANSWERING; i++) {
        items[i] = (sac_batch_item){.session = t->answers[i]};
        begin(items[i].session, t->q, false);
    }
    assert_ok(sac_batch_step(t->b, items, ANSWERING, &err), err); /* chosen of the prompt */
    late_prompt = 1;
    for (int i = 0; i < PROMPTS; i++) {
        begin(t->prompts[i], t->p[i], true);
        to_next_pass(t->prompts[i], ROOM);
    }
}

static size_t list(table *t, int pass, sac_batch_prompt *mixed) {
    static const size_t sizes[PASSES][PROMPTS] = {{31, 10}, {9, 0}, {17, 43}, {64, 32}, {57, 39}};
    size_t n = 0;
    for (int i = 0; i < PROMPTS; i++) {
        const size_t rows = sizes[pass][i] ? sac_session_pass_rows(t->prompts[i], sizes[pass][i]) : 0;
        assert_true(rows <= sizes[pass][i]);
        if (rows) mixed[n++] = (sac_batch_prompt){.session = t->prompts[i], .rows = rows};
    }
    return n;
}

/* ---------------------------------------------------------------- logits */

static void compare(const char *path, bool has_vision) {
    static answer want[ANSWERING], got[ANSWERING], want_p[PROMPTS], got_p[PROMPTS];
    card c;
    table t;
    pictures p, u;
    sac_batch_item items[ANSWERING];
    size_t taken = 0;
    sac_error err;
    open_card_of(&c, path);
    open_table(&t, c.m);
    t.q = t.p[0] = about(&p, has_vision, question), t.p[1] = about(&u, false, other);
    for (int i = 0; i < ANSWERING; i++) alone(c.m, t.answers[i], t.q, &want[i]);
    for (int i = 0; i < PROMPTS; i++) alone(c.m, t.prompts[i], t.p[i], &want_p[i]);
    memset(got, 0, sizeof got);
    memset(got_p, 0, sizeof got_p);
    begin_all(&t, items);
    for (int i = 0; i < ANSWERING; i++) note(&got[i], c.m, t.answers[i]);
    assert_true(late_in_flight() > 0); /* rows of the prompts: the pass has to wait for them */
    for (int k = 0; k < PASSES; k++) {
        sac_batch_prompt mixed[PROMPTS];
        const size_t n = list(&t, k, mixed);
        assert_ok(sac_batch_step_with(t.b, items, ANSWERING, mixed, n, &err), err);
        for (int i = 0; i < ANSWERING; i++) {
            assert_ok(items[i].status, items[i].error);
            note(&got[i], c.m, t.answers[i]);
        }
        for (size_t i = 0; i < n; i++) {
            assert_ok(mixed[i].status, mixed[i].error);
            taken += mixed[i].rows;
        }
    }
    assert_true(taken > 150);
    late_prompt = AT_ONCE;
    for (int i = 0; i < PROMPTS; i++) {
        finish_prompt(t.prompts[i]); /* what is left, in pieces */
        step_to_end(c.m, t.prompts[i], &got_p[i]);
        expect(&want_p[i], &got_p[i]);
    }
    for (int i = 0; i < ANSWERING; i++) expect(&want[i], &got[i]);
    close_table(&t);
    close_card(&c);
}

static void passes_have_the_logits_of_running_apart(void **state) {
    (void)state;
    compare(FOLDER "qwen2", false);
    compare(FOLDER "qwen3_vl", true); /* layers add to pictures' rows */
}

/* ---------------------------------------------------------------- memory */

static size_t n_asked;
static sac_status count_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    n_asked += n_bytes;
    return late_alloc(d, n_bytes, out, err);
}

static void memory_is_what_the_plan_says(void **state) {
    card c;
    sac_batch *b;
    sac_error err;
    size_t bare, device;
    (void)state;
    open_card_of(&c, FOLDER "qwen2");
    c.m->device.alloc = count_alloc;
    sac_batch_plan(c.m, 2, &bare);
    for (size_t rows = 0; rows <= ROOM; rows += ROOM / 2) {
        const size_t host = sac_batch_plan_mixed(c.m, 2, rows, &device);
        n_asked = 0;
        assert_ok(sac_batch_create_mixed(&b, c.m, 2, rows, &err), err);
        assert_int_equal(n_asked, device);
        assert_int_equal(sac_batch_bytes(b), host + device);
        assert_int_equal(device > bare, rows > 0);
        sac_batch_free(b);
    }
    close_card(&c);
}

/* ---------------------------------------------------------------- faults */

/* The fault comes at op or copy number fail_at of the passes; 0: none. Whether there was one. */
static bool run_passes(table *t, int fail_at) {
    sac_batch_item items[ANSWERING];
    sac_batch_prompt mixed[PROMPTS];
    sac_error err;
    bool failed = false;
    begin_all(t, items);
    late_fail_at = fail_at;
    for (int k = 0; k < PASSES && !failed; k++) {
        const size_t n = list(t, k, mixed);
        assert_ok(sac_batch_step_with(t->b, items, ANSWERING, mixed, n, &err), err);
        failed = late_failed;
        for (int i = 0; i < ANSWERING; i++) assert_int_equal(items[i].status, failed ? SAC_DEVICE : SAC_OK);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(mixed[i].status, failed ? SAC_DEVICE : SAC_OK);
            assert_true(!failed || (mixed[i].rows == 0 && mixed[i].error.text[0]));
        }
    }
    late_fail_at = 0, late_failed = false; /* as if the card had come back */
    late_prompt = AT_ONCE;
    for (int i = 0; i < ANSWERING; i++) sac_session_end(t->answers[i], NULL);
    return failed;
}

static void a_fault_in_a_pass_is_said(void **state) {
    static answer want[PROMPTS], got;
    card c;
    table t;
    pictures p, u;
    int n_faults = 0;
    (void)state;
    open_card_of(&c, FOLDER "qwen2");
    open_table(&t, c.m);
    t.q = t.p[0] = about(&p, false, question), t.p[1] = about(&u, false, other);
    for (int i = 0; i < PROMPTS; i++) alone(c.m, t.prompts[i], t.p[i], &want[i]);
    for (int at = 1; run_passes(&t, at); at += 5 + at / 4, n_faults++) {
        for (int i = 0; i < ANSWERING; i++) sac_session_reset(t.answers[i]);
        for (int i = 0; i < PROMPTS; i++) {
            assert_int_equal(sac_session_n_tokens(t.prompts[i]), 0);
            alone(c.m, t.prompts[i], t.p[i], &got);
            expect(&want[i], &got);
        }
    }
    assert_true(n_faults > 8);
    close_table(&t);
    close_card(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_have_the_logits_of_running_apart),
        cmocka_unit_test(memory_is_what_the_plan_says),
        cmocka_unit_test(a_fault_in_a_pass_is_said),
    };
    return cmocka_run_group_tests_name("passes on a device", tests, NULL, NULL);
}
