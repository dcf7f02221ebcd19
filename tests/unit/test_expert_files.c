#define _POSIX_C_SOURCE 200809L
/* Files of models with experts: what tables they may take, and what is refused of them. Made here out of a tiny model. */
#include "decoder.h"
#include "dtype.h"
#include "model.h"
#include "safetensors.h"
#include "test.h"
#include "write_safetensors.h"

#include <unistd.h>

#define TINY "tests/golden/models/qwen3_moe"
enum { HIDDEN = 24, N_LAYERS = 3, N_EXPERTS = 6, WIDTH = 17 };

static char folder[64];

static void shell(const char *format, ...) {
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0) fail_msg("%s", command);
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/sac_experts_XXXXXX");
    if (!mkdtemp(folder)) return 1;
    shell("cp " TINY "/config.json " TINY "/tokenizer.json %s/ && chmod -R u+w %s", folder, folder);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    shell("rm -r '%s'", folder);
    return 0;
}

/* Every tensor of the tiny model; fp8: with routers in that, of zeros. */
static void put_model(writer *w, bool fp8) {
    static const uint8_t numbers[N_EXPERTS * HIDDEN];
    const float scale = 1;
    sac_checkpoint from = {0};
    sac_error err;
    char name[200];
    assert_ok(sac_safetensors_open_folder(&from, TINY, &err), err);
    for (int i = 0; i < from.n_tensors; i++) {
        const sac_checkpoint_tensor *t = &from.tensors[i];
        if (fp8 && strstr(t->name, ".mlp.gate.weight")) {
            put(w, t->name, "F8_E4M3", N_EXPERTS, HIDDEN, numbers, sizeof numbers);
            snprintf(name, sizeof name, "%s_scale_inv", t->name);
            put(w, name, "F32", 1, 1, &scale, sizeof scale);
        } else
            put(w, t->name, t->dtype == SAC_DTYPE_F32 ? "F32" : "BF16", t->dim[0],
                t->n_dims > 1 ? t->dim[1] : 0, t->data, t->n_bytes);
    }
    sac_checkpoint_free(&from);
}

static sac_status open_folder(sac_loaded_model *m, const char *adapter, const char *kept, sac_error *err) {
    const sac_load_options o = {.adapters = &adapter,
                                .n_adapters = adapter != NULL,
                                .kept_adapters = &kept,
                                .n_kept_adapters = kept != NULL};
    return sac_loaded_model_open_with(m, folder, &o, err);
}

static void refused(const char *adapter, const char *kept, sac_status status, const char *expect) {
    sac_loaded_model m;
    sac_error err = {0};
    const sac_status st = open_folder(&m, adapter, kept, &err);
    if (st == SAC_OK) fail_msg("opened");
    assert_says(err, expect);
    assert_int_equal(st, status);
}

static void opened(const char *adapter) {
    sac_loaded_model m;
    sac_error err;
    assert_ok(open_folder(&m, adapter, NULL, &err), err);
    sac_loaded_model_free(&m);
}

/* ---- fused ---- */

/* The model, and so many tensors of all experts that are of no layer. */
static void write_with_fused(int n_fused, const char *end, int64_t rows, int64_t cols) {
    static const uint16_t zeros[N_EXPERTS * 2 * WIDTH * HIDDEN];
    writer *w = begin_writer();
    char name[100];
    put_model(w, false);
    for (int i = 0; i < n_fused; i++) {
        snprintf(name, sizeof name, "other%d.mlp.experts.%s", i, end);
        put_shaped(w, name, "BF16", (const int64_t[]){N_EXPERTS, rows, cols}, 3, zeros,
                   (size_t)(N_EXPERTS * rows * cols) * sizeof *zeros);
    }
    end_writer(w, folder, "model.safetensors");
}

static void fused_experts_are_no_more_than_layers(void **state) {
    (void)state;
    write_with_fused(N_LAYERS, "gate_up_proj", 2 * WIDTH, HIDDEN);
    opened(NULL);
    write_with_fused(N_LAYERS + 1, "gate_up_proj", 2 * WIDTH, HIDDEN);
    refused(NULL, NULL, SAC_BAD_FILE,
            "4 tensors *.mlp.experts.gate_up_proj, but the configuration has 3 layers");
    write_with_fused(N_LAYERS + 1, "down_proj", HIDDEN, WIDTH);
    refused(NULL, NULL, SAC_BAD_FILE,
            "4 tensors *.mlp.experts.down_proj, but the configuration has 3 layers");
}

