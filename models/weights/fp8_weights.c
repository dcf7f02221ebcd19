/* fp8_weights.c - floats of 8 bits (ref/weights/fp8_ref.c): `<module>.weight` (F8_E4M3 [n][k]) and beside it, floats
 * that they are multiplied with: compressed-tensors' float-quantized has `<module>.weight_scale`, one, [n][1] or one
 * for each block; "fp8" of Hugging Face has `<module>.weight_scale_inv`, one for each block of 128 x 128 or one for all;
 * without blocks it may be `<module>.weight_scale`, as AutoFP8 and vLLM call it, which also have no key that says so.
 * Activations are rounded to e4m3 as the configuration asks; a static scale is `<module>.input_scale` or
 * `<module>.activation_scale`. ModelOpt's FP8 is float-quantized's with static scales, and with one a token. */
#include "compressed_tensors.h"

#define MAX_BLOCK (1 << 20)

typedef struct fp8_config {
    int64_t block_rows, block_cols; /* 0: no blocks */
    sac_x_rounding x_rounding;
    const char *scale;    /* what is beside the numbers */
    const char *or_scale; /* where that is not, and then there are no blocks; NULL: nothing else */
    const char *skipped;  /* key of the modules that are left alone */
} fp8_config;

static sac_status unsupported(const char *what, sac_error *err) {
    return sac_fail(err, SAC_UNSUPPORTED, "\"quantization_config\": %s: not supported with FP8", what);
}

static bool is_ct(const json_t *quantization, int group) {
    return sac_ct_is(quantization, group, "float-quantized", "naive-quantized") &&
           sac_quant_is(sac_ct_weights(quantization, group), "type", "float");
}

static sac_status read_ct(const json_t *quantization, int group, fp8_config *out, sac_error *err) {
    sac_ct_config c;
    SAC_TRY(sac_ct_read(quantization, group, &c, err));
    if (!c.is_float || c.bits != 8) return unsupported("\"num_bits\" other than 8", err);
    if (c.group) return unsupported("\"group_size\"", err);
    *out = (fp8_config){c.block_rows, c.block_cols, c.x_rounding, "weight_scale", NULL, "ignore"};
    return SAC_OK;
}

/* Without the key transformers has blocks, vLLM has not: only it has static scales then, or scales of the other name. */
static sac_status read_block(const json_t *quantization, bool is_static, fp8_config *out, sac_error *err) {
    const json_t *block = json_object_get(quantization, "weight_block_size");
    if (json_is_null(block) || (!block && is_static)) return SAC_OK; /* one scale for all */
    out->block_rows = block ? json_integer_value(json_array_get(block, 0)) : 128;
    out->block_cols = block ? json_integer_value(json_array_get(block, 1)) : 128;
    if ((!block || json_array_size(block) == 2) && out->block_rows > 0 && out->block_cols > 0 &&
        out->block_rows <= MAX_BLOCK && out->block_cols <= MAX_BLOCK)
        return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE,
                    "\"quantization_config\": \"weight_block_size\" must be two sizes from 1 to %d",
                    MAX_BLOCK);
}

static sac_status read_fine(const json_t *quantization, fp8_config *out, sac_error *err) {
    static const char *const honoured[] = {
        "quant_method", "activation_scheme", "weight_block_size",      "dequantize", "scale_fmt",
        "fmt",          "ignored_layers",    "modules_to_not_convert", NULL};
    static const char *const without_effect[] = {"expert_dtype", NULL};
    const char *scheme = "dynamic", *fmt = "e4m3", *scale_fmt = "float";
    bool dequantize = false;
    SAC_TRY(sac_quant_check_keys(quantization, honoured, without_effect, err));
    *out = (fp8_config){.scale = "weight_scale_inv", .skipped = "modules_to_not_convert"};
    if (!json_is_array(json_object_get(quantization, out->skipped))) out->skipped = "ignored_layers";
    SAC_TRY(sac_json_get_string(quantization, "activation_scheme", &scheme, err));
    SAC_TRY(sac_json_get_string(quantization, "fmt", &fmt, err));
    SAC_TRY(sac_json_get_string(quantization, "scale_fmt", &scale_fmt, err));
    SAC_TRY(sac_json_get_bool(quantization, "dequantize", &dequantize, err));
    const bool is_static = strcmp(scheme, "static") == 0;
    SAC_TRY(read_block(quantization, is_static, out, err));
    if (!out->block_cols || !json_object_get(quantization, "weight_block_size")) out->or_scale = "weight_scale";
    if (!is_static && strcmp(scheme, "dynamic") != 0)
        return unsupported("\"activation_scheme\" other than dynamic and static", err);
    if (strcmp(fmt, "e4m3") != 0) return unsupported("\"fmt\" other than e4m3", err);
    if (strcmp(scale_fmt, "float") != 0) return unsupported("\"scale_fmt\" other than float", err);
    if (dequantize) return SAC_OK;
    out->x_rounding = is_static ? SAC_X_FP8_STATIC : out->block_cols ? SAC_X_FP8_GROUPS : SAC_X_FP8_ROWS;
    return SAC_OK;
}

