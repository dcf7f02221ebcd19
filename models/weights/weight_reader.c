#include "quantization.h"

static const sac_weight_reader *const readers[] = {
#define X(name) &sac_weight_reader_##name,
    SAC_WEIGHT_READERS(X)
#undef X
};

/* Calls each reader whose configuration it is: compressed-tensors' groups may be of several, others have one. *any: there is one.
 * Without a checkpoint they are asked what they say of it only. */
static sac_status each_reader(sac_checkpoint *c, const json_t *quantization, bool *any, sac_error *err) {
    *any = false;
    for (size_t i = 0; i < SAC_COUNT(readers); i++) {
        bool is_mine = false;
        if (readers[i]->check) SAC_TRY(readers[i]->check(quantization, &is_mine, err));
        if (!is_mine) continue;
        *any = true;
        if (c && readers[i]->name) SAC_TRY(readers[i]->name(c, quantization, err));
        if (!sac_quant_is(quantization, "quant_method", "compressed-tensors")) return SAC_OK;
    }
    return SAC_OK;
}

sac_status sac_weight_check_config(const json_t *quantization, sac_error *err) {
    bool any = true;
    if (quantization && !json_is_null(quantization)) SAC_TRY(each_reader(NULL, quantization, &any, err));
    if (any) return SAC_OK;
    const char *method = json_string_value(json_object_get(quantization, "quant_method"));
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"quantization_config\": weights quantised with %.40s are not supported; use the "
                    "original checkpoint or a "
                    "GGUF file",
                    method ? method : "an unnamed method");
}

sac_status sac_weight_name_matrices(sac_checkpoint *c, const json_t *quantization, sac_error *err) {
    bool any;
    return quantization && !json_is_null(quantization) ? each_reader(c, quantization, &any, err) : SAC_OK;
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
