/* Sequences that begin with a single appended token: it is their prompt, so every method has learnt from it
 * and set its budgets by it before the first step. */
#include "status.h"
#include "step_test.h"

#include <math.h>

enum { N_TOKENS = 26, N_CTX = 512 };

/* Budgets wider than the sequence and narrower than the context: on, and equal to dense attention. */
static const char *const WIDE[][2] = {
    {NULL, "adore:m=100,r=0,sigma=attention,pos=orig"},
    {NULL, "doublesparse:k=100,skip=0"},
    {NULL, "duo:start=50,recent=100"},
    {NULL, "h2o:heavy=50,recent=50"},
    {NULL, "infllm:init=8,local=100,block=8"},
    {NULL, "pyramidkv:cap=100"},
    {NULL, "quest:budget=112,skip=0"},
    {NULL, "selfextend:group=2,window=100"},
    {NULL, "snapkv:cap=100"},
    {NULL, "streaming:recent=100"},
    {NULL, "tokenselect:init=20,k=40,local=40,chunk=40"},
    {NULL, "twilight:base=quest,base.budget=112,base.skip=0,p=1,skip=0"},
    {"fastv:layer=1", NULL},
    {"infllm:init=8,local=100,block=8", NULL},
    {"minference:v=40,s=60,last_q=8", NULL},
    {"selfextend:group=2,window=100", NULL},
    {"streaming:recent=100", NULL},
    {"tokenselect:init=20,k=40,local=40,chunk=40", NULL},
    {"xattn:min=0,tau=0.5", NULL},
    {"zipcache", NULL},
    {"zipvl:min=0,tau=0.5", NULL},
};

/* Narrow ones, which choose and drop. */
static const char *const NARROW[] = {
    "adore:m=12,r=2,sigma=attention",
    "doublesparse:k=6,skip=0,channels=2",
    "duo:start=2,recent=6,window=1",
    "h2o",
    "h2o:heavy=6,recent=6",
    "infllm:init=2,local=8,block=4,topk=2,repr=1",
    "pyramidkv:cap=8,window=4,beta=2",
    "quest:page=4,budget=8,skip=0",
    "selfextend:group=2,window=8",
    "snapkv:cap=8,window=4",
    "streaming:start=2,recent=8",
    "tokenselect:init=2,k=4,local=6,chunk=6",
    "twilight:p=0.6,skip=0",
    "twilight:base=doublesparse,base.k=6,base.channels=2,base.skip=0,p=0.8,skip=0",
};

static int32_t token(int i) {
    return 40 + (i * 37) % 200;
}

/* One token after the other; the logits of the last. */
static void run(sac_session *s, float *logits, int vocab) {
    sac_error err;
    for (int i = 0; i < N_TOKENS; i++) {
        int32_t id = token(i);
        float all[STEP_VOCAB];
        assert_ok(sac_session_append(s, &id, 1, i % 2 ? NULL : all, &err), err);
        if (i % 2 == 0) assert_memory_equal(all, sac_session_logits(s), (size_t)vocab * sizeof *all);
    }
    memcpy(logits, sac_session_logits(s), (size_t)vocab * sizeof *logits);
}

static int vocab_of(const sac_model *m) {
    sac_model_info info;
    sac_model_get_info(m, &info);
    assert_true(info.vocab <= STEP_VOCAB);
    return info.vocab;
}

static void wide_budgets_lose_nothing(void **state) {
    (void)state;
    static float dense[STEP_VOCAB], got[STEP_VOCAB];
    int vocab = vocab_of(model);
    sac_session *d = step_session(model, NULL, NULL, "f32", N_CTX);
    run(d, dense, vocab);
    for (size_t m = 0; m < SAC_COUNT(WIDE); m++) {
        sac_session *s = step_session(model, WIDE[m][0], WIDE[m][1], "f32", N_CTX);
        sac_session_method_lines lines;
        sac_session_methods(s, &lines);
        assert_true(strcmp(lines.prefill, "dense") != 0 || strcmp(lines.decode, "dense") != 0);
        run(s, got, vocab);
        for (int i = 0; i < vocab; i++)
            if (!(fabsf(got[i] - dense[i]) < 2e-3f))
                fail_msg("%s, %s: logit %d is %g, dense attention's is %g", lines.prefill, lines.decode, i,
                         (double)got[i], (double)dense[i]);
        assert_int_equal(sac_session_kv_bytes(s), sac_session_kv_bytes(d));
        sac_session_free(s);
    }
    sac_session_free(d);
}

/* Neither zeros nor what an earlier sequence left: a session that was used gives a new one's bits. */
static void nothing_is_left_of_an_earlier_sequence(void **state) {
    (void)state;
    static float fresh[STEP_VOCAB], again[STEP_VOCAB];
    int vocab = vocab_of(model);
    for (size_t m = 0; m < SAC_COUNT(NARROW); m++) {
        sac_session *s = step_session(model, NULL, NARROW[m], "f32", N_CTX);
        sac_error err;
        int32_t other[60];
        run(s, fresh, vocab);
        assert_true(sac_session_kv_bytes(s) > 0);
        for (int i = 0; i < vocab; i++) assert_true(isfinite(fresh[i]));
        sac_session_reset(s);
        for (int i = 0; i < 60; i++) other[i] = 50 + (i * 53) % 190;
        assert_ok(sac_session_append(s, other, 60, NULL, &err), err);
        assert_ok(sac_session_append(s, other, 1, NULL, &err), err);
        sac_session_reset(s);
        run(s, again, vocab);
        if (memcmp(fresh, again, (size_t)vocab * sizeof *fresh) != 0)
            fail_msg("%s: a used session differs from a new one", NARROW[m]);
        sac_session_free(s);
    }
}

