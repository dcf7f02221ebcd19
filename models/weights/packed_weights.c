/* packed_weights.c - compressed-tensors' pack-quantized with 4 or 8 bits (ref/weights/packed_ref.c): for each module
 * `<module>.weight_packed` (I32 [n][k bits/32]), `<module>.weight_scale` ([n][groups] or one), `<module>.weight_shape`
 * (I64 [2]: n, k) and, where zeros are not in the middle, `<module>.weight_zero_point` (I32 [n bits/32][groups]). */
#include "compressed_tensors.h"

static sac_status read_config(const json_t *quantization, int group, sac_ct_config *c, sac_error *err) {
    SAC_TRY(sac_ct_read(quantization, group, c, err));
    if (c->is_float || (c->bits != 4 && c->bits != 8))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "\"quantization_config\": packed weights of another type than int with 4 or 8 bits: not "
            "supported");
    if (c->x_rounding != SAC_X_EXACT)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"quantization_config\": packed weights with \"input_activations\": not supported");
    return SAC_OK;
}

static bool is_mine(const json_t *quantization, int group) {
    return sac_ct_is(quantization, group, "pack-quantized", "pack-quantized");
}

static sac_status check_group(const json_t *quantization, int group, sac_error *err) {
    sac_ct_config c;
    return read_config(quantization, group, &c, err);
}

static sac_status check(const json_t *quantization, bool *any, sac_error *err) {
    return sac_ct_check(quantization, is_mine, check_group, any, err);
}

/* n and k, which weight_shape says; the words must hold that many. */
static sac_status read_shape(const sac_checkpoint_tensor *shape, const sac_checkpoint_tensor *t, int in_word,
                             int64_t *n, int64_t *k, sac_error *err) {
    int64_t size[2];
    if (strcmp(shape->dtype_name, "i64") != 0 || shape->n_dims != 1 || shape->dim[0] != 2)
        return sac_quant_misshapen(shape, t, err);
    memcpy(size, shape->data, sizeof size);
    *n = size[0], *k = size[1];
    if (strcmp(t->dtype_name, "i32") != 0 || t->n_dims != 2 || *n < 1 || t->dim[0] != *n || *k < 1 ||
        t->dim[1] != *k / in_word + (*k % in_word != 0))
        return sac_fail(err, SAC_BAD_FILE,
                        "tensor %.100s does not hold the [%lld, %lld] that its weight_shape says", t->name,
                        (long long)*n, (long long)*k);
    if (*k % 8)
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s: packed rows of %lld elements, no multiple of 8",
                        t->name, (long long)*k);
    return SAC_OK;
}

static bool is_one(const sac_checkpoint_tensor *t) {
    return t->n_dims == 0 || (t->n_dims == 1 && t->dim[0] == 1);
}

static sac_status name_one(const sac_checkpoint *c, const json_t *quantization,
                           const sac_checkpoint_tensor *t, int n_module, sac_checkpoint_tensor *out,
                           sac_error *err) {
    sac_ct_config config;
    int64_t n = 0, k = 0;
    int of;
    SAC_TRY(sac_ct_group_of(quantization, t, n_module, &of, err));
    if (!is_mine(quantization, of)) return SAC_OK;
    SAC_TRY(read_config(quantization, of, &config, err));
    const int in_word = 32 / config.bits;
    const sac_checkpoint_tensor *scales, *shape,
        *zeros = sac_quant_part(c, t->name, n_module, "weight_zero_point");
    SAC_TRY(sac_quant_need(c, t, n_module, "weight_scale", &scales, err));
    SAC_TRY(sac_quant_need(c, t, n_module, "weight_shape", &shape, err));
    SAC_TRY(read_shape(shape, t, in_word, &n, &k, err));
    const int64_t group = config.group ? config.group : k, n_groups = k / group + (k % group != 0);
    if (sac_quant_part(c, t->name, n_module, "weight_g_idx"))
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s has a weight_g_idx beside it: not supported",
                        t->name);
    if (!sac_quant_is_float(scales) ||
        (!is_one(scales) && !sac_quant_has_shape(scales, scales->dtype_name, n, n_groups)) ||
        (is_one(scales) && n_groups != 1))
        return sac_quant_misshapen(scales, t, err);
    const int64_t n_zeros = is_one(scales) ? 1 : n;
    if (zeros && !sac_quant_has_shape(zeros, "i32", n_zeros / in_word + (n_zeros % in_word != 0), n_groups))
        return sac_quant_misshapen(zeros, t, err);
    if (group % 8 && group < k)
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s: a \"group_size\" of %lld is no multiple of 8",
                        t->name, (long long)group);
    SAC_TRY(sac_quant_check_finite(scales, err));
    return sac_quant_rename(out, n_module, config.bits == 8 ? SAC_DTYPE_PACKED_8 : SAC_DTYPE_PACKED_4, n, k,
                            err);
}

static sac_status name(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    return sac_quant_name_all(c, quantization, "weight_packed", NULL, "ignore", name_one, err);
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    (void)s;
    return numbers->dtype == SAC_DTYPE_PACKED_4 || numbers->dtype == SAC_DTYPE_PACKED_8;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    const int n_module = sac_quant_module(numbers, "weight");
    const sac_checkpoint_tensor *scales =
        sac_quant_part(s->checkpoint, numbers->name, n_module, "weight_scale");
    const sac_checkpoint_tensor *zeros =
        sac_quant_part(s->checkpoint, numbers->name, n_module, "weight_zero_point");
    const int64_t k = numbers->dim[1];
    sac_ct_config c;
    int of;
    SAC_TRY(sac_ct_group_of(s->quantization, numbers, n_module, &of, err));
    SAC_TRY(read_config(s->quantization, of, &c, err));
    *out = (sac_weight){.tensor = sac_checkpoint_matrix(numbers),
                        .scales = sac_quant_scales(scales),
                        .group = c.group && c.group < k ? c.group : k,
                        .format = SAC_WEIGHT_PACKED};
    if (zeros)
        out->zeros = (sac_tensor){
            zeros->data, (sac_dtype)numbers->dtype, 2, {zeros->dim[1], zeros->dim[0] * (32 / c.bits)}};
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_packed = {
    .check = check, .name = name, .knows = knows, .read = read};
