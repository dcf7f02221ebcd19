/* Distributions against those of transformers' own processors (tools/make_generation_golden.py). Another
 * file of the same kind may be named as the argument. */
#include "controls.h"
#include "json.h"
#include "sampler.h"
#include "test.h"

#include <math.h>

enum { N_DRAWS = 2000 };

static const char *golden_path = "tests/golden/generation.json";

static double number(const json_t *settings, const char *key, double otherwise) {
    const json_t *v = json_object_get(settings, key);
    return v ? json_number_value(v) : otherwise;
}

static int read_ids(const json_t *list, int32_t *ids, int most) {
    int n = (int)json_array_size(list);
    assert_true(n <= most);
    for (int i = 0; i < n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return n;
}

/* The sampler's settings and the controls, from one object. */
static sac_sampler_config configure(const json_t *settings, sac_controls *controls) {
    const char *key;
    json_t *v;
    sac_error err;
    json_object_foreach((json_t *)(uintptr_t)settings, key, v) {
        if (sac_controls_knows(key)) assert_ok(sac_controls_set_value(controls, key, v, &err), err);
    }
    return (sac_sampler_config){.temperature = number(settings, "temperature", 1),
                                .top_k = (int)number(settings, "top_k", 0),
                                .top_p = number(settings, "top_p", 1),
                                .min_p = number(settings, "min_p", 0),
                                .repetition_penalty = number(settings, "repetition_penalty", 1),
                                .controls = controls};
}

/* How far counts are from what the probabilities say, in standard deviations (Wilson and Hilferty's cube root of
 * chi-square over its degrees of freedom). Tokens expected less than 5 times are one. */
static double strangeness(const int *counts, const json_t *probs, int vocab) {
    double chi = 0, rest = 0, rest_seen = 0;
    int n_bins = 0;
    for (int i = 0; i < vocab; i++) {
        double want = N_DRAWS * json_number_value(json_array_get(probs, (size_t)i));
        if (want < 5) {
            rest += want;
            rest_seen += counts[i];
            continue;
        }
        chi += (counts[i] - want) * (counts[i] - want) / want;
        n_bins++;
    }
    if (rest >= 5) {
        chi += (rest_seen - rest) * (rest_seen - rest) / rest;
        n_bins++;
    }
    double k = n_bins - 1;
    return n_bins < 2 ? 0 : (cbrt(chi / k) - (1 - 2 / (9 * k))) / sqrt(2 / (9 * k));
}

static double draw_case(sac_sampler *s, const float *logits, const json_t *probs) {
    int counts[64] = {0};
    for (uint64_t step = 0; step < N_DRAWS; step++) {
        int32_t id = sac_sampler_next(s, logits, step);
        assert_true(id >= 0 && id < s->vocab && json_number_value(json_array_get(probs, (size_t)id)) > 0);
        counts[id]++;
    }
    return strangeness(counts, probs, s->vocab);
}

static double check_case(sac_sampler *s, const json_t *c, const int32_t *eos, int n_eos, int64_t most,
                         size_t at) {
    int32_t ids[64];
    float logits[64];
    sac_error err;
    sac_controls controls = {0};
    sac_sampler_config config = configure(json_object_get(c, "settings"), &controls);
    config.eos = eos;
    config.n_eos = n_eos;
    config.seed = at;
    int n_ids = read_ids(json_object_get(c, "ids"), ids, 64);
    int n_prompt = (int)json_integer_value(json_object_get(c, "n_prompt"));
    for (int i = 0; i < s->vocab; i++)
        logits[i] = (float)json_number_value(json_array_get(json_object_get(c, "logits"), (size_t)i));
    assert_ok(sac_sampler_start(s, &config, &err), err);
    s->processed = true; /* also where only what the fast way does is on */
    sac_sampler_history(s, ids, n_prompt, most);
    for (int i = 0; i < n_prompt; i++) sac_sampler_see(s, ids[i]);
    for (int i = n_prompt; i < n_ids; i++) sac_sampler_count(s, ids[i]);
    int32_t id = sac_sampler_next(s, logits, at);
    double sum = 0, best = -INFINITY;
    for (int i = 0; i < s->vocab; i++) best = fmax(best, (double)s->left[i]);
    for (int i = 0; i < s->vocab; i++) sum += exp((double)s->left[i] - best);
    for (int i = 0; i < s->vocab; i++) {
        double want = json_number_value(json_array_get(json_object_get(c, "probs"), (size_t)i));
        double got = exp((double)s->left[i] - best) / sum;
        if ((want > 0) != (got > 0) && (want > 1e-8 || got > 1e-8))
            fail_msg("case %zu, token %d: %g, transformers %g", at, i, got, want);
        if (!(fabs(got - want) <= 1e-6))
            fail_msg("case %zu, token %d: %g, transformers %g", at, i, got, want);
        if (i == id) assert_true(got > 0);
    }
    double z = draw_case(s, logits, json_object_get(c, "probs"));
    sac_controls_clear(&controls);
    return z;
}

static void test_transformers(void **state) {
    (void)state;
    json_t *golden;
    int32_t eos[8];
    sac_error err;
    sac_arena arena;
    sac_sampler s;
    assert_ok(sac_json_parse_file(&golden, golden_path, &err), err);
    int n_eos = read_ids(json_object_get(golden, "eos"), eos, 8);
    const json_t *cases = json_object_get(golden, "cases");
    int vocab = (int)json_array_size(json_object_get(json_array_get(cases, 0), "logits"));
    assert_true(vocab > 0 && vocab <= 64 && json_array_size(cases) >= 150);
    assert_ok(sac_arena_open(&arena, sac_sampler_bytes(vocab), &err), err);
    assert_ok(sac_sampler_init(&s, vocab, &arena, &err), err);
    double worst = 0, late = 0;
    for (size_t i = 0; i < json_array_size(cases); i++) {
        double z = check_case(&s, json_array_get(cases, i), eos, n_eos,
                              json_integer_value(json_object_get(golden, "most")), i);
        worst = fmax(worst, z);
        late += z > 1.645;
    }
    print_message(
        "%zu cases, %d draws of each: chi-square at most %.2f deviations, %.1f %% above the 95th part\n",
        json_array_size(cases), N_DRAWS, worst, 100 * late / (double)json_array_size(cases));
    assert_true(worst < 4.5 && late < 0.1 * (double)json_array_size(cases));
    sac_arena_free(&arena);
    json_decref(golden);
}

static void test_refused(void **state) {
    (void)state;
    static const char *const bad[][2] = {
        {"no_such_key", "1"},      {"top_h", "0"},          {"no_repeat_ngram_size", "1.5"},
        {"bad_words_ids", "[[]]"}, {"bad_words_ids", "[]"}, {"sequence_bias", "[[[1]]]"},
        {"suppress_tokens", "-1"}, {"mirostat", "3"},       {"exponential_decay_length_penalty", "[1]"},
        {"typical_p", "nan"},
    };
    sac_controls *c;
    sac_error err;
    assert_ok(sac_controls_create(&c, &err), err);
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        assert_int_equal(sac_controls_set(c, bad[i][0], bad[i][1], &err), SAC_BAD_ARGUMENT);
        assert_non_null(strstr(err.text, bad[i][0]));
    }
    assert_ok(sac_controls_set(c, "bad_words_ids", "[[3, 99]]", &err), err);
    assert_int_equal(sac_controls_check(c, 50, &err), SAC_BAD_ARGUMENT);
    sac_controls_free(c);
}

int main(int argc, char **argv) {
    if (argc > 1) golden_path = argv[1];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_transformers), cmocka_unit_test(test_refused)};
    return cmocka_run_group_tests_name("processors", tests, NULL, NULL);
}
