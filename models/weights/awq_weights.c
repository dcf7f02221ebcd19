/* awq_weights.c - AWQ in its "gemm" packing (ref/weights/awq_ref.c): for each module `<module>.qweight` (I32 [k][n/8]),
 * `<module>.qzeros` (I32 [k/group][n/8]) and `<module>.scales` (F16 [k/group][n]). */
#include "quantization.h"

static sac_status unsupported(const char *what, sac_error *err) {
    return sac_fail(err, SAC_UNSUPPORTED, "\"quantization_config\": %s: not supported with AWQ", what);
}

/* Older files call it q_group_size. */
static sac_status group_size(const json_t *quantization, int64_t *group, sac_error *err) {
    const bool is_new = json_object_get(quantization, "group_size") != NULL;
    return sac_quant_group_size(quantization, is_new ? "group_size" : "q_group_size", group, err);
}

static sac_status check(const json_t *quantization, bool *is_mine, sac_error *err) {
    static const char *const honoured[] = {"quant_method",
                                           "bits",
                                           "w_bit",
                                           "group_size",
                                           "q_group_size",
                                           "zero_point",
                                           "version",
                                           "format",
                                           "desc_act",
                                           "pack_dtype",
                                           "lm_head",
                                           "modules_to_not_convert",
                                           NULL};
    static const char *const without_effect[] = {"backend",
                                                 "do_fuse",
                                                 "exllama_config",
                                                 "fuse_max_seq_len",
                                                 "max_input_length",
                                                 "meta",
                                                 "modules_to_fuse",
                                                 "sym",
                                                 NULL};
    *is_mine = sac_quant_is(quantization, "quant_method", "awq");
    if (!*is_mine) return SAC_OK;
    int64_t bits = 4, group;
    bool zero_point = true, desc_act = false;
    const char *version = "gemm", *pack = "int32";
    const json_t *skipped;
    SAC_TRY(sac_quant_check_keys(quantization, honoured, without_effect, err));
    SAC_TRY(sac_json_get_int(quantization, "w_bit", 1, 32, &bits, err));
    SAC_TRY(sac_json_get_int(quantization, "bits", 1, 32, &bits, err));
    SAC_TRY(group_size(quantization, &group, err));
    SAC_TRY(sac_json_get_bool(quantization, "zero_point", &zero_point, err));
    SAC_TRY(sac_json_get_bool(quantization, "desc_act", &desc_act, err));
    SAC_TRY(sac_json_get_string(quantization, "format", &version, err));
    SAC_TRY(sac_json_get_string(quantization, "version", &version, err));
    SAC_TRY(sac_json_get_string(quantization, "pack_dtype", &pack, err));
    SAC_TRY(sac_json_get_array(quantization, "modules_to_not_convert", &skipped, err));
    if (bits != 4) return unsupported("\"bits\" other than 4", err);
    if (strcmp(version, "gemm") != 0 && strcmp(version, "GEMM") != 0)
        return unsupported("\"version\" other than gemm", err);
    if (!zero_point) return unsupported("\"zero_point\" false", err);
    if (desc_act) return unsupported("\"desc_act\" true", err);
    return strcmp(pack, "int32") != 0 ? unsupported("\"pack_dtype\" other than int32", err) : SAC_OK;
}

/* One module: its parts go with each other and with the configuration. */
static sac_status name_one(const sac_checkpoint *c, const json_t *quantization,
                           const sac_checkpoint_tensor *t, int n_module, sac_checkpoint_tensor *out,
                           sac_error *err) {
    int64_t group;
    SAC_TRY(group_size(quantization, &group, err));
    const sac_checkpoint_tensor *scales, *zeros;
    SAC_TRY(sac_quant_need(c, t, n_module, "scales", &scales, err));
    SAC_TRY(sac_quant_need(c, t, n_module, "qzeros", &zeros, err));
    if (strcmp(t->dtype_name, "i32") != 0 || t->n_dims != 2 || t->dim[0] < 1 || t->dim[1] < 1 ||
        t->dim[1] > INT64_MAX / 8)
        return sac_quant_misshapen(t, scales, err);
    const int64_t k = t->dim[0], n = 8 * t->dim[1];
    if (group < 0) group = k;
    if (k % group)
        return sac_fail(err, SAC_BAD_FILE,
                        "tensor %.100s has %lld inputs, no multiple of \"group_size\" %lld", t->name,
                        (long long)k, (long long)group);
    if (!sac_quant_has_shape(scales, "f16", k / group, n)) return sac_quant_misshapen(scales, t, err);
    if (!sac_quant_has_shape(zeros, "i32", k / group, n / 8)) return sac_quant_misshapen(zeros, t, err);
    SAC_TRY(sac_quant_check_finite(scales, err));
    return sac_quant_rename(out, n_module, SAC_DTYPE_AWQ, n, k, err);
}

static sac_status name(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    return sac_quant_name_all(c, quantization, "qweight", NULL, "modules_to_not_convert", name_one, err);
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    (void)s;
    return numbers->dtype == SAC_DTYPE_AWQ;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    const int n_module = sac_quant_module(numbers, "weight");
    const sac_checkpoint_tensor *scales = sac_quant_part(s->checkpoint, numbers->name, n_module, "scales");
    const sac_checkpoint_tensor *zeros = sac_quant_part(s->checkpoint, numbers->name, n_module, "qzeros");
    (void)err;
    *out = (sac_weight){.tensor = sac_checkpoint_matrix(numbers),
                        .scales = sac_checkpoint_matrix(scales),
                        .zeros = {zeros->data, SAC_DTYPE_AWQ, 2, {scales->dim[0], scales->dim[1]}},
                        .group = numbers->dim[1] / scales->dim[0],
                        .format = SAC_WEIGHT_AWQ};
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_awq = {.check = check, .name = name, .knows = knows, .read = read};
