#include "compressed_tensors.h"

#define MAX_BLOCK (1 << 20)

static sac_status unsupported(const char *what, sac_error *err) {
    return sac_fail(err, SAC_UNSUPPORTED, "\"quantization_config\": %s: not supported", what);
}

bool sac_ct_is(const json_t *quantization, const char *format, const char *or_format) {
    return sac_quant_is(quantization, "quant_method", "compressed-tensors") &&
           (sac_quant_is(quantization, "format", format) || sac_quant_is(quantization, "format", or_format));
}

/* Activations are rounded as they come, a scale a row, or by one scale that the files have, or not at all. */
static sac_status read_rounding(const json_t *group, sac_ct_config *out, sac_error *err) {
    const json_t *x = json_object_get(group, "input_activations");
    bool symmetric = true;
    out->x_rounding = SAC_X_EXACT;
    if (json_is_object(json_object_get(group, "output_activations")))
        return unsupported("\"output_activations\"", err);
    if (!json_is_object(x)) return SAC_OK;
    SAC_TRY(sac_json_get_bool(x, "symmetric", &symmetric, err));
    if (out->is_float && out->bits == 4) { /* none of the others takes such weights */
        out->rounds_to_fp4 = true;
        return SAC_OK;
    }
    const bool is_dynamic = json_is_true(json_object_get(x, "dynamic"));
    if (!sac_quant_is(x, "strategy", is_dynamic ? "token" : "tensor") || json_is_string(json_object_get(x, "dynamic")) ||
        json_integer_value(json_object_get(x, "num_bits")) != 8 || !symmetric ||
        !sac_quant_is(x, "type", out->is_float ? "float" : "int") || out->bits != 8)
        return unsupported(
            "\"input_activations\" other than 8 bits of the weights' type, symmetric, dynamic with a scale a token "
            "or static with one",
            err);
    if (is_dynamic)
        out->x_rounding = out->is_float ? SAC_X_FP8_ROWS : SAC_X_INT8_ROWS;
    else
        out->x_rounding = out->is_float ? SAC_X_FP8_STATIC : SAC_X_INT8_STATIC;
    return SAC_OK;
}

static sac_status read_block(const json_t *weights, sac_ct_config *out, sac_error *err) {
    const json_t *block;
    SAC_TRY(sac_json_get_array(weights, "block_structure", &block, err));
    if (!block) return SAC_OK;
    out->block_rows = json_integer_value(json_array_get(block, 0));
    out->block_cols = json_integer_value(json_array_get(block, 1));
    if (json_array_size(block) == 2 && out->block_rows > 0 && out->block_cols > 0 &&
        out->block_rows <= MAX_BLOCK && out->block_cols <= MAX_BLOCK)
        return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE,
                    "\"quantization_config\": \"block_structure\" must be two sizes from 1 to %d", MAX_BLOCK);
}

static sac_status read_weights(const json_t *weights, sac_ct_config *out, sac_error *err) {
    static const char *const honoured[] = {
        "num_bits",        "type",    "symmetric", "strategy",    "group_size",
        "block_structure", "dynamic", "actorder",  "scale_dtype", NULL};
    static const char *const without_effect[] = {"observer", "observer_kwargs", "zp_dtype", NULL};
    int64_t bits = 0;
    const char *type = "int", *order = "weight";
    bool dynamic = false, symmetric = true;
    if (!json_is_object(weights)) return unsupported("a group without \"weights\"", err);
    SAC_TRY(sac_quant_check_keys(weights, honoured, without_effect, err));
    SAC_TRY(sac_json_get_int(weights, "num_bits", 1, 32, &bits, err));
    SAC_TRY(sac_json_get_string(weights, "type", &type, err));
    SAC_TRY(sac_json_get_bool(weights, "dynamic", &dynamic, err));
    SAC_TRY(sac_json_get_bool(weights, "symmetric", &symmetric, err));
    SAC_TRY(sac_json_get_string(weights, "actorder", &order, err));
    SAC_TRY(sac_json_get_int(weights, "group_size", -1, MAX_BLOCK, &out->group, err));
    SAC_TRY(read_block(weights, out, err));
    out->bits = (int)bits;
    out->is_asymmetric = !symmetric;
    out->is_float = strcmp(type, "float") == 0;
    if (!out->is_float && strcmp(type, "int") != 0) return unsupported("weights neither int nor float", err);
    if (dynamic) return unsupported("weights that are \"dynamic\"", err);
    if (strcmp(order, "weight") != 0 && strcmp(order, "static") != 0)
        return unsupported("\"actorder\" other than weight and static", err);
    if (out->group < 0) out->group = 0;
    return SAC_OK;
}

sac_status sac_ct_read(const json_t *quantization, sac_ct_config *out, sac_error *err) {
    static const char *const of_fp4[] = {"dequantize",       "quant_method",    "format", "config_groups", "ignore", "kv_cache_scheme",
                                         "transform_config", "sparsity_config", NULL};
    const bool is_fp4 = sac_ct_is(quantization, "nvfp4-pack-quantized", "mxfp4-pack-quantized");
    const char *const *honoured = is_fp4 ? of_fp4 : of_fp4 + 1;
    static const char *const without_effect[] = {"quantization_status", "global_compression_ratio", "version",
                                                 NULL};
    const json_t *groups = json_object_get(quantization, "config_groups"), *ignored;
    memset(out, 0, sizeof *out);
    SAC_TRY(sac_quant_check_keys(quantization, honoured, without_effect, err));
    SAC_TRY(sac_json_get_array(quantization, "ignore", &ignored, err));
    if (json_object_size(groups) != 1) return unsupported("other than one entry in \"config_groups\"", err);
    if (json_object_size(json_object_get(quantization, "kv_cache_scheme")))
        return unsupported("\"kv_cache_scheme\"", err);
    if (json_object_size(json_object_get(quantization, "transform_config")))
        return unsupported("\"transform_config\"", err);
    const json_t *sparsity = json_object_get(quantization, "sparsity_config");
    if (json_object_size(sparsity) && !sac_quant_is(sparsity, "format", "dense"))
        return unsupported("\"sparsity_config\" other than dense", err);
    const json_t *group = json_object_iter_value(json_object_iter((json_t *)(uintptr_t)groups));
    if (json_is_string(json_object_get(group, "format")) &&
        !sac_quant_is(group, "format", json_string_value(json_object_get(quantization, "format"))))
        return unsupported("a group whose \"format\" is another", err);
    SAC_TRY(read_weights(json_object_get(group, "weights"), out, err));
    return read_rounding(group, out, err);
}
