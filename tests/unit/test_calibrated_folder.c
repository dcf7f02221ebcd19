/* A model that is run layer by layer is the model; and what calibration writes makes less error of prompts that it has not seen. */
#define _GNU_SOURCE
#include "observer.h"
#include "prompts.h"
#include "quantize.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define FOLDER "tests/golden/models/"

typedef struct prompt {
    sac_part parts[2];
    sac_message message;
} prompt;

static sac_calibration_prompt asked(prompt *p, const char *picture, const char *text) {
    int n = 0;
    if (picture) p->parts[n++] = (sac_part){.kind = SAC_PART_IMAGE, .path = picture};
    p->parts[n++] = (sac_part){.text = text};
    p->message = (sac_message){.role = "user", .parts = p->parts, .n_parts = (size_t)n};
    return (sac_calibration_prompt){.input = {.messages = &p->message, .n_messages = 1}, .name = "a prompt"};
}

/* ---------------------------------------------------------------- layer by layer */

/* Of the last token, behind the final norm. */
static void last_hidden(const char *model, const sac_calibration_prompt *p, float *out) {
    sac_model *m;
    sac_session *s;
    sac_error err;
    sac_session_config config;
    sac_session_config_default(&config);
    config.n_ctx = 512;
    config.kv = "f32";
    assert_ok(sac_model_open(&m, model, NULL, &err), err);
    assert_ok(sac_session_create(&s, m, &config, &err), err);
    sac_session_keep_hidden(s, out);
    if (p->input.text)
        assert_ok(sac_session_begin_text(s, p->input.text, p->input.n_text_bytes, NULL, NULL, &err), err);
    else
        assert_ok(sac_session_begin(s, p->input.messages, p->input.n_messages, NULL, NULL, &err), err);
    sac_session_free(s);
    sac_model_free(m);
}

static void check_layers(const char *name, const char *picture) {
    char model[128];
    prompt room;
    sac_calibration *c;
    sac_error err;
    float want[256];
    const sac_calibration_options o = {.n_ctx = 512, .n_threads = 2};
    const sac_calibration_prompt prompts[2] = {
        asked(&room, picture, "What is it?"),
        {.input = {.text = "The quick brown fox jumps over the dog.", .n_text_bytes = 39}, .name = "a text"}};
    snprintf(model, sizeof model, FOLDER "%s", name);
    assert_ok(sac_calibration_open(&c, model, prompts, 2, &o, &err), err);
    const sac_decoder *d = &c->model->loaded.decoder;
    for (int layer = 0; layer < d->config.n_layers; layer++)
        for (size_t i = 0; i < 2; i++)
            assert_ok(sac_calibration_run_layer(c, i, layer, c->rows + c->first[i] * c->hidden, &err), err);
    for (size_t i = 0; i < 2; i++) {
        const float *row = c->rows + (c->first[i + 1] - 1) * c->hidden;
        double sum = 0;
        last_hidden(model, &prompts[i], want);
        for (int64_t k = 0; k < c->hidden; k++) sum += (double)row[k] * (double)row[k] / (double)c->hidden;
        for (int64_t k = 0; k < c->hidden; k++) {
            const double got = (double)row[k] / sqrt(sum + (double)d->config.rms_eps) * (double)d->final_norm[k];
            if (fabs(got - (double)want[k]) > 1e-5 * (1 + fabs(got)))
                fail_msg("%s, prompt %zu, channel %d: %g, the model has %g", name, i, (int)k, got, (double)want[k]);
        }
    }
    sac_calibration_close(c);
}

static void a_layer_at_a_time_is_the_model(void **state) {
    (void)state;
    check_layers("qwen3_vl", FOLDER "wide.png"); /* DeepStack, three axes */
    check_layers("gemma3", FOLDER "small.png");  /* rows of a picture see one another; windows */
    check_layers("qwen3_5", FOLDER "wide.png");  /* linear attention */
    check_layers("smolvlm", FOLDER "tall.png");
    check_layers("deepseek_v3", NULL);
    check_layers("olmo2", NULL);
}

/* ---------------------------------------------------------------- prompts that were not seen */

static const char *const seen_pictures[] = {"samples/picture0000.png", "samples/picture0001.jpg", "samples/picture0002.jpg",
                                            "samples/picture0003.png"};
static const char *const held_pictures[] = {"samples/picture0004.jpg", "samples/picture0005.png"};

static double distance(const float *a, const float *b, int n) {
    double sum = 0, size = 0;
    for (int i = 0; i < n; i++) {
        sum += pow((double)a[i] - (double)b[i], 2);
        size += pow((double)b[i], 2);
    }
    return sqrt(sum / size);
}

enum { N_SEEN = 6, N_HELD = 4 };

static const char *const seen[N_SEEN] = {"Describe the image.",      "Is there a circle?",      "What number is written?",
                                         "What colour is the shape?", "Where is the diamond?", "How many shapes are there?"};
static const char *const held[N_HELD] = {"What shape is it?", "Does the number 12 appear?", "Is the background gray?", "Name all that you see."};