/* A prompt of N_PROMPT tokens, then a token more; the logits of both ends. */
enum { N_PROMPT = 190 };

static void run_prompt(const char *prefill, float *all, float *ends, int vocab) {
    static int32_t ids[N_PROMPT];
    sac_error err;
    int32_t next = token(3);
    sac_session *s = step_session(model, prefill, NULL, "f32", N_CTX);
    for (int i = 0; i < N_PROMPT; i++) ids[i] = token(i * 7);
    assert_ok(sac_session_append(s, ids, N_PROMPT, all, &err), err);
    memcpy(ends, sac_session_logits(s), (size_t)vocab * sizeof *ends);
    assert_ok(sac_session_append(s, &next, 1, NULL, &err), err);
    memcpy(ends + vocab, sac_session_logits(s), (size_t)vocab * sizeof *ends);
    sac_session_free(s);
}

static double largest_difference(const float *a, const float *b, int n) {
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
    return most;
}

/* Where only the last token's output is read, the last layer makes no other; the same logits, and the same
 * keys and values for what follows. */
static void the_last_output_alone_is_the_same(void **state) {
    (void)state;
    static const char *const prefills[] = {"dense",
                                           "zipvl:min=0,ratio=0.4",
                                           "zipvl:min=0,tau=0.9,side=one",
                                           "zipvl",
                                           "zipvl:min=0,tau=0.999999",
                                           "zipvl:min=0,tau=0.6,strict=1",
                                           "streaming",
                                           "minference:v=40,s=60",
                                           "tokenselect:init=20,k=40,local=40,chunk=40",
                                           "zipcache:recent=0.5",
                                           "infllm:init=8,local=60,block=8"};
    static float all[N_PROMPT * STEP_VOCAB], a[2 * STEP_VOCAB], b[2 * STEP_VOCAB];
    int vocab = vocab_of(model);
    for (size_t i = 0; i < SAC_COUNT(prefills); i++) {
        run_prompt(prefills[i], all, a, vocab);
        run_prompt(prefills[i], NULL, b, vocab);
        assert_true(largest_difference(all + (N_PROMPT - 1) * vocab, a, vocab) < 1e-4);
        double off = largest_difference(a, b, 2 * vocab);
        if (!(off < 2e-3)) fail_msg("%s: logits differ by %g", prefills[i], off);
    }
}

/* ZipVL that leaves one token of all out of a layer is close to dense attention. */
static void one_token_less_is_nearly_dense(void **state) {
    (void)state;
    static float dense[2 * STEP_VOCAB], less[2 * STEP_VOCAB], half[2 * STEP_VOCAB];
    int vocab = vocab_of(model);
    run_prompt("dense", NULL, dense, vocab);
    run_prompt("zipvl:min=0,ratio=0.99", NULL, less, vocab);
    run_prompt("zipvl:min=0,ratio=0.4", NULL, half, vocab);
    double off = largest_difference(dense, less, 2 * vocab);
    if (!(off > 0 && 4 * off < largest_difference(dense, half, 2 * vocab)))
        fail_msg("logits differ by %g, with two in five tokens by %g", off,
                 largest_difference(dense, half, 2 * vocab));
}

/* The eval of a text whose tail is all but the first token keeps as many rows as one whose prompt is longer.
 */
static void h2o_keeps_its_rows(void **state) {
    (void)state;
    sac_error err;
    sac_session *s = step_session(model, NULL, "h2o:heavy=6,recent=6", "f32", N_CTX);
    sac_session *t = step_session(model, NULL, "h2o:heavy=6,recent=6", "f32", N_CTX);
    int32_t ids[N_TOKENS];
    for (int i = 0; i < N_TOKENS; i++) ids[i] = token(i);
    for (int i = 0; i < N_TOKENS; i++) assert_ok(sac_session_append(s, ids + i, 1, NULL, &err), err);
    assert_ok(sac_session_append(t, ids, 2, NULL, &err), err);
    for (int i = 2; i < N_TOKENS; i++) assert_ok(sac_session_append(t, ids + i, 1, NULL, &err), err);
    assert_int_equal(sac_session_kv_bytes(s), sac_session_kv_bytes(t));
    sac_session_free(s);
    sac_session_free(t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wide_budgets_lose_nothing),
        cmocka_unit_test(nothing_is_left_of_an_earlier_sequence),
        cmocka_unit_test(the_last_output_alone_is_the_same),
        cmocka_unit_test(one_token_less_is_nearly_dense),
        cmocka_unit_test(h2o_keeps_its_rows),
    };
    return cmocka_run_group_tests(tests, open_model, close_model);
}
