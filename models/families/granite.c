/* granite.c - Granite 3 and 4 dense (arXiv:2405.04324 and IBM's model cards): Llama with four factors, of embeddings, of
 * scores, of what is added to the hidden rows, of logits. */
#include "config_values.h"
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' GraniteConfig, which is LlamaConfig's but for the factors */
    sac_family_llama.defaults(c);
    c->text_family = &sac_family_granite;
    c->decoder.attention_scale = 1;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    SAC_TRY(sac_family_llama.read(c, config, err));
    SAC_TRY(sac_config_get_float(config, "embedding_multiplier", &d->embed_scale, err));
    SAC_TRY(sac_config_get_float(config, "attention_multiplier", &d->attention_scale, err));
    SAC_TRY(sac_config_get_float(config, "residual_multiplier", &d->residual_scale, err));
    return sac_config_get_float(config, "logits_scaling", &d->logit_divisor, err);
}

const sac_family sac_family_granite = {.name = "granite", .defaults = defaults, .read = read, .positions = sac_positions_plain};
