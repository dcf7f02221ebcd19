#include "scheme.h"

#include <stdio.h>
#include <stdlib.h>

enum { PLAIN, K_S, K_M };

static const sac_scheme schemes[] = {
    {.name = "q8_0", .is_gguf = true, .type = SAC_DTYPE_Q8_0, .file_type = 7},
    {.name = "q4_0", .is_gguf = true, .type = SAC_DTYPE_Q4_0, .file_type = 2},
    {.name = "q4_1", .is_gguf = true, .type = SAC_DTYPE_Q4_1, .file_type = 3},
    {.name = "q5_0", .is_gguf = true, .type = SAC_DTYPE_Q5_0, .file_type = 8},
    {.name = "q5_1", .is_gguf = true, .type = SAC_DTYPE_Q5_1, .file_type = 9},
    {.name = "q4_k_s", .is_gguf = true, .type = SAC_DTYPE_Q4_K, .mix = K_S, .file_type = 14},
    {.name = "q4_k_m", .is_gguf = true, .type = SAC_DTYPE_Q4_K, .mix = K_M, .file_type = 15},
    {.name = "q5_k_s", .is_gguf = true, .type = SAC_DTYPE_Q5_K, .file_type = 16},
    {.name = "q5_k_m", .is_gguf = true, .type = SAC_DTYPE_Q5_K, .mix = K_M, .file_type = 17},
    {.name = "q6_k", .is_gguf = true, .type = SAC_DTYPE_Q6_K, .file_type = 18},
    {.name = "f16", .is_gguf = true, .type = SAC_DTYPE_F16, .file_type = 1},
    {.name = "bf16", .is_gguf = true, .type = SAC_DTYPE_BF16, .file_type = 32},
    {.name = "w4a16", .type = SAC_DTYPE_PACKED_4, .group = 128},
    {.name = "w8a16", .type = SAC_DTYPE_PACKED_8},
    {.name = "int8", .type = SAC_DTYPE_I8, .x_rounding = SAC_X_INT8_ROWS},
    {.name = "fp8", .type = SAC_DTYPE_FP8, .x_rounding = SAC_X_FP8_ROWS},
};

static const struct {
    const char *name, *stands_for;
} aliases[] = {{"q4_k", "q4_k_m"}, {"q5_k", "q5_k_m"}};

const char *const *sac_scheme_names(void) {
    static const char *names[SAC_COUNT(schemes) + 1];
    for (size_t i = 0; i < SAC_COUNT(schemes); i++) names[i] = schemes[i].name;
    return names;
}

static sac_status unknown(const char *text, sac_error *err) {
    char list[200];
    size_t used = 0;
    for (size_t i = 0; i < SAC_COUNT(schemes) && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", schemes[i].name);
    return sac_fail(err, SAC_BAD_ARGUMENT, "format \"%.40s\" is not known; there are %s", text, list);
}

/* "g=64" */
static sac_status read_group(sac_scheme *s, const char *text, sac_error *err) {
    char *end;
    long group = strncmp(text, "g=", 2) == 0 ? strtol(text + 2, &end, 10) : -1;
    if (s->type != SAC_DTYPE_PACKED_4 && s->type != SAC_DTYPE_PACKED_8)
        return sac_fail(err, SAC_BAD_ARGUMENT, "format %s has no settings, found \"%.40s\"", s->name, text);
    if (group < 8 || group > 4096 || *end || group % 8)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "format %s: \"%.40s\": g=N is known, the elements of a row that share a scale, a "
                        "multiple of 8 from 8 to 4096",
                        s->name, text);
    s->group = group;
    return SAC_OK;
}

sac_status sac_scheme_parse(sac_scheme *out, const char *text, sac_error *err) {
    const size_t n = strcspn(text, ":");
    char name[sizeof out->name] = "";
    if (n < sizeof name) memcpy(name, text, n);
    for (size_t i = 0; n < sizeof name && i < SAC_COUNT(aliases); i++)
        if (strcmp(name, aliases[i].name) == 0) strcpy(name, aliases[i].stands_for);
    for (size_t i = 0; i < SAC_COUNT(schemes); i++) {
        if (strcmp(schemes[i].name, name) != 0) continue;
        *out = schemes[i];
        return text[n] ? read_group(out, text + n + 1, err) : SAC_OK;
    }
    return unknown(text, err);
}

