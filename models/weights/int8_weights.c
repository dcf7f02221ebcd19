/* int8_weights.c - compressed-tensors' int-quantized and naive-quantized with 8 bits: beside `<module>.weight` (I8) are
 * `<module>.weight_scale` ([n][1], [n][k / group] or one for all) and, where zeros are not in the middle,
 * `<module>.weight_zero_point` (I8, of the same shape). Activations stay as they are (W8A16), or are
 * rounded to 8 bits where the configuration asks for that (W8A8): as they come, or by `<module>.input_scale`. */
#include "compressed_tensors.h"

static bool is_mine(const json_t *quantization, int group) {
    return sac_ct_is(quantization, group, "int-quantized", "naive-quantized") &&
           !(sac_ct_is(quantization, group, "naive-quantized", "naive-quantized") &&
             sac_quant_is(sac_ct_weights(quantization, group), "type", "float")); /* FP8's reader has them */
}

static sac_status read_config(const json_t *quantization, int group, sac_ct_config *c, sac_error *err) {
    SAC_TRY(sac_ct_read(quantization, group, c, err));
    if (!c->is_float && c->bits == 8 && !c->block_rows) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"quantization_config\": weights of another type than int with 8 bits: not supported");
}

static sac_status check_group(const json_t *quantization, int group, sac_error *err) {
    sac_ct_config c;
    return read_config(quantization, group, &c, err);
}

static sac_status check(const json_t *quantization, bool *any, sac_error *err) {
    return sac_ct_check(quantization, is_mine, check_group, any, err);
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    return numbers->dtype == SAC_DTYPE_I8 && sac_quant_is(s->quantization, "quant_method", "compressed-tensors");
}

/* Elements of a row that share a scale, where there are so many scales; 0: that does not go with the
 * configuration. */
static int64_t group_of(int64_t asked, int64_t n_scales, int64_t k) {
    if (n_scales == 1) return k;
    return asked > 0 && asked < k && (k + asked - 1) / asked == n_scales ? asked : 0;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    const int n_module = sac_quant_module(numbers, "weight");
    const sac_checkpoint_tensor *scales,
        *zeros = sac_quant_part(s->checkpoint, numbers->name, n_module, "weight_zero_point");
    sac_ct_config c;
    int of;
    SAC_TRY(sac_ct_group_of(s->quantization, numbers, n_module, &of, err));
    if (!is_mine(s->quantization, of))
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is i8, which is not what its entry in \"config_groups\" says",
                        numbers->name);
    SAC_TRY(read_config(s->quantization, of, &c, err));
    SAC_TRY(sac_quant_need(s->checkpoint, numbers, n_module, "weight_scale", &scales, err));
    *out = (sac_weight){
        .tensor = sac_checkpoint_matrix(numbers), .x_rounding = c.x_rounding, .format = SAC_WEIGHT_INT8};
    out->scales = sac_checkpoint_matrix(scales);
    SAC_TRY(sac_quant_input_scale(s->checkpoint, numbers, n_module, c.x_rounding, &out->x_scale, err));
    if (!sac_quant_is_float(scales) || scales->n_dims < 1 || scales->n_dims > 2 ||
        (out->scales.dim[0] != numbers->dim[0] && (out->scales.dim[0] != 1 || out->scales.dim[1] != 1)))
        return sac_quant_misshapen(scales, numbers, err);
    SAC_TRY(sac_quant_check_finite(scales, err));
    out->group = group_of(c.group, out->scales.dim[1], out->tensor.dim[1]);
    if (!out->group) return sac_quant_misshapen(scales, numbers, err);
    if (!zeros) return SAC_OK;
    out->zeros = sac_checkpoint_matrix(zeros);
    if (zeros->dtype != SAC_DTYPE_I8 || zeros->n_dims < 1 || out->zeros.dim[0] != out->scales.dim[0] ||
        out->zeros.dim[1] != out->scales.dim[1])
        return sac_quant_misshapen(zeros, numbers, err);
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_int8 = {.check = check, .knows = knows, .read = read};
