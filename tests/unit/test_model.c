#define _POSIX_C_SOURCE 200809L
/* Opening of models: the tiny checkpoints of tests/golden/models, and copies of them that something is wrong with. */
#include "binder.h"
#include "clip.h"
#include "merger_mlp.h"
#include "model.h"
#include "test.h"

#include <unistd.h>

#define TINY "tests/golden/models/"

static void opens_tiny_models(void **state) {
    (void)state;
    sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, TINY "llava", NULL, NULL, &err), err);
    assert_string_equal(m.family, "llava");
    assert_true(m.has_vision);
    assert_int_equal(m.dtype, SAC_DTYPE_BF16);
    assert_int_equal(m.decoder.config.hidden, 32);
    assert_false(m.decoder.config.tied_head);
    assert_int_equal(m.tower.config.feature_layer[0], 2);
    assert_int_equal(sac_clip_weights_of(&m.tower)->patch_embed.tensor.n_dims, 2);
    assert_int_equal(sac_clip_weights_of(&m.tower)->patch_embed.tensor.dim[1], 3 * 7 * 7);
    assert_int_equal(m.merger.in, 24);
    assert_int_equal(m.processor.tile_size, 30);
    assert_non_null(((const sac_merger_mlp_weights *)m.merger.weights)->fc1_bias);
    assert_null(m.image_newline);
    assert_int_equal(m.stop_ids[0], 280);
    for (int i = 1; i < m.n_tensors; i++) assert_true(strcmp(m.tensors[i - 1].name, m.tensors[i].name) < 0);
    sac_loaded_model_free(&m);
    sac_loaded_model_free(&m);

    assert_ok(sac_loaded_model_open(&m, TINY "llava_next", NULL, NULL, &err), err);
    assert_ptr_equal(m.processor.dialect, &sac_dialect_anyres);
    assert_non_null(m.image_newline);
    sac_loaded_model_free(&m);

    assert_ok(sac_loaded_model_open(&m, TINY "longva_tower", NULL, NULL, &err), err);
    assert_int_equal(m.frame_layout, SAC_FRAMES_JOINED);
    sac_visual_plan plan;
    assert_ok(sac_processor_plan_frame(&m.processor, 28, 28, 0, &plan, &err), err);
    assert_int_equal(plan.pool, 2);
    assert_int_equal(m.image_token, -200);
    sac_loaded_model_free(&m);

    assert_ok(sac_loaded_model_open(&m, TINY "gguf_qwen2_q4_k/q4_k.gguf", NULL, NULL, &err), err);
    assert_int_equal(m.dtype, SAC_DTYPE_Q4_K);
    assert_true(m.decoder.config.tied_head);
    assert_false(m.decoder.config.rope.interleaved);
    assert_non_null(m.decoder.layers[1].k_bias);
    assert_ptr_equal(m.decoder.head.tensor.data, m.decoder.embed.tensor.data);
    sac_loaded_model_free(&m);

    assert_ok(sac_loaded_model_open(&m, TINY "gguf_llama_f16/f16.gguf", NULL, NULL, &err), err);
    assert_true(m.decoder.config.rope.interleaved);
    assert_null(m.decoder.layers[0].q_bias);
    assert_int_equal(m.stop_ids[0], 280);
    sac_loaded_model_free(&m);
}

typedef struct progress {
    int64_t done, total, calls;
} progress;

static void on_progress(void *ctx, int64_t done, int64_t total) {
    progress *p = ctx;
    assert_true(done == p->done + 1 && done <= total && (p->calls == 0 || total == p->total));
    p->done = done;
    p->total = total;
    p->calls++;
}

static void reports_progress(void **state) {
    (void)state;
    sac_loaded_model m;
    sac_error err;
    progress p = {0};
    assert_ok(sac_loaded_model_open(&m, TINY "llama_f32", on_progress, &p, &err), err);
    assert_true(p.calls > 0 && p.done == p.total);
    sac_loaded_model_free(&m);
}

static void fingerprint_of(const char *path, uint8_t out[32]) {
    sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    memcpy(out, m.fingerprint, 32);
    sac_loaded_model_free(&m);
}

/* ---- what is wrong with a copy ---- */

static char folder[64];

