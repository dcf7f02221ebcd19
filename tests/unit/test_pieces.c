/* A prompt's pieces cut finer and finer, as a scheduler does beside answers that are not to wait: the answer has the bits that
 * it has in one go, with every method, format and family. */
#include "shared_rows_test.h"

#include "work.h"

#include <math.h>

/* Seconds that are never enough, and some that are at times. */
static const double limits[] = {1e-9, 2e-4, 2e-3};

/* Its pieces. */
static int begin_within(sac_session *s, const sac_message *q, const sac_sampling *o, const sac_events *events, double seconds) {
    sac_error err;
    int n = 0;
    assert_ok(sac_session_begin_work(s, &(sac_input){.messages = q, .n_messages = 1}, o, events, &err), err);
    for (bool done = false; !done; n++) assert_ok(sac_session_work_within(s, seconds, &done, &err), err);
    return n;
}

/* ---------------------------------------------------------------- methods and formats */

static const struct {
    const char *prefill, *decode, *kv;
    bool by_rows; /* attention is cut, too */
} methods[] = {
    {NULL, NULL, NULL, true},
    {NULL, NULL, "f32", true},
    {NULL, NULL, "bf16", true},
    {NULL, NULL, "int4", true},
    {NULL, NULL, "mixed", true},
    {NULL, "snapkv:cap=64", NULL, true},
    {NULL, "h2o:heavy=32,recent=32", NULL, true},
    {NULL, "tokenselect:init=16,k=64,local=32", NULL, true},
    {"streaming:start=4,recent=100", NULL, NULL, false},
    {"zipvl:min=0,recent=4,random=4,tau=0.8", NULL, NULL, false},
    {"zipvl:min=4096", NULL, NULL, true}, /* dense for so short a prompt */
    {"fastv", NULL, NULL, false},
};

static void pieces_of_any_size_give_the_same_answers(void **state) {
    static heard alone, h;
    sac_sampling o = step_sampling(8);
    asked q;
    (void)state;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        sac_session *s = step_session(model, methods[i].prefill, methods[i].decode, methods[i].kv, 1024);
        const sac_message *m = ask_about(&q, STEP_VIDEO, 7, "How many numbers appear?");
        hear_alone(&alone, model, s, m, &o);
        sac_session_reset(s);
        sac_events none = {0};
        const int whole = begin_within(s, m, &o, &none, 0);
        for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
            sac_result r;
            sac_error err;
            int32_t token;
            sac_session_reset(s);
            sac_events e = hear(&h);
            const int n = begin_within(s, m, &o, &e, limits[k]);
            if (k == 0) assert_true(n > (methods[i].by_rows ? 3 : 2) * whole);
            for (bool done = false; !done;) assert_ok(sac_session_step(s, &e, &token, &done, &err), err);
            sac_session_end(s, &r);
            hear_end(&h, s, model, &r);
            heard_equal(&h, &alone);
        }
        sac_session_free(s);
    }
}

/* ---------------------------------------------------------------- families, and chunks of many sizes */

static const struct {
    const char *path;
    bool has_vision;
} families[] = {{FOLDER "llama_f32", false},
                {FOLDER "qwen2_vl", true},
                {FOLDER "qwen2_5_vl", true},
                {FOLDER "qwen3_vl", true},
                {FOLDER "gemma3", true}, /* the rows of a picture see one another */
                {FOLDER "gguf_llama_q8_0/q8_0.gguf", false},
                {FOLDER "gguf_llama_q4_k/q4_k.gguf", false},
                {FOLDER "qwen3_vl_moe", true},
                {FOLDER "qwen3_5", true}, /* its chunks are not cut */
                {FOLDER "qwen3_5_moe", true},
                {FOLDER "minicpmv4_6", true}, /* crops */
                {FOLDER "deepseek_v3", false}, /* latents */
                {FOLDER "glm46v", true},
                {FOLDER "llava_next", true},
                {FOLDER "internvl", true}};