/* ---- tables ---- */

static void layers_with_an_mlp_take_no_experts(void **state) {
    (void)state;
    sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, TINY, NULL, NULL, &err), err);
    const sac_decoder_layer *l = m.decoder.layers;
    assert_non_null(l[0].experts);
    assert_null(l[1].experts);
    assert_ptr_equal(l[2].experts, l[0].experts + N_EXPERTS);
    sac_loaded_model_free(&m);
}

/* Layers 0 and 2 get an MLP, and the configuration lists them. */
static void without_a_sparse_layer_there_are_no_experts(void **state) {
    (void)state;
    static const uint16_t zeros[30 * HIDDEN];
    static const char *const parts[] = {"gate", "up", "down"};
    writer *w = begin_writer();
    sac_loaded_model m;
    sac_error err;
    char name[100];
    put_model(w, false);
    for (int k = 0; k < 6; k++) {
        const bool down = k % 3 == 2;
        snprintf(name, sizeof name, "model.layers.%d.mlp.%s_proj.weight", k / 3 * 2, parts[k % 3]);
        put(w, name, "BF16", down ? HIDDEN : 30, down ? 30 : HIDDEN, zeros, sizeof zeros);
    }
    end_writer(w, folder, "model.safetensors");
    shell("tr -d '\\n' < " TINY
          "/config.json | sed 's/\"mlp_only_layers\": *\\[ *1 *\\]/\"mlp_only_layers\": [0, 1, 2]/' > "
          "%s/config.json",
          folder);
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_int_equal(m.decoder.config.experts.n, 0);
    for (int i = 0; i < N_LAYERS; i++) assert_null(m.decoder.layers[i].experts);
    sac_loaded_model_free(&m);
}

/* ---- adapters ---- */

/* Of the router of layer 0. */
static void write_adapter(const char *to) {
    static const float zeros[2 * HIDDEN];
    writer *w = begin_writer();
    shell("mkdir -p %s", to);
    shell("echo '{\"peft_type\":\"LORA\",\"r\":2,\"lora_alpha\":2,\"target_modules\":[\"gate\"]}' > "
          "%s/adapter_config.json",
          to);
    put(w, "base_model.model.model.layers.0.mlp.gate.lora_A.weight", "F32", 2, HIDDEN, zeros, sizeof zeros);
    put(w, "base_model.model.model.layers.0.mlp.gate.lora_B.weight", "F32", N_EXPERTS, 2, zeros,
        2 * N_EXPERTS * sizeof *zeros);
    end_writer(w, to, "adapter_model.safetensors");
}

/* Merged into one in floats; nothing is kept beside it, so one that is quantised takes none. */
static void adapters_of_a_quantised_router_are_refused(void **state) {
    (void)state;
    char adapter[100], kept[110];
    snprintf(adapter, sizeof adapter, "%s/adapter", folder);
    snprintf(kept, sizeof kept, "a=%s", adapter);
    write_adapter(adapter);
    writer *w = begin_writer();
    put_model(w, false);
    end_writer(w, folder, "model.safetensors");
    opened(adapter);
    w = begin_writer();
    put_model(w, true);
    end_writer(w, folder, "model.safetensors");
    shell("sed -i '1s/{/{\"quantization_config\":{\"quant_method\":\"fp8\",\"weight_block_size\":null},/' "
          "%s/config.json",
          folder);
    opened(NULL);
    refused(adapter, NULL, SAC_UNSUPPORTED, "layers.0.mlp.gate.lora_A.weight is for one in fp8");
    refused(NULL, kept, SAC_UNSUPPORTED, "is for no matrix of the language model's layers here");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(fused_experts_are_no_more_than_layers, make_folder, remove_folder),
        cmocka_unit_test(layers_with_an_mlp_take_no_experts),
        cmocka_unit_test_setup_teardown(without_a_sparse_layer_there_are_no_experts, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(adapters_of_a_quantised_router_are_refused, make_folder,
                                        remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