static void shell(const char *format, ...) {
    char command[512];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    if (system(command) != 0) fail_msg("%s", command);
}

static int copy_of(const char *name) {
    strcpy(folder, "/tmp/sac_model_XXXXXX");
    if (!mkdtemp(folder)) return 1;
    shell("cp -r " TINY "%s/. %s/ && chmod -R u+w %s", name, folder, folder);
    return 0;
}
static int remove_copy(void **state) {
    (void)state;
    shell("rm -r '%s'", folder);
    return 0;
}
static int copy_llama(void **state) {
    (void)state;
    return copy_of("llama_f32");
}
static int copy_llava(void **state) {
    (void)state;
    return copy_of("llava_full");
}
static int copy_longva(void **state) {
    (void)state;
    return copy_of("longva_tower");
}

static char *slurp(const char *name, size_t *n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text;
    sac_error err;
    assert_ok(sac_file_read(&text, n, path, (size_t)1 << 24, &err), err);
    return text;
}
static void spit(const char *name, const char *bytes, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    fclose(f);
}
/* In place, same length: offsets stay. */
static void replace(const char *name, const char *from, const char *to) {
    size_t n;
    char *text = slurp(name, &n);
    char *at = NULL;
    for (size_t i = 0; i + strlen(from) <= n && !at; i++)
        if (memcmp(text + i, from, strlen(from)) == 0) at = text + i;
    if (!at) fail_msg("%s is not in %s", from, name);
    assert_int_equal(strlen(from), strlen(to));
    memcpy(at, to, strlen(to));
    spit(name, text, n);
    free(text);
}

static void refused(sac_status status, const char *expect) {
    sac_loaded_model m;
    sac_error err = {0};
    sac_status st = sac_loaded_model_open(&m, folder, NULL, NULL, &err);
    if (st == SAC_OK) fail_msg("opened");
    assert_says(err, expect);
    assert_int_equal(st, status);
    assert_null(m.checkpoint);
}

static void refuses_missing_and_misshapen_tensors(void **state) {
    (void)state;
    size_t n;
    char *weights = slurp("model.safetensors", &n);
    replace("model.safetensors", "model.layers.1.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.heavie");
    refused(SAC_BAD_FILE, "tensor model.layers.1.mlp.up_proj.weight is missing");
    spit("model.safetensors", weights, n);
    replace("model.safetensors", "[51,24]", "[24,51]");
    refused(SAC_BAD_FILE, "has shape [24, 51], the configuration asks for [51, 24]");
    spit("model.safetensors", weights, n);
    replace("model.safetensors", "\"dtype\":\"F32\",\"shape\":[24]", "\"dtype\":\"I32\",\"shape\":[24]");
    refused(SAC_UNSUPPORTED, "is i32");
    spit("model.safetensors", weights, n);
    replace("model.safetensors", "lm_head.weight", "lm_tail.weight");
    refused(SAC_BAD_FILE, "\"tie_word_embeddings\" is false");
    spit("model.safetensors", weights, n / 2);
    refused(SAC_BAD_FILE, "model.safetensors: tensor");
    spit("model.safetensors", weights, 9);
    refused(SAC_BAD_FILE, "truncated");
    spit("model.safetensors", weights, n);
    free(weights);
    shell("sed -i 's/\"intermediate_size\": 51/\"intermediate_size\": 52/' %s/config.json", folder);
    refused(SAC_BAD_FILE, "has shape [51, 24], the configuration asks for [52, 24]");
}

#define ADAPTERS "tests/golden/adapters/llama_f32/"

/* The first weight of layer 0's query projection, which the adapter "attention" changes. */
static float first_query_weight(const char *path, const char *adapter) {
    sac_loaded_model m;
    sac_error err;
    const sac_load_options o = {.adapters = &adapter, .n_adapters = adapter != NULL};
    assert_ok(sac_loaded_model_open_with(&m, path, &o, &err), err);
    float w;
    memcpy(&w, m.decoder.layers[0].q.tensor.data, sizeof w);
    sac_loaded_model_free(&m);
    return w;
}

