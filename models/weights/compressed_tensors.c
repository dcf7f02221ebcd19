#include "compressed_tensors.h"

#include "module_pattern.h"

#include <stdio.h>

#define MAX_BLOCK    (1 << 20)
#define MAX_GROUPS   64
#define MAX_PATTERNS 256 /* of all groups: each is matched with every quantised tensor */

static sac_status unsupported(const char *what, sac_error *err) {
    return sac_fail(err, SAC_UNSUPPORTED, "\"quantization_config\": %s: not supported", what);
}

static const json_t *group_at(const json_t *quantization, int group, const char **name) {
    json_t *groups = json_object_get(quantization, "config_groups");
    void *at = json_object_iter(groups);
    while (at && group-- > 0) at = json_object_iter_next(groups, at);
    if (at && name) *name = json_object_iter_key(at);
    return at ? json_object_iter_value(at) : NULL;
}

static int n_groups(const json_t *quantization) {
    return (int)json_object_size(json_object_get(quantization, "config_groups"));
}

bool sac_ct_is(const json_t *quantization, int group, const char *format, const char *or_format) {
    if (!sac_quant_is(quantization, "quant_method", "compressed-tensors")) return false;
    const json_t *g = group_at(quantization, group, NULL);
    const json_t *of = json_is_string(json_object_get(g, "format")) ? g : quantization;
    return sac_quant_is(of, "format", format) || sac_quant_is(of, "format", or_format);
}

const json_t *sac_ct_weights(const json_t *quantization, int group) {
    return json_object_get(group_at(quantization, group, NULL), "weights");
}

/* Before anything walks through groups again and again. */
static sac_status check_counts(const json_t *quantization, sac_error *err) {
    size_t n = 0;
    if (n_groups(quantization) > MAX_GROUPS) return unsupported("more than 64 entries in \"config_groups\"", err);
    for (int g = 0; g < n_groups(quantization); g++) {
        const json_t *targets = json_object_get(group_at(quantization, g, NULL), "targets");
        for (size_t i = 0; i < json_array_size(targets); i++) {
            const char *target = json_string_value(json_array_get(targets, i));
            n += target && strncmp(target, "re:", 3) == 0;
        }
    }
    return n > MAX_PATTERNS ? unsupported("more than 256 patterns in \"targets\"", err) : SAC_OK;
}

static bool has_fp4(const json_t *quantization) {
    for (int g = 0; g == 0 || g < n_groups(quantization); g++)
        if (sac_ct_is(quantization, g, "nvfp4-pack-quantized", "mxfp4-pack-quantized")) return true;
    return false;
}

sac_status sac_ct_check(const json_t *quantization, sac_ct_is_fn is_mine, sac_ct_check_fn check, bool *any, sac_error *err) {
    *any = false;
    if (!sac_quant_is(quantization, "quant_method", "compressed-tensors")) return SAC_OK;
    SAC_TRY(check_counts(quantization, err));
    for (int g = 0; g == 0 || g < n_groups(quantization); g++) {
        if (!is_mine(quantization, g)) continue;
        *any = true;
        SAC_TRY(check(quantization, g, err));
    }
    return SAC_OK;
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

sac_status sac_ct_read(const json_t *quantization, int group, sac_ct_config *out, sac_error *err) {
    static const char *const of_fp4[] = {"dequantize",       "quant_method",    "format", "config_groups", "ignore", "kv_cache_scheme",
                                         "transform_config", "sparsity_config", NULL};
    const char *const *honoured = has_fp4(quantization) ? of_fp4 : of_fp4 + 1;
    static const char *const without_effect[] = {"quantization_status", "global_compression_ratio", "version",
                                                 NULL};
    const json_t *groups = json_object_get(quantization, "config_groups"), *ignored;
    memset(out, 0, sizeof *out);
    SAC_TRY(sac_quant_check_keys(quantization, honoured, without_effect, err));
    SAC_TRY(sac_json_get_array(quantization, "ignore", &ignored, err));
    if (json_object_size(groups) < 1) return unsupported("no entry in \"config_groups\"", err);
    SAC_TRY(sac_quant_check_cache(quantization, "kv_cache_scheme", err));
    if (json_object_size(json_object_get(quantization, "transform_config")))
        return unsupported("\"transform_config\"", err);
    const json_t *sparsity = json_object_get(quantization, "sparsity_config");
    if (json_object_size(sparsity) && !sac_quant_is(sparsity, "format", "dense"))
        return unsupported("\"sparsity_config\" other than dense", err);
    const json_t *of = group_at(quantization, group, NULL);
    SAC_TRY(read_weights(json_object_get(of, "weights"), out, err));
    return read_rounding(of, out, err);
}

/* ---- modules ---- */

enum { NO_MATCH, BY_CLASS, BY_PATTERN, BY_NAME };

/* How a target has a module, as compressed-tensors ranks it (utils/match.py, match_targets). Of classes only that of all
 * matrices can be told from a checkpoint. */
static sac_status match_target(const char *target, const char *module, int *how, sac_error *err) {
    bool found = false;
    *how = NO_MATCH;
    if (strcmp(target, "Linear") == 0) {
        *how = BY_CLASS;
    } else if (strncmp(target, "re:", 3) == 0) {
        SAC_TRY(sac_module_match("targets", target + 3, false, module, &found, NULL, err));
        if (found) *how = BY_PATTERN;
    } else if (target[0] >= 'A' && target[0] <= 'Z' && !strchr(target, '.')) {
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"quantization_config\": \"targets\" of a class other than Linear, %.60s: not supported with several groups",
                        target);
    } else {
        const size_t n = strlen(module), k = strlen(target);
        const bool is_end = k && k <= n && strcmp(module + n - k, target) == 0;
        if (is_end && (k == n || (module[n - k - 1] == '.' && strchr(target, '.')))) *how = BY_NAME;
    }
    return SAC_OK;
}

static sac_status match_group(const json_t *group, const char *module, int *best, sac_error *err) {
    const json_t *targets;
    *best = NO_MATCH;
    SAC_TRY(sac_json_get_array(group, "targets", &targets, err));
    for (size_t i = 0; i < json_array_size(targets); i++) {
        const char *target = json_string_value(json_array_get(targets, i));
        int how;
        if (!target) return sac_fail(err, SAC_BAD_FILE, "\"quantization_config\": \"targets\" must be a list of names");
        SAC_TRY(match_target(target, module, &how, err));
        if (how > *best) *best = how;
    }
    return SAC_OK;
}

sac_status sac_ct_group_of(const json_t *quantization, const sac_checkpoint_tensor *t, int n_module, int *group, sac_error *err) {
    char module[512];
    const char *name = "", *other = NULL;
    int best = NO_MATCH;
    *group = 0;
    if (n_groups(quantization) <= 1) return SAC_OK;
    snprintf(module, sizeof module, "%.*s", n_module, t->name);
    for (int g = 0; g < n_groups(quantization); g++) {
        int how;
        const char *this_name;
        SAC_TRY(match_group(group_at(quantization, g, &this_name), module, &how, err));
        if (how && how == best) other = this_name;
        if (how <= best) continue;
        best = how, *group = g, name = this_name, other = NULL;
    }
    if (other)
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s is a target of two \"config_groups\", %.40s and %.40s: not supported",
                        t->name, name, other);
    if (best) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is quantised, and a target of none of several \"config_groups\"", t->name);
}
