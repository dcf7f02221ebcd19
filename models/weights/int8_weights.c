/* int8_weights.c - compressed-tensors' int-quantized and naive-quantized with 8 bits: beside `<module>.weight` (I8) are
 * `<module>.weight_scale` ([n][1], [n][k / group] or one for all) and, where zeros are not in the middle,
 * `<module>.weight_zero_point` (I8, of the same shape). Activations stay as they are (W8A16): a configuration that has
 * them rounded to 8 bits too is refused. */
#include "weight_reader.h"

#include <stdio.h>

static bool is_text(const json_t *object, const char *key, const char *value) {
    const char *text = json_string_value(json_object_get(object, key));
    return text && strcmp(text, value) == 0;
}

/* What the one group of config_groups says of its weights; NULL: there is not one group. */
static const json_t *the_group(const json_t *quantization) {
    const json_t *groups = json_object_get(quantization, "config_groups");
    if (json_object_size(groups) != 1) return NULL;
    return json_object_iter_value(json_object_iter((json_t *)(uintptr_t)groups));
}

static sac_status check(const json_t *quantization, bool *is_mine, sac_error *err) {
    *is_mine = is_text(quantization, "quant_method", "compressed-tensors") &&
               (is_text(quantization, "format", "int-quantized") ||
                is_text(quantization, "format", "naive-quantized"));
    if (!*is_mine) return SAC_OK;
    const json_t *group = the_group(quantization), *weights = json_object_get(group, "weights");
    const char *what = NULL;
    if (!group)
        what = "other than one entry in \"config_groups\"";
    else if (json_integer_value(json_object_get(weights, "num_bits")) != 8 ||
             !is_text(weights, "type", "int"))
        what = "weights of another type than int with 8 bits";
    else if (json_is_object(json_object_get(group, "input_activations")) ||
             json_is_object(json_object_get(group, "output_activations")))
        what = "quantised activations (\"input_activations\", \"output_activations\")";
    else if (json_is_object(json_object_get(quantization, "kv_cache_scheme")))
        what = "\"kv_cache_scheme\"";
    else if (json_is_string(json_object_get(weights, "actorder")))
        what = "\"actorder\"";
    return what ? sac_fail(err, SAC_UNSUPPORTED, "\"quantization_config\": %s: not supported", what) : SAC_OK;
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    return s->quantization && numbers->dtype == SAC_DTYPE_I8;
}

/* `<module>.<suffix>` for numbers named `<module>.weight`, or NULL. */
static const sac_checkpoint_tensor *beside(const sac_weight_source *s, const sac_checkpoint_tensor *numbers,
                                           const char *suffix) {
    char name[512];
    const char *dot = strrchr(numbers->name, '.');
    int n =
        snprintf(name, sizeof name, "%.*s.%s", dot ? (int)(dot - numbers->name) : 0, numbers->name, suffix);
    return n > 0 && (size_t)n < sizeof name ? sac_checkpoint_find(s->checkpoint, name) : NULL;
}

/* Elements of a row that share a scale, where there are so many scales; 0: that does not go with the
 * configuration. */
static int64_t group_of(const json_t *quantization, int64_t n_scales, int64_t k) {
    const json_t *weights = json_object_get(the_group(quantization), "weights");
    int64_t asked = json_integer_value(json_object_get(weights, "group_size"));
    if (n_scales == 1) return k;
    return asked > 0 && asked < k && (k + asked - 1) / asked == n_scales ? asked : 0;
}

static sac_status misshapen(const sac_checkpoint_tensor *part, const sac_checkpoint_tensor *numbers,
                            sac_error *err) {
    char a[SAC_SHAPE_TEXT], b[SAC_SHAPE_TEXT];
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is %s %s, which does not go with weights of %s",
                    part->name, part->dtype_name, sac_shape_text(a, part->dim, part->n_dims),
                    sac_shape_text(b, numbers->dim, numbers->n_dims));
}

static bool is_float(int dtype) {
    return dtype == SAC_DTYPE_F32 || dtype == SAC_DTYPE_F16 || dtype == SAC_DTYPE_BF16;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    const sac_checkpoint_tensor *scales = beside(s, numbers, "weight_scale");
    const sac_checkpoint_tensor *zeros = beside(s, numbers, "weight_zero_point");
    if (!scales)
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is i8, and no weight_scale is beside it",
                        numbers->name);
    *out = (sac_weight){.tensor = sac_checkpoint_matrix(numbers), .format = SAC_WEIGHT_INT8};
    out->scales = sac_checkpoint_matrix(scales);
    if (!is_float(scales->dtype) || scales->n_dims < 1 || scales->n_dims > 2 ||
        (out->scales.dim[0] != numbers->dim[0] && (out->scales.dim[0] != 1 || out->scales.dim[1] != 1)))
        return misshapen(scales, numbers, err);
    out->group = group_of(s->quantization, out->scales.dim[1], out->tensor.dim[1]);
    if (!out->group) return misshapen(scales, numbers, err);
    if (!zeros) return SAC_OK;
    out->zeros = sac_checkpoint_matrix(zeros);
    if (zeros->dtype != SAC_DTYPE_I8 || zeros->n_dims < 1 || out->zeros.dim[0] != out->scales.dim[0] ||
        out->zeros.dim[1] != out->scales.dim[1])
        return misshapen(zeros, numbers, err);
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_int8 = {.check = check, .knows = knows, .read = read};
