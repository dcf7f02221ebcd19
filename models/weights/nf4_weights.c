/* nf4_weights.c - bitsandbytes' 4-bit normal floats (ref/weights/nf4_ref.c): for each module
 *
 *   <module>.weight                                 U8 [n k / 2][1], row after row
 *   <module>.weight.absmax                          a scale for each block of the elements: F32, or, nested, U8 indices
 *   <module>.weight.quant_map                       F32 [16]: the levels
 *   <module>.weight.nested_absmax, .nested_quant_map  F32: scales of blocks of the indices, and the values of an index
 *   <module>.weight.quant_state.bitsandbytes__nf4   U8: JSON with shape, sizes of blocks, offset of nested scales
 *
 * Nested scales become f32 when a file is opened: a half bit a weight. */
#include "bitsandbytes.h"
#include "ref/weights/nf4_levels.h"

#include <math.h>

#define MAX_BLOCK 65536
#define STATE     "weight.quant_state.bitsandbytes__nf4"

static sac_status check(const json_t *quantization, bool *is_mine, sac_error *err) {
    const char *type = "fp4";
    *is_mine = sac_bnb_is(quantization, 4);
    if (!*is_mine) return SAC_OK;
    SAC_TRY(sac_bnb_check(quantization, err));
    SAC_TRY(sac_json_get_string(quantization, "bnb_4bit_quant_type", &type, err));
    if (strcmp(type, "nf4") == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"quantization_config\": \"bnb_4bit_quant_type\" other than nf4: not "
                                          "supported with bitsandbytes");
}

typedef struct nf4_state {
    int64_t n, k, block, nested_block;
    double offset;
    bool nested;
} nf4_state;

static sac_status read_state_json(const json_t *state, nf4_state *out, sac_error *err) {
    const json_t *shape;
    const char *type = "nf4";
    *out = (nf4_state){.block = 64, .nested_block = 256};
    out->nested = json_object_get(state, "nested_blocksize") != NULL;
    SAC_TRY(sac_json_get_string(state, "quant_type", &type, err));
    SAC_TRY(sac_json_get_int(state, "blocksize", 1, MAX_BLOCK, &out->block, err));
    SAC_TRY(sac_json_get_int(state, "nested_blocksize", 1, MAX_BLOCK, &out->nested_block, err));
    SAC_TRY(sac_json_get_float(state, "nested_offset", &out->offset, err));
    SAC_TRY(sac_json_get_array(state, "shape", &shape, err));
    out->n = json_integer_value(json_array_get(shape, 0));
    out->k = json_integer_value(json_array_get(shape, 1));
    if (json_array_size(shape) != 2 || out->n < 1 || out->k < 1 || strcmp(type, "nf4") != 0 ||
        !isfinite(out->offset))
        return sac_fail(err, SAC_BAD_FILE, "no state of an nf4 matrix");
    if (out->block % 8 || out->k % out->block)
        return sac_fail(err, SAC_UNSUPPORTED, "rows of %lld elements in blocks of %lld: not supported",
                        (long long)out->k, (long long)out->block);
    return SAC_OK;
}

static sac_status read_state(const sac_checkpoint *c, const char *name, int n_module, nf4_state *out,
                             sac_error *err) {
    const sac_checkpoint_tensor *t = sac_quant_part(c, name, n_module, STATE);
    json_t *state;
    if (!t) return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has no %s beside it", name, STATE);
    sac_status st = sac_json_parse(&state, (const char *)t->data, t->n_bytes, err);
    if (st == SAC_OK) {
        st = read_state_json(state, out, err);
        json_decref(state);
    }
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "tensor %.100s", t->name);
}

/* Whether a part is there with so many values of a type. */
static sac_status need(const sac_checkpoint *c, const sac_checkpoint_tensor *t, int n_module,
                       const char *suffix, const char *dtype_name, size_t n_bytes,
                       const sac_checkpoint_tensor **part, sac_error *err) {
    SAC_TRY(sac_quant_need(c, t, n_module, suffix, part, err));
    if (strcmp((*part)->dtype_name, dtype_name) == 0 && (*part)->n_bytes == n_bytes) return SAC_OK;
    return sac_quant_misshapen(*part, t, err);
}

static sac_status check_levels(const sac_checkpoint_tensor *map, sac_error *err) {
    for (int i = 0; i < 16; i++) {
        float level;
        memcpy(&level, map->data + 4 * i, 4);
        if (!(fabsf(level - sac_nf4_levels[i]) <= 1e-5f))
            return sac_fail(err, SAC_UNSUPPORTED, "tensor %.100s has other levels than nf4's", map->name);
    }
    return SAC_OK;
}

