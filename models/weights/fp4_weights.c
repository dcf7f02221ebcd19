/* fp4_weights.c - floats of 4 bits (ref/weights/fp4_ref.c): U8 [n][k / 2], and beside them
 *
 *   compressed-tensors' nvfp4-pack-quantized  <module>.weight_packed, .weight_scale (F8_E4M3 [n][k / 16]) and
 *                                             .weight_global_scale, F32 [1], by which scales are divided
 *   compressed-tensors' mxfp4-pack-quantized  <module>.weight_packed, .weight_scale (U8 [n][k / 32]: 2^(e - 127))
 *   ModelOpt's NVFP4                          <module>.weight, .weight_scale (F8_E4M3) and .weight_scale_2, F32, with which
 *                                             scales are multiplied
 *
 * Scales become f32 (NVFP4, two bits a weight in the place of half a bit) or bf16 (MXFP4, exactly) when a file is opened.
 * Activations are not rounded to 4 bits: where a checkpoint asks for it, weights are read alone, as others do on cards without such
 * products, and its user is told, unless "dequantize" says to leave them. */
#include "compressed_tensors.h"
#include "ref/weights/x_rounding.h"

#include <math.h>

typedef struct fp4_config {
    int64_t group;
    const char *numbers, *skipped;
    const char *one; /* the scale of all scales; NULL: there is none, and scales are E8M0 */
    bool divides;
} fp4_config;

/* Read by sac_quant_leaves_fp4_inputs. */
static sac_status check_dequantize(const json_t *quantization, sac_error *err) {
    bool dequantize;
    return sac_json_get_bool(quantization, "dequantize", &dequantize, err);
}

static sac_status read_ct(const json_t *quantization, int group, fp4_config *out, sac_error *err) {
    const bool is_mx = sac_ct_is(quantization, group, "mxfp4-pack-quantized", "mxfp4-pack-quantized");
    sac_ct_config c;
    *out = is_mx ? (fp4_config){32, "weight_packed", "ignore", NULL, false}
                 : (fp4_config){16, "weight_packed", "ignore", "weight_global_scale", true};
    SAC_TRY(sac_ct_read(quantization, group, &c, err));
    if (!c.is_float || c.bits != 4 || c.group != out->group || c.block_rows || c.is_asymmetric)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"quantization_config\": other than symmetric floats of 4 bits in groups of %lld: not supported with %s",
                        (long long)out->group, is_mx ? "MXFP4" : "NVFP4");
    return check_dequantize(quantization, err);
}

static bool is_modelopt(const json_t *quantization) {
    return (sac_quant_is(quantization, "quant_method", "modelopt") ||
            sac_quant_is(quantization, "quant_method", SAC_QUANT_OF_FILE)) &&
           (sac_quant_is(quantization, "quant_algo", "NVFP4") || sac_quant_is(quantization, "quant_algo", "W4A16_NVFP4"));
}

static sac_status read_modelopt(const json_t *quantization, fp4_config *out, sac_error *err) {
    static const char *const honoured[] = {"quant_method", "quant_algo", "ignore", "kv_cache_scheme", "group_size", "dequantize", NULL};
    static const char *const of_file[] = {"quant_method", "quant_algo", "exclude_modules", "kv_cache_quant_algo",
                                          "group_size",   "dequantize", NULL};
    static const char *const without_effect[] = {"config_groups", "producer", NULL};
    const char *const *keys = sac_quant_is(quantization, "quant_method", SAC_QUANT_OF_FILE) ? of_file : honoured;
    const json_t *ignored;
    int64_t group = 16;
    *out = (fp4_config){16, "weight", keys[2], "weight_scale_2", false};
    SAC_TRY(sac_quant_check_keys(quantization, keys, without_effect, err));
    SAC_TRY(sac_json_get_array(quantization, out->skipped, &ignored, err));
    SAC_TRY(sac_json_get_int(quantization, "group_size", 1, 1 << 20, &group, err));
    if (group != 16)
        return sac_fail(err, SAC_UNSUPPORTED, "%s: \"group_size\" other than 16: not supported with NVFP4",
                        sac_quant_place(quantization));
    SAC_TRY(sac_quant_check_cache(quantization, keys[3], err));
    return check_dequantize(quantization, err);
}

