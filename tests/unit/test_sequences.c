/* Whole answers against transformers (tools/make_sequences_golden.py): greedy ids under settings of generation, and
 * which sequences may be drawn. Another file of the same kind may be named as the argument. */
#include "json.h"
#include "saccade/saccade.h"
#include "test.h"

#include <stdlib.h>

enum { MAX_NEW = 64, N_DRAWS = 150 };

static const char *golden_path = "tests/golden/sequences.json";

typedef struct opened {
    char name[40];
    sac_model *model;
    sac_session *session;
} opened;

static opened *open_model(opened list[4], const char *name) {
    sac_error err;
    opened *o = list;
    while (o->model && strcmp(o->name, name)) o++;
    if (o->model) return o;
    char path[200];
    sac_session_config c;
    sac_model_options options;
    snprintf(o->name, sizeof o->name, "%s", name);
    snprintf(path, sizeof path, "tests/golden/models/%s", name);
    sac_model_options_default(&options);
    options.n_threads = 1;
    sac_session_config_default(&c);
    c.n_ctx = 128;
    c.kv = "f32";
    c.guidance = true;
    assert_ok(sac_model_open(&o->model, path, &options, &err), err);
    assert_ok(sac_session_create(&o->session, o->model, &c, &err), err);
    return o;
}

static void close_models(opened list[4]) {
    for (opened *o = list; o->model; o++) {
        sac_session_free(o->session);
        sac_model_free(o->model);
    }
}

static size_t read_ids(const json_t *list, int32_t *ids) {
    size_t n = json_array_size(list);
    assert_true(n <= MAX_NEW);
    for (size_t i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, i));
    return n;
}

/* Some are fields, the others controls. */
static sac_controls *configure(const json_t *settings, sac_sampling *s) {
    const char *key;
    json_t *v;
    sac_controls *c;
    sac_error err;
    assert_ok(sac_controls_create(&c, &err), err);
    json_object_foreach((json_t *)(uintptr_t)settings, key, v) {
        double x = json_number_value(v);
        double *field = !strcmp(key, "temperature")          ? &s->temperature
                        : !strcmp(key, "top_p")              ? &s->top_p
                        : !strcmp(key, "min_p")              ? &s->min_p
                        : !strcmp(key, "repetition_penalty") ? &s->repetition_penalty
                                                             : NULL;
        if (field) {
            *field = x;
        } else if (!strcmp(key, "top_k")) {
            s->top_k = (int)x;
        } else if (!strcmp(key, "max_new_tokens")) {
            s->max_tokens = (int)x;
        } else {
            char *text = json_dumps(v, JSON_ENCODE_ANY);
            assert_ok(sac_controls_set(c, key, text, &err), err);
            free(text);
        }
    }
    s->controls = c;
    return c;
}

static size_t answer(sac_session *s, const json_t *prompt, const sac_sampling *sampling, int32_t *ids) {
    int32_t prompt_ids[MAX_NEW], token;
    sac_error err;
    sac_result result;
    size_t n_prompt = read_ids(prompt, prompt_ids), n;
    sac_session_reset(s);
    assert_ok(sac_session_begin_tokens(s, prompt_ids, n_prompt, sampling, NULL, &err), err);
    for (bool done = false; !done;) assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
    sac_session_end(s, &result);
    n = (size_t)result.n_tokens;
    assert_true(n <= MAX_NEW);
    memcpy(ids, result.tokens, n * sizeof *ids);
    return n;
}

/* The end token is the last of transformers', and none of ours. */
static size_t without_end(const opened *o, const int32_t *ids, size_t n) {
    const int32_t *stops;
    size_t n_stops = sac_model_stop_ids(o->model, &stops);
    for (size_t i = 0; n > 0 && i < n_stops; i++)
        if (ids[n - 1] == stops[i]) return n - 1;
    return n;
}

