/* Steps of some sessions and rows of others' prompts in one pass: everybody's logits are those of running apart, bit for bit,
 * and the model's matrices are met once. */
#include "pass_test.h"

#include "batch.h"
#include "work.h"

static void expect(const answer *want, const answer *got, const char *what, const char *kv, int n_threads) {
    assert_int_equal(want->n, got->n);
    for (int i = 0; i < want->n; i++)
        if (memcmp(want->logits[i], got->logits[i], sizeof want->logits[i]))
            fail_msg("%s, kv %s, %d threads: other logits of token %d", what, kv, n_threads, i);
}

static void begin_work(sac_session *s, const sac_input *in) {
    const sac_sampling o = sampling();
    sac_error err;
    assert_ok(sac_session_begin_work(s, in, &o, NULL, &err), err);
}

static void begin(sac_session *s, const sac_message *q, bool in_pieces) {
    const sac_sampling o = sampling();
    sac_error err;
    if (in_pieces)
        begin_work(s, &(sac_input){.messages = q, .n_messages = 1});
    else
        assert_ok(sac_session_begin(s, q, 1, &o, NULL, &err), err);
}

static void alone(const sac_model *m, sac_session *s, const sac_message *q, answer *a) {
    memset(a, 0, sizeof *a);
    begin(s, q, false);
    step_to_end(m, s, a);
}

/* Up to where its next rows may go into a pass, at most `most`; 0: they never may, and it is run. */
static size_t to_pass(sac_session *s, size_t most, bool *done) {
    sac_error err;
    size_t n = 0;
    while (!*done && !(n = sac_session_pass_rows(s, most))) assert_ok(sac_session_work_next(s, done, &err), err);
    return n;
}

static sac_model *open_family(const char *path, int n_threads) {
    sac_model_options o;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&o);
    o.n_threads = n_threads;
    o.chat_format = "plain";
    assert_ok(sac_model_open(&m, path, &o, &err), err);
    return m;
}

static sac_session *session(const sac_model *m, const char *kv) {
    return chunked(m, 40, kv);
}

static sac_batch *batch_of(const sac_model *m, size_t n) {
    sac_batch *b;
    sac_error err;
    assert_ok(sac_batch_create_mixed(&b, m, n, ROOM, &err), err);
    return b;
}

/* ---------------------------------------------------------------- families, formats, threads */

static const struct {
    const char *path;
    bool has_vision, joins;
} families[] = {
    {FOLDER "llama_f32", false, true},          {FOLDER "qwen2_vl", true, true},
    {FOLDER "qwen3_vl", true, true}, /* layers add to pictures' rows */
    {FOLDER "qwen3_vl_moe", true, true},        {FOLDER "gguf_llama_q4_k/q4_k.gguf", false, true},
    {FOLDER "gguf_llama_q8_0/q8_0.gguf", false, true}, {FOLDER "deepseek_v3", false, true},
    {FOLDER "gemma3", true, false}, /* the rows of a picture see one another */
    {FOLDER "qwen3_5", true, false}, /* linear attention */
};

/* Sessions that answer in the formats given in turn, beside two prompts that passes take in parts of odd sizes; the second one
 * begins later, and what is left after the passes goes on in pieces. */
