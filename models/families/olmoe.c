/* olmoe.c - OLMoE (arXiv:2409.02060): Llama with norms of all heads of queries and of keys together, and experts in the place of
 * every layer's MLP. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' OlmoeConfig */
    c->text_family = &sac_family_olmoe;
    c->decoder = (sac_decoder_config){
        .n_layers = 16,
        .hidden = 2048,
        .n_heads = 16,
        .intermediate = 2048,
        .vocab = 50304,
        .max_position = 4096,
        .rms_eps = 1e-5f,
        .rope.theta = 10000,
        .whole_qk_norm = true,
        .experts = {.n = 64, .n_used = 8},
    };
    c->qk_norm = true;
    c->default_stop_id = 50279;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_family_llama.read(c, config, err));
    SAC_TRY(sac_json_get_bool(config, "norm_topk_prob", &c->decoder.experts.normed, err));
    return sac_config_read_experts_alone(c, config, err);
}

static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    return sac_config_read_gguf_experts(c, keys, false, err);
}

const sac_family sac_family_olmoe = {
    .name = "olmoe", .defaults = defaults, .read = read, .positions = sac_positions_plain, .read_gguf = read_gguf};
