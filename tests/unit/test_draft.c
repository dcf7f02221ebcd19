#define _GNU_SOURCE
/* Drafted answers have the bits of plain ones: tokens, logits of every step, texts and log probabilities. */
#include "draft.h"
#include "draft_test.h"

static void compare(const sac_model *m, const char *kv, int64_t n_ctx, const char *draft, const int32_t *ids,
                    size_t n, const sac_sampling *o, seen *plain, seen *drafted) {
    sac_session *a = session_of(m, kv, n_ctx, NULL), *b = session_of(m, kv, n_ctx, draft);
    answer(plain, a, ids, n, o);
    answer(drafted, b, ids, n, o);
    same(plain, drafted);
    assert_int_equal(sac_session_n_tokens(a), sac_session_n_tokens(b));
    assert_int_equal(sac_session_kv_bytes(a), sac_session_kv_bytes(b));
    sac_session_free(a);
    sac_session_free(b);
}

static void small_models_give_the_same_bits(void **state) {
    (void)state;
    static const char *const folders[] = {"llama_f32",
                                          "qwen2",
                                          "mistral",
                                          "llava",
                                          "qwen2_vl",
                                          "gguf_qwen3_f32/f32.gguf",
                                          "gguf_llama_q4_k/q4_k.gguf",
                                          "packed_ct_w4",
                                          "packed_gptq_4",
                                          "qwen3_moe",
                                          "gemma2",
                                          "gemma3_text",
                                          "granite",
                                          "olmo2",
                                          "phi3",
                                          "mixtral",
                                          "olmoe",
                                          "granitemoe",
                                          "granitemoeshared",
                                          "glm4_moe",
                                          "deepseek_v3"};
    static const char *const kvs[] = {"f32", "f16", "bf16"};
    static seen plain, drafted;
    int64_t n_drafted = 0, n_accepted = 0;
    for (size_t i = 0; i < SAC_COUNT(folders); i++) {
        sac_model *m = open_golden(folders[i]);
        sac_sampling o = step_sampling(80);
        o.ignore_eos = true;
        for (int period = 3; period <= 7; period += 4) {
            compare(m, kvs[i % 3], 160, "lookup:most=11,least=1", repeated(period), N_PROMPT, &o, &plain,
                    &drafted);
            n_drafted += drafted.result.n_drafted_tokens;
            n_accepted += drafted.result.n_accepted_tokens;
        }
        o.temperature = 0.3, o.seed = i, o.repetition_penalty = 1.05;
        compare(m, kvs[i % 3], 160, "lookup", repeated(5), N_PROMPT, &o, &plain, &drafted);
        drop(&plain);
        drop(&drafted);
        sac_model_free(m);
    }
    assert_true(n_accepted > 100);
    assert_true(n_drafted > n_accepted + 20); /* some were refused */
}

/* The model itself, reading few of its rows: of every method that can. */
static const char *const sparse_lines[] = {"sparse:most=4,adapt=0,method=quest,budget=16,page=4,skip=0",
                                           "sparse:most=7,adapt=0,method=streaming,start=2,recent=14",
                                           "sparse:most=3,adapt=0,method=tokenselect,init=2,local=8,k=8",
                                           "sparse:most=5,adapt=0,method=twilight,p=0.9,skip=0,base=quest,base.budget=24,base.page=4",
                                           "sparse:most=31,adapt=0,budget=8,page=2,skip=0"};

