/* gptq_weights.c - GPTQ with 4 or 8 bits (ref/weights/gptq_ref.c): for each module `<module>.qweight` (I32
 * [k bits/32][n]), `<module>.qzeros` (I32 [groups][n bits/32]), `<module>.scales` ([groups][n]) and, where the inputs
 * of a group are not neighbours (act-order), `<module>.g_idx` (I32 [k]). */
#include "quantization.h"

static sac_status unsupported(const char *what, sac_error *err) {
    return sac_fail(err, SAC_UNSUPPORTED, "\"quantization_config\": %s: not supported with GPTQ", what);
}

/* Overrides that only leave modules out begin with "-:"; what a file stores says as much. */
static sac_status check_dynamic(const json_t *quantization, sac_error *err) {
    const json_t *dynamic;
    const char *pattern;
    json_t *v;
    SAC_TRY(sac_json_get_object(quantization, "dynamic", &dynamic, err));
    json_object_foreach((json_t *)(uintptr_t)dynamic, pattern, v) {
        if (strncmp(pattern, "-:", 2) != 0) return unsupported("\"dynamic\" that changes modules", err);
    }
    return SAC_OK;
}

static sac_status format_of(const json_t *quantization, bool *is_first, sac_error *err) {
    const char *format = "gptq";
    bool marlin = false;
    SAC_TRY(sac_json_get_string(quantization, "format", &format, err));
    SAC_TRY(sac_json_get_string(quantization, "checkpoint_format", &format, err));
    SAC_TRY(sac_json_get_bool(quantization, "is_marlin_format", &marlin, err));
    *is_first = strcmp(format, "gptq") == 0;
    if (!marlin && (*is_first || strcmp(format, "gptq_v2") == 0)) return SAC_OK;
    return unsupported("\"checkpoint_format\" other than gptq and gptq_v2", err);
}

static sac_status bits_of(const json_t *quantization, int *bits, sac_error *err) {
    int64_t n = 0;
    SAC_TRY(sac_json_get_int(quantization, "bits", 1, 32, &n, err));
    *bits = (int)n;
    return n == 4 || n == 8 ? SAC_OK : unsupported("\"bits\" other than 4 and 8", err);
}

static sac_status check(const json_t *quantization, bool *is_mine, sac_error *err) {
    static const char *const honoured[] = {
        "quant_method",     "bits",       "group_size", "desc_act", "checkpoint_format",      "format",
        "is_marlin_format", "pack_dtype", "dynamic",    "lm_head",  "modules_to_not_convert", NULL};
    static const char *const without_effect[] = {"act_group_aware",
                                                 "backend",
                                                 "batch_size",
                                                 "block_name_to_quantize",
                                                 "cache_block_outputs",
                                                 "damp_auto_increment",
                                                 "damp_percent",
                                                 "dataset",
                                                 "disable_exllama",
                                                 "exllama_config",
                                                 "max_input_length",
                                                 "meta",
                                                 "model_file_base_name",
                                                 "model_name_or_path",
                                                 "model_seqlen",
                                                 "module_name_preceding_first_block",
                                                 "modules_in_block_to_quantize",
                                                 "mse",
                                                 "pad_token_id",
                                                 "static_groups",
                                                 "sym",
                                                 "tokenizer",
                                                 "true_sequential",
                                                 "use_cuda_fp16",
                                                 "use_exllama",
                                                 NULL};
    *is_mine = sac_quant_is(quantization, "quant_method", "gptq");
    if (!*is_mine) return SAC_OK;
    int bits;
    bool is_first, flag;
    int64_t group;
    const char *pack = "int32";
    const json_t *skipped;
    SAC_TRY(sac_quant_check_keys(quantization, honoured, without_effect, err));
    SAC_TRY(bits_of(quantization, &bits, err));
    SAC_TRY(sac_quant_group_size(quantization, "group_size", &group, err));
    SAC_TRY(format_of(quantization, &is_first, err));
    SAC_TRY(check_dynamic(quantization, err));
    SAC_TRY(sac_json_get_bool(quantization, "desc_act", &flag, err));
    SAC_TRY(sac_json_get_string(quantization, "pack_dtype", &pack, err));
    SAC_TRY(sac_json_get_array(quantization, "modules_to_not_convert", &skipped, err));
    return strcmp(pack, "int32") != 0 ? unsupported("\"pack_dtype\" other than int32", err) : SAC_OK;
}

static int32_t group_at(const sac_checkpoint_tensor *order, int64_t i) {
    int32_t g;
    memcpy(&g, order->data + 4 * i, 4);
    return g;
}

