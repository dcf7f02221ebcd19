/* `saccade quantize` and --weights of matrices that do not lie by themselves: experts, and tensors that hold several matrices. */
#define _GNU_SOURCE
#include "model.h"
#include "quantize.h"
#include "test.h"
#include "weight_reader.h"

#include <math.h>
#include <unistd.h>

#define MODELS "tests/golden/models/"

static char folder[64];

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/sac_parts_XXXXXX");
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state) {
    char line[100];
    (void)state;
    snprintf(line, sizeof line, "rm -r '%s'", folder);
    return system(line);
}

static sac_status quantize(const char *name, const char *format, char out[120], sac_error *err) {
    char in[120];
    const sac_quantize_options o = {.format = format, .n_threads = 1};
    snprintf(in, sizeof in, MODELS "%s", name);
    snprintf(out, 120, "%s/%s-%.20s", folder, name, format);
    return sac_quantize(in, out, &o, err);
}

static void open_model(sac_loaded_model *m, const char *path, const char *weights) {
    sac_error err;
    const sac_load_options o = {.weights = weights};
    assert_ok(sac_loaded_model_open_with(m, path, &o, &err), err);
}

static void same_weight(const sac_weight *a, const sac_weight *b, sac_weight_format format) {
    assert_int_equal(a->format, format);
    assert_int_equal(b->format, format);
    const size_t n = sac_weight_part_bytes(&a->tensor), n_scales = sac_weight_part_bytes(&a->scales);
    assert_int_equal(sac_weight_part_bytes(&b->tensor), n);
    assert_int_equal(sac_weight_part_bytes(&b->scales), n_scales);
    assert_memory_equal(a->tensor.data, b->tensor.data, n);
    if (n_scales) assert_memory_equal(a->scales.data, b->scales.data, n_scales);
}

/* A written folder is what --weights makes; routers stay as they are. */
static void same_as_while_loading(const char *name, const char *format, sac_weight_format stored) {
    char out[120], in[120];
    sac_error err;
    sac_loaded_model a, b;
    assert_ok(quantize(name, format, out, &err), err);
    snprintf(in, sizeof in, MODELS "%s", name);
    open_model(&a, out, NULL);
    open_model(&b, in, format);
    const int n = a.decoder.config.experts.n;
    for (int i = 0; i < a.decoder.config.n_layers; i++) {
        const sac_decoder_layer *x = &a.decoder.layers[i], *y = &b.decoder.layers[i];
        same_weight(&x->q, &y->q, stored);
        same_weight(&x->v, &y->v, stored);
        if (!x->experts || a.decoder.config.experts.shared) same_weight(&x->up, &y->up, stored);
        if (!x->experts) continue;
        same_weight(&x->router, &y->router, SAC_WEIGHT_FLOATS);
        assert_int_equal(x->router_bias != NULL, y->router_bias != NULL);
        if (x->router_bias) assert_memory_equal(x->router_bias, y->router_bias, (size_t)n * sizeof(float));
        for (int e = 0; e < n; e++) {
            same_weight(&x->experts[e].gate, &y->experts[e].gate, stored);
            same_weight(&x->experts[e].up, &y->experts[e].up, stored);
            same_weight(&x->experts[e].down, &y->experts[e].down, stored);
        }
    }
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
}

static void files_hold_what_loading_rounds_to(void **state) {
    (void)state;
    same_as_while_loading("olmoe", "int8", SAC_WEIGHT_INT8);
    same_as_while_loading("mixtral", "fp8", SAC_WEIGHT_FP8);
    same_as_while_loading("qwen3_moe", "int8", SAC_WEIGHT_INT8);
    same_as_while_loading("glm4_moe", "int8", SAC_WEIGHT_INT8);
    same_as_while_loading("phi3_long", "int8", SAC_WEIGHT_INT8);
    same_as_while_loading("phi3_long", "fp8", SAC_WEIGHT_FP8);
    same_as_while_loading("phi3_long", "w8a16", SAC_WEIGHT_PACKED);
    same_as_while_loading("phi3_long", "w4a16:g=16", SAC_WEIGHT_PACKED);
}

static float value_of(const sac_tensor *t, int64_t i) {
    uint16_t h;
    memcpy(&h, (const uint8_t *)t->data + 2 * i, 2);
    return t->dtype == SAC_DTYPE_F16 ? sac_f16_to_f32(h) : sac_bf16_to_f32(h);
}