static void together(const sac_model *m, const char *const *kv, const sac_message *q, const sac_message *p, const answer *want_q,
                     const answer *want_p, const char *path, int n_threads, bool joins) {
    static answer got[ANSWERING], prompted[2];
    static const size_t sizes[PASSES][2] = {{9, 0}, {31, 10}, {17, 43}, {64, 32}, {57, 39}};
    sac_batch *b = batch_of(m, ANSWERING);
    sac_batch_item items[ANSWERING];
    sac_session *prompts[2];
    size_t taken = 0;
    bool done[2] = {false, false};
    sac_error err;
    memset(got, 0, sizeof got);
    memset(prompted, 0, sizeof prompted);
    for (int i = 0; i < ANSWERING; i++) {
        items[i] = (sac_batch_item){.session = session(m, kv[i])};
        begin(items[i].session, q, false);
    }
    for (int i = 0; i < 2; i++) begin(prompts[i] = session(m, kv[0]), i ? p : q, true);
    assert_ok(sac_batch_step(b, items, ANSWERING, &err), err); /* chosen of the prompt */
    for (int i = 0; i < ANSWERING; i++) note(&got[i], m, items[i].session);
    for (int k = 0; k < PASSES; k++) {
        sac_batch_prompt mixed[2];
        size_t n = 0;
        for (int i = 0; i < 2; i++) {
            if (!sizes[k][i]) continue;
            const size_t rows = to_pass(prompts[i], sizes[k][i], &done[i]);
            assert_true(rows <= sizes[k][i]);
            if (rows) mixed[n++] = (sac_batch_prompt){.session = prompts[i], .rows = rows};
        }
        assert_ok(sac_batch_step_with(b, items, ANSWERING, mixed, n, &err), err);
        for (int i = 0; i < ANSWERING; i++) {
            assert_ok(items[i].status, items[i].error);
            note(&got[i], m, items[i].session);
        }
        for (size_t i = 0; i < n; i++) {
            assert_ok(mixed[i].status, mixed[i].error);
            taken += mixed[i].rows;
        }
    }
    assert_true(joins ? taken > 150 : taken == 0);
    for (int i = 0; i < 2; i++) {
        if (!done[i]) finish_prompt(prompts[i]);
        step_to_end(m, prompts[i], &prompted[i]);
    }
    expect(&want_q[0], &prompted[0], path, kv[0], n_threads);
    expect(want_p, &prompted[1], path, kv[0], n_threads);
    for (int i = 0; i < ANSWERING; i++) {
        expect(&want_q[i], &got[i], path, kv[i], n_threads);
        sac_session_free(items[i].session);
    }
    for (int i = 0; i < 2; i++) sac_session_free(prompts[i]);
    sac_batch_free(b);
}

static void passes_have_the_bits_of_running_apart(void **state) {
    static const char *const formats[][ANSWERING] = {{"f32", "bf16", "int4"}, {"f16", "f32", "mixed"}, {"bf16", "f16", "f32"}, {"f32", "bf16", "f16"}};
    static answer want_q[ANSWERING], want_p;
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        const int n_threads = 1 + (int)(f % 3);
        sac_model *m = open_family(families[f].path, n_threads);
        pictures p, t;
        const sac_message *q = about(&p, families[f].has_vision, question), *u = about(&t, false, other);
        for (size_t k = f ? 2 + f % 2 : 0, end = f ? k + 1 : 3; k < end; k++) { /* not all know packed ones */
            for (int i = 0; i < ANSWERING; i++) {
                sac_session *s = session(m, formats[k][i]);
                alone(m, s, q, &want_q[i]);
                sac_session_free(s);
            }
            sac_session *s = session(m, formats[k][0]);
            alone(m, s, u, &want_p);
            sac_session_free(s);
            together(m, formats[k], q, u, want_q, &want_p, families[f].path, n_threads, families[f].joins);
        }
        sac_model_free(m);
    }
}

/* ---------------------------------------------------------------- prompts that end */

