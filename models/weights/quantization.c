#include "quantization.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_GROUP (1 << 20)
#define MOST_NAME 400 /* bytes of a tensor whose parts are looked up */

bool sac_quant_is(const json_t *object, const char *key, const char *text) {
    const char *value = json_string_value(json_object_get(object, key));
    return value && strcmp(value, text) == 0;
}

const char *sac_quant_place(const json_t *quantization) {
    return sac_quant_is(quantization, "quant_method", SAC_QUANT_OF_FILE) ? "\"quantization\" of hf_quant_config.json"
                                                                           : "\"quantization_config\"";
}

static bool is_in(const char *const *list, const char *name) {
    while (*list && strcmp(*list, name) != 0) list++;
    return *list != NULL;
}

sac_status sac_quant_check_keys(const json_t *quantization, const char *const *honoured,
                                const char *const *without_effect, sac_error *err) {
    const char *key;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)quantization, key, v) {
        if (json_is_null(v) || is_in(honoured, key) || is_in(without_effect, key)) continue;
        return sac_fail(err, SAC_UNSUPPORTED, "%s: \"%.60s\" is not known", sac_quant_place(quantization), key);
    }
    return SAC_OK;
}

sac_status sac_quant_check_cache(const json_t *quantization, const char *key, sac_error *err) {
    const json_t *said = json_object_get(quantization, key);
    const bool is_none = !said || json_is_null(said) || (json_is_object(said) && json_object_size(said) == 0);
    if (is_none || sac_quant_is(quantization, key, "FP8")) return SAC_OK;
    if (json_is_object(said) && sac_quant_is(said, "type", "float") && json_integer_value(json_object_get(said, "num_bits")) == 8)
        return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "%s: \"%s\" other than floats of 8 bits: not supported", sac_quant_place(quantization), key);
}

static const char *without_model(const char *name) {
    return strncmp(name, "model.", 6) == 0 ? name + 6 : name;
}

/* Whether `name` is what stands in `module` at `at`, up to the end of a component. */
static bool is_at(const char *module, size_t at, const char *name, size_t n) {
    char next = module[at + n];
    return strncmp(module + at, name, n) == 0 && (!next || next == '.');
}

bool sac_quant_lists(const json_t *names, const char *module) {
    module = without_model(module);
    size_t n_module = strlen(module);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        size_t n = name ? strlen(name = without_model(name)) : 0;
        while (n && name[n - 1] == '.') n--;
        if (!n || n > n_module) continue;
        if (is_at(module, 0, name, n)) return true;
        for (size_t at = 1; at + n <= n_module; at++)
            if (module[at - 1] == '.' && is_at(module, at, name, n)) return true;
    }
    return false;
}

const sac_checkpoint_tensor *sac_quant_part(const sac_checkpoint *c, const char *module, int n,
                                            const char *suffix) {
    char name[512];
    int used = snprintf(name, sizeof name, "%.*s.%s", n, module, suffix);
    if (used < 0 || (size_t)used >= sizeof name) return NULL;
    return sac_checkpoint_find(c, name);
}

sac_status sac_quant_need(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n, const char *suffix,
                          const sac_checkpoint_tensor **part, sac_error *err) {
    *part = sac_quant_part(c, t->name, n, suffix);
    return *part ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "tensor %.100s has no %s beside it", t->name, suffix);
}

sac_status sac_quant_group_size(const json_t *object, const char *key, int64_t *group, sac_error *err) {
    *group = 128;
    SAC_TRY(sac_json_get_int(object, key, -1, MAX_GROUP, group, err));
    return *group ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"quantization_config\": \"%s\" is 0", key);
}

sac_tensor sac_quant_scales(const sac_checkpoint_tensor *t) {
    sac_tensor m = sac_checkpoint_matrix(t);
    if (t->n_dims == 0) m.dim[0] = 1;
    return m;
}

bool sac_quant_is_float(const sac_checkpoint_tensor *t) {
    return t->dtype == SAC_DTYPE_F32 || t->dtype == SAC_DTYPE_F16 || t->dtype == SAC_DTYPE_BF16;
}

int sac_quant_module(const sac_checkpoint_tensor *t, const char *suffix) {
    size_t n = strlen(t->name), k = strlen(suffix);
    bool ends = n > k + 1 && n < MOST_NAME && strcmp(t->name + n - k, suffix) == 0 && t->name[n - k - 1] == '.';
    return ends ? (int)(n - k - 1) : 0;
}

sac_status sac_quant_misshapen(const sac_checkpoint_tensor *part, const sac_checkpoint_tensor *numbers,
                               sac_error *err) {
    char a[SAC_SHAPE_TEXT], b[SAC_SHAPE_TEXT];
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is %s %s, which does not go with weights of %s",
                    part->name, part->dtype_name, sac_shape_text(a, part->dim, part->n_dims),
                    sac_shape_text(b, numbers->dim, numbers->n_dims));
}

bool sac_quant_has_shape(const sac_checkpoint_tensor *t, const char *dtype_name, int64_t rows, int64_t cols) {
    return strcmp(t->dtype_name, dtype_name) == 0 && t->n_dims == 2 && t->dim[0] == rows && t->dim[1] == cols;
}

/* Of so many bytes a value, whether one has all bits of the mask. */
static bool has_bits(const uint8_t *data, size_t n_bytes, size_t width, uint32_t mask) {
    bool any = false;
    for (size_t i = 0; i < n_bytes; i += width) {
        uint32_t v = 0;
        memcpy(&v, data + i, width);
        any |= (v & mask) == mask;
    }
    return any;
}

