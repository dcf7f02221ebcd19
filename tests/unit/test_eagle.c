#define _GNU_SOURCE
/* EAGLE-3 heads: their logits against the library `speculators` (tools/make_eagle_goldens.py), answers that are the bits of plain
 * ones. Folders that are no head of the model: test_eagle_files.c. */
#include "draft_test.h"
#include "eagle_test.h"
#include "engine.h"

static sac_sampling long_answer(int n) {
    sac_sampling o = step_sampling(n);
    o.ignore_eos = true;
    return o;
}

/* ---------------------------------------------------------------- logits */

/* Drafts of 1, 2, ... tokens behind the prompt: the logits of the last one are still there. */
static void compare_logits(const sac_model *m, const char *name, const json_t *wanted, const int32_t *ids,
                           int n) {
    const json_t *tokens = json_object_get(wanted, "tokens"), *logits = json_object_get(wanted, "logits");
    for (size_t k = 0; k < json_array_size(logits); k++) {
        char line[200];
        sac_error err;
        int32_t token;
        bool done;
        snprintf(line, sizeof line, "eagle3:most=%zu,adapt=0," GOLDEN "%s", k + 1, name);
        sac_session *s = session_of(m, "f32", 160, line);
        sac_sampling o = long_answer(60);
        assert_ok(sac_session_begin_tokens(s, ids, (size_t)n, &o, NULL, &err), err);
        assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
        while (!s->ahead.n && !done) assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
        const json_t *row = json_array_get(logits, k);
        double most = 0, apart = 0;
        for (size_t i = 0; i < json_array_size(row); i++) {
            const double x = json_number_value(json_array_get(row, i));
            most = fmax(most, fabs(x));
            apart = fmax(apart, fabs(x - (double)s->ahead.head.logits[i]));
        }
        assert_int_equal(s->ahead.n, k + 1);
        for (size_t i = 0; i <= k; i++)
            assert_int_equal(s->ahead.ids[1 + i], json_integer_value(json_array_get(tokens, i)));
        if (apart > 3e-4 * most) fail_msg("%s, draft %zu: logits are %g apart, of %g", name, k, apart, most);
        sac_session_free(s);
    }
}

static void logits_are_those_of_speculators(void **state) {
    (void)state;
    int32_t ids[100];
    int n;
    json_t *g = golden(ids, &n);
    sac_model *m = open_path(GOLDEN "target");
    const char *name;
    json_t *wanted;
    json_object_foreach(json_object_get(g, "heads"), name, wanted) compare_logits(m, name, wanted, ids, n);
    json_decref(g);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- answers */

static void drafted_answers_have_the_same_bits(void **state) {
    (void)state;
    static const char *const names[] = {"original", "speculators", "norm_fc"}, *const kvs[] = {"f32", "f16",
                                                                                               "bf16"};
    static seen plain, drafted;
    int32_t ids[100];
    int n;
    json_decref(golden(ids, &n));
    sac_model *m = open_path(GOLDEN "target");
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        char line[200];
        snprintf(line, sizeof line, "eagle3:most=5,adapt=0," GOLDEN "%s", names[i]);
        sac_session *a = session_of(m, kvs[i], 160, NULL), *b = session_of(m, kvs[i], 160, line);
        sac_sampling o = long_answer(60);
        answer(&plain, a, ids, (size_t)n, &o);
        answer(&drafted, b, ids, (size_t)n, &o);
        same(&plain, &drafted);
        const sac_result *r = &drafted.result;
        assert_true(r->n_drafted_tokens > 20);
        if (i == 0) assert_true(r->n_accepted_tokens > 35); /* the head has learned this answer */
        if (i > 0) assert_true(r->n_accepted_tokens * 3 < r->n_drafted_tokens);
        for (o.seed = 1; o.seed <= 3; o.seed++) { /* other answers over rows of this one; the last of fewer */
            o.temperature = 0.6, o.top_p = 0.9, o.repetition_penalty = 1.05;
            answer(&plain, a, ids, (size_t)n - (o.seed == 3 ? 9 : 0), &o);
            answer(&drafted, b, ids, (size_t)n - (o.seed == 3 ? 9 : 0), &o);
            same(&plain, &drafted);
            assert_true(drafted.result.n_drafted_tokens > 20);
        }
        o = long_answer(0); /* to the end of the context */
        answer(&plain, a, ids, (size_t)n, &o);
        answer(&drafted, b, ids, (size_t)n, &o);
        same(&plain, &drafted);
        assert_int_equal(sac_session_n_tokens(a), sac_session_n_tokens(b));
        sac_session_free(a);
        sac_session_free(b);
    }
    drop(&plain);
    drop(&drafted);
    sac_model_free(m);
}

