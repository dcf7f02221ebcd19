/* adapter_config.c - the values of adapter_config.json, as peft's LoraConfig has them. */
#include "adapter.h"

#include <math.h>

typedef sac_status (*check_fn)(const char *key, const json_t *v, sac_error *err);

static sac_status check_number(const char *key, const json_t *v, sac_error *err) {
    double n = json_number_value(v);
    if (json_is_number(v) && isfinite(n) && fabs(n) <= 1e6) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%.80s\" must be a number of at most 1e6", key);
}

static sac_status check_rank(const char *key, const json_t *v, sac_error *err) {
    if (json_is_integer(v) && json_integer_value(v) >= 1 && json_integer_value(v) <= SAC_ADAPTER_MAX_RANK)
        return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%.80s\" must be a rank, an integer from 1 to %d", key,
                    SAC_ADAPTER_MAX_RANK);
}

static sac_status check_pattern(const json_t *config, const char *key, check_fn check, sac_error *err) {
    const json_t *object;
    const char *pattern;
    json_t *v;
    SAC_TRY(sac_json_get_object(config, key, &object, err));
    json_object_foreach((json_t *)(uintptr_t)object, pattern, v) {
        sac_status st = check(pattern, v, err);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "\"%s\"", key);
    }
    return SAC_OK;
}

/* A list of strings, a string where one may stand for the list, or nothing. */
static sac_status check_names(const json_t *config, const char *key, bool string_too, sac_error *err) {
    const json_t *v = json_object_get(config, key);
    bool good = !v || json_is_null(v) || json_is_array(v) || (string_too && json_is_string(v));
    for (size_t i = 0; i < json_array_size(v); i++) good = good && json_is_string(json_array_get(v, i));
    if (good) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be a list of names%s", key,
                    string_too ? " or a pattern" : "");
}

static sac_status check_layers(const json_t *config, sac_error *err) {
    const json_t *v = json_object_get(config, "layers_to_transform");
    bool good = !v || json_is_null(v) || json_is_integer(v) || json_is_array(v);
    for (size_t i = 0; i < json_array_size(v); i++) good = good && json_is_integer(json_array_get(v, i));
    if (good) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"layers_to_transform\" must be a layer or a list of layers");
}

static sac_status check_type(const json_t *config, sac_error *err) {
    const char *type = NULL, *bias = "none";
    SAC_TRY(sac_json_get_string(config, "peft_type", &type, err));
    if (!type) return sac_fail(err, SAC_BAD_FILE, "\"peft_type\" is missing; peft writes LORA there");
    if (strcmp(type, "LORA") != 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"peft_type\" %.60s is not supported (LORA is); merge it into its base with peft "
                        "(merge_and_unload, save_pretrained)",
                        type);
    SAC_TRY(sac_json_get_string(config, "bias", &bias, err));
    if (!strcmp(bias, "none") || !strcmp(bias, "all") || !strcmp(bias, "lora_only")) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"bias\" is \"%.60s\"; none, all and lora_only are known", bias);
}

sac_status sac_adapter_check_config(const json_t *config, sac_error *err) {
    bool flag;
    if (!json_is_object(config)) return sac_fail(err, SAC_BAD_FILE, "not a JSON object");
    SAC_TRY(check_type(config, err));
    const json_t *rank = json_object_get(config, "r"), *alpha = json_object_get(config, "lora_alpha");
    if (rank && !json_is_null(rank)) SAC_TRY(check_rank("r", rank, err));
    if (alpha && !json_is_null(alpha)) SAC_TRY(check_number("lora_alpha", alpha, err));
    SAC_TRY(check_pattern(config, "rank_pattern", check_rank, err));
    SAC_TRY(check_pattern(config, "alpha_pattern", check_number, err));
    SAC_TRY(sac_json_get_bool(config, "use_rslora", &flag, err));
    SAC_TRY(sac_json_get_bool(config, "use_dora", &flag, err));
    SAC_TRY(check_names(config, "target_modules", true, err));
    SAC_TRY(check_names(config, "exclude_modules", true, err));
    SAC_TRY(check_names(config, "modules_to_save", false, err));
    SAC_TRY(check_names(config, "layers_pattern", true, err));
    if (!json_object_get(config, "target_modules") || json_is_null(json_object_get(config, "target_modules")))
        return sac_fail(err, SAC_BAD_FILE,
                        "\"target_modules\" is missing: the modules that the adapter was trained for");
    return check_layers(config, err);
}
