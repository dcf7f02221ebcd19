/* phi3.c - Phi-3, Phi-3.5-mini, Phi-4 and Phi-4-mini (arXiv:2404.14219, 2412.08905, 2503.01743): Llama with queries, keys and
 * values in one tensor, gate and up in another, LongRoPE, and in Phi-4-mini a part of a head's channels that is not turned. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Phi3Config */
    c->text_family = &sac_family_phi3;
    c->decoder = (sac_decoder_config){
        .n_layers = 32,
        .hidden = 3072,
        .n_heads = 32,
        .intermediate = 8192,
        .vocab = 32064,
        .max_position = 4096,
        .rms_eps = 1e-5f,
        .rope.theta = 10000,
    };
    c->may_be_long = true;
    c->default_stop_id = 32000;
}

/* The window is of all layers. */
static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &c->decoder.sliding_window, err));
    return sac_config_read_decoder(c, config, err);
}

const sac_family sac_family_phi3 = {.name = "phi3", .defaults = defaults, .read = read, .positions = sac_positions_plain};
