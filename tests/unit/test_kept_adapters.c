/* Adapters that are kept apart: sessions of one model with different ones, alone and in a batch. */
#include "saccade/saccade.h"
#include "test.h"

#include <math.h>

#define FOLDER "tests/golden/adapters/llama_f32/"
#define BASE   "tests/golden/models/llama_f32"
#define Q8     "tests/golden/models/gguf_llama_q8_0/q8_0.gguf"
#define GGUF   "tests/golden/adapters/gguf_llama_f32/"

enum { N_STEPS = 6, N_PROMPT = 23, MOST_VOCAB = 1024 };

static const char *const kept[] = {"a=" FOLDER "attention", "b=" FOLDER "all_linear:1.5",
                                   "c=" FOLDER "rank_pattern"};
static const char *const kept_gguf[] = {"a=" GGUF "gguf_attention.gguf", "b=" GGUF "gguf_linear.gguf:0.5"};

static sac_model *open_with(const char *path, const char *const *merged, size_t n_merged,
                            const char *const *apart, size_t n_apart) {
    sac_model_options o;
    sac_model *m;
    sac_error err;
    sac_model_options_default(&o);
    o.n_threads = 2;
    o.adapters = merged;
    o.n_adapters = n_merged;
    o.kept_adapters = apart;
    o.n_kept_adapters = n_apart;
    assert_ok(sac_model_open(&m, path, &o, &err), err);
    return m;
}

static sac_session *make_session(const sac_model *m, const char *adapter) {
    sac_session_config c;
    sac_session *s;
    sac_error err;
    sac_session_config_default(&c);
    c.n_ctx = 128;
    c.prefill_chunk = 7; /* several pieces */
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    assert_ok(sac_session_set_adapter(s, adapter, &err), err);
    return s;
}

static void begin(sac_session *s, int n_prompt) {
    sac_sampling o;
    sac_error err;
    int32_t ids[N_PROMPT];
    sac_sampling_default(&o);
    o.max_tokens = N_STEPS;
    o.temperature = 0;
    o.ignore_eos = true;
    for (int k = 0; k < n_prompt; k++) ids[k] = 5 + (k * k * 7 + k) % 50;
    assert_ok(sac_session_begin_tokens(s, ids, (size_t)n_prompt, &o, NULL, &err), err);
}

/* What a session says. */
typedef struct said {
    int32_t tokens[N_STEPS];
    float first[MOST_VOCAB], last[MOST_VOCAB];
    int vocab;
} said;

static void keep_logits(const sac_model *m, const sac_session *s, float *out, said *x) {
    sac_model_info info;
    sac_model_get_info(m, &info);
    x->vocab = info.vocab;
    assert_true(info.vocab <= MOST_VOCAB);
    memcpy(out, sac_session_logits(s), (size_t)info.vocab * sizeof(float));
}

static said say_alone(const sac_model *m, const char *adapter, int n_prompt) {
    static said x;
    sac_error err;
    sac_session *s = make_session(m, adapter);
    bool done = false;
    memset(&x, 0, sizeof x);
    begin(s, n_prompt);
    keep_logits(m, s, x.first, &x);
    for (int k = 0; !done; k++) assert_ok(sac_session_step(s, NULL, &x.tokens[k], &done, &err), err);
    keep_logits(m, s, x.last, &x);
    sac_session_free(s);
    return x;
}

static void same_bits(const said *a, const said *b) {
    assert_memory_equal(a, b, sizeof *a);
}

static void far_apart(const said *a, const said *b) {
    float most = 0;
    for (int i = 0; i < a->vocab; i++) most = fmaxf(most, fabsf(a->first[i] - b->first[i]));
    assert_true(most > 0.01f);
}

/* In this order: those of one adapter do not all lie side by side. */
static const char *const order[] = {"a", NULL, "b", "a", "a", NULL, "b"};
enum { N_SESSIONS = sizeof order / sizeof *order };

