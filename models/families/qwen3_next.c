/* qwen3_next.c - Qwen3-Next: as Qwen3.5 with experts (qwen3_5_moe_text.c), but numbered on one axis, with an MLP in the place of some
 * layers' experts where the file says so, and the matrices of linear attention a key head after the other. */
#include "qwen3_5.h"

static void defaults(sac_model_config *c) { /* transformers' Qwen3NextConfig */
    sac_decoder_config *d = &c->decoder;
    sac_family_qwen3_5_moe_text.defaults(c);
    c->text_family = &sac_family_qwen3_next;
    d->n_layers = 48;
    d->intermediate = 5632;
    d->vocab = 151936;
    d->experts.n = 512;
    d->experts.n_used = 10;
    c->has_axes = c->axes_take_turns = false;
}

static sac_status read(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_expert_shape *x = &c->decoder.experts;
    SAC_TRY(sac_qwen3_5_read_text(c, object, err));
    SAC_TRY(sac_json_get_bool(object, "norm_topk_prob", &x->normed, err));
    SAC_TRY(sac_qwen3_5_read_shared(c, object, err));
    return sac_config_read_experts(c, object, err);
}

/* Every layer has experts, whose weights add up to 1, and value heads stand beside those of their key head. */
static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    SAC_TRY(sac_family_qwen3_5_moe_text.read_gguf(c, keys, err));
    c->decoder.linear.tiled = false;
    return SAC_OK;
}

const sac_family sac_family_qwen3_next = {.name = "qwen3_next",
                                          .defaults = defaults,
                                          .read = read,
                                          .positions = sac_positions_plain,
                                          .read_gguf = read_gguf,
                                          .gguf_experts = true,
                                          .gguf_all_sparse = true};
