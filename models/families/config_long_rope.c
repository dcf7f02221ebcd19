/* config_long_rope.c - LongRoPE (arXiv:2402.13753) as transformers' Phi3Config reads it: a divisor of each frequency for sequences of
 * up to "original_max_position_embeddings" tokens, and another one for longer ones. */
#include "config.h"

#include "config_values.h"

#include <string.h>

/* The first files called it "su", some "yarn", and transformers takes both for it. */
sac_status sac_config_long_rope_named(const char *name, sac_rope_scaling *out, sac_error *err) {
    static const char *const names[] = {"longrope", "su", "yarn"};
    *out = SAC_ROPE_DEFAULT;
    for (size_t i = 0; i < SAC_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0) *out = SAC_ROPE_LONG;
    if (*out == SAC_ROPE_LONG || strcmp(name, "default") == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "rope type \"%.30s\" is not supported (default, longrope, su are)", name);
}

static sac_status read_factors(float *out, const json_t *p, const char *key, int n, sac_error *err) {
    const json_t *list = NULL;
    SAC_TRY(sac_json_get_array(p, key, &list, err));
    if (!list || json_array_size(list) != (size_t)n)
        return sac_fail(err, SAC_BAD_FILE, "rope type \"longrope\" needs a \"%s\" of %d numbers, one for each pair of turned channels", key,
                        n);
    for (int i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, (size_t)i);
        out[i] = (float)json_number_value(v);
        if (!json_is_number(v) || !(out[i] > 1e-6f && out[i] < 1e6f))
            return sac_fail(err, SAC_BAD_FILE, "\"%s\": number %d must be of 1e-6 to 1e6", key, i);
    }
    return SAC_OK;
}

/* The original length beside "rope_scaling", or its default, goes before one within. */
sac_status sac_config_read_long_rope(sac_model_config *c, const json_t *object, const json_t *p, sac_error *err) {
    sac_rope_config *r = &c->decoder.rope;
    const int n = r->rot_dim / 2;
    r->original_max_position = 4096;
    SAC_TRY(sac_config_get_positive(object, "original_max_position_embeddings", &r->original_max_position, err));
    if (n > SAC_ROPE_MOST_FACTORS)
        return sac_fail(err, SAC_UNSUPPORTED, "rope type \"longrope\" turns %d channels of a head; %d at most are supported", r->rot_dim,
                        2 * SAC_ROPE_MOST_FACTORS);
    SAC_TRY(read_factors(r->short_factors, p, "short_factor", n, err));
    SAC_TRY(read_factors(r->long_factors, p, "long_factor", n, err));
    r->factor = (double)c->decoder.max_position / r->original_max_position;
    SAC_TRY(sac_config_get_positive(p, "factor", &r->factor, err));
    return sac_config_get_positive(p, "attention_factor", &r->attention_factor, err);
}
