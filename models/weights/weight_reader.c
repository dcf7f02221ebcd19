#include "weight_reader.h"

static const sac_weight_reader *const readers[] = {
#define X(name) &sac_weight_reader_##name,
    SAC_WEIGHT_READERS(X)
#undef X
};

/* The reader whose configuration it is, or NULL, and what it says of it. */
static const sac_weight_reader *reader_of(const json_t *quantization, sac_status *st, sac_error *err) {
    *st = SAC_OK;
    for (size_t i = 0; i < SAC_COUNT(readers); i++) {
        bool is_mine = false;
        if (readers[i]->check) *st = readers[i]->check(quantization, &is_mine, err);
        if (is_mine) return readers[i];
    }
    return NULL;
}

sac_status sac_weight_check_config(const json_t *quantization, sac_error *err) {
    sac_status st = SAC_OK;
    if (!quantization || json_is_null(quantization) || reader_of(quantization, &st, err)) return st;
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"quantization_config\": weights quantised with %.40s are not supported; use the "
                    "original checkpoint or a "
                    "GGUF file",
                    method ? method : "an unnamed method");
}

sac_status sac_weight_name_matrices(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    if (!quantization || json_is_null(quantization)) return SAC_OK;
    sac_status st;
    const sac_weight_reader *r = reader_of(quantization, &st, err);
    return st == SAC_OK && r && r->name ? r->name(c, quantization, err) : st;
}

sac_status sac_weight_read(const sac_weight_source *s, const sac_checkpoint_tensor *numbers, sac_weight *out,
                           sac_error *err) {
    for (size_t i = 0; i < SAC_COUNT(readers); i++)
        if (readers[i]->knows(s, numbers)) return readers[i]->read(s, numbers, out, err);
#define X(constant, name) ", " #name
    return sac_fail(err, SAC_UNSUPPORTED,
                    "tensor %.100s is %s, a type that cannot be computed with here (known: f32, f16, "
                    "bf16" SAC_BLOCK_FORMATS(X) ")",
                    numbers->name, numbers->dtype_name);
#undef X
}
