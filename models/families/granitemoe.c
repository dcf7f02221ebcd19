/* granitemoe.c - Granite 3 with experts (IBM's model cards): Granite's factors, and experts in the place of every layer's MLP. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' GraniteMoeConfig */
    sac_family_granite.defaults(c);
    c->text_family = &sac_family_granitemoe;
    c->decoder.experts = (sac_expert_shape){.n = 8, .n_used = 2, .normed = true};
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_family_granite.read(c, config, err));
    return sac_config_read_experts_alone(c, config, err);
}

static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    SAC_TRY(sac_family_granite.read_gguf(c, keys, err));
    return sac_config_read_gguf_experts(c, keys, true, err);
}

const sac_family sac_family_granitemoe = {.name = "granitemoe",
                                          .defaults = defaults,
                                          .read = read,
                                          .positions = sac_positions_plain,
                                          .read_gguf = read_gguf,
                                          .gguf_neighbours = true};
