/* Whole models against transformers, through the public API: goldens of tools/make_model_goldens.py, whose head
 * says what the files hold, and of tools/make_adapter_golden.py. Keys and values are kept in f32, so that what
 * differs is the order of sums only. */
#include "golden_conversation.h"
#include "saccade/saccade.h"
#include "test.h"

#include <math.h>

#define ADAPTERS  "tests/golden/adapters"
#define N_CTX     1024
#define MAX_TESTS 256

typedef struct golden {
    char name[64];
    json_t *head;
    float *logits; /* golden.bin */
    size_t n_logits;
    sac_model *model;
    int vocab;
    double worst; /* largest difference seen, for the log */
} golden;

static int n_threads; /* 0 = one for each processor */

static json_t *load_json(const char *path) {
    json_t *v;
    sac_error err;
    assert_ok(sac_json_parse_file(&v, path, &err), err);
    return v;
}

static double number_of(const json_t *object, const char *key) {
    return json_number_value(json_object_get(object, key));
}

static void open_golden(golden *g, const char *name) {
    memset(g, 0, sizeof *g);
    snprintf(g->name, sizeof g->name, "%s", name);
    char path[256];
    const char *folder = *name == '/' ? "" : FOLDER "/";
    snprintf(path, sizeof path, "%s%s/golden.json", folder, name);
    g->head = load_json(path);
    snprintf(path, sizeof path, "%s%s/golden.bin", folder, name);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    g->n_logits = (size_t)n / sizeof(float);
    g->logits = malloc((size_t)n);
    assert_int_equal(fread(g->logits, 1, (size_t)n, f), (size_t)n);
    fclose(f);
}

/* kept: the last adapter is kept apart, as "kept". */
static sac_status open_model(golden *g, const json_t *testcase, bool kept, sac_error *err) {
    sac_model_options o;
    const json_t *adapters = json_object_get(testcase, "adapters");
    const char *specs[MAX_PARTS];
    char named[600];
    sac_model_options_default(&o);
    o.chat_format = text_of(testcase, "chat_format");
    o.n_threads = n_threads;
    o.adapters = specs;
    o.n_adapters = json_array_size(adapters);
    assert_true(o.n_adapters <= MAX_PARTS);
    for (size_t i = 0; i < o.n_adapters; i++) specs[i] = json_string_value(json_array_get(adapters, i));
    if (kept) {
        snprintf(named, sizeof named, "kept=%s", specs[--o.n_adapters]);
        specs[o.n_adapters] = named;
        o.kept_adapters = &specs[o.n_adapters];
        o.n_kept_adapters = 1;
    }
    SAC_TRY(sac_model_open(&g->model, text_of(g->head, "model"), &o, err));
    sac_model_info info;
    sac_model_get_info(g->model, &info);
    g->vocab = info.vocab;
    return SAC_OK;
}

/* ---- the prompt of a case ---- */

static void same_ids(const golden *g, const json_t *testcase, const int32_t *ids, size_t n) {
    const json_t *want = json_object_get(testcase, "ids");
    if (n != json_array_size(want))
        fail_msg("%s, %s: a prompt of %zu tokens, not %zu", g->name, text_of(testcase, "name"), n,
                 json_array_size(want));
    for (size_t i = 0; i < n; i++)
        if (ids[i] != json_integer_value(json_array_get(want, i)))
            fail_msg("%s, %s: token %zu is %d, not %lld", g->name, text_of(testcase, "name"), i, ids[i],
                     (long long)json_integer_value(json_array_get(want, i)));
}

/* Checks the token ids, then runs the prompt. */
static void run_prompt(golden *g, const json_t *testcase, sac_session *s) {
    static int32_t ids[N_CTX];
    size_t n;
    sac_error err;
    const char *text = text_of(testcase, "text");
    if (text) {
        assert_ok(sac_tokenize_text(g->model, text, strlen(text), true, true, ids, N_CTX, &n, &err), err);
        same_ids(g, testcase, ids, n);
        assert_ok(sac_session_append(s, ids, n, NULL, &err), err);
        return;
    }
    static conversation c;
    fill_conversation(&c, testcase);
    assert_ok(sac_session_prompt(s, c.messages, c.n_messages, ids, N_CTX, &n, &err), err);
    same_ids(g, testcase, ids, n);
    assert_ok(sac_session_prefill(s, c.messages, c.n_messages, NULL, &err), err);
    assert_int_equal(sac_session_n_tokens(s), n);
}

/* ---- logits and tokens ---- */

static void same_logits(golden *g, const json_t *testcase, const char *key, const float *found) {
    const json_t *place = json_object_get(testcase, key);
    size_t first = (size_t)json_integer_value(json_array_get(place, 0));
    assert_int_equal(json_integer_value(json_array_get(place, 1)), g->vocab);
    assert_true(first + (size_t)g->vocab <= g->n_logits);
    double tolerance = number_of(testcase, "tolerance");
    for (int i = 0; i < g->vocab; i++) {
        double want = (double)g->logits[first + (size_t)i], diff = fabs((double)found[i] - want);
        if (!(diff <= tolerance))
            fail_msg("%s, %s: %s[%d] is %g, not %g", g->name, text_of(testcase, "name"), key, i,
                     (double)found[i], want);
        if (diff > g->worst) g->worst = diff;
    }
}