/* Beside a model it is merged by itself; a folder of nothing else stands for its base, where that can be found. */
static void merges_an_adapter_in_the_folder(void **state) {
    (void)state;
    float base = first_query_weight(folder, NULL), merged = first_query_weight(folder, ADAPTERS "attention");
    assert_true(base != merged);
    assert_true(first_query_weight(ADAPTERS "attention", NULL) == merged);
    shell("cp " ADAPTERS "attention/* %s", folder);
    assert_true(first_query_weight(folder, NULL) == merged);
    assert_true(first_query_weight(folder, ADAPTERS "attention:-1") != merged);
    shell("rm %s/adapter_model.safetensors", folder);
    refused(SAC_NOT_FOUND, "adapter_model.safetensors: No such file: download incomplete");
    shell("touch %s/adapter_model.bin", folder);
    refused(SAC_UNSUPPORTED,
            "adapter_model.bin: a file of Python's pickle; write it as adapter_model.safetensors");
    shell("rm %s/model.safetensors", folder);
    shell("sed -i s,tests/golden/models/llama_f32,owls/owl-7b, %s/adapter_config.json", folder);
    refused(SAC_NOT_FOUND, "the base owls/owl-7b is no folder here: fetch it (\"hf download owls/owl-7b");
}

/* What a picture's rows depend on besides the base. */
static void fingerprint_has_adapters(void **state) {
    (void)state;
    static const char *const specs[] = {NULL, "tower_full", "tower_full:0.5", "projector"};
    uint8_t prints[SAC_COUNT(specs)][32];
    for (size_t i = 0; i < SAC_COUNT(specs); i++) {
        sac_loaded_model m;
        sac_error err;
        char path[200];
        snprintf(path, sizeof path, "tests/golden/adapters/llava_full/%s", specs[i] ? specs[i] : "");
        const char *adapter = path;
        const sac_load_options o = {.adapters = &adapter, .n_adapters = specs[i] != NULL};
        assert_ok(sac_loaded_model_open_with(&m, TINY "llava_full", &o, &err), err);
        memcpy(prints[i], m.fingerprint, 32);
        sac_loaded_model_free(&m);
        for (size_t k = 0; k < i; k++) assert_memory_not_equal(prints[i], prints[k], 32);
    }
}

static void refuses_missing_files(void **state) {
    (void)state;
    sac_loaded_model m;
    sac_error err = {0};
    assert_int_equal(sac_loaded_model_open(&m, "/nonexistent", NULL, NULL, &err), SAC_NOT_FOUND);
    assert_says(err, "/nonexistent: no such file or folder; give a Hugging Face folder or a .gguf file");
    assert_int_equal(sac_loaded_model_open(&m, TINY "index.json", NULL, NULL, &err), SAC_BAD_FILE);
    assert_says(err, "index.json: one file of a checkpoint; give the folder that it is in");
    assert_int_equal(sac_loaded_model_open(&m, "tests", NULL, NULL, &err), SAC_NOT_FOUND);
    assert_says(err, "no config.json in tests: give a Hugging Face folder or a .gguf file");
    shell("rm %s/tokenizer.json", folder);
    refused(SAC_NOT_FOUND, "no tokenizer.json");
    static const char pointer[] = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n";
    spit("model.safetensors", pointer, sizeof pointer - 1);
    refused(SAC_BAD_FILE, "model.safetensors: a Git LFS pointer, not the weights: run \"git lfs pull\"");
    shell("rm %s/model.safetensors", folder);
    refused(SAC_NOT_FOUND, "no model.safetensors");
    spit("config.json", "{\"model_type\": ", 15);
    refused(SAC_BAD_FILE, "config.json: not valid JSON");
    spit("config.json", "[]", 2);
    refused(SAC_BAD_FILE, "config.json: not a JSON object");
    spit("config.json", "", 0);
    refused(SAC_BAD_FILE, "config.json: empty");
    size_t depth = 1 << 20;
    char *deep = malloc(depth);
    memset(deep, '[', depth);
    spit("config.json", deep, depth);
    free(deep);
    refused(SAC_BAD_FILE, "config.json: not valid JSON");
}

/* The template that conversations are written by is of this file. */
static void assert_source(const sac_loaded_model *m, const char *end) {
    assert_null(m->chat.format);
    const char *source = sac_chat_template_source(m->chat.plain);
    assert_true(strlen(source) > strlen(end));
    assert_string_equal(source + strlen(source) - strlen(end), end);
}

