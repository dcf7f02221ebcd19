/* hqq_weights.c - HQQ with 4 bits in groups of a row (ref/weights/hqq_ref.c), as hqq's HQQLinear.state_dict has it and transformers
 * saves it (hqq/core/quantize.py, bitpack.py, 0.2.8): for each module
 *
 *   <module>.W_q    U8 [n k / group / 2][group]: groups of all rows behind one another, those of the first half in the high bits,
 *                   those of the second in the low bits of the same bytes
 *   <module>.scale, .zero   floats [n k / group][1]
 *   <module>.shape  I64 [2]: n, k
 *   <module>.nbits, .axis, .packing, .view_as_float, .quant_scale, .quant_zero: which of HQQ's kinds it is; only these are read
 *
 * Codes are put in rows when a folder is opened, in memory of its own. hqq rounds weights to 16 bits before they meet activations;
 * here they are what they stand for. */
#include "quantization.h"

#include <stdlib.h>

static sac_status unsupported(const char *what, sac_error *err) {
    return sac_fail(err, SAC_UNSUPPORTED, "\"quantization_config\": %s: not supported with HQQ", what);
}

static bool has(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return v && !json_is_null(v) && !json_is_false(v);
}

/* hqq's BaseQuantizeConfig. */
static sac_status check_one(const json_t *c, sac_error *err) {
    static const char *const honoured[] = {"weight_quant_params", "scale_quant_params", "zero_quant_params", "offload_meta", NULL};
    static const char *const of_weights[] = {"nbits", "group_size", "axis", "view_as_float", "channel_wise", NULL};
    static const char *const without_effect[] = {"optimize", "round_zero", NULL};
    const json_t *w = json_object_get(c, "weight_quant_params");
    int64_t bits = 4, axis = 1;
    bool by_channel = true;
    if (!json_is_object(w)) return unsupported("\"quant_config\" without \"weight_quant_params\"", err);
    SAC_TRY(sac_quant_check_keys(c, honoured, without_effect, err));
    SAC_TRY(sac_quant_check_keys(w, of_weights, without_effect, err));
    SAC_TRY(sac_json_get_int(w, "nbits", 1, 16, &bits, err));
    SAC_TRY(sac_json_get_int(w, "axis", 0, 1, &axis, err));
    SAC_TRY(sac_json_get_bool(w, "channel_wise", &by_channel, err));
    if (bits != 4) return unsupported("\"nbits\" other than 4", err);
    if (axis != 1) return unsupported("\"axis\" other than 1", err);
    if (!by_channel) return unsupported("\"channel_wise\" false", err);
    if (has(w, "view_as_float")) return unsupported("\"view_as_float\"", err);
    if (has(c, "scale_quant_params") || has(c, "zero_quant_params"))
        return unsupported("scales and zeros that are quantised (\"scale_quant_params\", \"zero_quant_params\")", err);
    if (has(c, "offload_meta")) return unsupported("\"offload_meta\"", err);
    return SAC_OK;
}

/* One for all modules, or one for each of some names, null for those that stay as they are. */
static sac_status check(const json_t *quantization, bool *is_mine, sac_error *err) {
    static const char *const honoured[] = {"quant_method", "quant_config", "skip_modules", NULL};
    static const char *const without_effect[] = {NULL};
    const json_t *c = json_object_get(quantization, "quant_config"), *skipped;
    const char *name;
    json_t *of;
    *is_mine = sac_quant_is(quantization, "quant_method", "hqq");
    if (!*is_mine) return SAC_OK;
    SAC_TRY(sac_quant_check_keys(quantization, honoured, without_effect, err));
    SAC_TRY(sac_json_get_array(quantization, "skip_modules", &skipped, err));
    if (!json_is_object(c)) return unsupported("no \"quant_config\"", err);
    if (json_object_get(c, "weight_quant_params")) return check_one(c, err);
    json_object_foreach((json_t *)(uintptr_t)c, name, of) {
        if (!json_is_null(of)) SAC_TRY(check_one(of, err));
    }
    return SAC_OK;
}

/* A whole number beside the matrix; `or_else` where there is none, BAD_FILE for what is not one. */
static sac_status read_number(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n_module, const char *suffix,
                              int64_t or_else, int64_t *value, sac_error *err) {
    const sac_checkpoint_tensor *part = sac_quant_part(c, t->name, n_module, suffix);
    int32_t i32;
    *value = or_else;
    if (!part) return SAC_OK;
    if (strcmp(part->dtype_name, "i32") == 0 && part->n_bytes == sizeof i32) {
        memcpy(&i32, part->data, sizeof i32);
        *value = i32;
    } else if (strcmp(part->dtype_name, "u8") == 0 && part->n_bytes == 1) {
        *value = part->data[0];
    } else {
        return sac_quant_misshapen(part, t, err);
    }
    return SAC_OK;
}

/* Of HQQ's kinds only this one. */
static sac_status check_kind(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n_module, sac_error *err) {
    static const struct {
        const char *suffix;
        int64_t wanted;
    } kinds[] = {{"nbits", 4}, {"axis", 1}, {"view_as_float", 0}, {"quant_scale", 0}, {"quant_zero", 0}, {"channel_wise", 1}};
    const sac_checkpoint_tensor *packing = sac_quant_part(c, t->name, n_module, "packing");
    for (size_t i = 0; i < SAC_COUNT(kinds); i++) {
        int64_t value;
        SAC_TRY(read_number(c, t, n_module, kinds[i].suffix, kinds[i].wanted, &value, err));
        if (value != kinds[i].wanted)
            return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s: %s is %lld beside it; only %lld is supported with HQQ", t->name,
                            kinds[i].suffix, (long long)value, (long long)kinds[i].wanted);
    }
    if (!packing || (packing->n_bytes == 7 && memcmp(packing->data, "4bit_u8", 7) == 0)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s has another packing than 4bit_u8 beside it: not supported with HQQ", t->name);
}