/* What ModelOpt's export puts into config.json (modelopt/torch/export/convert_hf_config.py, 0.47), where "config_groups" says
 * what "quant_algo" does, or hf_quant_config.json itself. */
static sac_status read_modelopt(const json_t *quantization, fp8_config *out, sac_error *err) {
    static const char *const honoured[] = {"quant_method", "quant_algo", "ignore", "kv_cache_scheme", NULL};
    static const char *const of_file[] = {"quant_method", "quant_algo", "exclude_modules", "kv_cache_quant_algo", NULL};
    static const char *const without_effect[] = {"config_groups", "producer", NULL};
    const bool is_file = sac_quant_is(quantization, "quant_method", SAC_QUANT_OF_FILE);
    const char *const *keys = is_file ? of_file : honoured;
    const json_t *ignored;
    *out = (fp8_config){.scale = "weight_scale", .skipped = keys[2]};
    if (sac_quant_is(quantization, "quant_algo", "FP8"))
        out->x_rounding = SAC_X_FP8_STATIC;
    else if (sac_quant_is(quantization, "quant_algo", "FP8_PER_CHANNEL_PER_TOKEN"))
        out->x_rounding = SAC_X_FP8_ROWS;
    else
        return sac_fail(err, SAC_UNSUPPORTED,
                        "%s: \"quant_algo\" other than FP8, FP8_PER_CHANNEL_PER_TOKEN, NVFP4 and W4A16_NVFP4: not supported "
                        "with ModelOpt",
                        sac_quant_place(quantization));
    SAC_TRY(sac_quant_check_keys(quantization, keys, without_effect, err));
    SAC_TRY(sac_json_get_array(quantization, out->skipped, &ignored, err));
    return sac_quant_check_cache(quantization, keys[3], err);
}

static bool is_modelopt(const json_t *quantization) {
    return sac_quant_is(quantization, "quant_method", "modelopt") ||
           sac_quant_is(quantization, "quant_method", SAC_QUANT_OF_FILE);
}

static bool is_compressed_tensors(const json_t *quantization) {
    return sac_quant_is(quantization, "quant_method", "compressed-tensors");
}

static sac_status check_ct(const json_t *quantization, int group, sac_error *err) {
    fp8_config c;
    return read_ct(quantization, group, &c, err);
}

/* Whether t is a matrix of FP8 by the configuration, and what that says of it. */
static sac_status read_config(const json_t *quantization, const sac_checkpoint_tensor *t, int n_module, bool *is_mine,
                              fp8_config *out, sac_error *err) {
    int group;
    *is_mine = true;
    if (is_modelopt(quantization)) return read_modelopt(quantization, out, err);
    if (!is_compressed_tensors(quantization)) return read_fine(quantization, out, err);
    SAC_TRY(sac_ct_group_of(quantization, t, n_module, &group, err));
    *is_mine = is_ct(quantization, group);
    return *is_mine ? read_ct(quantization, group, out, err) : SAC_OK;
}

static sac_status check(const json_t *quantization, bool *is_mine, sac_error *err) {
    fp8_config c;
    if (is_compressed_tensors(quantization)) return sac_ct_check(quantization, is_ct, check_ct, is_mine, err);
    *is_mine = is_modelopt(quantization) || sac_quant_is(quantization, "quant_method", "fp8");
    if (!*is_mine) return SAC_OK;
    return is_modelopt(quantization) ? read_modelopt(quantization, &c, err) : read_fine(quantization, &c, err);
}