static void test_greedy(void **state) {
    (void)state;
    json_t *golden;
    sac_error err;
    opened models[4] = {0};
    int bad = 0;
    assert_ok(sac_json_parse_file(&golden, golden_path, &err), err);
    const json_t *cases = json_object_get(golden, "greedy");
    assert_true(json_array_size(cases) >= 100);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *settings = json_object_get(c, "settings");
        opened *o = open_model(models, json_string_value(json_object_get(c, "model")));
        int32_t want[MAX_NEW], got[MAX_NEW];
        size_t n_want = without_end(o, want, read_ids(json_object_get(c, "ids"), want));
        sac_sampling sampling;
        sac_sampling_default(&sampling);
        sampling.max_tokens = (int)json_integer_value(json_object_get(golden, "new"));
        sac_controls *controls = configure(settings, &sampling);
        size_t n = answer(o->session, json_object_get(c, "prompt"), &sampling, got);
        sac_controls_free(controls);
        if (n == n_want && memcmp(got, want, n * sizeof *got) == 0) continue;
        char *text = json_dumps(settings, JSON_COMPACT);
        fprintf(stderr, "case %zu, %s, %.600s: %zu tokens, transformers %zu;", i, o->name, text, n, n_want);
        for (size_t k = 0; k < n || k < n_want; k++)
            fprintf(stderr, " %d/%d", k < n ? (int)got[k] : -1, k < n_want ? (int)want[k] : -1);
        fprintf(stderr, "\n");
        free(text);
        bad++;
    }
    print_message("%zu greedy cases, %d differ\n", json_array_size(cases), bad);
    close_models(models);
    json_decref(golden);
    assert_int_equal(bad, 0);
}

static bool is_among(const opened *o, const json_t *sequences, const int32_t *got, size_t n, uint8_t *met) {
    for (size_t i = 0; i < json_array_size(sequences); i++) {
        int32_t want[MAX_NEW];
        size_t n_want = without_end(o, want, read_ids(json_array_get(sequences, i), want));
        if (n_want != n || memcmp(want, got, n * sizeof *got) != 0) continue;
        met[i] = 1;
        return true;
    }
    return false;
}

/* Nothing else is drawn; and all of it somewhere, but for the unlikely. */
static void test_sampled(void **state) {
    (void)state;
    json_t *golden;
    sac_error err;
    opened models[4] = {0};
    size_t n_sequences = 0, n_met = 0;
    assert_ok(sac_json_parse_file(&golden, golden_path, &err), err);
    const json_t *cases = json_object_get(golden, "sampled");
    assert_true(json_array_size(cases) >= 20);
    for (size_t i = 0; i < json_array_size(cases); i++) {
        const json_t *c = json_array_get(cases, i), *sequences = json_object_get(c, "sequences");
        opened *o = open_model(models, json_string_value(json_object_get(c, "model")));
        uint8_t met[256] = {0};
        sac_sampling sampling;
        sac_sampling_default(&sampling);
        sampling.max_tokens = 3;
        sac_controls *controls = configure(json_object_get(c, "settings"), &sampling);
        assert_true(json_array_size(sequences) <= sizeof met);
        for (sampling.seed = 0; sampling.seed < N_DRAWS; sampling.seed++) {
            int32_t got[MAX_NEW];
            size_t n = answer(o->session, json_object_get(c, "prompt"), &sampling, got);
            if (!is_among(o, sequences, got, n, met))
                fail_msg("case %zu: what transformers could not draw", i);
        }
        for (size_t k = 0; k < json_array_size(sequences); k++) n_met += met[k];
        n_sequences += json_array_size(sequences);
        sac_controls_free(controls);
    }
    print_message("%zu sampled cases: %zu of %zu sequences drawn\n", json_array_size(cases), n_met,
                  n_sequences);
    assert_true(10 * n_met > 8 * n_sequences);
    close_models(models);
    json_decref(golden);
}

static const int32_t prompt_ids[] = {40, 50, 60, 70};

static void begin(sac_session *s, const char *const settings[][2], size_t n, sac_controls **c) {
    sac_error err;
    sac_sampling sampling;
    sac_sampling_default(&sampling);
    sampling.max_tokens = 12;
    assert_ok(sac_controls_create(c, &err), err);
    for (size_t i = 0; i < n; i++) assert_ok(sac_controls_set(*c, settings[i][0], settings[i][1], &err), err);
    sampling.controls = *c;
    sac_session_reset(s);
    assert_ok(sac_session_begin_tokens(s, prompt_ids, SAC_COUNT(prompt_ids), &sampling, NULL, &err), err);
}

static int64_t finish(sac_session *s, int32_t ids[MAX_NEW], char reason[16], sac_controls *c) {
    int32_t token;
    sac_error err;
    sac_result result;
    for (bool done = false; !done;) assert_ok(sac_session_step(s, NULL, &token, &done, &err), err);
    sac_session_end(s, &result);
    memcpy(ids, result.tokens, (size_t)result.n_tokens * sizeof *ids);
    snprintf(reason, 16, "%s", result.finish_reason);
    sac_controls_free(c);
    return result.n_tokens;
}