/* ---------------------------------------------------------------- blocks */

/* Where a mix spends its bits: the first and last eighth of the layers, and each third between. */
static bool gets_more(int layer, int n) {
    return layer < n / 8 || layer >= 7 * n / 8 || (layer - n / 8) % 3 == 2;
}

static sac_dtype mixed_type(const sac_scheme *s, const sac_scheme_model *m, const char *name, int layer,
                            int64_t cols) {
    const bool is_head = strcmp(name, m->has_head ? "output.weight" : "token_embd.weight") == 0;
    if (is_head && cols % sac_dtype_block(s->type)) return SAC_DTYPE_Q8_0;
    if (is_head) return s->type == SAC_DTYPE_Q8_0 ? SAC_DTYPE_Q8_0 : SAC_DTYPE_Q6_K;
    const bool is_v = strstr(name, "attn_v.weight") != NULL, is_down = strstr(name, "ffn_down.") != NULL;
    sac_dtype t = s->type;
    if (s->mix == K_M && (is_v || is_down) && gets_more(layer, m->n_layers)) t = SAC_DTYPE_Q6_K;
    if (s->mix == K_S && ((is_v && layer < 4) || (is_down && layer < m->n_layers / 8))) t = SAC_DTYPE_Q5_K;
    if (is_v && m->is_70b && t == SAC_DTYPE_Q4_K) t = SAC_DTYPE_Q5_K;
    return t;
}

sac_dtype sac_scheme_block_type(const sac_scheme *s, const sac_scheme_model *m, const char *name, int layer,
                                int64_t cols) {
    if (sac_dtype_block(s->type) == 1) return s->type;
    sac_dtype t = mixed_type(s, m, name, layer, cols);
    if (cols % sac_dtype_block(t) == 0) return t;
    t = t == SAC_DTYPE_Q4_K   ? SAC_DTYPE_Q5_0
        : t == SAC_DTYPE_Q5_K ? SAC_DTYPE_Q5_1
        : t == SAC_DTYPE_Q6_K ? SAC_DTYPE_Q8_0
                              : t;
    return cols % sac_dtype_block(t) ? SAC_DTYPE_F16 : t;
}

/* ---------------------------------------------------------------- codes */

bool sac_scheme_takes_rows(const sac_scheme *s, int64_t cols) {
    const bool is_packed = s->type == SAC_DTYPE_PACKED_4 || s->type == SAC_DTYPE_PACKED_8;
    return (!is_packed || cols % 8 == 0) && (!s->group || cols % s->group == 0);
}

static json_t *numbers(int bits, const char *type, const char *strategy, int64_t group, bool dynamic) {
    return json_pack("{s:i, s:s, s:b, s:s, s:o, s:b, s:n, s:o}", "num_bits", bits, "type", type, "symmetric", 1,
                     "strategy", strategy, "group_size", group ? json_integer(group) : json_null(), "dynamic",
                     dynamic, "actorder", "observer", dynamic ? json_null() : json_string("minmax"));
}

json_t *sac_scheme_config(const sac_scheme *s, const char *const *ignored, size_t n_ignored) {
    const bool is_fp8 = s->type == SAC_DTYPE_FP8, is_packed = !is_fp8 && s->type != SAC_DTYPE_I8;
    const char *type = is_fp8 ? "float" : "int";
    const char *format = is_fp8 ? "float-quantized" : is_packed ? "pack-quantized" : "int-quantized";
    json_t *ignore = json_array();
    for (size_t i = 0; i < n_ignored; i++) json_array_append_new(ignore, json_string(ignored[i]));
    json_t *weights = numbers(s->type == SAC_DTYPE_PACKED_4 ? 4 : 8, type, s->group ? "group" : "channel",
                              s->group, false);
    json_t *x = s->x_rounding == SAC_X_EXACT ? json_null() : numbers(8, type, "token", 0, true);
    json_t *group = json_pack("{s:[s], s:o, s:o, s:n, s:s}", "targets", "Linear", "weights", weights,
                              "input_activations", x, "output_activations", "format", format);
    return json_pack("{s:s, s:s, s:s, s:{s:o}, s:o, s:n, s:n}", "quant_method", "compressed-tensors", "format",
                     format, "quantization_status", "compressed", "config_groups", "group_0", group, "ignore",
                     ignore, "kv_cache_scheme", "global_compression_ratio");
}