static void reads_generation_and_chat(void **state) {
    (void)state;
    const char *g =
        "{\"eos_token_id\":[5,6],\"do_sample\":true,\"temperature\":0.6,\"top_p\":0.9,\"top_k\":20}";
    spit("generation_config.json", g, strlen(g));
    const char *t = "{\"chat_template\":[{\"name\":\"tool\",\"template\":\"ASSISTANT:\"},"
                    "{\"name\":\"default\",\"template\":\"{% for m in messages %}<|im_start|>{{ m.role "
                    "}}\\n{{ m.content }}<|im_end|>\\n"
                    "{% endfor %}\"}]}";
    spit("tokenizer_config.json", t, strlen(t));
    sac_loaded_model m;
    sac_error err;
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_ok(sac_loaded_model_set_chat(&m, NULL, &err), err);
    assert_source(&m, "tokenizer_config.json (chat_template)");
    assert_int_equal(m.stop_ids[0], 5);
    assert_int_equal(m.stop_ids[1], 6);
    bool end_of_turn = false; /* <|im_end|>, which the template writes behind an answer */
    for (int i = 2; i < m.n_stop_ids; i++) end_of_turn |= m.stop_ids[i] == 283;
    assert_true(end_of_turn);
    assert_true(m.generation.do_sample && m.generation.temperature == 0.6 && m.generation.top_k == 20);
    sac_loaded_model_free(&m);
    spit("chat_template.jinja", "USER: {{ messages[0].content }}",
         31); /* comes before tokenizer_config.json */
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_ok(sac_loaded_model_set_chat(&m, NULL, &err), err);
    assert_source(&m, "chat_template.jinja");
    sac_loaded_model_free(&m);
    /* integers of any size, as Python writes them, in each of the files */
    shell("rm %s/chat_template.jinja", folder);
    const char *large = "{\"chat_template\":\"USER: {{ messages[0].content }}\","
                        "\"model_max_length\": 1000000000000000019884624838656}";
    spit("tokenizer_config.json", large, strlen(large));
    const char *limit = "{\"x\": -1000000000000000019884624838656, "
                        "\"max_length\": 1000000000000000019884624838656}";
    spit("generation_config.json", limit, strlen(limit));
    shell("sed -i '0,/{/s//{ \"large\": 1000000000000000019884624838656,/' %s/config.json", folder);
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_ok(sac_loaded_model_set_chat(&m, NULL, &err), err);
    assert_source(&m, "tokenizer_config.json (chat_template)");
    sac_loaded_model_free(&m);
    shell("sed -i '0,/{/s//{ \"transformers_weights\": \"other.safetensors\",/' %s/config.json", folder);
    refused(SAC_UNSUPPORTED, "\"transformers_weights\" is \"other.safetensors\"; rename");
    shell("sed -i 's/\"transformers_weights\": \"other.safetensors\",//' %s/config.json", folder);
    spit("generation_config.json", "{\"top_p\":2}", 11);
    refused(SAC_BAD_FILE, "generation_config.json: \"top_p\" is 2");
    spit("generation_config.json", "{\"eos_token_id\":\"x\"}", 20);
    refused(SAC_BAD_FILE, "\"eos_token_id\"");
}

/* The GGUF file with one more metadata key of 1 or 4 bytes, and one without meaning that fills up to 96 bytes,
 * so that the tensors stay aligned. */
static void gguf_with(const char *key, uint32_t type, const void *value, size_t value_bytes) {
    uint8_t more[96] = {0};
    char filler[64] = "................................................";
    size_t n = strlen(key), at = 0, n_bytes;
    size_t n_filler = sizeof more - (8 + n + 4 + value_bytes) - 16;
    memcpy(more, &n, 8);
    memcpy(more + 8, key, n);
    memcpy(more + 8 + n, &type, 4);
    memcpy(more + 12 + n, value, value_bytes);
    at = 12 + n + value_bytes;
    uint32_t type_u32 = 4;
    memcpy(more + at, &n_filler, 8);
    memcpy(more + at + 8, filler, n_filler);
    memcpy(more + at + 8 + n_filler, &type_u32, 4);
    char *text;
    sac_error err;
    assert_ok(sac_file_read(&text, &n_bytes, TINY "gguf_llama_f16/f16.gguf", (size_t)1 << 24, &err), err);
    char *whole = malloc(n_bytes + sizeof more);
    memcpy(whole, text, 24);
    memcpy(whole + 24, more, sizeof more);
    memcpy(whole + 24 + sizeof more, text + 24, n_bytes - 24);
    uint64_t n_keys;
    memcpy(&n_keys, text + 16, 8);
    n_keys += 2;
    memcpy(whole + 16, &n_keys, 8);
    spit("x.gguf", whole, n_bytes + sizeof more);
    free(whole);
    free(text);
}

