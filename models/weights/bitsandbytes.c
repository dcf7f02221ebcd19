#include "bitsandbytes.h"

static bool is_true(const json_t *quantization, const char *key) {
    return json_is_true(json_object_get(quantization, key));
}

static bool loads_in_8(const json_t *quantization) {
    return is_true(quantization, "load_in_8bit") || is_true(quantization, "_load_in_8bit");
}

static bool is_bnb(const json_t *quantization) {
    const json_t *method = json_object_get(quantization, "quant_method");
    if (method && !json_is_null(method)) return sac_quant_is(quantization, "quant_method", "bitsandbytes");
    return is_true(quantization, "load_in_4bit") || is_true(quantization, "load_in_8bit");
}

bool sac_bnb_is(const json_t *quantization, int bits) {
    return is_bnb(quantization) && loads_in_8(quantization) == (bits == 8);
}

sac_status sac_bnb_check(const json_t *quantization, sac_error *err) {
    static const char *const honoured[] = {
        "quant_method",  "load_in_4bit",        "_load_in_4bit",         "load_in_8bit",
        "_load_in_8bit", "bnb_4bit_quant_type", "llm_int8_skip_modules", NULL};
    static const char *const without_effect[] = {"bnb_4bit_compute_dtype",
                                                 "bnb_4bit_quant_storage",
                                                 "bnb_4bit_use_double_quant",
                                                 "llm_int8_enable_fp32_cpu_offload",
                                                 "llm_int8_has_fp16_weight",
                                                 "llm_int8_threshold",
                                                 NULL};
    static const char *const flags[] = {"load_in_4bit", "_load_in_4bit", "load_in_8bit", "_load_in_8bit"};
    bool set[SAC_COUNT(flags)] = {false};
    const json_t *skipped;
    SAC_TRY(sac_quant_check_keys(quantization, honoured, without_effect, err));
    for (size_t i = 0; i < SAC_COUNT(flags); i++) SAC_TRY(sac_json_get_bool(quantization, flags[i], &set[i], err));
    SAC_TRY(sac_json_get_array(quantization, "llm_int8_skip_modules", &skipped, err));
    if ((set[0] || set[1]) != (set[2] || set[3])) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"quantization_config\": bitsandbytes needs either \"load_in_4bit\" or \"load_in_8bit\"");
}