static void sparse_drafts_give_the_same_bits(void **state) {
    (void)state;
    static const char *const folders[] = {"llama_f32", "qwen2", "mistral", "llava", "gguf_llama_q4_k/q4_k.gguf", "qwen3_moe",
                                          "olmo2", "phi3"};
    static const char *const kvs[] = {"f32", "f16", "bf16"};
    static seen plain, drafted;
    int64_t n_drafted[SAC_COUNT(sparse_lines)] = {0}, n_accepted[SAC_COUNT(sparse_lines)] = {0};
    for (size_t i = 0; i < SAC_COUNT(folders); i++) {
        sac_model *m = open_golden(folders[i]);
        for (size_t k = 0; k < SAC_COUNT(sparse_lines); k++) {
            sac_sampling o = step_sampling(60);
            o.ignore_eos = true;
            if (k % 2) o.temperature = 0.5, o.seed = i, o.repetition_penalty = 1.05;
            compare(m, kvs[(i + k) % 3], 160, sparse_lines[k], repeated(7), N_PROMPT, &o, &plain, &drafted);
            n_drafted[k] += drafted.result.n_drafted_tokens;
            n_accepted[k] += drafted.result.n_accepted_tokens;
        }
        drop(&plain);
        drop(&drafted);
        sac_model_free(m);
    }
    for (size_t k = 0; k < SAC_COUNT(sparse_lines); k++) {
        assert_true(n_accepted[k] > 20);
        assert_true(n_drafted[k] > n_accepted[k]); /* some were refused */
    }
}

/* The context's end, a limit, a second question over the rows of the first, stop texts and pictures. */
static void sparse_drafts_end_where_answers_do(void **state) {
    (void)state;
    static seen plain, drafted;
    static heard alone, heard_drafted;
    const char *line = "sparse:most=6,adapt=0,budget=16,page=4";
    sac_sampling o = step_sampling(0);
    asked q;
    o.ignore_eos = true;
    for (int64_t n_ctx = N_PROMPT + 20; n_ctx < N_PROMPT + 27; n_ctx++) {
        compare(model, "f32", n_ctx, line, repeated(6), N_PROMPT, &o, &plain, &drafted);
        assert_true(drafted.result.n_accepted_tokens > 0);
    }
    for (o.max_tokens = 1; o.max_tokens < 12; o.max_tokens++)
        compare(model, "f32", 200, line, repeated(6), N_PROMPT, &o, &plain, &drafted);
    drop(&plain);
    drop(&drafted);
    sac_session *a = session_of(model, NULL, 2048, NULL), *b = session_of(model, NULL, 2048, line);
    o = step_sampling(60);
    o.logprobs = true, o.top_logprobs = 3;
    for (int i = 0; i < 3; i++) {
        const sac_message *m = ask_about(&q, STEP_PICTURE, 0, i == 1 ? "What is where?" : "Describe the image.");
        hear_alone(&alone, model, a, m, &o);
        hear_alone(&heard_drafted, model, b, m, &o);
        heard_equal(&alone, &heard_drafted);
        assert_memory_equal(alone.top, heard_drafted.top, sizeof alone.top);
        assert_int_equal(alone.n_reused, heard_drafted.n_reused);
    }
    sac_session_free(a);
    sac_session_free(b);
}

/* Another model: the same one, whose guesses are right where the answer is the likeliest; and one that knows nothing of it. */
static void models_draft_for_others(void **state) {
    (void)state;
    static const char *const pairs[][3] = {{"qwen2", "qwen2", "f32"},
                                           {"packed_gptq_4", "packed_gptq_4", "f16"},
                                           {"mistral", "llama_f32", "bf16"},
                                           {"qwen2_vl", "qwen3_moe", "f16"}};
    static seen plain, drafted;
    for (size_t i = 0; i < SAC_COUNT(pairs); i++) {
        char line[200];
        sac_model *m = open_golden(pairs[i][0]);
        sac_sampling o = step_sampling(60);
        o.ignore_eos = true;
        snprintf(line, sizeof line, "model:most=4,adapt=0," GOLDEN_MODELS "%s", pairs[i][1]);
        compare(m, pairs[i][2], 160, line, repeated(7), N_PROMPT, &o, &plain, &drafted);
        const sac_result *r = &drafted.result;
        assert_true(r->n_drafted_tokens > 40);
        if (i == 0) assert_true(r->n_accepted_tokens >= 45);
        if (i >= 2) assert_true(r->n_accepted_tokens < r->n_drafted_tokens / 2);
        o.temperature = 0.4, o.seed = 3 + i, o.top_p = 0.9;
        compare(m, pairs[i][2], 160, line, repeated(5), N_PROMPT, &o, &plain, &drafted);
        o.temperature = 0, o.max_tokens = 0;
        compare(m, pairs[i][2], N_PROMPT + 23, line, repeated(6), N_PROMPT, &o, &plain, &drafted);
        drop(&plain);
        drop(&drafted);
        sac_model_free(m);
    }
}

