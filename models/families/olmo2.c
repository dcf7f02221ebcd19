/* olmo2.c - OLMo 2 (arXiv:2501.00656): norms behind the parts of a layer and none before them, and of all heads of queries
 * and of keys together. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Olmo2Config */
    c->text_family = &sac_family_olmo2;
    c->decoder = (sac_decoder_config){
        .n_layers = 32,
        .hidden = 4096,
        .n_heads = 32,
        .intermediate = 11008,
        .vocab = 50304,
        .max_position = 2048,
        .rms_eps = 1e-5f,
        .rope.theta = 10000,
        .whole_qk_norm = true,
    };
    c->qk_norm = c->post_norms = c->no_pre_norms = true;
    c->default_stop_id = 50279;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_family_llama.read(c, config, err); /* the same keys */
}

const sac_family sac_family_olmo2 = {.name = "olmo2", .defaults = defaults, .read = read, .positions = sac_positions_plain};