/* Whether scales are one for all, one a row (where there are no blocks), or one a block. */
static bool go_together(const fp8_config *c, const sac_checkpoint_tensor *scales, int64_t n, int64_t k) {
    const sac_tensor s = sac_quant_scales(scales);
    if (!sac_quant_is_float(scales) || scales->n_dims > 2) return false;
    if (!c->block_rows) return (s.dim[0] == 1 || s.dim[0] == n) && s.dim[1] == 1;
    return s.dim[0] == (n + c->block_rows - 1) / c->block_rows &&
           s.dim[1] == (k + c->block_cols - 1) / c->block_cols;
}

/* A matrix's scales, or NULL; what is said of blocks is gone where they are of the other name. */
static const sac_checkpoint_tensor *scales_of(fp8_config *config, const sac_checkpoint *c,
                                              const sac_checkpoint_tensor *t, int n_module) {
    const sac_checkpoint_tensor *scales = sac_quant_part(c, t->name, n_module, config->scale);
    if (scales || !config->or_scale) return scales;
    scales = sac_quant_part(c, t->name, n_module, config->or_scale);
    if (!scales) return NULL;
    config->block_rows = config->block_cols = 0;
    if (config->x_rounding == SAC_X_FP8_GROUPS) config->x_rounding = SAC_X_FP8_ROWS;
    return scales;
}

static sac_status name_one(const sac_checkpoint *c, const json_t *quantization,
                           const sac_checkpoint_tensor *t, int n_module, sac_checkpoint_tensor *out,
                           sac_error *err) {
    fp8_config config;
    float x_scale;
    bool is_mine;
    SAC_TRY(read_config(quantization, t, n_module, &is_mine, &config, err));
    if (!is_mine) return SAC_OK;
    if (config.or_scale && sac_quant_part(c, t->name, n_module, config.scale) &&
        sac_quant_part(c, t->name, n_module, config.or_scale))
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has a %s and a %s beside it", t->name, config.scale, config.or_scale);
    const sac_checkpoint_tensor *scales = scales_of(&config, c, t, n_module);
    if (!scales) SAC_TRY(sac_quant_need(c, t, n_module, config.scale, &scales, err));
    SAC_TRY(sac_quant_input_scale(c, t, n_module, config.x_rounding, &x_scale, err));
    if (t->n_dims != 2 || t->dim[0] < 1 || t->dim[1] < 1 ||
        !go_together(&config, scales, t->dim[0], t->dim[1]))
        return sac_quant_misshapen(scales, t, err);
    SAC_TRY(sac_quant_check_finite(scales, err));
    return sac_quant_rename(out, n_module, SAC_DTYPE_FP8, t->dim[0], t->dim[1], err);
}

static sac_status name(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    fp8_config config = {.skipped = "ignore"};
    SAC_TRY(sac_quant_check_pre_scales(c, err));
    if (is_modelopt(quantization))
        SAC_TRY(read_modelopt(quantization, &config, err));
    else if (!is_compressed_tensors(quantization))
        SAC_TRY(read_fine(quantization, &config, err));
    return sac_quant_name_all(c, quantization, "weight", "f8_e4m3", config.skipped, name_one, err);
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    (void)s;
    return numbers->dtype == SAC_DTYPE_FP8;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    fp8_config c;
    bool is_mine; /* true, or it would not be of this type */
    const int n_module = sac_quant_module(numbers, "weight");
    SAC_TRY(read_config(s->quantization, numbers, n_module, &is_mine, &c, err));
    const sac_checkpoint_tensor *scales = scales_of(&c, s->checkpoint, numbers, n_module);
    *out = (sac_weight){.tensor = sac_checkpoint_matrix(numbers),
                        .scales = sac_quant_scales(scales),
                        .group = c.block_cols ? c.block_cols : numbers->dim[1],
                        .group_rows = c.block_rows,
                        .x_rounding = c.x_rounding,
                        .format = SAC_WEIGHT_FP8};
    return sac_quant_input_scale(s->checkpoint, numbers, n_module, c.x_rounding, &out->x_scale, err);
}

const sac_weight_reader sac_weight_reader_fp8 = {.check = check, .name = name, .knows = knows, .read = read};