/* Beside a step: one ends in the first pass and others in the second, whatever stands behind them; no pass leaves few rows. */
static void prompts_end_within_a_pass(void **state) {
    enum { PROMPTS = 4 };
    static const int lengths[PROMPTS] = {9, 30, 25, 40}, most[PROMPTS] = {9, 25, 10, 36}, takes[2][PROMPTS] = {{9, 21, 10, 31}, {0, 9, 15, 9}};
    static answer want[PROMPTS], got[PROMPTS];
    sac_model *m = open_family(FOLDER "llama_f32", 3);
    sac_batch *b = batch_of(m, 1);
    sac_session *s[PROMPTS], *a = session(m, "f32");
    sac_batch_item item = {.session = a};
    int32_t ids[PROMPTS][64];
    pictures p;
    sac_error err;
    bool done[PROMPTS] = {false};
    (void)state;
    memset(want, 0, sizeof want);
    memset(got, 0, sizeof got);
    for (int i = 0; i < PROMPTS; i++) {
        for (int k = 0; k < lengths[i]; k++) ids[i][k] = 5 + (k * 7 + i * 3) % 200;
        const sac_input in = {.ids = ids[i], .n_ids = (size_t)lengths[i]};
        s[i] = session(m, "f32");
        begin_work(s[i], &in);
        finish_prompt(s[i]);
        step_to_end(m, s[i], &want[i]);
        sac_session_reset(s[i]);
        begin_work(s[i], &in);
    }
    begin(a, about(&p, false, other), false);
    assert_ok(sac_batch_step(b, &item, 1, &err), err);
    for (int k = 0; k < 2; k++) {
        sac_batch_prompt mixed[PROMPTS];
        size_t n = 0;
        for (int i = 0; i < PROMPTS; i++) {
            const size_t rows = takes[k][i] ? to_pass(s[i], k ? 32 : (size_t)most[i], &done[i]) : 0;
            assert_int_equal(rows, takes[k][i]);
            if (rows) mixed[n++] = (sac_batch_prompt){.session = s[i], .rows = rows};
        }
        assert_ok(sac_batch_step_with(b, &item, 1, mixed, n, &err), err);
        for (size_t i = 0; i < n; i++) assert_ok(mixed[i].status, mixed[i].error);
    }
    for (int i = 0; i < PROMPTS; i++) {
        finish_prompt(s[i]);
        step_to_end(m, s[i], &got[i]);
        expect(&want[i], &got[i], "of those that end", "f32", 3);
        sac_session_free(s[i]);
    }
    sac_session_free(a);
    sac_batch_free(b);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- what a pass is */

/* Products, counted. */
static int n_products;
static sac_status (*linear_of)(const sac_stream *, const sac_linear_args *);
static sac_status (*group_of)(const sac_stream *, const sac_linear_group_args *);

static sac_status count_linear(const sac_stream *s, const sac_linear_args *a) {
    n_products++;
    return linear_of(s, a);
}

static sac_status count_group(const sac_stream *s, const sac_linear_group_args *a) {
    n_products += a->n;
    return group_of(s, a);
}

static int products_of(sac_batch *b, sac_batch_item *items, sac_batch_prompt *prompts, size_t n) {
    sac_error err;
    n_products = 0;
    assert_ok(sac_batch_step_with(b, items, ANSWERING, prompts, n, &err), err);
    for (int i = 0; i < ANSWERING; i++) assert_ok(items[i].status, items[i].error);
    return n_products;
}

/* Three steps and parts of two prompts meet every matrix once, as three steps do. */
static void a_pass_meets_each_matrix_once(void **state) {
    sac_model *m = open_family(FOLDER "llama_f32", 2);
    sac_batch *b = batch_of(m, ANSWERING);
    sac_batch_item items[ANSWERING];
    sac_batch_prompt prompts[2];
    pictures p;
    const sac_message *q = about(&p, false, question);
    bool done = false;
    (void)state;
    linear_of = b->ops.linear, group_of = b->ops.linear_group;
    b->ops.linear = count_linear, b->ops.linear_group = count_group;
    for (int i = 0; i < ANSWERING; i++) {
        items[i] = (sac_batch_item){.session = session(m, "f32")};
        begin(items[i].session, q, false);
    }
    assert_int_equal(products_of(b, items, NULL, 0), 0);
    const int of_steps = products_of(b, items, NULL, 0);
    assert_true(of_steps > 0);
    for (int i = 0; i < 2; i++) {
        prompts[i] = (sac_batch_prompt){.session = session(m, "f32")};
        begin(prompts[i].session, q, true);
        prompts[i].rows = to_pass(prompts[i].session, 40, &done);
        assert_int_equal(prompts[i].rows, 40);
    }
    assert_int_equal(products_of(b, items, prompts, 2), of_steps);
    for (int i = 0; i < ANSWERING; i++) sac_session_free(items[i].session);
    for (int i = 0; i < 2; i++) sac_session_free(prompts[i].session);
    sac_batch_free(b);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- who goes apart, who leaves */

static void methods_that_see_the_prompt_whole_go_apart(void **state) {
    static const struct {
        const char *prefill, *decode, *kv;
        bool joins;
    } methods[] = {{NULL, NULL, "f32", true},
                   {NULL, "streaming:start=4,recent=100", "f32", true},
                   {NULL, "snapkv:cap=64", "f32", false},
                   {NULL, "h2o", "f32", false},
                   {"zipvl:min=0", NULL, "f32", false},
                   {"fastv", NULL, "f32", false},
                   {NULL, NULL, "kivi:group=16,residual=16", false},
                   {NULL, NULL, "int4", false}};
    asked q;
    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        sac_session *s = step_session(model, methods[i].prefill, methods[i].decode, methods[i].kv, 1024);
        bool done = false;
        begin(s, ask_about(&q, STEP_PICTURE, 0, "Describe the image."), true);
        assert_int_equal(to_pass(s, 33, &done), methods[i].joins ? 33 : 0);
        sac_session_free(s);
    }
}

static void prompts_are_given_up_between_passes(void **state) {
    static answer want_q, want_p, got_q, got_p;
    pictures p, t;
    sac_model *m = open_family(FOLDER "llama_f32", 2);
    const sac_message *q = about(&p, false, question), *u = about(&t, false, other);
    sac_session *s = session(m, "f32"), *a = session(m, "f32");
    sac_batch *b = batch_of(m, 2);
    sac_batch_item item = {.session = a};
    sac_error err;
    (void)state;
    alone(m, s, u, &want_p);
    sac_session_reset(s);
    alone(m, s, q, &want_q);
    memset(&got_q, 0, sizeof got_q);
    begin(a, q, false);
    assert_ok(sac_batch_step(b, &item, 1, &err), err);
    note(&got_q, m, a);
    for (int k = 0; k < PASSES; k++) {
        sac_batch_prompt one = {.session = s};
        bool done = false;
        if (k % 2 == 0) sac_session_reset(s), begin(s, q, true);
        one.rows = to_pass(s, 20, &done);
        if (k % 2) sac_session_cancel(s);
        assert_ok(sac_batch_step_with(b, &item, 1, &one, 1, &err), err);
        assert_ok(item.status, item.error);
        note(&got_q, m, a);
        assert_int_equal(one.status, k % 2 ? SAC_CANCELLED : SAC_OK);
        assert_int_equal(one.rows, k % 2 ? 0 : 20);
        if (k % 2) assert_int_equal(sac_session_n_tokens(s), 0);
    }
    expect(&want_q, &got_q, "beside prompts that go", "f32", 2);
    memset(&got_p, 0, sizeof got_p);
    begin(s, u, true); /* over one that passes have begun */
    finish_prompt(s);
    step_to_end(m, s, &got_p);
    expect(&want_p, &got_p, "after one that was given up", "f32", 2);
    sac_session_free(s);
    sac_session_free(a);
    sac_batch_free(b);
    sac_model_free(m);
}

/* Also where all its rows are there and only its logits are not: asked again, no few rows of it are run with other bits. */
static void a_prompt_that_was_given_up_has_its_bits_when_asked_again(void **state) {
    static answer want, got;
    sac_model *m = open_family(FOLDER "llama_f32", 2);
    pictures p, t;
    const sac_message *q = about(&p, false, question), *u = about(&t, false, other);
    sac_session *s = session(m, "f32"), *a = session(m, "f32");
    sac_batch *b = batch_of(m, 2);
    sac_batch_item item = {.session = a};
    sac_error err;
    bool done = false;
    (void)state;
    alone(m, s, q, &want);
    for (int n_pieces = 0; !done; n_pieces++) {
        sac_session_reset(s);
        begin(s, q, true);
        for (int i = 0; i < n_pieces && !done; i++) assert_ok(sac_session_work_next(s, &done, &err), err);
        sac_session_end(s, NULL);
        alone(m, s, q, &got);
        expect(&want, &got, "given up after pieces", "f32", 2);
    }
    begin(a, u, false);
    assert_ok(sac_batch_step(b, &item, 1, &err), err);
    sac_session_reset(s);
    begin(s, q, true);
    done = false;
    for (size_t rows; (rows = to_pass(s, ROOM - 2, &done)) && !done;) {
        sac_batch_prompt one = {.session = s, .rows = rows};
        assert_ok(sac_batch_step_with(b, &item, 1, &one, 1, &err), err);
        assert_ok(one.status, one.error);
        if (!sac_session_pass_rows(s, ROOM - 2)) break; /* the last ones */
    }
    assert_false(done);
    sac_session_end(s, NULL);
    alone(m, s, q, &got);
    expect(&want, &got, "given up after its last pass", "f32", 2);
    sac_session_free(s);
    sac_session_free(a);
    sac_batch_free(b);
    sac_model_free(m);
}

/* Asks of a step's callback that a prompt of the same call goes on, ends, is reset and begins anew. */
static int n_refused;
static bool meddle(void *ctx) {
    sac_session *s = ctx;
    const sac_sampling o = sampling();
    const int32_t ids[] = {5, 6};
    bool done;
    n_refused += sac_session_work_next(s, &done, NULL) == SAC_BAD_ARGUMENT;
    n_refused += sac_session_begin_work(s, &(sac_input){.ids = ids, .n_ids = 2}, &o, NULL, NULL) == SAC_BAD_ARGUMENT;
    n_refused += sac_session_append(s, ids, 2, NULL, NULL) == SAC_BAD_ARGUMENT;
    sac_session_end(s, NULL);
    sac_session_reset(s);
    return false;
}

static void callbacks_cannot_touch_a_prompt_of_the_call(void **state) {
    static answer want, got;
    pictures p, t;
    sac_model *m = open_family(FOLDER "llama_f32", 2);
    const sac_message *q = about(&p, false, question), *u = about(&t, false, other);
    sac_session *s = session(m, "f32"), *a = session(m, "f32");
    sac_batch *b = batch_of(m, 1);
    const sac_events events = {.ctx = s, .stopped = meddle};
    sac_batch_item item = {.session = a, .events = &events};
    bool done = false;
    sac_error err;
    (void)state;
    alone(m, s, u, &want);
    sac_session_reset(s);
    memset(&got, 0, sizeof got);
    begin(a, q, false);
    begin(s, u, true);
    sac_batch_prompt one = {.session = s, .rows = to_pass(s, 20, &done)};
    for (size_t rows = 0; rows < 21; rows += 20) { /* of a first token, and of one that runs the model */
        n_refused = 0;
        one.rows = 20;
        assert_ok(sac_batch_step_with(b, &item, 1, &one, 1, &err), err);
        assert_ok(item.status, item.error);
        assert_ok(one.status, one.error);
        assert_true(n_refused >= 3 && n_refused % 3 == 0);
        assert_int_equal(one.rows, rows);
    }
    finish_prompt(s);
    step_to_end(m, s, &got);
    expect(&want, &got, "whose work others meddled with", "f32", 2);
    sac_session_free(s);
    sac_session_free(a);
    sac_batch_free(b);
    sac_model_free(m);
}

/* No memory is taken for passes that never come. */
static void models_that_go_apart_have_no_room(void **state) {
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        if (families[f].joins && f) continue;
        sac_model *m = open_family(families[f].path, 1);
        assert_int_equal(sac_batch_plan_mixed(m, 2, ROOM, NULL) > sac_batch_plan(m, 2, NULL), families[f].joins);
        sac_model_free(m);
    }
}