static void answers_together(const sac_model *m) {
    said alone[N_SESSIONS], x[N_SESSIONS];
    sac_batch *b;
    sac_batch_item items[N_SESSIONS];
    sac_error err;
    memset(x, 0, sizeof x);
    for (size_t i = 0; i < N_SESSIONS; i++) alone[i] = say_alone(m, order[i], N_PROMPT - (int)i);
    far_apart(&alone[0], &alone[1]);
    assert_ok(sac_batch_create(&b, m, N_SESSIONS, &err), err);
    for (size_t i = 0; i < N_SESSIONS; i++) {
        sac_session *s = make_session(m, order[i]);
        items[i] = (sac_batch_item){.session = s};
        begin(s, N_PROMPT - (int)i);
        keep_logits(m, s, x[i].first, &x[i]);
    }
    for (int k = 0; k < N_STEPS; k++) {
        assert_ok(sac_batch_step(b, items, N_SESSIONS, &err), err);
        for (size_t i = 0; i < N_SESSIONS; i++) {
            assert_ok(items[i].status, items[i].error);
            x[i].tokens[k] = items[i].token;
        }
    }
    for (size_t i = 0; i < N_SESSIONS; i++) {
        keep_logits(m, items[i].session, x[i].last, &x[i]);
        same_bits(&alone[i], &x[i]);
        sac_session_free(items[i].session);
    }
    sac_batch_free(b);
}

static void a_batch_of_several_gives_each_its_own_bits(void **state) {
    (void)state;
    sac_model *m = open_with(BASE, NULL, 0, kept, 3);
    answers_together(m);
    sac_model_free(m);
}

static void beside_quantised_matrices_too(void **state) {
    (void)state;
    sac_model *m = open_with(Q8, NULL, 0, kept_gguf, 2);
    answers_together(m);
    sac_model_free(m);
}

static void a_session_without_adapter_keeps_its_bits(void **state) {
    (void)state;
    sac_model *plain = open_with(BASE, NULL, 0, NULL, 0), *m = open_with(BASE, NULL, 0, kept, 3);
    said want = say_alone(plain, NULL, N_PROMPT), x = say_alone(m, NULL, N_PROMPT);
    same_bits(&want, &x);
    sac_model_free(plain);
    sac_model_free(m);
}

static void near_logits(const float *a, const float *b, int n) {
    float largest = 0;
    for (int i = 0; i < n; i++) largest = fmaxf(largest, fabsf(a[i]));
    for (int i = 0; i < n; i++) assert_true(fabsf(a[i] - b[i]) <= 3e-4f * largest);
}

static void near_enough(const said *a, const said *b) {
    near_logits(a->first, b->first, a->vocab);
    assert_memory_equal(a->tokens, b->tokens, sizeof a->tokens);
}

/* Merged or apart, beside others and on top of one that is merged. */
static void what_is_apart_equals_what_is_merged(void **state) {
    (void)state;
    const char *names[] = {"a", "b", "c"};
    sac_model *m = open_with(BASE, NULL, 0, kept, 3);
    for (size_t i = 0; i < 3; i++) {
        const char *spec = kept[i] + 2;
        sac_model *merged = open_with(BASE, &spec, 1, NULL, 0);
        said want = say_alone(merged, NULL, N_PROMPT), x = say_alone(m, names[i], N_PROMPT);
        near_enough(&want, &x);
        sac_model_free(merged);
    }
    sac_model_free(m);
    const char *both[] = {kept[0] + 2, kept[1] + 2};
    sac_model *merged = open_with(BASE, both, 2, NULL, 0);
    m = open_with(BASE, both, 1, &kept[1], 1);
    said want = say_alone(merged, NULL, N_PROMPT), x = say_alone(m, "b", N_PROMPT);
    near_enough(&want, &x);
    sac_model_free(merged);
    sac_model_free(m);
}

/* Nothing can be merged into quantised matrices: what is to be merged stands beside them for every session. */
static void what_cannot_be_merged_is_apart_by_itself(void **state) {
    (void)state;
    const char *two[] = {GGUF "gguf_attention.gguf", GGUF "gguf_linear.gguf:0.5"};
    sac_model *m = open_with(Q8, two, 1, &kept_gguf[1], 1), *named = open_with(Q8, NULL, 0, kept_gguf, 2);
    sac_model *sum = open_with(Q8, two, 2, NULL, 0);
    said x = say_alone(m, NULL, N_PROMPT), want = say_alone(named, "a", N_PROMPT);
    same_bits(&want, &x);
    x = say_alone(m, "b", N_PROMPT), want = say_alone(sum, NULL, N_PROMPT);
    same_bits(&want, &x);
    sac_model_free(m);
    sac_model_free(named);
    sac_model_free(sum);
}

