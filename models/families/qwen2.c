/* qwen2.c - Qwen2 and Qwen2.5: Llama with biases on queries, keys and values. */
#include "config_values.h"
#include "family.h"

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

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_config_read_decoder(c, config, err));
    bool slides = false;
    int64_t window = 4096, max_window_layers = 28;
    SAC_TRY(sac_json_get_bool(config, "use_sliding_window", &slides, err));
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &window, err));
    SAC_TRY(sac_json_get_int(config, "max_window_layers", 0, INT32_MAX, &max_window_layers, err));
    if (!slides || json_is_null(json_object_get(config, "sliding_window"))) return SAC_OK;
    sac_layer_set from = {{0}}; /* unless layer_types lists them one by one */
    for (int i = 0; i < c->decoder.n_layers; i++)
        if (i >= max_window_layers) sac_layer_set_add(&from, i);
    c->decoder.sliding_window = window;
    if (sac_config_has(config, "layer_types")) return sac_config_read_layer_types(c, config, err);
    sac_config_slide(c, &from);
    return SAC_OK;
}

const sac_family sac_family_qwen2 = {.name = "qwen2",
                                     .defaults = defaults,
                                     .read = read,
                                     .positions = sac_positions_plain};
