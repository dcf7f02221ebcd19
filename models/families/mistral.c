/* mistral.c - Mistral 7B and its kin: Llama with a sliding window in every layer, and Ministral, whose
 * "layer_types" says which layers slide. */
#include "family.h"

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

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    if (json_is_null(json_object_get(config, "sliding_window"))) c->decoder.sliding_window = 0;
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &c->decoder.sliding_window, err));
    SAC_TRY(sac_config_read_decoder(c, config, err));
    return sac_config_read_layer_types(c, config, err); /* with them transformers takes it for Ministral */
}

const sac_family sac_family_mistral = {.name = "mistral",
                                       .defaults = defaults,
                                       .read = read,
                                       .positions = sac_positions_plain};