static sac_status check_order(const sac_checkpoint_tensor *order, int64_t k, int64_t n_groups,
                              sac_error *err) {
    if (strcmp(order->dtype_name, "i32") != 0 || order->n_dims != 1 || order->dim[0] != k)
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is not i32 [%lld], a group for each input",
                        order->name, (long long)k);
    for (int64_t i = 0; i < k; i++)
        if (group_at(order, i) < 0 || group_at(order, i) >= n_groups)
            return sac_fail(err, SAC_BAD_FILE, "tensor %.100s puts input %lld into group %d, of %lld groups",
                            order->name, (long long)i, group_at(order, i), (long long)n_groups);
    return SAC_OK;
}

static sac_status name_one(const sac_checkpoint *c, const json_t *quantization,
                           const sac_checkpoint_tensor *t, int n_module, sac_checkpoint_tensor *out,
                           sac_error *err) {
    int bits;
    int64_t group;
    SAC_TRY(bits_of(quantization, &bits, err));
    SAC_TRY(sac_quant_group_size(quantization, "group_size", &group, err));
    const int in_word = 32 / bits;
    const sac_checkpoint_tensor *scales, *zeros, *order = sac_quant_part(c, t->name, n_module, "g_idx");
    SAC_TRY(sac_quant_need(c, t, n_module, "scales", &scales, err));
    SAC_TRY(sac_quant_need(c, t, n_module, "qzeros", &zeros, err));
    if (strcmp(t->dtype_name, "i32") != 0 || t->n_dims != 2 || t->dim[0] < 1 || t->dim[1] < 1 ||
        t->dim[0] > INT64_MAX / 8 || t->dim[1] % 8 || t->dim[0] * in_word % 8)
        return sac_quant_misshapen(t, scales, err);
    const int64_t k = t->dim[0] * in_word, n = t->dim[1];
    if (group < 0 || group > k) group = k;
    const int64_t n_groups = (k + group - 1) / group;
    if (!sac_quant_is_float(scales) || !sac_quant_has_shape(scales, scales->dtype_name, n_groups, n))
        return sac_quant_misshapen(scales, t, err);
    if (!sac_quant_has_shape(zeros, "i32", n_groups, n / in_word)) return sac_quant_misshapen(zeros, t, err);
    if (order) SAC_TRY(check_order(order, k, n_groups, err));
    if (group % 8 && group < k)
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s: a \"group_size\" of %lld is no multiple of 8",
                        t->name, (long long)group);
    SAC_TRY(sac_quant_check_finite(scales, err));
    return sac_quant_rename(out, n_module, bits == 8 ? SAC_DTYPE_GPTQ_8 : SAC_DTYPE_GPTQ_4, n, k, err);
}

static sac_status name(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    return sac_quant_name_all(c, quantization, "qweight", NULL, "modules_to_not_convert", name_one, err);
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    (void)s;
    return numbers->dtype == SAC_DTYPE_GPTQ_4 || numbers->dtype == SAC_DTYPE_GPTQ_8;
}

/* Whether groups are other than stretches of so many inputs. */
static bool is_ordered(const sac_checkpoint_tensor *order, int64_t k, int64_t group) {
    bool ordered = false;
    for (int64_t i = 0; order && i < k; i++) ordered |= group_at(order, i) != i / group;
    return ordered;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    const int n_module = sac_quant_module(numbers, "weight");
    const int64_t k = numbers->dim[1], n = numbers->dim[0];
    const sac_checkpoint_tensor *scales = sac_quant_part(s->checkpoint, numbers->name, n_module, "scales");
    const sac_checkpoint_tensor *zeros = sac_quant_part(s->checkpoint, numbers->name, n_module, "qzeros");
    const sac_checkpoint_tensor *order = sac_quant_part(s->checkpoint, numbers->name, n_module, "g_idx");
    bool is_first;
    int64_t group;
    SAC_TRY(format_of(s->quantization, &is_first, err));
    SAC_TRY(sac_quant_group_size(s->quantization, "group_size", &group, err));
    if (group < 0 || group > k) group = k;
    *out = (sac_weight){.tensor = sac_checkpoint_matrix(numbers),
                        .scales = sac_checkpoint_matrix(scales),
                        .zeros = {zeros->data, (sac_dtype)numbers->dtype, 2, {scales->dim[0], n}},
                        .group = group,
                        .zero_add = is_first ? 1 : 0,
                        .format = SAC_WEIGHT_GPTQ};
    if (is_ordered(order, k, group)) out->order = (sac_tensor){order->data, SAC_DTYPE_I32, 2, {1, k}};
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_gptq = {.check = check, .name = name, .knows = knows, .read = read};
