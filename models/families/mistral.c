/* mistral.c - Mistral 7B and its kin: Llama with a sliding window in every layer, and Ministral, whose
 * "layer_types" says which layers slide. */
#include "family.h"

#include <string.h>

static void defaults(sac_model_config *c) {
    c->text_family = &sac_family_mistral;
    c->decoder = (sac_decoder_config){
        .n_layers = 32,
        .hidden = 4096,
        .n_heads = 32,
        .n_kv_heads = 8,
        .intermediate = 14336,
        .vocab = 32000,
        .max_position = 131072,
        .sliding_window = 4096,
        .rms_eps = 1e-6f,
        .rope.theta = 10000,
    };
    c->default_stop_id = 2;
}

/* transformers reads model_type mistral with "layer_types" as Ministral. */
static sac_status read_layer_types(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *types;
    SAC_TRY(sac_json_get_array(config, "layer_types", &types, err));
    if (!types) return SAC_OK;
    int n_sliding = 0, n = c->decoder.n_layers;
    if (json_array_size(types) != (size_t)n)
        return sac_fail(err, SAC_BAD_FILE, "\"layer_types\" lists %zu layers of %d", json_array_size(types),
                        n);
    for (int i = 0; i < n; i++) {
        const char *type = json_string_value(json_array_get(types, (size_t)i));
        bool slides = type && strcmp(type, "sliding_attention") == 0;
        if (!slides && (!type || strcmp(type, "full_attention") != 0))
            return sac_fail(err, SAC_UNSUPPORTED,
                            "\"layer_types\": layer %d is \"%.30s\"; sliding_attention and full_attention "
                            "are supported",
                            i, type ? type : "");
        n_sliding += slides;
    }
    if (c->decoder.sliding_window && n_sliding != 0 && n_sliding != n)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"layer_types\" slides in %d of %d layers; all or none are supported", n_sliding, n);
    if (n_sliding == 0) c->decoder.sliding_window = 0;
    return SAC_OK;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    if (json_is_null(json_object_get(config, "sliding_window"))) c->decoder.sliding_window = 0;
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &c->decoder.sliding_window, err));
    SAC_TRY(sac_config_read_decoder(c, config, err));
    return read_layer_types(c, config, err);
}

const sac_family sac_family_mistral = {"mistral", defaults, read, sac_positions_plain, NULL};