/* By the clock; and a prompt that is read in several pieces. */
static void drafts_adapt(void **state) {
    (void)state;
    static seen plain, drafted;
    static int32_t ids[400];
    for (int i = 0; i < 400; i++) ids[i] = 5 + i % 7;
    sac_model *m = open_path(GOLDEN "target");
    sac_session *a = session_of(m, NULL, 640, NULL),
                *b = session_of(m, NULL, 640, "eagle3:" GOLDEN "original"),
                *c = session_of(m, NULL, 640, "eagle3:path=" GOLDEN "original,adapt=0");
    sac_sampling o = long_answer(130);
    answer(&plain, a, ids, 400, &o);
    answer(&drafted, b, ids, 400, &o);
    same(&plain, &drafted);
    o = long_answer(3); /* which ends before the head has read the prompt in two pieces: none is read */
    answer(&drafted, c, ids, 400, &o);
    const sac_eagle_state *head = &c->ahead.head;
    assert_true(head->rows.end >= 400 && head->rows.n_read == 0);
    assert_int_equal(head->n_turned, 0);
    o = long_answer(4);
    answer(&drafted, c, ids, 400, &o);
    assert_true(head->rows.n_read >= 400 && drafted.result.n_drafted_tokens == 1);
    assert_true(head->n_turned >= 402 && head->n_turned <= head->n_ctx + head->most);
    o = long_answer(130);
    answer(&drafted, c, ids, 400, &o);
    same(&plain, &drafted);
    assert_true(drafted.result.n_drafted_tokens > 40);
    assert_true(head->rows.n_read > 2 * SAC_EAGLE_CHUNK && head->n_turned >= head->rows.n_read);
    sac_memory_report own, with, planned;
    sac_session_config config;
    sac_error err;
    sac_session_memory(a, &own);
    sac_session_memory(b, &with);
    sac_session_config_default(&config);
    config.n_ctx = 640, config.draft = "eagle3:" GOLDEN "original";
    assert_ok(sac_session_plan(m, &config, &planned, &err), err);
    assert_true(with.total_bytes > own.total_bytes && with.weight_bytes > own.weight_bytes);
    assert_int_equal(planned.total_bytes, with.total_bytes);
    size_t parts = 0;
    for (int i = 0; i < with.n_parts; i++) parts += with.parts[i].is_shared ? 0 : with.parts[i].n_bytes;
    assert_int_equal(parts, with.total_bytes);
    sac_session_free(a);
    sac_session_free(b);
    sac_session_free(c);
    drop(&plain);
    drop(&drafted);
    sac_model_free(m);
}

/* What is kept of layers is of the rows that the sequence has. */
static void kept_rows_follow_the_sequence(void **state) {
    (void)state;
    float rows[40 * SAC_LAYER_ROWS * 2] = {0}, x[8 * 2];
    sac_layer_rows r = {.layer = {1, 1, 4}, .hidden = 2, .rows = rows};
    for (int i = 0; i < 16; i++) x[i] = (float)i;
    sac_layer_rows_keep(&r, 0, 0, sac_mat_f32(x, 8, 2));
    sac_layer_rows_keep(&r, 1, 0, sac_mat_f32(x, 8, 2));
    assert_int_equal(r.end, 0); /* until the last layer has run */
    sac_layer_rows_keep(&r, 4, 0, sac_mat_f32(x, 8, 2));
    assert_int_equal(r.end, 8);
    for (int i = 0; i < 6; i++) assert_true(rows[7 * 6 + i] == (float)(14 + i % 2));
    r.n_read = 7;
    sac_layer_rows_keep(&r, 4, 6, sac_mat_f32(x, 3, 2)); /* drafted rows are written over */
    assert_true(r.first == 0 && r.end == 9);
    sac_layer_rows_cut(&r, 5);
    assert_true(r.first == 0 && r.end == 5 && r.n_read == 4);
    sac_layer_rows_keep(&r, 4, 12, sac_mat_f32(x, 2, 2)); /* rows of elsewhere lie between */
    assert_true(r.first == 12 && r.end == 14 && r.n_read == 0);
    sac_layer_rows_cut(&r, 3);
    assert_true(r.first == 3 && r.end == 3);
    sac_decoder_state s = {.layer_rows = &r, .cache.n_rows = 10};
    r.first = 0, r.end = 14, r.n_read = 9;
    sac_decoder_add_rows(&s, 13); /* which are not the ones that were drafted there */
    assert_true(r.first == 0 && r.end == 10 && r.n_read == 9);
}

static int64_t asked_rows, asked_inputs;
static size_t ask_scratch(int64_t m, int64_t k) {
    asked_rows = m, asked_inputs = k;
    return 4096;
}