static int32_t best(const float *logits, int n) {
    int32_t b = 0;
    for (int32_t i = 1; i < n; i++)
        if (logits[i] > logits[b]) b = i;
    return b;
}

/* Every greedy token that leads by more than twice the tolerance must be the reference's; each is fed as the
 * reference has it. */
static void run_case(golden *g, const json_t *testcase, const char *adapter) {
    sac_session_config config;
    sac_session *s;
    sac_error err;
    sac_session_config_default(&config);
    config.n_ctx = N_CTX;
    config.prefill_chunk = 7; /* odd, so that chunks and windows meet at every place */
    config.kv = "f32";
    const char *positions = text_of(testcase, "positions");
    if (positions && strcmp(positions, "grid") == 0) config.rope = "model:grid=1";
    assert_ok(sac_session_create(&s, g->model, &config, &err), err);
    const sac_chat_options chat = {.keep_video_marks =
                                       json_is_true(json_object_get(testcase, "keep_video_marks"))};
    assert_ok(sac_session_set_chat(s, &chat, &err), err);
    assert_ok(sac_session_set_adapter(s, adapter, &err), err);
    run_prompt(g, testcase, s);
    same_logits(g, testcase, "logits", sac_session_logits(s));
    const json_t *tokens = json_object_get(testcase, "tokens"), *gaps = json_object_get(testcase, "gaps");
    size_t n = json_array_size(tokens);
    double tolerance = number_of(testcase, "tolerance");
    for (size_t i = 0; i < n; i++) {
        int32_t want = (int32_t)json_integer_value(json_array_get(tokens, i)),
                found = best(sac_session_logits(s), g->vocab);
        double gap = json_number_value(json_array_get(gaps, i));
        if (found != want && gap > 2 * tolerance)
            fail_msg("%s, %s: token %zu is %d, not %d (which leads by %g)", g->name,
                     text_of(testcase, "name"), i, found, want, gap);
        if (i + 1 < n) assert_ok(sac_session_append(s, &want, 1, NULL, &err), err);
    }
    same_logits(g, testcase, "last_logits", sac_session_logits(s));
    sac_session_free(s);
}

/* With the last adapter kept apart: the same logits, or one line that says what to do. */
static bool run_apart(golden *g, const json_t *testcase, const char *apart) {
    sac_error err;
    if (!strcmp(apart, "no")) return false;
    if (!strcmp(apart, "refused")) {
        assert_int_equal(open_model(g, testcase, true, &err), SAC_UNSUPPORTED);
        assert_non_null(strstr(err.text, "which is not kept apart: merge the adapter into a model in f32"));
        return false;
    }
    assert_ok(open_model(g, testcase, true, &err), err);
    run_case(g, testcase, "kept");
    sac_model_free(g->model);
    return true;
}

static void run_golden(const char *name) {
    golden g;
    sac_error err;
    int n_apart = 0;
    open_golden(&g, name);
    const json_t *cases = json_object_get(g.head, "cases");
    assert_true(json_array_size(cases) > 0);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i);
        const char *apart = text_of(c, "apart");
        if (apart) n_apart += run_apart(&g, c, apart);
        if (apart && !strcmp(apart, "only")) continue;
        assert_ok(open_model(&g, c, false, &err), err);
        run_case(&g, c, NULL);
        sac_model_free(g.model);
    }
    print_message("           %-20s %zu cases, %d of them with an adapter apart, logits at most %.2g apart\n",
                  name, json_array_size(cases), n_apart, g.worst);
    json_decref(g.head);
    free(g.logits);
}

/* Each golden is a test of its own, so that one failure does not hide others. */
static void parity(void **state) {
    run_golden(*state);
}

static json_t *load_index(const char *path) {
    json_t *index;
    sac_error err;
    if (sac_json_parse_file(&index, path, &err) == SAC_OK) return index;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

/* All goldens, or those named: "llava", "../adapters/llava", or a folder of a set that is in no index; after "-t N" with so many
 * threads. */
int main(int argc, char **argv) {
    if (argc > 2 && strcmp(argv[1], "-t") == 0) n_threads = atoi(argv[2]), argc -= 2, argv += 2;
    json_t *all = load_index(FOLDER "/index.json"), *adapters = load_index(ADAPTERS "/index.json");
    static struct CMUnitTest tests[MAX_TESTS];
    size_t n = 0;
    json_array_extend(all, adapters);
    for (int i = 1; i < argc; i++) {
        if (i == 1) json_array_clear(all);
        json_array_append_new(all, json_string(argv[i]));
    }
    if (json_array_size(all) > MAX_TESTS) {
        fprintf(stderr, "%zu goldens, more than MAX_TESTS\n", json_array_size(all));
        return 1;
    }
    for (; n < json_array_size(all); n++) {
        const char *name = json_string_value(json_array_get(all, n));
        tests[n] =
            (struct CMUnitTest){.name = name, .test_func = parity, .initial_state = (void *)(uintptr_t)name};
    }
    int failed = _cmocka_run_group_tests("parity", tests, n, NULL, NULL);
    json_decref(all);
    json_decref(adapters);
    return failed;
}