static void wrong_prompts_are_refused_whole(void **state) {
    asked q;
    sac_session *a = step_session(model, NULL, NULL, "f32", 1024), *s = step_session(model, NULL, NULL, "f32", 1024);
    sac_batch *b = batch_of(model, 2), *none, *plain;
    sac_batch_item item = {.session = a};
    bool done = false;
    sac_error err;
    (void)state;
    begin(a, ask_about(&q, STEP_PICTURE, 0, "Describe the image."), false);
    begin(s, ask_about(&q, STEP_PICTURE, 0, "Describe the image."), true);
    sac_batch_prompt early = {.session = s, .rows = 20};
    assert_int_equal(sac_batch_step_with(b, &item, 1, &early, 1, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(early.status, SAC_BAD_ARGUMENT);
    assert_int_equal(early.rows, 0);
    const size_t rows = to_pass(s, 20, &done);
    assert_int_equal(rows, 20);
    sac_batch_prompt twice[] = {{.session = s, .rows = 20}, {.session = s, .rows = 20}}, many = {.session = s, .rows = ROOM + 1},
                     itself = {.session = a, .rows = 20}, right = {.session = s, .rows = rows};
    assert_int_equal(sac_batch_step_with(b, &item, 1, twice, 2, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_batch_step_with(b, &item, 1, &many, 1, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_batch_step_with(b, &item, 1, &itself, 1, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_batch_create(&plain, model, 2, &err), err); /* without room */
    assert_int_equal(sac_batch_step_with(plain, &item, 1, &right, 1, &err), SAC_BAD_ARGUMENT);
    sac_batch_free(plain);
    right.rows = rows;
    assert_ok(sac_batch_step_with(b, &item, 1, &right, 1, &err), err); /* nothing was done to them; a first token takes no pass */
    assert_ok(right.status, right.error);
    assert_int_equal(right.rows, 0);
    right.rows = rows;
    assert_ok(sac_batch_step_with(b, &item, 1, &right, 1, &err), err);
    assert_int_equal(right.rows, rows);
    assert_true(sac_batch_plan_mixed(model, 2, ROOM, NULL) > sac_batch_plan(model, 2, NULL));
    assert_int_equal(sac_batch_create_mixed(&none, model, 2, 1 << 20, &err), SAC_BAD_ARGUMENT);
    sac_session_free(a);
    sac_session_free(s);
    sac_batch_free(b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_have_the_bits_of_running_apart),
        cmocka_unit_test(prompts_end_within_a_pass),
        cmocka_unit_test(a_pass_meets_each_matrix_once),
        cmocka_unit_test(methods_that_see_the_prompt_whole_go_apart),
        cmocka_unit_test(prompts_are_given_up_between_passes),
        cmocka_unit_test(a_prompt_that_was_given_up_has_its_bits_when_asked_again),
        cmocka_unit_test(callbacks_cannot_touch_a_prompt_of_the_call),
        cmocka_unit_test(models_that_go_apart_have_no_room),
        cmocka_unit_test(wrong_prompts_are_refused_whole),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
