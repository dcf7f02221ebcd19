/* mixtral.c - Mixtral (arXiv:2401.04088): Mistral with experts in the place of every layer's MLP, each as wide as that would be. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' MixtralConfig */
    sac_family_mistral.defaults(c);
    c->text_family = &sac_family_mixtral;
    c->decoder.sliding_window = 0;
    c->decoder.rope.theta = 1e6;
    c->decoder.rms_eps = 1e-5f;
    c->decoder.experts = (sac_expert_shape){.n = 8, .n_used = 2, .normed = true};
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &c->decoder.sliding_window, err));
    SAC_TRY(sac_config_read_decoder(c, config, err));
    return sac_config_read_experts_alone(c, config, err);
}

const sac_family sac_family_mixtral = {.name = "mixtral", .defaults = defaults, .read = read, .positions = sac_positions_plain};
