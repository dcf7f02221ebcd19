/* DRY, XTC, mirostat, biases and penalties: against figures worked out from llama.cpp's definitions. */
#include "controls.h"
#include "sampler.h"
#include "test.h"

#include <math.h>

enum { VOCAB = 12 };

typedef struct fixture {
    sac_arena arena;
    sac_sampler s;
    sac_controls c;
} fixture;

static void open_fixture(fixture *f) {
    sac_error err;
    *f = (fixture){0};
    assert_ok(sac_arena_open(&f->arena, sac_sampler_bytes(VOCAB), &err), err);
    assert_ok(sac_sampler_init(&f->s, VOCAB, &f->arena, &err), err);
}

static void close_fixture(fixture *f) {
    sac_controls_clear(&f->c);
    sac_arena_free(&f->arena);
}

static void set(fixture *f, const char *name, const char *json) {
    sac_error err;
    assert_ok(sac_controls_set(&f->c, name, json, &err), err);
}

static void start(fixture *f, double temperature, const int32_t *ids, int n_prompt, int n_ids) {
    sac_error err;
    const sac_sampler_config config = {.temperature = temperature,
                                       .top_p = 1,
                                       .repetition_penalty = 1,
                                       .controls = &f->c,
                                       .presence_penalty = f->c.presence_penalty,
                                       .frequency_penalty = f->c.frequency_penalty};
    assert_ok(sac_sampler_start(&f->s, &config, &err), err);
    sac_sampler_history(&f->s, ids, n_prompt, n_prompt + 1000);
    for (int i = 0; i < n_prompt; i++) sac_sampler_see(&f->s, ids[i]);
    for (int i = n_prompt; i < n_ids; i++) sac_sampler_count(&f->s, ids[i]);
}

/* What DRY takes from token 9 behind 1 2 3 9 1 2 3. */
static double dry_loss(const char *name, const char *json) {
    static const int32_t ids[] = {1, 2, 3, 9, 1, 2, 3};
    const float zeros[VOCAB] = {0};
    fixture f;
    open_fixture(&f);
    set(&f, "dry_multiplier", "0.8");
    if (name) set(&f, name, json);
    start(&f, 0, ids, 7, 7);
    sac_sampler_next(&f.s, zeros, 0);
    for (int i = 0; i < VOCAB; i++)
        if (i != 9) assert_true(f.s.scores[i] == 0);
    double loss = -(double)f.s.scores[9];
    close_fixture(&f);
    return loss;
}

static void dry_grows_with_the_repetition(void **state) {
    (void)state;
    assert_true(fabs(dry_loss(NULL, NULL) - 0.8 * 1.75) < 1e-6); /* multiplier * base^(3 - 2) */
    assert_true(fabs(dry_loss("dry_base", "3") - 0.8 * 3) < 1e-6);
    assert_true(fabs(dry_loss("dry_allowed_length", "1") - 0.8 * 1.75 * 1.75) < 1e-6);
    assert_true(fabs(dry_loss("dry_allowed_length", "3") - 0.8) < 1e-6);
    assert_true(dry_loss("dry_allowed_length", "4") == 0);
    assert_true(fabs(dry_loss("dry_breaker_ids", "[1]") - 0.8) < 1e-6);
    assert_true(dry_loss("dry_breaker_ids", "[2]") == 0); /* "3" alone is shorter than 2 */
    assert_true(dry_loss("dry_penalty_last_n", "4") == 0);
    assert_true(dry_loss("dry_multiplier", "0") == 0);
}

/* Half, 0.3, 0.15 and 0.05; the others never. */
static void set_logits(float logits[VOCAB]) {
    const double p[] = {0.5, 0.3, 0.15, 0.05};
    for (int i = 0; i < VOCAB; i++) logits[i] = i < 4 ? (float)log(p[i]) : -INFINITY;
}

/* Which of the four may be drawn, as bits. */
static unsigned support(fixture *f) {
    float logits[VOCAB];
    unsigned bits = 0;
    set_logits(logits);
    sac_sampler_next(&f->s, logits, 7);
    for (int i = 0; i < VOCAB; i++)
        if (f->s.left[i] > -INFINITY) bits |= 1u << i;
    return bits;
}

static void xtc_leaves_the_least_of_the_likely(void **state) {
    (void)state;
    fixture f;
    open_fixture(&f);
    static const int32_t ids[] = {1};
    set(&f, "xtc_probability", "1");
    start(&f, 1, ids, 1, 1);
    assert_int_equal(support(&f), 0xc); /* threshold 0.1: of 0.5, 0.3, 0.15 the last stays */
    set(&f, "xtc_threshold", "0.2");
    start(&f, 1, ids, 1, 1);
    assert_int_equal(support(&f), 0xe);
    set(&f, "xtc_threshold", "0.4"); /* one alone above it is no choice */
    start(&f, 1, ids, 1, 1);
    assert_int_equal(support(&f), 0xf);
    set(&f, "xtc_threshold", "0.1");
    set(&f, "xtc_probability", "0.25");
    start(&f, 1, ids, 1, 1);
    float logits[VOCAB];
    int n_cut = 0;
    set_logits(logits);
    for (uint64_t step = 0; step < 4000; step++) {
        sac_sampler_next(&f.s, logits, step);
        n_cut += f.s.left[0] == -INFINITY;
    }
    assert_true(abs(n_cut - 1000) < 150); /* five deviations */
    close_fixture(&f);
}