/* llama.cpp: a factor without a type is linear, also under its old name. */
static void gguf_scaling_and_mask(void **state) {
    (void)state;
    const char *const keys[] = {"llama.rope.scaling.factor", "llama.rope.scale_linear"};
    const float factor = 4;
    char path[64];
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    sac_loaded_model m;
    sac_error err;
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        gguf_with(keys[i], 6, &factor, sizeof factor);
        assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
        assert_int_equal(m.decoder.config.rope.scaling, SAC_ROPE_LINEAR);
        assert_true(m.decoder.config.rope.factor == 4);
        sac_loaded_model_free(&m);
    }
    const uint8_t no = 0;
    gguf_with("llama.attention.causal", 7, &no, 1);
    assert_int_equal(sac_loaded_model_open(&m, path, NULL, NULL, &err), SAC_UNSUPPORTED);
    assert_says(err, "llama.attention.causal is false");
}

/* "general.sampling.*" are defaults; a temperature above 0 asks for sampling. */
static void gguf_sampling(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "%s/x.gguf", folder);
    sac_loaded_model m;
    sac_error err;
    const sac_generation_config *g = &m.generation;
    const double *fields[] = {&g->temperature,
                              &g->top_p,
                              &g->min_p,
                              &g->repetition_penalty,
                              &g->controls.xtc_probability,
                              &g->controls.xtc_threshold,
                              &g->controls.mirostat_tau,
                              &g->controls.mirostat_eta};
    static const char *const names[] = {"temp",           "top_p",           "min_p",
                                        "penalty_repeat", "xtc_probability", "xtc_threshold",
                                        "mirostat_tau",   "mirostat_eta"};
    const float half = 0.5f, far = 1e6f, none = 0;
    char key[48];
    for (size_t i = 0; i < SAC_COUNT(names); i++) {
        snprintf(key, sizeof key, "general.sampling.%s", names[i]);
        gguf_with(key, 6, &half, sizeof half);
        assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
        assert_true(*fields[i] == 0.5 && g->do_sample == (i == 0));
        sac_loaded_model_free(&m);
        gguf_with(key, 6, &far, sizeof far);
        assert_int_equal(sac_loaded_model_open(&m, path, NULL, NULL, &err), SAC_BAD_FILE);
        assert_says(err, "general.sampling");
    }
    gguf_with("general.sampling.temp", 6, &none, sizeof none);
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    assert_false(g->do_sample);
    sac_loaded_model_free(&m);
    const int32_t two = 2;
    gguf_with("general.sampling.top_k", 5, &two, sizeof two);
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    assert_int_equal(g->top_k, 2);
    sac_loaded_model_free(&m);
    gguf_with("general.sampling.mirostat", 5, &two, sizeof two);
    assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
    assert_int_equal(g->controls.mirostat, 2);
    sac_loaded_model_free(&m);
}

/* Every key of the file is kept, with what it does. */
static void generation_keys(void **state) {
    (void)state;
    static const char text[] =
        "{\"temperature\":0.5,\"guidance_scale\":1,\"stop_strings\":[\"a\"],\"use_cache\":true,"
        "\"num_beams\":1,\"surprise\":7}";
    const int kinds[] = {SAC_SETTING_OF_SAMPLING, SAC_SETTING_HONOURED, SAC_SETTING_HONOURED,
                         SAC_SETTING_QUIET,       SAC_SETTING_QUIET,    SAC_SETTING_UNKNOWN};
    sac_loaded_model m;
    sac_error err;
    spit("generation_config.json", text, sizeof text - 1);
    assert_ok(sac_loaded_model_open(&m, folder, NULL, NULL, &err), err);
    assert_int_equal(m.generation.n_keys, (int)SAC_COUNT(kinds));
    for (int i = 0; i < m.generation.n_keys; i++) assert_int_equal(m.generation.keys[i].kind, kinds[i]);
    assert_string_equal(m.generation.keys[2].value, "[\"a\"]");
    assert_string_equal(m.generation.unknown, "surprise");
    assert_false(sac_controls_guide(&m.generation.controls));
    sac_loaded_model_free(&m);
}