static sac_calibration *run_held(const char *model, const sac_calibration_prompt *prompts) {
    sac_calibration *c;
    sac_error err;
    const sac_calibration_options o = {.n_threads = 2};
    assert_ok(sac_calibration_open(&c, model, prompts, N_HELD, &o, &err), err);
    for (int layer = 0; layer < c->model->loaded.decoder.config.n_layers; layer++)
        for (size_t i = 0; i < N_HELD; i++)
            assert_ok(sac_calibration_run_layer(c, i, layer, c->rows + c->first[i] * c->hidden, &err), err);
    return c;
}

/* Relative error of what the last layer makes, of all rows. */
static double held_out_error(const char *model) {
    prompt room[N_HELD];
    sac_calibration_prompt prompts[N_HELD];
    for (int i = 0; i < N_HELD; i++) prompts[i] = asked(&room[i], held_pictures[i % 2], held[i]);
    sac_calibration *want = run_held("models/demo", prompts), *got = run_held(model, prompts);
    const double error = distance(got->rows, want->rows, (int)(sac_calibration_n_rows(want) * want->hidden));
    sac_calibration_close(want);
    sac_calibration_close(got);
    return error;
}

static void written(const char *out, const char *format, const sac_calibrator *c) {
    sac_error err;
    const sac_quantize_options o = {.format = format, .n_threads = 2, .calibrator = c};
    assert_ok(sac_quantize("models/demo", out, &o, &err), err);
}

static void a_calibrated_folder_errs_less_on_other_prompts(void **state) {
    (void)state;
    char folder[] = "/tmp/calibrated-XXXXXX", near[64], made[64], command[128];
    prompt room[N_SEEN];
    sac_calibration_prompt prompts[N_SEEN];
    sac_calibration *c;
    sac_error err;
    const sac_calibration_options o = {.n_threads = 2};
    assert_non_null(mkdtemp(folder));
    snprintf(near, sizeof near, "%s/near", folder);
    snprintf(made, sizeof made, "%s/made", folder);
    for (int i = 0; i < N_SEEN; i++) prompts[i] = asked(&room[i], seen_pictures[i % 4], seen[i]);
    written(near, "w4a16", NULL);
    assert_ok(sac_calibration_open(&c, "models/demo", prompts, N_SEEN, &o, &err), err);
    written(made, "w4a16", sac_calibration_calibrator(c));
    sac_calibration_close(c);
    const double before = held_out_error(near), after = held_out_error(made);
    print_message("error of the last layer's rows, prompts not seen: %.4f to nearest, %.4f calibrated\n", before, after);
    assert_true(after < 0.5 * before);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

/* ---------------------------------------------------------------- scales that are folded */

/* In 8 bits what is written is nearly the model: a scale that were left out anywhere would be seen. */
static void check_folded(const char *name, const char *format, int least_scaled) {
    char model[128], folder[] = "/tmp/calibrated-XXXXXX", out[64], command[128];
    float want[256], got[256];
    sac_calibration *c;
    sac_error err;
    sac_calibration_report report;
    const sac_calibration_options o = {.n_ctx = 512, .n_threads = 2};
    static const char *const texts[3] = {"Seven of these boxes are red and two are blue, he said; nobody asked which.",
                                         "0 1 1 2 3 5 8 13 21 34 55 89 144", "The quick brown fox jumps over the dog."};
    sac_calibration_prompt prompts[3];
    for (int i = 0; i < 3; i++)
        prompts[i] = (sac_calibration_prompt){.input = {.text = texts[i], .n_text_bytes = strlen(texts[i])}, .name = "a text"};
    snprintf(model, sizeof model, FOLDER "%s", name);
    assert_non_null(mkdtemp(folder));
    snprintf(out, sizeof out, "%s/out", folder);
    assert_ok(sac_calibration_open(&c, model, prompts, 3, &o, &err), err);
    const sac_quantize_options q = {.format = format, .n_threads = 2, .calibrator = sac_calibration_calibrator(c)};
    const int n = (int)c->hidden;
    assert_ok(sac_quantize(model, out, &q, &err), err);
    q.calibrator->report(q.calibrator->ctx, &report);
    sac_calibration_close(c);
    last_hidden(model, &prompts[0], want);
    last_hidden(out, &prompts[0], got);
    print_message("%s: %d of %d groups scaled, error %.4f\n", name, report.n_scaled, report.n_scalable, distance(got, want, n));
    assert_true(report.n_scaled >= least_scaled);
    assert_true(distance(got, want, n) < 0.03);
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

static void scaled_folders_are_the_same_models(void **state) {
    (void)state;
    check_folded("qwen2", "w8a16:g=8", 3);       /* seven heads with one value head, a bias of v */
    check_folded("gemma3_text", "w8a16:g=8", 6); /* norms kept as what is added to 1 */
    check_folded("phi3", "w8a16:g=8", 2);        /* q, k and v, and gate and up, in one tensor */
    check_folded("granite", "w8a16:g=8", 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_layer_at_a_time_is_the_model),
                                       cmocka_unit_test(scaled_folders_are_the_same_models),
                                       cmocka_unit_test(a_calibrated_folder_errs_less_on_other_prompts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