static sac_status name_one(const sac_checkpoint *c, const json_t *quantization,
                           const sac_checkpoint_tensor *t, int n_module, sac_checkpoint_tensor *out,
                           sac_error *err) {
    nf4_state s;
    const sac_checkpoint_tensor *map, *absmax, *part;
    (void)quantization;
    SAC_TRY(read_state(c, t->name, n_module, &s, err));
    if (s.n > INT64_MAX / s.k || t->n_bytes != (size_t)(s.n * s.k / 2))
        return sac_fail(err, SAC_BAD_FILE, "tensor %.100s has %zu bytes, its state says [%lld, %lld]",
                        t->name, t->n_bytes, (long long)s.n, (long long)s.k);
    const size_t n_blocks = (size_t)(s.n * (s.k / s.block)),
                 n_nested = (n_blocks + (size_t)s.nested_block - 1) / (size_t)s.nested_block;
    SAC_TRY(need(c, t, n_module, "weight.quant_map", "f32", 64, &map, err));
    SAC_TRY(check_levels(map, err));
    SAC_TRY(need(c, t, n_module, "weight.absmax", s.nested ? "u8" : "f32", s.nested ? n_blocks : 4 * n_blocks,
                 &absmax, err));
    if (s.nested) {
        SAC_TRY(need(c, t, n_module, "weight.nested_quant_map", "f32", 1024, &part, err));
        SAC_TRY(sac_quant_check_finite(part, err));
        SAC_TRY(need(c, t, n_module, "weight.nested_absmax", "f32", 4 * n_nested, &absmax, err));
    }
    SAC_TRY(sac_quant_check_finite(absmax, err));
    return sac_quant_rename(out, n_module, SAC_DTYPE_NF4, s.n, s.k, err);
}

static float float_at(const sac_checkpoint_tensor *t, size_t i) {
    float f;
    memcpy(&f, t->data + 4 * i, 4);
    return f;
}

/* The scales of a matrix as f32 [n][k / block], in the place of what the file has. */
static sac_status unnest(sac_checkpoint *c, const sac_checkpoint_tensor *t, sac_error *err) {
    nf4_state s;
    const int n_module = sac_quant_module(t, "weight");
    SAC_TRY(read_state(c, t->name, n_module, &s, err));
    sac_checkpoint_tensor *absmax =
        (sac_checkpoint_tensor *)(uintptr_t)sac_quant_part(c, t->name, n_module, "weight.absmax");
    absmax->n_dims = 2;
    absmax->dim[0] = s.n;
    absmax->dim[1] = s.k / s.block;
    if (!s.nested) return SAC_OK;
    const sac_checkpoint_tensor *map = sac_quant_part(c, t->name, n_module, "weight.nested_quant_map");
    const sac_checkpoint_tensor *nested = sac_quant_part(c, t->name, n_module, "weight.nested_absmax");
    const size_t n_blocks = absmax->n_bytes;
    float *scales = sac_checkpoint_own(c, n_blocks * sizeof *scales);
    if (!scales) return sac_fail(err, SAC_NO_MEMORY, "no memory for the scales of %.100s", t->name);
    for (size_t i = 0; i < n_blocks; i++)
        scales[i] =
            float_at(map, absmax->data[i]) * float_at(nested, i / (size_t)s.nested_block) + (float)s.offset;
    absmax->data = (const uint8_t *)scales;
    absmax->n_bytes = n_blocks * sizeof *scales;
    absmax->dtype = SAC_DTYPE_F32;
    absmax->dtype_name = "f32";
    return SAC_OK;
}

static sac_status name(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    SAC_TRY(sac_quant_name_all(c, quantization, "weight", "u8", "llm_int8_skip_modules", name_one, err));
    for (int i = 0; i < c->n_tensors; i++)
        if (c->tensors[i].dtype == SAC_DTYPE_NF4) SAC_TRY(unnest(c, &c->tensors[i], err));
    return SAC_OK;
}

static bool knows(const sac_weight_source *s, const sac_checkpoint_tensor *numbers) {
    (void)s;
    return numbers->dtype == SAC_DTYPE_NF4;
}

static sac_status read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                       sac_error *err) {
    const int n_module = sac_quant_module(numbers, "weight");
    (void)err;
    *out = (sac_weight){.tensor = sac_checkpoint_matrix(numbers),
                        .scales = sac_checkpoint_matrix(
                            sac_quant_part(s->checkpoint, numbers->name, n_module, "weight.absmax")),
                        .format = SAC_WEIGHT_NF4};
    out->group = out->tensor.dim[1] / out->scales.dim[1];
    return SAC_OK;
}

const sac_weight_reader sac_weight_reader_nf4 = {.check = check, .name = name, .knows = knows, .read = read};
