/* qwen3_5_moe_text.c - the language model of Qwen3.5 with experts, which stands alone, too: as the dense one (qwen3_5_text.c), but
 * every layer has experts, whose weights of a row add up to 1, and beside them an MLP that sees every row, through a gate. */
#include "config_values.h"
#include "qwen3_5.h"

static void defaults(sac_model_config *c) { /* transformers' Qwen3_5MoeTextConfig */
    sac_decoder_config *d = &c->decoder;
    sac_family_qwen3_5_text.defaults(c);
    c->text_family = &sac_family_qwen3_5_moe_text;
    d->n_layers = 40;
    d->hidden = 2048;
    d->n_kv_heads = 2;
    d->experts = (sac_expert_shape){
        .n = 256, .n_used = 8, .intermediate = 512, .normed = true, .shared = 512, .shared_gated = true};
}

sac_status sac_qwen3_5_read_shared(sac_model_config *c, const json_t *object, sac_error *err) {
    return sac_config_get_int(object, "shared_expert_intermediate_size", 1, SAC_CONFIG_MAX_WIDTH,
                              &c->decoder.experts.shared, err);
}

static sac_status read(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    sac_expert_shape *x = &d->experts;
    SAC_TRY(sac_qwen3_5_read_text(c, object, err));
    SAC_TRY(sac_config_get_int(object, "num_experts", 1, SAC_ROUTE_MOST_EXPERTS, &x->n, err));
    SAC_TRY(sac_config_get_int(object, "num_experts_per_tok", 1, SAC_ROUTE_MOST_EXPERTS, &x->n_used, err));
    SAC_TRY(
        sac_config_get_int(object, "moe_intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &x->intermediate, err));
    SAC_TRY(sac_qwen3_5_read_shared(c, object, err));
    SAC_TRY(sac_config_check_experts(x, err));
    d->intermediate = x->shared; /* of what is told of it: no layer has an MLP alone */
    for (int i = 0; i < d->n_layers; i++) sac_layer_set_add(&d->sparse, i);
    return SAC_OK;
}

const sac_family sac_family_qwen3_5_moe_text = {
    .name = "qwen3_5_moe_text", .defaults = defaults, .read = read, .positions = sac_positions_plain};