static int64_t reused(sac_session *s, int n_prompt) {
    sac_result result;
    sac_error err;
    bool done = false;
    int32_t token;
    begin(s, n_prompt);
    while (!done) assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
    sac_session_end(s, &result);
    return result.n_reused_tokens;
}

static void rows_of_one_adapter_are_not_used_for_another(void **state) {
    (void)state;
    const char *names[] = {NULL, "a", "b", "a", NULL};
    sac_model *m = open_with(BASE, NULL, 0, kept, 3);
    sac_session *s = make_session(m, NULL);
    sac_error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_ok(sac_session_set_adapter(s, names[i], &err), err);
        assert_int_equal(reused(s, N_PROMPT - 5), 0);
        assert_int_equal(reused(s, N_PROMPT), N_PROMPT - 5);
        said want = say_alone(m, names[i], N_PROMPT);
        begin(s, N_PROMPT);
        near_logits(sac_session_logits(s), want.first, want.vocab);
        sac_session_end(s, NULL);
    }
    sac_session_free(s);
    sac_model_free(m);
}

static void an_adapter_is_chosen_between_answers(void **state) {
    (void)state;
    sac_model *m = open_with(BASE, NULL, 0, kept, 3);
    sac_session *s = make_session(m, "a");
    sac_error err;
    int32_t id = 7;
    begin(s, N_PROMPT);
    assert_int_equal(sac_session_set_adapter(s, "b", &err), SAC_BAD_ARGUMENT);
    sac_session_end(s, NULL);
    assert_int_equal(sac_session_set_adapter(s, "d", &err), SAC_NOT_FOUND);
    assert_non_null(strstr(err.text, "no adapter \"d\" is kept apart here: there is a, b, c"));
    assert_ok(sac_session_set_adapter(s, NULL, &err), err);
    assert_int_equal(sac_session_append(s, &id, 1, NULL, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "run with another adapter: reset it first"));
    assert_ok(sac_session_set_adapter(s, "a", &err), err);
    assert_ok(sac_session_append(s, &id, 1, NULL, &err), err);
    sac_session_free(s);
    sac_model_free(m);
}

static void adapters_are_listed_with_their_names(void **state) {
    (void)state;
    const char *merged = FOLDER "dora";
    sac_model *m = open_with(BASE, &merged, 1, kept, 2);
    sac_adapter_info a;
    assert_true(sac_model_get_adapter(m, 0, &a));
    assert_null(a.name);
    assert_string_equal(a.kind, "dora");
    assert_true(sac_model_get_adapter(m, 2, &a));
    assert_string_equal(a.name, "b");
    assert_string_equal(a.folder, FOLDER "all_linear");
    assert_true(a.scale == 1.5);
    assert_false(sac_model_get_adapter(m, 3, &a));
    sac_model_free(m);
}

static void wrong_names_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *specs[2], *why;
    } cases[] = {
        {{FOLDER "attention"}, "give NAME=DIR or NAME=DIR:SCALE"},
        {{"=" FOLDER "attention"}, "give NAME=DIR or NAME=DIR:SCALE"},
        {{"a=" FOLDER "attention", "a=" FOLDER "all_linear"}, "two adapters have the name \"a\""},
        {{"a=" FOLDER "attention", "b=nowhere"}, "nowhere: no such folder"},
        {{"a=" GGUF "gguf_linear.gguf"}, "a GGUF adapter goes with a GGUF model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sac_model_options o;
        sac_model *m;
        sac_error err;
        sac_model_options_default(&o);
        o.kept_adapters = cases[i].specs;
        o.n_kept_adapters = cases[i].specs[1] ? 2 : 1;
        assert_int_not_equal(sac_model_open(&m, BASE, &o, &err), SAC_OK);
        if (!strstr(err.text, cases[i].why)) fail_msg("%s", err.text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_of_several_gives_each_its_own_bits),
        cmocka_unit_test(beside_quantised_matrices_too),
        cmocka_unit_test(a_session_without_adapter_keeps_its_bits),
        cmocka_unit_test(what_is_apart_equals_what_is_merged),
        cmocka_unit_test(what_cannot_be_merged_is_apart_by_itself),
        cmocka_unit_test(rows_of_one_adapter_are_not_used_for_another),
        cmocka_unit_test(an_adapter_is_chosen_between_answers),
        cmocka_unit_test(adapters_are_listed_with_their_names),
        cmocka_unit_test(wrong_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