/* n and k, where the codes are as many. */
static sac_status read_shape(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n_module, int64_t *n, int64_t *k,
                             sac_error *err) {
    const sac_checkpoint_tensor *shape;
    int64_t size[2];
    SAC_TRY(sac_quant_need(c, t, n_module, "shape", &shape, err));
    if (strcmp(shape->dtype_name, "i64") != 0 || shape->n_dims != 1 || shape->dim[0] != 2)
        return sac_quant_misshapen(shape, t, err);
    memcpy(size, shape->data, sizeof size);
    *n = size[0], *k = size[1];
    if (strcmp(t->dtype_name, "u8") != 0 || t->n_dims != 2 || t->dim[0] < 1 || t->dim[1] < 1 || *n < 1 || *k < 1 ||
        *n > INT64_MAX / *k || *n * *k != 2 * (int64_t)t->n_bytes)
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s does not hold the [%lld, %lld] that its shape says", t->name,
                        (long long)*n, (long long)*k);
    if (*k % t->dim[1] == 0 && t->dim[1] % 8 == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s: rows of %lld elements in groups of %lld: not supported with HQQ", t->name,
                    (long long)*k, (long long)t->dim[1]);
}

static sac_status check_floats(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n_module, const char *suffix,
                               sac_error *err) {
    const sac_checkpoint_tensor *part;
    SAC_TRY(sac_quant_need(c, t, n_module, suffix, &part, err));
    if (!sac_quant_is_float(part) || !sac_quant_has_shape(part, part->dtype_name, 2 * t->dim[0], 1))
        return sac_quant_misshapen(part, t, err);
    return sac_quant_check_finite(part, err);
}

static sac_status name_one(const sac_checkpoint *c, const json_t *quantization, const sac_checkpoint_tensor *t, int n_module,
                           sac_checkpoint_tensor *out, sac_error *err) {
    int64_t n = 0, k = 0, group = 0;
    (void)quantization;
    SAC_TRY(check_kind(c, t, n_module, err));
    SAC_TRY(read_shape(c, t, n_module, &n, &k, err));
    SAC_TRY(read_number(c, t, n_module, "group_size", t->dim[1], &group, err));
    if (group != t->dim[1])
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has groups of %lld, and a group_size of %lld beside it", t->name,
                        (long long)t->dim[1], (long long)group);
    SAC_TRY(check_floats(c, t, n_module, "scale", err));
    SAC_TRY(check_floats(c, t, n_module, "zero", err));
    return sac_quant_rename(out, n_module, SAC_DTYPE_HQQ_4, n, k, err);
}

static sac_checkpoint_tensor *part_of(sac_checkpoint *c, const sac_checkpoint_tensor *t, const char *suffix) {
    return (sac_checkpoint_tensor *)(uintptr_t)sac_quant_part(c, t->name, sac_quant_module(t, "weight"), suffix);
}

/* Two neighbours a byte in the place of two that are half a matrix apart. */
static sac_status put_in_rows(sac_checkpoint *c, sac_checkpoint_tensor *t, sac_error *err) {
    const size_t n_bytes = t->n_bytes;
    const uint8_t *from = t->data;
    uint8_t *to = sac_checkpoint_own(c, n_bytes);
    if (!to) return sac_fail(err, SAC_NO_MEMORY, "no memory for the %zu bytes of %.100s in rows", n_bytes, t->name);
    for (size_t i = 0; i < n_bytes / 2; i++) {
        const uint8_t a = from[2 * i], b = from[2 * i + 1];
        to[i] = (uint8_t)(a >> 4 | (b & 0xf0));
        to[n_bytes / 2 + i] = (uint8_t)((a & 15) | b << 4);
    }
    t->data = to;
    static const char *const parts[] = {"scale", "zero"};
    for (size_t i = 0; i < SAC_COUNT(parts); i++) {
        sac_checkpoint_tensor *part = part_of(c, t, parts[i]);
        part->dim[1] = part->dim[0] / t->dim[0];
        part->dim[0] = t->dim[0];
    }
    return SAC_OK;
}

static sac_status name(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    SAC_TRY(sac_quant_name_all(c, quantization, "W_q", NULL, "skip_modules", name_one, err));
    for (int i = 0; i < c->n_tensors; i++)
        if (c->tensors[i].dtype == SAC_DTYPE_HQQ_4) SAC_TRY(put_in_rows(c, &c->tensors[i], err));
    return SAC_OK;
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    (void)s;
    return numbers->dtype == SAC_DTYPE_HQQ_4;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out, sac_error *err) {
    const int n_module = sac_quant_module(numbers, "weight");
    (void)err;
    *out = (sac_weight){.tensor = sac_checkpoint_matrix(numbers),
                        .scales = sac_checkpoint_matrix(sac_quant_part(s->checkpoint, numbers->name, n_module, "scale")),
                        .zeros = sac_checkpoint_matrix(sac_quant_part(s->checkpoint, numbers->name, n_module, "zero")),
                        .format = SAC_WEIGHT_HQQ};
    out->group = out->tensor.dim[1] / out->scales.dim[1];
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_hqq = {.check = check, .name = name, .knows = knows, .read = read};
