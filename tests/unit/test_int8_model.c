#define _POSIX_C_SOURCE 200809L
/* Folders with int8 weights and scales apart (compressed-tensors, int-quantized): made here out of a tiny model, read,
 * and run beside a folder with the same numbers in f32. */
#include "engine.h"
#include "ref/weights/ref_weights.h"
#include "safetensors.h"
#include "test.h"
#include "write_safetensors.h"

#include <math.h>
#include <unistd.h>

#define TINY "tests/golden/models/llama_f32"
enum { N_IDS = 24 };

static char folder[2][64]; /* int8; the same in f32 */

/* ---- the two folders ---- */

typedef struct kind {
    const char *format;
    int64_t group; /* 0: one scale a row; -1: one for all */
    bool zeros, bf16_scales;
} kind;

/* Rounds a matrix and writes it to both. */
static void put_matrix(writer *w[2], const sac_checkpoint_tensor *t, const kind *c) {
    int64_t n = t->dim[0], k = t->dim[1], group = c->group > 0 ? c->group : k,
            n_groups = (k + group - 1) / group;
    int64_t n_scaled = c->group < 0 ? 1 : n;
    const float *from = (const float *)(const void *)t->data;
    int8_t *q = malloc((size_t)(n * k)), *zeros = malloc((size_t)(n_scaled * n_groups));
    float *same = malloc((size_t)(n * k) * sizeof *same), *scales = malloc((size_t)(n_scaled * n_groups) * 4);
    uint16_t *halves = malloc((size_t)(n_scaled * n_groups) * 2);
    for (int64_t i = 0; i < n_scaled * n_groups; i++) {
        halves[i] = sac_f32_to_bf16(0.02f + 0.001f * (float)(i % 7));
        scales[i] = c->bf16_scales ? sac_bf16_to_f32(halves[i]) : 0.02f + 0.001f * (float)(i % 7);
        zeros[i] = (int8_t)(c->zeros ? i % 9 - 4 : 0);
    }
    for (int64_t i = 0; i < n * k; i++) {
        int64_t at = n_scaled == 1 ? 0 : i / k * n_groups + i % k / group;
        float v = roundf(from[i] / scales[at]) + (float)zeros[at];
        q[i] = (int8_t)(v > 127 ? 127 : v < -128 ? -128 : v);
        same[i] = scales[at] * (float)(q[i] - zeros[at]);
    }
    char name[200];
    const int stem = (int)strlen(t->name) - (int)strlen("weight");
    put(w[0], t->name, "I8", n, k, q, (size_t)(n * k));
    put(w[1], t->name, "F32", n, k, same, (size_t)(n * k) * sizeof *same);
    snprintf(name, sizeof name, "%.*sweight_scale", stem, t->name);
    put(w[0], name, c->bf16_scales ? "BF16" : "F32", n_scaled, n_scaled == 1 ? 0 : n_groups,
        c->bf16_scales ? (void *)halves : (void *)scales,
        (size_t)(n_scaled * n_groups) * (c->bf16_scales ? 2 : 4));
    snprintf(name, sizeof name, "%.*sweight_zero_point", stem, t->name);
    if (c->zeros)
        put(w[0], name, "I8", n_scaled, n_scaled == 1 ? 0 : n_groups, zeros, (size_t)(n_scaled * n_groups));
    free(q), free(zeros), free(same), free(scales), free(halves);
}

static void shell(const char *command) {
    if (system(command) != 0) fail_msg("%s", command);
}

static void write_config(const kind *c, const char *more) {
    char command[1024];
    snprintf(
        command, sizeof command,
        "sed -i '1s/{/{\"quantization_config\":{\"quant_method\":\"compressed-tensors\",\"format\":\"%s\","
        "\"config_groups\":{\"group_0\":{\"targets\":[\"Linear\"],\"weights\":{\"num_bits\":8,\"type\":"
        "\"int\","
        "\"group_size\":%lld}%s}}},/' %s/config.json",
        c->format, (long long)(c->group > 0 ? c->group : -1), more, folder[0]);
    shell(command);
}

static void make_folders(const kind *c) {
    writer *w[2] = {begin_writer(), begin_writer()};
    char command[256];
    sac_checkpoint from = {0};
    sac_error err;
    assert_ok(sac_safetensors_open_folder(&from, TINY, &err), err);
    for (int i = 0; i < 2; i++) {
        strcpy(folder[i], "/tmp/sac_int8_XXXXXX");
        assert_non_null(mkdtemp(folder[i]));
        snprintf(command, sizeof command, "cp %s/config.json %s/tokenizer.json %s/", TINY, TINY, folder[i]);
        shell(command);
    }
    for (int i = 0; i < from.n_tensors; i++) {
        const sac_checkpoint_tensor *t = &from.tensors[i];
        if (strstr(t->name, "_proj.weight"))
            put_matrix(w, t, c);
        else
            for (int k = 0; k < 2; k++)
                put(w[k], t->name, "F32", t->dim[0], t->n_dims > 1 ? t->dim[1] : 0, t->data, t->n_bytes);
    }
    sac_checkpoint_free(&from);
    for (int i = 0; i < 2; i++) end_writer(w[i], folder[i], "model.safetensors");
}