static void mirostat_follows_its_target(void **state) {
    (void)state;
    fixture f;
    float logits[VOCAB];
    static const int32_t ids[] = {1};
    open_fixture(&f);
    set(&f, "mirostat", "2");
    set(&f, "mirostat_tau", "1");
    set(&f, "mirostat_eta", "0.1");
    start(&f, 1, ids, 1, 1);
    assert_true(f.s.mu == 2); /* twice the target: 0.5 and 0.3 have less than 2 bits */
    assert_int_equal(support(&f), 0x3);
    set_logits(logits);
    start(&f, 1, ids, 1, 1);
    int32_t id = sac_sampler_next(&f.s, logits, 7);
    double bits = -log2((id == 0 ? 0.5 : 0.3) / 0.8);
    assert_true(fabs(f.s.mu - (2 - 0.1 * (bits - 1))) < 1e-6);
    for (int version = 1; version <= 2; version++) {
        double sum = 0;
        set(&f, "mirostat", version == 1 ? "1" : "2");
        set(&f, "mirostat_tau", "2");
        start(&f, 1, ids, 1, 1);
        for (int i = 0; i < VOCAB; i++) logits[i] = -1.1f * logf((float)(i + 1)); /* Zipf's */
        for (uint64_t step = 0; step < 6000; step++) {
            double before = f.s.mu;
            sac_sampler_next(&f.s, logits, step);
            sum += (before - f.s.mu) / 0.1 + 2; /* the surprise */
        }
        assert_true(fabs(sum / 6000 - 2) < 0.1);
    }
    close_fixture(&f);
}

static void biases_and_penalties_are_added(void **state) {
    (void)state;
    fixture f;
    const float zeros[VOCAB] = {0};
    static const int32_t ids[] = {1, 4, 5, 5};
    open_fixture(&f);
    set(&f, "logit_bias", "{\"3\": 2.5, \"7\": -1}");
    set(&f, "presence_penalty", "0.5");
    set(&f, "frequency_penalty", "-0.25");
    start(&f, 0, ids, 1, 4);
    assert_int_equal(sac_sampler_next(&f.s, zeros, 0), 3);
    const float want[VOCAB] = {[3] = 2.5f, [7] = -1, [4] = -0.25f, [5] = 0};
    for (int i = 0; i < VOCAB; i++) assert_true(f.s.scores[i] == want[i]);
    set(&f, "logit_bias", "[[8, 3]]");
    start(&f, 0, ids, 1, 1);
    assert_int_equal(sac_sampler_next(&f.s, zeros, 0), 8);
    assert_true(f.s.scores[3] == 0);
    set(&f, "logit_bias", "null");
    start(&f, 0, ids, 1, 1);
    assert_int_equal(sac_sampler_next(&f.s, zeros, 0), 0);
    close_fixture(&f);
}

static void bad_values_are_named(void **state) {
    (void)state;
    static const char *const bad[][2] = {{"logit_bias", "{\"x\": 1}"},   {"logit_bias", "{\"1\": 1e9}"},
                                         {"logit_bias", "[[1]]"},        {"logit_bias", "3"},
                                         {"presence_penalty", "3"},      {"frequency_penalty", "-2.5"},
                                         {"stop_strings", "[\"\"]"},     {"stop_strings", "[3]"},
                                         {"guidance_scale", "\"much\""}, {"negative_prompt_ids", "[-1]"},
                                         {"xtc_threshold", "2"},         {"dry_base", "0"}};
    fixture f;
    sac_error err;
    open_fixture(&f);
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        assert_int_equal(sac_controls_set(&f.c, bad[i][0], bad[i][1], &err), SAC_BAD_ARGUMENT);
        assert_non_null(strstr(err.text, bad[i][0]));
    }
    set(&f, "logit_bias", "{\"12\": 1}");
    assert_int_equal(sac_controls_check(&f.c, VOCAB, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "logit_bias"));
    close_fixture(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dry_grows_with_the_repetition), cmocka_unit_test(xtc_leaves_the_least_of_the_likely),
        cmocka_unit_test(mirostat_follows_its_target),   cmocka_unit_test(biases_and_penalties_are_added),
        cmocka_unit_test(bad_values_are_named),
    };
    return cmocka_run_group_tests_name("llamacpp_settings", tests, NULL, NULL);
}
