/* qwen2.c - Qwen2 and Qwen2.5: Llama with biases on queries, keys and values. */
#include "family.h"

#include <string.h>

static void defaults(sac_model_config *c) {
    c->text_family = &sac_family_qwen2;
    c->decoder = (sac_decoder_config){
        .n_layers = 32,
        .hidden = 4096,
        .n_heads = 32,
        .n_kv_heads = 32,
        .intermediate = 22016,
        .vocab = 151936,
        .max_position = 32768,
        .rms_eps = 1e-6f,
        .rope.theta = 10000,
    };
    c->qkv_bias = true;
}

/* Layers from max_window_layers on slide, unless layer_types lists them one by one. */
static int sliding_layers(const sac_model_config *c, const json_t *config, int64_t max_window_layers) {
    const json_t *types = json_object_get(config, "layer_types");
    if (!json_is_array(types)) {
        int64_t n = c->decoder.n_layers - max_window_layers;
        return n < 0 ? 0 : (int)n;
    }
    int n = 0;
    for (size_t i = 0; i < json_array_size(types); i++) {
        const char *type = json_string_value(json_array_get(types, i));
        n += type && strcmp(type, "sliding_attention") == 0;
    }
    return n;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_config_read_decoder(c, config, err));
    bool slides = false;
    int64_t window = 4096, max_window_layers = 28;
    SAC_TRY(sac_json_get_bool(config, "use_sliding_window", &slides, err));
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &window, err));
    SAC_TRY(sac_json_get_int(config, "max_window_layers", 0, INT32_MAX, &max_window_layers, err));
    if (!slides || json_is_null(json_object_get(config, "sliding_window"))) return SAC_OK;
    int n = sliding_layers(c, config, max_window_layers);
    if (n != 0 && n != c->decoder.n_layers)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "\"use_sliding_window\" in %d of %d layers (\"max_window_layers\"); all or none are supported", n,
            c->decoder.n_layers);
    if (n) c->decoder.sliding_window = window;
    return SAC_OK;
}

const sac_family sac_family_qwen2 = {"qwen2", defaults, read, sac_positions_plain, NULL};
