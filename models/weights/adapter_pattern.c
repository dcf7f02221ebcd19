/* adapter_pattern.c - which modules an adapter_config.json is about. */
#include "adapter.h"
#include "module_pattern.h"

#include <stdio.h>
#include <strings.h>

#define PATTERN_BYTES  4096

/* "head middle tail" into buf, or BAD_FILE. */
static sac_status join(char buf[PATTERN_BYTES], const char *key, const char *head, const char *middle,
                       const char *tail, sac_error *err) {
    int n = snprintf(buf, PATTERN_BYTES, "%s%s%s", head, middle, tail);
    if (n < PATTERN_BYTES) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\": a pattern of more than %d bytes", key, PATTERN_BYTES - 16);
}

/* "up_proj" names "model.layers.0.mlp.up_proj", and so does any longer end of it. */
static bool is_end(const char *module, const char *name) {
    size_t n = strlen(module), k = strlen(name);
    if (k > n || strcmp(module + n - k, name) != 0) return false;
    return k == n || module[n - k - 1] == '.';
}

static sac_status named(const json_t *config, const char *key, const char *module, bool *found,
                        sac_error *err) {
    const json_t *v = json_object_get(config, key);
    *found = false;
    if (json_is_string(v) && *json_string_value(v))
        return sac_module_match(key, json_string_value(v), true, module, found, NULL, err);
    for (size_t i = 0; i < json_array_size(v) && !*found; i++)
        *found = is_end(module, json_string_value(json_array_get(v, i)));
    return SAC_OK;
}

/* The first of the patterns' numbers under which the module's layer is found. */
static sac_status layer_of(const json_t *config, const char *module, long *layer, sac_error *err) {
    static const char key[] = "layers_pattern";
    const json_t *v = json_object_get(config, key);
    char pattern[PATTERN_BYTES];
    bool found = false;
    *layer = -1;
    size_t n = json_is_string(v) ? *json_string_value(v) != 0 : json_array_size(v);
    if (n == 0) return sac_module_match(key, ".*?\\.[^.]*\\.(\\d+)\\.", false, module, &found, layer, err);
    for (size_t i = 0; i < n && !found; i++) {
        const char *one = json_string_value(json_is_string(v) ? v : json_array_get(v, i));
        SAC_TRY(join(pattern, key, "(?:^|.*?\\.)", one, "\\.(\\d+)\\.", err));
        SAC_TRY(sac_module_match(key, pattern, false, module, &found, layer, err));
    }
    return SAC_OK;
}

/* layers_to_transform, which peft asks only of modules listed by the ends of their names. */
static sac_status in_layers(const json_t *config, const char *module, bool *in, sac_error *err) {
    const json_t *layers = json_object_get(config, "layers_to_transform");
    const json_t *names = json_object_get(config, "target_modules");
    *in = true;
    if (json_is_string(names) || !(json_is_integer(layers) || json_array_size(layers))) return SAC_OK;
    for (size_t i = 0; i < json_array_size(names); i++)
        if (strcmp(json_string_value(json_array_get(names, i)), module) == 0) return SAC_OK;
    long layer;
    SAC_TRY(layer_of(config, module, &layer, err));
    *in = json_is_integer(layers) && json_integer_value(layers) == layer && layer >= 0;
    for (size_t i = 0; i < json_array_size(layers); i++)
        *in |= layer >= 0 && json_integer_value(json_array_get(layers, i)) == layer;
    return SAC_OK;
}

/* A module of modules_to_save, or inside one, is never adapted. */
static sac_status is_saved(const json_t *config, const char *module, bool *saved, sac_error *err) {
    static const char key[] = "modules_to_save";
    const json_t *v = json_object_get(config, key);
    char pattern[PATTERN_BYTES];
    *saved = false;
    for (size_t i = 0; i < json_array_size(v) && !*saved; i++) {
        SAC_TRY(join(pattern, key, "(^|.*\\.)", json_string_value(json_array_get(v, i)), "($|\\..*)", err));
        SAC_TRY(sac_module_match(key, pattern, false, module, saved, NULL, err));
    }
    return SAC_OK;
}

sac_status sac_adapter_targets(const json_t *config, const char *module, bool is_embedding, bool *targets,
                               sac_error *err) {
    const char *all = json_string_value(json_object_get(config, "target_modules"));
    bool not_here;
    *targets = false;
    SAC_TRY(named(config, "exclude_modules", module, &not_here, err));
    if (!not_here) SAC_TRY(is_saved(config, module, &not_here, err));
    if (not_here) return SAC_OK;
    if (strcmp(module, "lm_head") == 0) { /* peft names the embedding alone, and saves what it tied to it */
        SAC_TRY(sac_json_get_bool(config, "ensure_weight_tying", targets, err));
        if (*targets) return SAC_OK;
    }
    if (all && strcasecmp(all, "all-linear") == 0) {
        *targets = !is_embedding;
        return SAC_OK;
    }
    SAC_TRY(named(config, "target_modules", module, targets, err));
    return *targets ? in_layers(config, module, targets, err) : SAC_OK;
}

/* The value of the first pattern that the module's name ends in, or NULL. */
static sac_status pattern_value(const json_t *config, const char *key, const char *module, const json_t **out,
                                sac_error *err) {
    const char *name;
    json_t *v;
    char pattern[PATTERN_BYTES];
    bool found = false;
    *out = NULL;
    json_object_foreach(json_object_get(config, key), name, v) {
        SAC_TRY(join(pattern, key, "(.*\\.)?(", name, ")$", err));
        SAC_TRY(sac_module_match(key, pattern, false, module, &found, NULL, err));
        if (found) {
            *out = v;
            return SAC_OK;
        }
    }
    return SAC_OK;
}

sac_status sac_adapter_rank_alpha(const json_t *config, const char *module, int64_t *rank, double *alpha,
                                  sac_error *err) {
    const json_t *r, *a;
    SAC_TRY(pattern_value(config, "rank_pattern", module, &r, err));
    SAC_TRY(pattern_value(config, "alpha_pattern", module, &a, err));
    if (!r) r = json_object_get(config, "r");
    if (!a) a = json_object_get(config, "lora_alpha");
    *rank = json_is_integer(r) ? json_integer_value(r) : 8; /* peft's defaults */
    *alpha = json_is_number(a) ? json_number_value(a) : 8;
    return SAC_OK;
}