/* Weights at odd addresses are copied, so that they are read as aligned ones. */
static void takes_unaligned_weights(void **state) {
    (void)state;
    size_t n;
    char *weights = slurp("model.safetensors", &n);
    char *shifted = malloc(n + 1);
    uint64_t header;
    memcpy(&header, weights, 8);
    memcpy(shifted + 8, weights + 8, header);
    shifted[8 + header] = ' '; /* white space is JSON */
    memcpy(shifted + 9 + header, weights + 8 + header, n - 8 - header);
    header++;
    memcpy(shifted, &header, 8);
    spit("model.safetensors", shifted, n + 1);
    free(weights);
    free(shifted);
    sac_loaded_model a, b;
    sac_error err;
    assert_ok(sac_loaded_model_open(&a, TINY "llama_f32", NULL, NULL, &err), err);
    assert_ok(sac_loaded_model_open(&b, folder, NULL, NULL, &err), err);
    assert_int_equal((uintptr_t)b.decoder.layers[1].up.tensor.data % 4, 0);
    assert_memory_equal(a.decoder.layers[1].up.tensor.data, b.decoder.layers[1].up.tensor.data, 51 * 24 * 4);
    assert_memory_equal(a.decoder.final_norm, b.decoder.final_norm, 24 * 4);
    sac_loaded_model_free(&a);
    sac_loaded_model_free(&b);
}

static void fingerprint_follows_the_vision_part(void **state) {
    (void)state;
    uint8_t a[32], b[32];
    fingerprint_of(TINY "llava_full", a);
    fingerprint_of(folder, b);
    assert_memory_equal(a, b, 32);
    shell("sed -i 's/\"resample\": 3/\"resample\": 2/' %s/preprocessor_config.json", folder);
    fingerprint_of(folder, b);
    assert_memory_not_equal(a, b, 32);
    shell("cp " TINY "llava_full/preprocessor_config.json %s/", folder);
    size_t n;
    char *weights = slurp("model.safetensors", &n);
    weights[n - 1] ^= 1; /* the last tensor by name is the tower's */
    spit("model.safetensors", weights, n);
    free(weights);
    fingerprint_of(folder, b);
    assert_memory_not_equal(a, b, 32);
}

static void refuses_a_missing_tower(void **state) {
    (void)state;
    shell("sed -i '0,/{/s//{ \"text_config\": {\"quantization_config\": {}},/' %s/config.json", folder);
    refused(SAC_UNSUPPORTED, "text_config: \"quantization_config\": weights quantised with");
    shell("sed -i 's/\"text_config\": {\"quantization_config\": {}},//' %s/config.json", folder);
    shell("rm %s/vision_tower/model.safetensors", folder);
    refused(SAC_NOT_FOUND, "vision_tower: no model.safetensors");
    shell("rm -r %s/vision_tower", folder);
    refused(SAC_NOT_FOUND, "put that model into");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opens_tiny_models),
        cmocka_unit_test(reports_progress),
        cmocka_unit_test_setup_teardown(refuses_missing_and_misshapen_tensors, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(merges_an_adapter_in_the_folder, copy_llama, remove_copy),
        cmocka_unit_test(fingerprint_has_adapters),
        cmocka_unit_test_setup_teardown(refuses_missing_files, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(reads_generation_and_chat, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(gguf_scaling_and_mask, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(gguf_sampling, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(generation_keys, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(takes_unaligned_weights, copy_llama, remove_copy),
        cmocka_unit_test_setup_teardown(fingerprint_follows_the_vision_part, copy_llava, remove_copy),
        cmocka_unit_test_setup_teardown(refuses_a_missing_tower, copy_longva, remove_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