/* As say(), in pieces. */
static void say_within(const sac_model *m, sac_session *s, const sac_message *q, said *x, double seconds) {
    sac_model_info info;
    sac_sampling o = step_sampling(N_STEPS + 1);
    sac_error err;
    int32_t token;
    memset(x, 0, sizeof *x);
    o.ignore_eos = true;
    sac_model_get_info(m, &info);
    begin_within(s, q, &o, NULL, seconds);
    bool done = false;
    for (int i = 0; !done; i++) {
        assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
        memcpy(x->logits[i], sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    }
    sac_session_end(s, NULL);
}

static void every_family_and_chunk(void **state) {
    static said want, got;
    static const int chunks[] = {12, 40, 100, 256};
    (void)state;
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        sac_model_options mo;
        sac_model *m;
        sac_error err;
        sac_model_options_default(&mo);
        mo.n_threads = 2;
        mo.chat_format = "plain";
        assert_ok(sac_model_open(&m, families[f].path, &mo, &err), err);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            pictures p;
            sac_session *s = chunked(m, chunks[c], "f32");
            const sac_message *q = about(&p, families[f].has_vision, LONG_TEXT LONG_TEXT LONG_TEXT "what is this?");
            say(m, s, q, &want);
            for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
                sac_session_reset(s);
                say_within(m, s, q, &got, limits[k]);
                if (memcmp(&got, &want, sizeof got))
                    fail_msg("%s, chunks of %d, within %g s", families[f].path, chunks[c], limits[k]);
            }
            sac_session_free(s);
        }
        sac_model_free(m);
    }
}

/* Wherever attention is cut, the rows of a picture see those behind the cut. */
static void pictures_that_are_cut(void **state) {
    static said want, got;
    static const char words[] = "a b c d e f g h i j k l m n o p q r s t u v w x y z a b c d e f g h i j k l m n o p q r s t u v w x y z ";
    sac_model_options mo;
    sac_model *m;
    sac_error err;
    (void)state;
    sac_model_options_default(&mo);
    mo.chat_format = "plain";
    assert_ok(sac_model_open(&m, FOLDER "gemma3", &mo, &err), err);
    sac_session *s = chunked(m, 256, "f32");
    for (size_t n = 0; n < 32; n++) {
        pictures p;
        char text[80] = "";
        about(&p, true, LONG_TEXT LONG_TEXT "what is this?");
        memcpy(text, words, 2 * n);
        sac_part parts[N_IMAGES + 3];
        parts[0] = (sac_part){.kind = SAC_PART_TEXT, .text = text};
        memcpy(parts + 1, p.parts, p.message.n_parts * sizeof *parts);
        const sac_message q = {.role = "user", .parts = parts, .n_parts = p.message.n_parts + 1};
        sac_session_reset(s);
        say(m, s, &q, &want);
        sac_session_reset(s);
        say_within(m, s, &q, &got, limits[0]);
        if (memcmp(&got, &want, sizeof got)) fail_msg("behind %zu words", n);
    }
    sac_session_free(s);
    sac_model_free(m);
}

/* ---------------------------------------------------------------- tokens that are appended */

enum { N_APPENDED = 170, N_FIRST = 101 };