static bool is_ct(const json_t *quantization, int group) {
    return sac_ct_is(quantization, group, "nvfp4-pack-quantized", "mxfp4-pack-quantized");
}

bool sac_quant_leaves_fp4_inputs(const json_t *quantization) {
    if (json_is_true(json_object_get(quantization, "dequantize"))) return false;
    if (is_modelopt(quantization)) return sac_quant_is(quantization, "quant_algo", "NVFP4");
    const int n = (int)json_object_size(json_object_get(quantization, "config_groups"));
    for (int g = 0; g < n; g++) {
        sac_ct_config c;
        if (is_ct(quantization, g) && sac_ct_read(quantization, g, &c, NULL) == SAC_OK && c.rounds_to_fp4) return true;
    }
    return false;
}

static sac_status check_ct(const json_t *quantization, int group, sac_error *err) {
    fp4_config c;
    return read_ct(quantization, group, &c, err);
}

/* Whether t is a matrix of FP4 by the configuration, and what that says of it. */
static sac_status read_config(const json_t *quantization, const sac_checkpoint_tensor *t, int n_module, bool *is_mine,
                              fp4_config *out, sac_error *err) {
    int group;
    *is_mine = true;
    if (is_modelopt(quantization)) return read_modelopt(quantization, out, err);
    SAC_TRY(sac_ct_group_of(quantization, t, n_module, &group, err));
    *is_mine = is_ct(quantization, group);
    return *is_mine ? read_ct(quantization, group, out, err) : SAC_OK;
}

static sac_status check(const json_t *quantization, bool *mine, sac_error *err) {
    fp4_config c;
    *mine = is_modelopt(quantization);
    return *mine ? read_modelopt(quantization, &c, err) : sac_ct_check(quantization, is_ct, check_ct, mine, err);
}

/* The scale of all scales, 1 where there is none. */
static sac_status scale_of_all(const sac_checkpoint *c, const fp4_config *config, const sac_checkpoint_tensor *t, int n_module,
                               float *scale, sac_error *err) {
    const sac_checkpoint_tensor *one;
    *scale = 1;
    if (!config->one) return SAC_OK;
    SAC_TRY(sac_quant_need(c, t, n_module, config->one, &one, err));
    if (one->dtype != SAC_DTYPE_F32 || one->n_bytes != sizeof *scale) return sac_quant_misshapen(one, t, err);
    memcpy(scale, one->data, sizeof *scale);
    if (*scale > 0 && isfinite(*scale) && isfinite(1 / *scale)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is %g, no scale of weights", one->name, (double)*scale);
}

/* Neither of the two types has infinities; each has numbers that are none, e4m3 one of each sign. Only e4m3 has a sign. */
static sac_status check_scales(const sac_checkpoint_tensor *scales, bool is_e4m3, sac_error *err) {
    bool is_nan = false, is_negative = false;
    for (size_t i = 0; i < scales->n_bytes; i++) {
        is_nan |= is_e4m3 ? (scales->data[i] & 0x7f) == 0x7f : scales->data[i] >= 0xfd; /* 6 2^126 is beyond f32 */
        is_negative |= is_e4m3 && scales->data[i] > 0x80;
    }
    if (!is_nan && !is_negative) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has a scale that is %s", scales->name,
                    is_nan ? "not finite" : "negative");
}

