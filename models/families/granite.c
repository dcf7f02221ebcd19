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

/* Where scores have no factor, llama.cpp divides them by the root of a head's size; rope.scaling.finetuned false: no rope. */
static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    bool turned = true;
    d->attention_scale = 0;
    SAC_TRY(sac_config_get_float(keys, "embedding_scale", &d->embed_scale, err));
    SAC_TRY(sac_config_get_float(keys, "attention.scale", &d->attention_scale, err));
    SAC_TRY(sac_config_get_float(keys, "residual_scale", &d->residual_scale, err));
    SAC_TRY(sac_config_get_float(keys, "logit_scale", &d->logit_divisor, err));
    SAC_TRY(sac_json_get_bool(keys, "rope.scaling.finetuned", &turned, err));
    if (!turned) d->rope.scaling = SAC_ROPE_NONE;
    return SAC_OK;
}

static sac_status write_gguf(const sac_model_config *c, json_t *keys, sac_error *err) {
    const sac_decoder_config *d = &c->decoder;
    (void)err;
    json_object_set_new(keys, "embedding_scale", json_real(d->embed_scale > 0 ? (double)d->embed_scale : 1));
    json_object_set_new(keys, "attention.scale", json_real((double)d->attention_scale));
    json_object_set_new(keys, "residual_scale", json_real(d->residual_scale > 0 ? (double)d->residual_scale : 1));
    json_object_set_new(keys, "logit_scale", json_real(d->logit_divisor > 0 ? (double)d->logit_divisor : 1));
    return SAC_OK;
}

const sac_family sac_family_granite = {.name = "granite",
                                       .defaults = defaults,
                                       .read = read,
                                       .positions = sac_positions_plain,
                                       .read_gguf = read_gguf,
                                       .write_gguf = write_gguf,
                                       .gguf_neighbours = true};