/* In the two parts, and a step. Logits of all; returns how many pieces it was. */
static int append_within(sac_session *s, const int32_t *ids, float *all, int vocab, double seconds) {
    sac_error err;
    int n = 0;
    const int ends[] = {0, N_FIRST, N_APPENDED - 1, N_APPENDED};
    sac_session_reset(s);
    for (size_t i = 0; i + 1 < sizeof ends / sizeof *ends; i++) {
        float *to = all + (size_t)ends[i] * (size_t)vocab;
        const size_t n_ids = (size_t)(ends[i + 1] - ends[i]);
        if (seconds < 0) {
            assert_ok(sac_session_append(s, ids + ends[i], n_ids, to, &err), err);
            continue;
        }
        assert_ok(sac_session_begin_append(s, ids + ends[i], n_ids, to, NULL, &err), err);
        for (bool done = false; !done; n++) assert_ok(sac_session_work_within(s, seconds, &done, &err), err);
        assert_int_equal(sac_session_work_within(s, seconds, &(bool){false}, &err), SAC_BAD_ARGUMENT);
    }
    const float *last = sac_session_logits(s);
    assert_non_null(last);
    assert_memory_equal(last, all + (size_t)(N_APPENDED - 1) * (size_t)vocab, (size_t)vocab * sizeof *last);
    assert_int_equal(sac_session_n_tokens(s), N_APPENDED);
    return n;
}

static void appended_tokens_in_pieces(void **state) {
    (void)state;
    static const int chunks[] = {12, 40, 256};
    for (size_t f = 0; f < sizeof families / sizeof *families; f++) {
        sac_model *m;
        sac_model_info info;
        sac_error err;
        int32_t ids[N_APPENDED];
        assert_ok(sac_model_open(&m, families[f].path, NULL, &err), err);
        sac_model_get_info(m, &info);
        for (int i = 0; i < N_APPENDED; i++) ids[i] = (i * 37) % (info.vocab < 200 ? info.vocab : 200);
        const size_t n = (size_t)N_APPENDED * (size_t)info.vocab;
        float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
        for (size_t c = 0; c < sizeof chunks / sizeof *chunks; c++) {
            sac_session *s = chunked(m, chunks[c], "f32");
            append_within(s, ids, want, info.vocab, -1);
            int whole = append_within(s, ids, got, info.vocab, 0);
            assert_memory_equal(got, want, n * sizeof *got);
            for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
                memset(got, 0, n * sizeof *got);
                int n_pieces = append_within(s, ids, got, info.vocab, limits[k]);
                if (memcmp(got, want, n * sizeof *got))
                    fail_msg("%s, chunks of %d, within %g s", families[f].path, chunks[c], limits[k]);
                if (k == 0) assert_true(n_pieces > whole);
            }
            sac_session_free(s);
        }
        free(want);
        free(got);
        sac_model_free(m);
    }
}