static sac_status name_one(const sac_checkpoint *c, const json_t *quantization, const sac_checkpoint_tensor *t, int n_module,
                           sac_checkpoint_tensor *out, sac_error *err) {
    fp4_config config;
    const sac_checkpoint_tensor *scales;
    float all;
    bool is_mine;
    SAC_TRY(read_config(quantization, t, n_module, &is_mine, &config, err));
    if (!is_mine) return SAC_OK;
    SAC_TRY(sac_quant_need(c, t, n_module, "weight_scale", &scales, err));
    if (sac_quant_part(c, t->name, n_module, "weight_zero_point") || sac_quant_part(c, t->name, n_module, "weight_g_idx"))
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s has zeros or an order of inputs beside it: not supported with FP4",
                        t->name);
    const bool is_whole = strcmp(t->dtype_name, "u8") == 0 && t->n_dims == 2 && t->dim[0] > 0 && t->dim[1] > 0 &&
                          t->dim[1] % (config.group / 2) == 0;
    if (!is_whole)
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is %s, not two dimensions of u8 with whole groups of %lld", t->name,
                        t->dtype_name, (long long)config.group);
    if (!sac_quant_has_shape(scales, config.one ? "f8_e4m3" : "u8", t->dim[0], t->dim[1] / (config.group / 2)))
        return sac_quant_misshapen(scales, t, err);
    SAC_TRY(check_scales(scales, config.one != NULL, err));
    SAC_TRY(scale_of_all(c, &config, t, n_module, &all, err));
    return sac_quant_rename(out, n_module, SAC_DTYPE_FP4, t->dim[0], 2 * t->dim[1], err);
}

/* 2^(e - 127) in bf16: the exponent itself, and below it the first bit of what is smaller. */
static uint16_t bf16_of_e8m0(uint8_t e) { return (uint16_t)(e ? e << 7 : 0x40); }

/* The scales of a matrix as floats, in the place of what the file has. */
static sac_status widen(sac_checkpoint *c, const json_t *quantization, const sac_checkpoint_tensor *t, sac_error *err) {
    const int n_module = sac_quant_module(t, "weight");
    fp4_config config;
    bool is_mine; /* true, or it would not be of this type */
    SAC_TRY(read_config(quantization, t, n_module, &is_mine, &config, err));
    sac_checkpoint_tensor *scales = (sac_checkpoint_tensor *)(uintptr_t)sac_quant_part(c, t->name, n_module, "weight_scale");
    const sac_dtype to = config.one ? SAC_DTYPE_F32 : SAC_DTYPE_BF16;
    const size_t n = scales->n_bytes, n_bytes = n * sac_dtype_row_bytes(to, 1);
    float all, *f32 = sac_checkpoint_own(c, n_bytes);
    uint16_t *bf16 = (uint16_t *)f32;
    if (!f32) return sac_fail(err, SAC_NO_MEMORY, "no memory for the scales of %.100s", t->name);
    SAC_TRY(scale_of_all(c, &config, t, n_module, &all, err));
    for (size_t i = 0; i < n; i++) {
        if (!config.one) {
            bf16[i] = bf16_of_e8m0(scales->data[i]);
            continue;
        }
        const float scale = sac_e4m3_to_f32(scales->data[i]);
        f32[i] = config.divides ? scale / all : scale * all;
        if (!isfinite(f32[i] * 6))
            return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has a scale that is not finite", scales->name);
    }
    scales->data = (const uint8_t *)f32;
    scales->n_bytes = n_bytes;
    scales->dtype = to;
    scales->dtype_name = sac_dtype_name(to);
    return SAC_OK;
}

static sac_status name(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    fp4_config config = {.numbers = "weight_packed", .skipped = "ignore"};
    SAC_TRY(sac_quant_check_pre_scales(c, err));
    if (is_modelopt(quantization)) SAC_TRY(read_modelopt(quantization, &config, err));
    const char *type = is_modelopt(quantization) ? "u8" : NULL; /* floats of the same name are left alone */
    SAC_TRY(sac_quant_name_all(c, quantization, config.numbers, type, config.skipped, name_one, err));
    for (int i = 0; i < c->n_tensors; i++)
        if (c->tensors[i].dtype == SAC_DTYPE_FP4) SAC_TRY(widen(c, quantization, &c->tensors[i], err));
    return SAC_OK;
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    (void)s;
    return numbers->dtype == SAC_DTYPE_FP4;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out, sac_error *err) {
    const int n_module = sac_quant_module(numbers, "weight");
    (void)err;
    *out = (sac_weight){.tensor = sac_checkpoint_matrix(numbers),
                        .scales = sac_checkpoint_matrix(sac_quant_part(s->checkpoint, numbers->name, n_module, "weight_scale")),
                        .format = SAC_WEIGHT_FP4};
    out->group = out->tensor.dim[1] / out->scales.dim[1];
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_fp4 = {.check = check, .name = name, .knows = knows, .read = read};
