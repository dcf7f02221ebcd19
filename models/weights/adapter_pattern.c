/* adapter_pattern.c - which modules an adapter_config.json is about. Its patterns are Python's, and PCRE2 reads
 * the same of them; a pattern of a stranger has limits on the work of a match. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "adapter.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#define PATTERN_BYTES  4096
#define MATCH_LIMIT    1000000
#define HEAP_LIMIT_KIB 16384

static sac_status match_failed(const char *key, const char *pattern, int code, sac_error *err) {
    PCRE2_UCHAR text[160];
    pcre2_get_error_message(code, text, sizeof text);
    return sac_fail(err, SAC_BAD_FILE, "\"%s\": pattern \"%.80s\": %s", key, pattern, (const char *)text);
}

/* Whether the pattern matches `module` from its start; where captured is given, it gets the number that the last group
 * caught, -1 without. */
static sac_status match(const char *key, const char *pattern, uint32_t options, const char *module,
                        bool *found, long *captured, sac_error *err) {
    int code;
    PCRE2_SIZE at;
    *found = false;
    pcre2_code *re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                                   PCRE2_UTF | PCRE2_ANCHORED | options, &code, &at, NULL);
    if (!re) return match_failed(key, pattern, code, err);
    pcre2_match_context *context = pcre2_match_context_create(NULL);
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(re, NULL);
    if (context && data) {
        pcre2_set_match_limit(context, MATCH_LIMIT);
        pcre2_set_heap_limit(context, HEAP_LIMIT_KIB);
        code = pcre2_match(re, (PCRE2_SPTR)module, strlen(module), 0, 0, data, context);
    } else
        code = PCRE2_ERROR_NOMEMORY;
    *found = code > 0;
    if (*found && captured) {
        PCRE2_SIZE *span = pcre2_get_ovector_pointer(data) + 2 * (code - 1);
        char digits[20] = "";
        snprintf(digits, sizeof digits, "%.*s", (int)(span[1] - span[0] > 9 ? 9 : span[1] - span[0]),
                 module + span[0]);
        *captured = strtol(digits, NULL, 10);
    }
    pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_code_free(re);
    return code > 0 || code == PCRE2_ERROR_NOMATCH ? SAC_OK : match_failed(key, pattern, code, err);
}

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
        return match(key, json_string_value(v), PCRE2_ENDANCHORED, module, found, NULL, err);
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
    if (n == 0) return match(key, ".*?\\.[^.]*\\.(\\d+)\\.", 0, module, &found, layer, err);
    for (size_t i = 0; i < n && !found; i++) {
        const char *one = json_string_value(json_is_string(v) ? v : json_array_get(v, i));
        SAC_TRY(join(pattern, key, "(?:^|.*?\\.)", one, "\\.(\\d+)\\.", err));
        SAC_TRY(match(key, pattern, 0, module, &found, layer, err));
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
        SAC_TRY(match(key, pattern, 0, module, saved, NULL, err));
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
        SAC_TRY(match(key, pattern, 0, module, &found, NULL, err));
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