/* Given up in between: what was there before stays, and the same tokens can be appended again. */
static void appended_tokens_that_are_given_up(void **state) {
    (void)state;
    sac_error err;
    sac_model_info info;
    int32_t ids[N_APPENDED];
    sac_model_get_info(model, &info);
    for (int i = 0; i < N_APPENDED; i++) ids[i] = 40 + (i * 37) % 200;
    const size_t n = (size_t)N_APPENDED * (size_t)info.vocab;
    float *want = malloc(n * sizeof *want), *got = malloc(n * sizeof *got);
    sac_session *s = step_session(model, NULL, NULL, "f32", 1024);
    assert_ok(sac_session_append(s, ids, N_APPENDED, want, &err), err);
    sac_session_reset(s);
    for (int n_before = 0; n_before < 12; n_before++) {
        bool done = false;
        assert_ok(sac_session_begin_append(s, ids, N_APPENDED, got, NULL, &err), err);
        for (int i = 0; i < n_before; i++) assert_ok(sac_session_work_within(s, 1e-9, &done, &err), err);
        sac_session_cancel(s);
        assert_int_equal(sac_session_work_within(s, 1e-9, &done, &err), SAC_CANCELLED);
        assert_int_equal(sac_session_n_tokens(s), 0);
    }
    assert_ok(sac_session_begin_append(s, ids, N_APPENDED, got, NULL, &err), err);
    for (bool done = false; !done;) assert_ok(sac_session_work_within(s, 1e-9, &done, &err), err);
    assert_memory_equal(got, want, n * sizeof *got);
    assert_int_equal(sac_session_begin_append(s, ids, 0, got, NULL, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_session_begin_append(s, &(int32_t){info.vocab}, 1, got, NULL, &err), SAC_BAD_ARGUMENT);
    sac_session_free(s);
    s = step_session(model, "fastv", NULL, NULL, 1024);
    assert_ok(sac_session_begin_append(s, ids, N_APPENDED, got, NULL, &err), err);
    assert_int_equal(sac_session_work_within(s, 0, &(bool){false}, &err), SAC_UNSUPPORTED);
    sac_session_free(s);
    free(want);
    free(got);
}

/* ---------------------------------------------------------------- what a piece may take */

static void pace(void **state) {
    (void)state;
    sac_pace p = {0};
    assert_true(sac_pace_most(&p, SAC_PACE_IN, 1000) <= 1); /* nothing is known: as little as can be */
    sac_pace_measure(&p, SAC_PACE_IN, 500, 0.5);
    assert_true(fabs(sac_pace_most(&p, SAC_PACE_IN, 0.25) - 250) < 1e-9);
    assert_true(sac_pace_most(&p, SAC_PACE_OUT, 1000) <= 1);
    for (int i = 0; i < 20; i++) sac_pace_measure(&p, SAC_PACE_IN, 100, 1); /* ten times slower from here on */
    assert_true(fabs(sac_pace_most(&p, SAC_PACE_IN, 1) - 100) < 1);
    sac_pace_measure(&p, SAC_PACE_IN, 0, 1); /* tells nothing */
    sac_pace_measure(&p, SAC_PACE_IN, 1, 0);
    assert_true(fabs(sac_pace_most(&p, SAC_PACE_IN, 1) - 100) < 1);
}

/* No chunk is larger than it may be, smaller than the least but for the end, or ends in few rows. */
static void chunks_keep_to_the_rule(void **state) {
    (void)state;
    sac_session *s = step_session(model, NULL, NULL, NULL, 1024);
    sac_sampling o = step_sampling(1);
    asked q;
    const sac_message *m = ask_about(&q, STEP_VIDEO, 8, "And what else is to be seen here?");
    for (size_t k = 0; k < 4; k++) {
        sac_error err;
        int n_cut = 0;
        sac_session_reset(s);
        assert_ok(sac_session_begin_work(s, &(sac_input){.messages = m, .n_messages = 1}, &o, NULL, &err), err);
        for (bool done = false; !done;) {
            const sac_prefill_work *w = &s->work->prefill;
            const bool is_linear = s->work->stage == SAC_WORK_PREFILL && w->stage == SAC_PREFILL_IN;
            const int64_t at = w->at, n = w->n;
            const int layer = w->layer;
            assert_ok(sac_session_work_within(s, 1e-9 * pow(1000, (double)k), &done, &err), err);
            if (!is_linear) continue;
            const int64_t rows = (w->layer == layer && w->stage == SAC_PREFILL_IN ? w->at : n) - at;
            assert_true(rows <= s->decoder.chunk && (rows > SAC_LINEAR_FEW_ROWS || at == 0));
            assert_true(at + rows == n || n - at - rows > SAC_LINEAR_FEW_ROWS);
            n_cut += rows < s->decoder.chunk && at + rows < n;
            if (k == 0 && at + rows < n) assert_true(rows <= SAC_PREFILL_LEAST_ROWS);
        }
        if (k == 0) assert_true(n_cut > 0);
        sac_session_end(s, NULL);
    }
    sac_session_free(s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_of_any_size_give_the_same_answers),
        cmocka_unit_test(every_family_and_chunk),
        cmocka_unit_test(pictures_that_are_cut),
        cmocka_unit_test(appended_tokens_in_pieces),
        cmocka_unit_test(appended_tokens_that_are_given_up),
        cmocka_unit_test(pace),
        cmocka_unit_test(chunks_keep_to_the_rule),
    };
    return cmocka_run_group_tests_name("pieces", tests, open_model, close_model);
}
