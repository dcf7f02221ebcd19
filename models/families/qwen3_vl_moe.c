/* qwen3_vl_moe.c - Qwen3-VL (qwen3_vl.c) over a language model with experts, the weights of a token's experts adding up
 * to 1 (arXiv:2511.21631). */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Qwen3VLMoeTextConfig */
    sac_decoder_config *d = &c->decoder;
    sac_family_qwen3_vl.defaults(c);
    c->text_family = &sac_family_qwen3_moe;
    d->n_layers = 24;
    d->hidden = 2048;
    d->n_heads = d->n_kv_heads = 16;
    d->head_dim = 0;
    d->intermediate = 5632;
    d->experts = (sac_expert_shape){.n = 60, .n_used = 4, .intermediate = 1408};
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_family_qwen3_vl.read(c, config, err));
    c->decoder.sliding_window = 0;
    c->decoder.experts.normed = true;
    return SAC_OK;
}

static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    return sac_family_qwen3_vl.mmproj(p, err);
}

const sac_family sac_family_qwen3_vl_moe = {.name = "qwen3_vl_moe",
                                            .defaults = defaults,
                                            .read = read,
                                            .positions = sac_positions_mrope,
                                            .mmproj = mmproj};