sac_status sac_quant_check_finite(const sac_checkpoint_tensor *t, sac_error *err) {
    bool bad = t->dtype == SAC_DTYPE_F32   ? has_bits(t->data, t->n_bytes, 4, 0x7f800000u)
               : t->dtype == SAC_DTYPE_F16 ? has_bits(t->data, t->n_bytes, 2, 0x7c00)
                                           : has_bits(t->data, t->n_bytes, 2, 0x7f80);
    return bad ? sac_fail(err, SAC_BAD_FILE, "tensor %.100s has a scale that is not finite", t->name)
               : SAC_OK;
}

static sac_status check_input_zero(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n_module, sac_error *err) {
    const sac_checkpoint_tensor *zero = sac_quant_part(c, t->name, n_module, "input_zero_point");
    int any = 0;
    for (size_t i = 0; zero && i < zero->n_bytes; i++) any |= zero->data[i];
    if (!any) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s has an input_zero_point beside it that is not 0: not supported", t->name);
}

sac_status sac_quant_check_pre_scales(const sac_checkpoint *c, sac_error *err) {
    for (int i = 0; i < c->n_tensors; i++)
        if (sac_quant_module(&c->tensors[i], "pre_quant_scale"))
            return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s: scales of channels ahead of a product are not supported",
                            c->tensors[i].name);
    return SAC_OK;
}

sac_status sac_quant_input_scale(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n_module,
                                 sac_x_rounding rounding, float *scale, sac_error *err) {
    const sac_checkpoint_tensor *part = sac_quant_part(c, t->name, n_module, "input_scale"),
                                *other = sac_quant_part(c, t->name, n_module, "activation_scale");
    *scale = 0;
    SAC_TRY(check_input_zero(c, t, n_module, err));
    if (rounding == SAC_X_EXACT) return SAC_OK;
    if (part && other)
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has an input_scale and an activation_scale beside it", t->name);
    if (rounding != SAC_X_FP8_STATIC && rounding != SAC_X_INT8_STATIC) {
        if (!part && !other) return SAC_OK;
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s has an %s beside it, and activations are dynamic", t->name,
                        part ? "input_scale" : "activation_scale");
    }
    if (!part) part = other;
    if (!part) SAC_TRY(sac_quant_need(c, t, n_module, "input_scale", &part, err));
    if (!sac_quant_is_float(part) || part->n_bytes != sac_dtype_row_bytes((sac_dtype)part->dtype, 1))
        return sac_quant_misshapen(part, t, err);
    uint32_t bits = 0;
    memcpy(&bits, part->data, part->n_bytes);
    if (part->dtype == SAC_DTYPE_F32)
        memcpy(scale, &bits, sizeof *scale);
    else
        *scale = part->dtype == SAC_DTYPE_F16 ? sac_f16_to_f32((uint16_t)bits) : sac_bf16_to_f32((uint16_t)bits);
    if (*scale > 0 && *scale <= FLT_MAX) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "tensor %.100s is %g, no scale of activations", part->name, (double)*scale);
}

sac_status sac_quant_rename(sac_checkpoint_tensor *t, int n_module, sac_dtype dtype, int64_t n, int64_t k,
                            sac_error *err) {
    size_t room = (size_t)n_module + sizeof ".weight";
    if (room > MOST_NAME) /* which sac_quant_module would not know again */
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s: its name is too long", t->name);
    char *name = malloc(room);
    if (!name) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tensor's name");
    snprintf(name, room, "%.*s.weight", n_module, t->name);
    t->name = name; /* the entry that it is a copy of has the old one still */
    t->dtype = dtype;
    t->dtype_name = sac_dtype_name(dtype);
    t->n_dims = 2;
    t->dim[0] = n;
    t->dim[1] = k;
    return SAC_OK;
}

static sac_status name_module(const sac_checkpoint *c, const json_t *quantization, const json_t *skipped,
                              const sac_checkpoint_tensor *t, int n_module, sac_quant_name_fn name,
                              sac_checkpoint_tensor *out, sac_error *err) {
    char module[512];
    snprintf(module, sizeof module, "%.*s", n_module, t->name);
    if (sac_quant_lists(skipped, module))
        return sac_fail(err, SAC_BAD_FILE,
                        "tensor %.100s is quantised, and %s says that it is not", t->name, sac_quant_place(quantization));
    return name(c, quantization, t, n_module, out, err);
}

/* The table as it will be: names that are looked up meanwhile are those of the files. */
sac_status sac_quant_name_all(sac_checkpoint *c, const json_t *quantization, const char *suffix,
                              const char *dtype_name, const char *skipped, sac_quant_name_fn name,
                              sac_error *err) {
    if (c->n_tensors == 0) return SAC_OK;
    sac_checkpoint_tensor *named = malloc((size_t)c->capacity * sizeof *named);
    if (!named) return sac_fail(err, SAC_NO_MEMORY, "no memory for a table of %d tensors", c->n_tensors);
    memcpy(named, c->tensors, (size_t)c->n_tensors * sizeof *named);
    const json_t *names = json_object_get(quantization, skipped);
    sac_status st = SAC_OK;
    int i = 0;
    for (; i < c->n_tensors && st == SAC_OK; i++) {
        int n_module = sac_quant_module(&c->tensors[i], suffix);
        if (n_module && (!dtype_name || strcmp(c->tensors[i].dtype_name, dtype_name) == 0))
            st = name_module(c, quantization, names, &c->tensors[i], n_module, name, &named[i], err);
    }
    sac_checkpoint_tensor *gone = st == SAC_OK ? c->tensors : named;
    if (st == SAC_OK) c->tensors = named;
    for (i = 0; i < c->n_tensors; i++)
        if (gone[i].name != c->tensors[i].name) free(gone[i].name);
    free(gone);
    return st == SAC_OK ? sac_checkpoint_seal(c, err) : st;
}