/* A picture's rows are none of the draft's; questions over the rows of others, and a shorter one. */
static void models_that_see_nothing_draft_for_pictures(void **state) {
    (void)state;
    static heard alone, drafted;
    sac_model *m = open_golden("llava");
    sac_session *a = session_of(m, NULL, 700, NULL), *b = session_of(m, NULL, 700, "model:most=5,adapt=0,path=" GOLDEN_MODELS "llama_f32");
    sac_sampling o = step_sampling(40);
    asked q;
    sac_result r;
    o.ignore_eos = true;
    for (int i = 0; i < 4; i++) {
        const sac_message *said = ask_about(&q, i < 3 ? STEP_PICTURE : NULL, 0, i == 1 ? "What is where?" : "Describe the image.");
        hear_alone(&alone, m, a, said, &o);
        hear_alone(&drafted, m, b, said, &o);
        heard_equal(&alone, &drafted);
        assert_int_equal(alone.n_reused, drafted.n_reused);
    }
    sac_memory_report own, both, planned;
    sac_session_config c;
    sac_error err;
    sac_session_memory(a, &own);
    sac_session_memory(b, &both);
    sac_session_config_default(&c);
    c.n_ctx = 700, c.draft = "model:" GOLDEN_MODELS "llama_f32";
    assert_ok(sac_session_plan(m, &c, &planned, &err), err);
    assert_true(both.total_bytes > own.total_bytes && both.workspace_bytes > own.workspace_bytes);
    assert_true(both.weight_bytes > own.weight_bytes);
    size_t own_parts = 0, shared_parts = 0;
    for (int i = 0; i < both.n_parts; i++) *(both.parts[i].is_shared ? &shared_parts : &own_parts) += both.parts[i].n_bytes;
    assert_int_equal(own_parts, both.total_bytes);
    assert_int_equal(shared_parts, both.workspace_bytes);
    const char *text = "One question.";
    assert_ok(sac_session_begin_text(b, text, strlen(text), &o, NULL, &err), err);
    bool done = false;
    for (int32_t token; !done;) assert_ok(sac_session_step(b, NULL, &token, &done, &err), err);
    sac_session_end(b, &r);
    assert_true(r.n_drafted_tokens > 0);
    sac_session_free(a);
    sac_session_free(b);
    sac_model_free(m);
}

/* As many as pay by the clock, which is another number every time. */
static void drafts_by_the_clock_give_the_same_bits(void **state) {
    (void)state;
    static seen plain, drafted;
    sac_sampling o = step_sampling(MOST_TOKENS);
    o.ignore_eos = true;
    compare(model, "f16", 400, "sparse:budget=16,page=4", repeated(5), N_PROMPT, &o, &plain, &drafted);
    assert_true(drafted.result.n_drafted_tokens > 0); /* one is tried at the beginning */
    drop(&plain);
    drop(&drafted);
}

/* The model repeats itself here; most drafts are right. */
static void repeated_text_takes_few_passes(void **state) {
    (void)state;
    static seen plain, drafted;
    sac_sampling o = step_sampling(150);
    o.ignore_eos = true;
    compare(model, "f16", 400, "lookup", repeated(6), N_PROMPT, &o, &plain, &drafted);
    const sac_result *r = &drafted.result;
    assert_true(r->n_tokens > 2 * (r->n_tokens - r->n_accepted_tokens)); /* a pass gives more than two */
    assert_true(r->n_accepted_tokens * 10 >= r->n_drafted_tokens * 8);
    assert_true(drafted.n_first * 10 >= r->n_drafts * 8); /* of each pass the first */
    drop(&plain);
    drop(&drafted);
}