static void remove_folders(void) {
    char command[200];
    snprintf(command, sizeof command, "rm -r %s %s; cd .", folder[0], folder[1]);
    shell(command);
}

/* ---- what is read, and what it computes ---- */

static void assert_same_rows(const sac_weight *a, const sac_weight *b) {
    int64_t n = b->tensor.dim[0], k = b->tensor.dim[1];
    float *x = malloc((size_t)k * sizeof *x);
    assert_int_equal(a->format, SAC_WEIGHT_INT8);
    assert_int_equal(b->format, SAC_WEIGHT_FLOATS);
    assert_true(sac_ref_weight_of(a)->holds(a, n, k));
    for (int64_t j = 0; j < n; j++) {
        sac_ref_weight_of(a)->row(a, j, k, x);
        assert_memory_equal(x, (const float *)b->tensor.data + j * k, (size_t)k * sizeof *x);
    }
    free(x);
}

static void logits_of(const sac_model *m, float *last, float *stepped) {
    sac_session_config c;
    sac_session *s;
    sac_error err;
    int32_t ids[N_IDS];
    for (int i = 0; i < N_IDS; i++) ids[i] = i * 11 % 250 + 3;
    sac_session_config_default(&c);
    c.n_ctx = 64, c.kv = "f32";
    assert_ok(sac_session_create(&s, m, &c, &err), err);
    assert_ok(sac_session_append(s, ids, N_IDS, last, &err), err);
    assert_ok(sac_session_append(s, ids, 1, stepped, &err), err);
    sac_session_free(s);
}

/* The order of sums is another: 1e-4 of logits of about 1. */
static void assert_near(const float *a, const float *b, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-4f * (1 + fabsf(b[i]))))
            fail_msg("logit %zu is %g, not %g", i, (double)a[i], (double)b[i]);
}

static void check_kind(const kind *c) {
    sac_model *m[2];
    sac_error err;
    make_folders(c);
    write_config(c, "");
    for (int i = 0; i < 2; i++) assert_ok(sac_model_open(&m[i], folder[i], NULL, &err), err);
    const sac_decoder_layer *a = m[0]->loaded.decoder.layers, *b = m[1]->loaded.decoder.layers;
    for (int i = 0; i < m[0]->loaded.decoder.config.n_layers; i++) {
        assert_same_rows(&a[i].q, &b[i].q);
        assert_same_rows(&a[i].down, &b[i].down);
    }
    size_t vocab = (size_t)m[0]->loaded.decoder.config.vocab;
    float *logits[4];
    for (int i = 0; i < 4; i++) logits[i] = malloc(N_IDS * vocab * sizeof(float));
    for (int i = 0; i < 2; i++) logits_of(m[i], logits[2 * i], logits[2 * i + 1]);
    assert_near(logits[0], logits[2], N_IDS * vocab);
    assert_near(logits[1], logits[3], vocab);
    for (int i = 0; i < 4; i++) free(logits[i]);
    for (int i = 0; i < 2; i++) sac_model_free(m[i]);
    remove_folders();
}

static void int8_folders_compute_as_their_numbers_in_f32(void **state) {
    (void)state;
    static const kind kinds[] = {{"int-quantized", 0, false, false},  {"int-quantized", 0, false, true},
                                 {"int-quantized", 16, false, false}, {"naive-quantized", 8, true, true},
                                 {"int-quantized", 16, true, false},  {"int-quantized", -1, true, false}};
    for (size_t i = 0; i < SAC_COUNT(kinds); i++) check_kind(&kinds[i]);
}

static void refused(sac_status status, const char *expect) {
    sac_model *m;
    sac_error err = {0};
    sac_status st = sac_model_open(&m, folder[0], NULL, &err);
    if (st != status || !strstr(err.text, expect)) fail_msg("%d: \"%s\", not \"%s\"", st, err.text, expect);
}

static void refuses_what_it_cannot_honour(void **state) {
    const kind group16 = {"int-quantized", 16, true, false};
    (void)state;
    make_folders(&group16);
    refused(SAC_UNSUPPORTED, "is i8, a type that cannot be computed with here"); /* nothing says what it is */
    write_config(&group16, ",\"input_activations\":{\"num_bits\":8}");
    refused(SAC_UNSUPPORTED, "\"input_activations\" other than");
    remove_folders();

    make_folders(&group16);
    const kind group5 = {"int-quantized", 5, true, false};
    write_config(&group5, "");
    refused(SAC_BAD_FILE, "weight_scale is f32 [");
    remove_folders();

    make_folders(&group16);
    const kind packed = {"pack-quantized", 16, true, false};
    write_config(&packed, "");
    refused(SAC_BAD_FILE, "is i8, which is not what its entry in \"config_groups\" says");
    char command[200];
    snprintf(command, sizeof command, "sed -i '1s/compressed-tensors/aqlm/' %s/config.json", folder[0]);
    shell(command);
    refused(SAC_UNSUPPORTED, "or a GGUF file");
    remove_folders();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(int8_folders_compute_as_their_numbers_in_f32),
        cmocka_unit_test(refuses_what_it_cannot_honour),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