/* Products of the head are wider than the model's, whose stream has scratch for its own. */
static void scratch_is_of_the_widest_product(void **state) {
    (void)state;
    sac_eagle e = {.config.layer = {.hidden = 16, .intermediate = 40, .n_heads = 2, .n_kv_heads = 1, .head_dim = 8, .rope.rot_dim = 8},
                   .config.target_hidden = 32,
                   .config.n_draft = 4};
    const sac_ops ops = {.linear_scratch_bytes = ask_scratch};
    sac_arena measure = sac_arena_measure();
    sac_eagle_state s;
    sac_eagle_take(&s, &e, 100, 3, &ops, &measure);
    assert_int_equal(asked_rows, SAC_EAGLE_CHUNK);
    assert_int_equal(asked_inputs, 3 * 32);
    assert_int_equal(s.scratch_bytes, 4096);
    e.config.target_hidden = 8;
    sac_eagle_take(&s, &e, 100, 3, &ops, &measure);
    assert_int_equal(asked_inputs, 40);
    e.config.layer.hidden = 24;
    sac_eagle_take(&s, &e, 100, 3, &ops, &measure);
    assert_int_equal(asked_inputs, 2 * 24);
}

/* Rows of pictures, and questions over the rows of others, some of which another session has run. */
static void heads_draft_behind_pictures(void **state) {
    (void)state;
    static heard alone, drafted;
    char folder[] = "/tmp/saccade_eagle_XXXXXX", line[200];
    sac_error err;
    sac_beginnings *shared;
    asked q;
    assert_non_null(mkdtemp(folder));
    write_head(folder, &(broken){.hidden = 32, .config = "\"eagle_aux_hidden_state_layer_ids\": [0, 1, 1]"});
    sac_model *m = open_path("tests/golden/models/llava");
    snprintf(line, sizeof line, "eagle3:most=3,adapt=0,%s", folder);
    sac_session *a = session_of(m, NULL, 700, NULL), *b = session_of(m, NULL, 700, line),
                *c = session_of(m, NULL, 700, line);
    assert_ok(sac_beginnings_open(&shared, m, &err), err);
    assert_ok(sac_session_join(b, shared, &err), err);
    assert_ok(sac_session_join(c, shared, &err), err);
    sac_sampling o = long_answer(30);
    for (int i = 0; i < 5; i++) {
        const sac_message *said =
            ask_about(&q, i < 4 ? STEP_PICTURE : NULL, 0, i == 1 ? "What is where?" : "Describe the image.");
        hear_alone(&alone, m, a, said, &o);
        hear_alone(&drafted, m, i == 2 ? c : b, said, &o);
        heard_equal(&alone, &drafted);
    }
    assert_true(c->ahead.head.rows.first > 0); /* the rows before came of the other one */
    assert_true(b->ahead.head.rows.n_read > 0 && c->ahead.head.rows.n_read > 0);
    sac_session_free(a);
    sac_session_free(b);
    sac_session_free(c);
    sac_beginnings_close(shared);
    sac_model_free(m);
    remove_head(folder);
}

/* In a batch none is drafted, and rows of layers are kept all the same: left alone, a session drafts from all of them. */
static void batches_keep_rows(void **state) {
    (void)state;
    static seen plain;
    int32_t ids[100], token;
    int n;
    bool done;
    sac_error err;
    sac_batch *batch;
    sac_session *s[2];
    json_decref(golden(ids, &n));
    sac_model *m = open_path(GOLDEN "target");
    sac_sampling o = long_answer(60);
    assert_ok(sac_batch_create(&batch, m, 2, &err), err);
    for (int i = 0; i < 2; i++) {
        s[i] = session_of(m, NULL, 160, i ? "lookup" : "eagle3:adapt=0," GOLDEN "original");
        assert_ok(sac_session_begin_tokens(s[i], ids, (size_t)n, &o, NULL, &err), err);
    }
    for (int i = 0; i < 20; i++) {
        sac_batch_item items[2] = {{.session = s[0]}, {.session = s[1]}};
        assert_ok(sac_batch_step(batch, items, 2, &err), err);
    }
    const sac_layer_rows *kept = &s[0]->ahead.head.rows;
    assert_true(kept->first == 0 && kept->end == n + 19);
    sac_result r;
    for (done = false; !done;) assert_ok(sac_session_step(s[0], NULL, &token, &done, &err), err);
    sac_session_end(s[0], &r);
    assert_true(r.n_accepted_tokens > 20 && kept->first == 0);
    sac_session *lone = session_of(m, NULL, 160, NULL);
    answer(&plain, lone, ids, (size_t)n, &o);
    assert_int_equal(r.n_tokens, plain.result.n_tokens);
    assert_memory_equal(r.tokens, plain.ids, (size_t)r.n_tokens * sizeof *r.tokens);
    assert_memory_equal(sac_session_logits(s[0]), sac_session_logits(lone),
                        (size_t)plain.vocab * sizeof(float));
    sac_session_free(s[0]);
    sac_session_free(s[1]);
    sac_session_free(lone);
    sac_batch_free(batch);
    drop(&plain);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(logits_are_those_of_speculators),
                                       cmocka_unit_test(drafted_answers_have_the_same_bits),
                                       cmocka_unit_test(drafts_adapt),
                                       cmocka_unit_test(kept_rows_follow_the_sequence),
                                       cmocka_unit_test(scratch_is_of_the_widest_product),
                                       cmocka_unit_test(heads_draft_behind_pictures),
                                       cmocka_unit_test(batches_keep_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