/* Each row of int8 is that of the floats to half a step, and a quarter for the rounding of its scale. */
static void rows_are_near(const sac_weight *rounded, const sac_weight *floats) {
    const int64_t n = floats->tensor.dim[0], k = floats->tensor.dim[1];
    assert_int_equal(rounded->tensor.dim[0], n);
    assert_int_equal(rounded->tensor.dim[1], k);
    for (int64_t i = 0; i < n; i++) {
        const double scale = (double)value_of(&rounded->scales, i);
        for (int64_t j = 0; j < k; j++) {
            const double code = ((const int8_t *)rounded->tensor.data)[i * k + j];
            if (fabs(code * scale - (double)value_of(&floats->tensor, i * k + j)) > 0.76 * scale)
                fail_msg("row %lld, element %lld", (long long)i, (long long)j);
        }
    }
}

/* Of tensors of several matrices, and of all experts, each is its own. */
static void parts_are_their_own_rows(void **state) {
    (void)state;
    static const char *const names[] = {"phi3_long", "granitemoe", "olmoe"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char in[120];
        sac_loaded_model a, b;
        snprintf(in, sizeof in, MODELS "%s", names[k]);
        open_model(&a, in, "int8");
        open_model(&b, in, NULL);
        for (int i = 0; i < a.decoder.config.n_layers; i++) {
            const sac_decoder_layer *x = &a.decoder.layers[i], *y = &b.decoder.layers[i];
            rows_are_near(&x->q, &y->q);
            rows_are_near(&x->k, &y->k);
            rows_are_near(&x->v, &y->v);
            if (!x->experts) rows_are_near(&x->gate, &y->gate);
            if (!x->experts) rows_are_near(&x->up, &y->up);
            for (int e = 0; x->experts && e < a.decoder.config.experts.n; e++) {
                rows_are_near(&x->experts[e].gate, &y->experts[e].gate);
                rows_are_near(&x->experts[e].up, &y->experts[e].up);
                rows_are_near(&x->experts[e].down, &y->experts[e].down);
            }
        }
        sac_loaded_model_free(&a);
        sac_loaded_model_free(&b);
    }
}

static void refused(sac_status st, const sac_error *err, const char *what) {
    assert_int_equal(st, SAC_UNSUPPORTED);
    if (!strstr(err->text, what)) fail_msg("\"%s\" does not say \"%s\"", err->text, what);
}

static void what_is_not_written_is_said(void **state) {
    (void)state;
    char out[120];
    sac_error err;
    refused(quantize("granitemoe", "int8", out, &err), &err, "experts of a layer in one tensor are not rounded in a file so far");
    refused(quantize("qwen3_moe_whole", "fp8", out, &err), &err, "--weights rounds them");
    sac_loaded_model m;
    const sac_load_options o = {.weights = "q8_0"};
    refused(sac_loaded_model_open_with(&m, MODELS "olmoe", &o, &err), &err, "a model with 6 experts a layer is not rounded to q8_0 so far");
}

/* Formats without rows by themselves, and scales of rows together that a matrix begins within. */
static void rows_that_cannot_be_cut_are_refused(void **state) {
    (void)state;
    static const uint8_t bytes[4096];
    sac_error err;
    sac_weight w = {.tensor = {bytes, SAC_DTYPE_AWQ, 2, {64, 32}},
                    .scales = {bytes, SAC_DTYPE_F16, 2, {2, 64}}, .format = SAC_WEIGHT_AWQ};
    refused(sac_weight_rows(&w, "a.qkv_proj.weight", 32, 16, &err), &err, "a.qkv_proj.weight holds several matrices, and in awq");
    w = (sac_weight){.tensor = {bytes, SAC_DTYPE_PACKED_4, 2, {64, 32}},
                     .zeros = {bytes, SAC_DTYPE_I8, 2, {1, 1}}, .format = SAC_WEIGHT_PACKED};
    refused(sac_weight_rows(&w, "b", 32, 16, &err), &err, "are not read apart");
    w = (sac_weight){.tensor = {bytes, SAC_DTYPE_FP8, 2, {64, 32}},
                     .scales = {bytes, SAC_DTYPE_F32, 2, {4, 2}},
                     .group_rows = 16, .format = SAC_WEIGHT_FP8};
    const sac_weight whole = w;
    refused(sac_weight_rows(&w, "c", 24, 16, &err), &err, "row 24 of it begins one within the 16 that share scales");
    w = whole;
    assert_ok(sac_weight_rows(&w, "c", 32, 24, &err), err);
    assert_ptr_equal(w.tensor.data, bytes + 32 * 32);
    assert_ptr_equal(w.scales.data, bytes + 2 * 2 * 4);
    assert_int_equal(w.scales.dim[0], 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_hold_what_loading_rounds_to, make_folder, remove_folder),
        cmocka_unit_test(parts_are_their_own_rows),
        cmocka_unit_test_setup_teardown(what_is_not_written_is_said, make_folder, remove_folder),
        cmocka_unit_test(rows_that_cannot_be_cut_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