/* Products of bf16 have a batch's bits, too. */
static void fast_models_give_the_same_bits(void **state) {
    (void)state;
    static seen plain, drafted;
    sac_error err;
    sac_model *m;
    sac_model_options fast;
    sac_model_options_default(&fast);
    fast.fast = true;
    assert_ok(sac_model_open(&m, "models/demo", &fast, &err), err);
    sac_sampling o = step_sampling(100);
    o.ignore_eos = true;
    compare(m, "bf16", 400, "lookup:most=20,least=1", repeated(5), N_PROMPT, &o, &plain, &drafted);
    assert_true(drafted.result.n_accepted_tokens > 20);
    drop(&plain);
    drop(&drafted);
    sac_model_free(m);
}

/* Texts that are forced: one where nothing comes twice, and one where every draft is wrong. */
static void wrong_drafts_are_few(void **state) {
    (void)state;
    static int32_t once[MOST_TOKENS], wrong[MOST_TOKENS];
    static const int32_t first[] = {60, 61, 62};
    static seen plain, drafted;
    sac_sampling o = step_sampling(MOST_TOKENS);
    o.ignore_eos = true;
    for (int i = 0; i < MOST_TOKENS; i++) {
        once[i] = 100 + i;
        wrong[i] = i % 3 == 2 ? 100 + i : 40 + i % 3;
    }
    plain.n_forced = drafted.n_forced = MOST_TOKENS;
    plain.forced = drafted.forced = once;
    compare(model, NULL, 400, "lookup", first, 3, &o, &plain, &drafted);
    assert_int_equal(drafted.result.n_tokens, MOST_TOKENS);
    assert_int_equal(drafted.result.n_drafted_tokens, 0);
    plain.forced = drafted.forced = wrong;
    compare(model, NULL, 400, "lookup", first, 3, &o, &plain, &drafted);
    assert_in_range(drafted.result.n_drafted_tokens, 1, 1 + MOST_TOKENS / 50);
    assert_int_equal(drafted.result.n_accepted_tokens, 0);
    drop(&plain);
    drop(&drafted);
}

static void settings_see_tokens_one_by_one(void **state) {
    (void)state;
    static heard plain, drafted;
    static const char *const stops[] = {" at the ", "numbers"};
    static const sac_logit_bias bias[] = {{40, -100}, {41, 3}};
    asked q;
    for (int i = 0; i < 5; i++) {
        sac_session *a = session_of(model, NULL, 2048, NULL),
                    *b = session_of(model, NULL, 2048, "lookup:least=1");
        sac_sampling o = step_sampling(150);
        o.logprobs = true;
        o.top_logprobs = 3;
        if (i == 1) o.stop = stops, o.n_stop = 2;
        if (i == 2) o.frequency_penalty = 0.4, o.presence_penalty = 0.2, o.ignore_eos = true;
        if (i == 3) o.temperature = 1.1, o.top_p = 0.9, o.ignore_eos = true;
        if (i == 4) o.logit_bias = bias, o.n_logit_bias = 2, o.repetition_penalty = 1.2;
        for (o.seed = 1; o.seed <= (i == 3 ? 4 : 1); o.seed++) {
            const sac_message *m = ask_about(&q, STEP_PICTURE, 0, "Describe the image.");
            hear_alone(&plain, model, a, m, &o);
            hear_alone(&drafted, model, b, m, &o); /* again over the rows of the one before */
            heard_equal(&plain, &drafted);
            assert_memory_equal(plain.top, drafted.top, sizeof plain.top);
            assert_int_equal(plain.n_reused, drafted.n_reused);
        }
        sac_session_free(a);
        sac_session_free(b);
    }
}