static void test_time_and_stop_strings(void **state) {
    (void)state;
    opened models[4] = {0};
    opened *o = open_model(models, "llama_f32");
    sac_controls *c;
    int32_t plain[MAX_NEW], ids[MAX_NEW];
    char reason[16], stop[64];
    begin(o->session, NULL, 0, &c);
    assert_true(finish(o->session, plain, reason, c) > 3);
    begin(o->session, (const char *const[][2]){{"max_time", "1e-9"}}, 1,
          &c); /* one token comes, as in transformers */
    assert_int_equal(finish(o->session, ids, reason, c), 1);
    assert_string_equal(reason, "length");
    char bytes[32];
    size_t n;
    sac_error err;
    assert_ok(sac_token_bytes(o->model, plain[2], bytes, sizeof bytes, &n, &err), err);
    json_t *text = json_stringn(bytes, n);
    if (text) { /* UTF-8 */
        char *quoted = json_dumps(text, JSON_ENCODE_ANY);
        snprintf(stop, sizeof stop, "[%s]", quoted);
        free(quoted);
        begin(o->session, (const char *const[][2]){{"stop_strings", stop}}, 1, &c);
        assert_true(finish(o->session, ids, reason, c) <= 3);
        assert_string_equal(reason, "stop");
    }
    json_decref(text);
    close_models(models);
}

/* The plan counts the second sequence; without it guidance is refused; in a batch ids are those of lone steps. */
static void test_guidance(void **state) {
    (void)state;
    opened models[4] = {0};
    opened *o = open_model(models, "llama_f32");
    static const char *const guided[][2] = {{"guidance_scale", "2.5"}};
    sac_session_config config;
    sac_memory_report one, two;
    sac_session *other;
    sac_controls *c, *c2;
    sac_error err;
    int32_t want[MAX_NEW], plain[MAX_NEW];
    char reason[16];
    sac_session_config_default(&config);
    config.n_ctx = 128;
    config.kv = "f32";
    assert_ok(sac_session_plan(o->model, &config, &one, &err), err);
    config.guidance = true;
    assert_ok(sac_session_plan(o->model, &config, &two, &err), err);
    assert_true(two.kv_bytes_per_token == 2 * one.kv_bytes_per_token && two.total_bytes > one.total_bytes);
    sac_session_memory(o->session, &one);
    assert_true(one.total_bytes == two.total_bytes && one.n_parts == two.n_parts);
    begin(o->session, NULL, 0, &c);
    finish(o->session, plain, reason, c);
    begin(o->session, guided, 1, &c);
    int64_t n = finish(o->session, want, reason, c);
    assert_memory_not_equal(want, plain, (size_t)n * sizeof *want);

    assert_ok(sac_session_create(&other, o->model, &config, &err), err);
    begin(o->session, guided, 1, &c);
    begin(other, NULL, 0, &c2);
    sac_batch *batch;
    assert_ok(sac_batch_create(&batch, o->model, 2, &err), err);
    for (bool more = true; more;) {
        sac_batch_item items[2] = {{.session = o->session}, {.session = other}};
        assert_ok(sac_batch_step(batch, items, 2, &err), err);
        assert_int_equal(items[0].status, SAC_OK);
        more = !items[0].done && !items[1].done;
    }
    sac_result result;
    sac_session_end(o->session, &result);
    assert_true(result.n_tokens > 2);
    assert_memory_equal(result.tokens, want, (size_t)result.n_tokens * sizeof *want);
    sac_session_end(other, NULL);
    sac_batch_free(batch);
    sac_session_free(other);
    sac_controls_free(c);
    sac_controls_free(c2);

    config.guidance = false;
    assert_ok(sac_session_create(&other, o->model, &config, &err), err);
    sac_sampling sampling;
    sac_sampling_default(&sampling);
    assert_ok(sac_controls_create(&c, &err), err);
    assert_ok(sac_controls_set(c, "guidance_scale", "2.5", &err), err);
    sampling.controls = c;
    assert_int_equal(sac_session_begin_tokens(other, prompt_ids, 4, &sampling, NULL, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "guidance_scale"));
    assert_ok(sac_controls_set(c, "guidance_scale", "1", &err), err);
    assert_ok(sac_session_begin_tokens(other, prompt_ids, 4, &sampling, NULL, &err), err);
    sac_session_free(other);
    sac_controls_free(c);
    close_models(models);
}

int main(int argc, char **argv) {
    if (argc > 1) golden_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_greedy), cmocka_unit_test(test_sampled),
                                       cmocka_unit_test(test_time_and_stop_strings),
                                       cmocka_unit_test(test_guidance)};
    return cmocka_run_group_tests_name("sequences", tests, NULL, NULL);
}
