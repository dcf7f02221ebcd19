/* eagle_test.h - what the tests of EAGLE-3 heads share: the model of the goldens, and heads that are written here. */
#ifndef SAC_EAGLE_TEST_H
#define SAC_EAGLE_TEST_H

#include "eagle_head.h"
#include "saccade/saccade.h"
#include "write_safetensors.h"

#define GOLDEN "tests/golden/eagle3/"

static inline sac_model *open_path(const char *path) {
    sac_error err;
    sac_model *m;
    assert_ok(sac_model_open(&m, path, NULL, &err), err);
    return m;
}

/* The prompt that the head "original" has learned the answer to, at most 100 tokens. */
static inline json_t *golden(int32_t *ids, int *n) {
    json_t *g, *list;
    sac_error err;
    assert_ok(sac_json_parse_file(&g, GOLDEN "golden.json", &err), err);
    list = json_object_get(g, "ids");
    *n = (int)json_array_size(list);
    for (int i = 0; i < *n; i++) ids[i] = (int32_t)json_integer_value(json_array_get(list, (size_t)i));
    return g;
}

typedef struct broken {
    const char *drops, *shapes, *adds; /* names of tensors */
    int64_t d2t;
    const char *config, *says; /* "key": value, in the place of another; what is said */
    int64_t hidden;            /* 0: 16 */
} broken;

static inline void write_config(const char *folder, int64_t hidden, const char *more) {
    static const char *const keys[] = {"\"architectures\": [\"LlamaForCausalLMEagle3\"]",
                                       "\"model_type\": \"llama\"",
                                       "\"draft_vocab_size\": 4",
                                       "\"vocab_size\": 288",
                                       "\"intermediate_size\": 8",
                                       "\"num_attention_heads\": 2",
                                       "\"num_key_value_heads\": 1",
                                       "\"head_dim\": 8",
                                       "\"num_hidden_layers\": 1"};
    char path[200];
    snprintf(path, sizeof path, "%s/config.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"rms_norm_eps\": 1e-5");
    if (!more || strncmp(more, "\"hidden_size\"", 13) != 0)
        fprintf(f, ", \"hidden_size\": %lld", (long long)hidden);
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        const size_t n = strcspn(keys[i], ":");
        if (!more || strncmp(keys[i], more, n + 1) != 0) fprintf(f, ", %s", keys[i]);
    }
    fprintf(f, "%s%s}\n", more ? ", " : "", more ? more : "");
    fclose(f);
}

/* A whole head, of drawn numbers, but for what is broken. */
static inline void write_head(const char *folder, const broken *b) {
    static const struct {
        const char *name;
        int64_t rows, cols; /* negative: times the hidden size */
    } tensors[] = {{"fc.weight", -1, -3},
                   {"midlayer.input_layernorm.weight", -1, 0},
                   {"midlayer.hidden_norm.weight", -1, 0},
                   {"midlayer.post_attention_layernorm.weight", -1, 0},
                   {"midlayer.self_attn.q_proj.weight", 16, -2},
                   {"midlayer.self_attn.k_proj.weight", 8, -2},
                   {"midlayer.self_attn.v_proj.weight", 8, -2},
                   {"midlayer.self_attn.o_proj.weight", -1, 16},
                   {"midlayer.mlp.gate_proj.weight", 8, -1},
                   {"midlayer.mlp.up_proj.weight", 8, -1},
                   {"midlayer.mlp.down_proj.weight", -1, 8},
                   {"norm.weight", -1, 0},
                   {"lm_head.weight", 4, -1}};
    static float drawn[33 * 96];
    static uint8_t mask[289];
    const int64_t hidden = b->hidden ? b->hidden : 16;
    uint32_t seed = 7;
    for (size_t i = 0; i < SAC_COUNT(drawn); i++)
        seed = seed * 1664525u + 1013904223u, drawn[i] = (float)(seed >> 16) / 65536 - 0.5f;
    writer *w = begin_writer();
    for (size_t i = 0; i < SAC_COUNT(tensors); i++) {
        int64_t rows = tensors[i].rows, cols = tensors[i].cols;
        if (rows < 0) rows *= -hidden;
        if (cols < 0) cols *= -hidden;
        rows += b->shapes && !strcmp(b->shapes, tensors[i].name);
        if (b->drops && !strcmp(b->drops, tensors[i].name)) continue;
        put(w, tensors[i].name, "F32", rows, cols, drawn,
            (size_t)rows * (size_t)(cols ? cols : 1) * sizeof(float));
    }
    const int64_t ids[5] = {7, 8, b->d2t, 0, 0}, n = 4 + (b->shapes && !strcmp(b->shapes, "d2t"));
    if (!b->drops || strcmp(b->drops, "d2t") != 0) put(w, "d2t", "I64", n, 0, ids, (size_t)n * sizeof *ids);
    const int64_t n_mask = 288 + (b->shapes && !strcmp(b->shapes, "t2d"));
    put(w, "t2d", "BOOL", n_mask, 0, mask, (size_t)n_mask);
    if (b->adds) put(w, b->adds, "F32", 8, 0, drawn, 8 * sizeof(float));
    end_writer(w, folder, "model.safetensors");
    write_config(folder, hidden, b->config);
}

static inline void remove_head(const char *folder) {
    char path[200];
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, i ? "config.json" : "model.safetensors");
        remove(path);
    }
    remove(folder);
}

#endif