static void the_context_and_the_limit_end_drafts(void **state) {
    (void)state;
    static seen plain, drafted;
    sac_sampling o = step_sampling(0);
    o.ignore_eos = true;
    for (int64_t n_ctx = N_PROMPT + 20; n_ctx < N_PROMPT + 32; n_ctx++) {
        compare(model, "f32", n_ctx, "lookup:most=31", repeated(6), N_PROMPT, &o, &plain, &drafted);
        assert_int_equal(drafted.result.n_tokens, n_ctx - N_PROMPT + 1);
        assert_true(drafted.result.n_accepted_tokens > 0);
    }
    for (o.max_tokens = 1; o.max_tokens < 24; o.max_tokens++)
        compare(model, "f32", 200, "lookup:most=31", repeated(6), N_PROMPT, &o, &plain, &drafted);
    drop(&plain);
    drop(&drafted);
}

/* An answer that is left while tokens are run ahead leaves nothing of them behind. */
static void what_was_run_ahead_is_forgotten(void **state) {
    (void)state;
    static seen plain, drafted;
    sac_error err;
    sac_sampling o = step_sampling(60);
    o.ignore_eos = true;
    for (int n = 1; n < 30; n += 4) {
        sac_session *both[] = {session_of(model, NULL, 400, NULL), session_of(model, NULL, 400, "lookup")};
        for (int i = 0; i < 2; i++) {
            bool done;
            int32_t token;
            assert_ok(sac_session_begin_tokens(both[i], repeated(6), N_PROMPT, &o, NULL, &err), err);
            for (int k = 0; k < n; k++) assert_ok(sac_session_step(both[i], NULL, &token, &done, &err), err);
            sac_session_end(both[i], NULL);
            answer(i ? &drafted : &plain, both[i], repeated(6), N_PROMPT - 3, &o);
        }
        assert_int_equal(sac_session_n_tokens(both[0]), sac_session_n_tokens(both[1]));
        same(&plain, &drafted);
        sac_session_free(both[0]);
        sac_session_free(both[1]);
    }
    drop(&plain);
    drop(&drafted);
}

static void refuses(const sac_model *m, sac_status st, const char *kv, const char *decode, const char *draft,
                    bool measure, const char *says) {
    sac_session_config c;
    sac_error err = {0};
    sac_session *s;
    sac_memory_report r;
    sac_session_config_default(&c);
    c.kv = kv, c.draft = draft, c.measure_mass = measure,
    c.n_ctx = 4096; /* below their budgets methods are dense */
    if (decode) c.decode = decode;
    assert_int_equal(sac_session_create(&s, m, &c, &err), st);
    assert_null(s);
    assert_says(err, says);
    assert_int_equal(sac_session_plan(m, &c, &r, &err), st);
}

static void what_cannot_draft_says_why(void **state) {
    (void)state;
    sac_model *m;
    sac_error err;
    sac_session_method_lines lines;
    refuses(model, SAC_UNSUPPORTED, "int4", NULL, "lookup", false, "int4");
    refuses(model, SAC_UNSUPPORTED, "kivi", NULL, "lookup", false, "kivi");
    refuses(model, SAC_UNSUPPORTED, NULL, "quest", "lookup", false, "quest");
    refuses(model, SAC_UNSUPPORTED, NULL, "h2o", "lookup", false, "h2o");
    refuses(model, SAC_UNSUPPORTED, NULL, NULL, "lookup", true, "measure_mass");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "medusa", false, "none, lookup");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "", false, "none, lookup");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "lookup:most=32", false, "from 1 to 31");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "lookup:k=3", false, "most, n, least");
    refuses(model, SAC_UNSUPPORTED, NULL, NULL, "sparse:method=h2o", false, "it drops rows");
    refuses(model, SAC_UNSUPPORTED, NULL, NULL, "sparse:method=snapkv", false, "it drops rows");
    refuses(model, SAC_UNSUPPORTED, NULL, NULL, "sparse:method=infllm,local=64,init=16", false, "infllm");
    refuses(model, SAC_UNSUPPORTED, NULL, NULL, "sparse:method=dense", false, "it reads all rows");
    refuses(model, SAC_UNSUPPORTED, NULL, NULL, "sparse:budget=4096", false, "smaller budget");
    refuses(model, SAC_UNSUPPORTED, NULL, "quest", "sparse", false, "decode policy quest");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "sparse:method=medusa", false, "quest");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "sparse:pages=3", false, "page, budget");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "sparse:most=0", false, "from 1 to 31");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "model", false, "model:PATH");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "model:most=3,path=", false, "model:PATH");
    refuses(model, SAC_NOT_FOUND, NULL, NULL, "model:no/such/model", false, "draft model: no/such/model");
    refuses(model, SAC_UNSUPPORTED, NULL, NULL, "model:models/demo", false, "vision half");
    refuses(model, SAC_BAD_ARGUMENT, NULL, NULL, "model:tests/golden/models/qwen2", false, "its token");
    refuses(model, SAC_UNSUPPORTED, NULL, "quest", "model:tests/golden/models/qwen2", false, "decode policy quest");
    assert_ok(sac_model_open(&m, "tests/golden/models/llama_dynamic", NULL, &err), err);
    refuses(m, SAC_UNSUPPORTED, NULL, NULL, "lookup", false, "dynamic");
    sac_model_free(m);
    sac_session *s = session_of(model, NULL, 100, "lookup:n=4");
    sac_session_methods(s, &lines);
    assert_string_equal(lines.draft, "lookup:most=7,n=4,least=2");
    sac_session_free(s);
    s = session_of(model, NULL, 100, "sparse:budget=32,most=3,page=8");
    sac_session_methods(s, &lines);
    assert_string_equal(lines.draft, "sparse:most=3,adapt=1,method=quest,budget=32,page=8");
    assert_string_equal(lines.decode, "dense");
    sac_session_free(s);
}

static void lookup_finds_the_longest(void **state) {
    (void)state;
    sac_draft d;
    sac_error err;
    int32_t out[8], far[] = {1, 2, 3, 9, 9, 7, 2, 3, 8, 8, 5, 1, 2, 3}, two[] = {4, 6, 5, 6, 5},
                    none[] = {1, 2, 3, 4};
    assert_ok(sac_draft_parse(&d, "lookup", &err), err);
    assert_int_equal(d.method->propose(d.p, far, 14, 2, out), 2); /* 1 2 3 before the later 2 3 */
    assert_memory_equal(out, ((int32_t[]){9, 9}), 8);
    assert_int_equal(d.method->propose(d.p, far + 1, 13, 3, out), 3); /* the last of the equally long */
    assert_memory_equal(out, ((int32_t[]){8, 8, 5}), 12);
    assert_int_equal(d.method->propose(d.p, two, 5, 5, out), 5); /* a period goes on */
    assert_memory_equal(out, ((int32_t[]){6, 5, 6, 5, 6}), 20);
    assert_int_equal(d.method->propose(d.p, none, 4, 4, out), 0);
    assert_int_equal(d.method->propose(d.p, none, 1, 4, out), 0);
    assert_ok(sac_draft_parse(&d, "lookup:n=1", &err), err);
    assert_int_equal(d.method->propose(d.p, two + 1, 3, 1, out), 1);
    assert_int_equal(out[0], 5);
    assert_ok(sac_draft_parse(&d, "none", &err), err);
    assert_null(d.method);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lookup_finds_the_longest),
        cmocka_unit_test(small_models_give_the_same_bits),
        cmocka_unit_test(sparse_drafts_give_the_same_bits),
        cmocka_unit_test(sparse_drafts_end_where_answers_do),
        cmocka_unit_test(models_draft_for_others),
        cmocka_unit_test(models_that_see_nothing_draft_for_pictures),
        cmocka_unit_test(drafts_by_the_clock_give_the_same_bits),
        cmocka_unit_test(repeated_text_takes_few_passes),
        cmocka_unit_test(fast_models_give_the_same_bits),
        cmocka_unit_test(wrong_drafts_are_few),
        cmocka_unit_test(settings_see_tokens_one_by_one),
        cmocka_unit_test(the_context_and_the_limit_end_drafts),
        cmocka_unit_test(what_was_run_ahead_is_forgotten),
        cmocka_unit_test(what_cannot_draft_says_why),
    };
    return cmocka_run_group_tests_name("draft", tests, open_model, close_model);
}
