/* glm4_moe.c - GLM-4.5 and GLM-4.6 (arXiv:2508.06471, sec. 2.1): Llama with part of each head turned, norms of its heads in the
 * larger model, and behind its first layers experts of DeepSeek-V3's kind beside a shared one. */
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Glm4MoeConfig */
    c->text_family = &sac_family_glm4_moe;
    c->decoder = (sac_decoder_config){
        .n_layers = 46,
        .hidden = 4096,
        .n_heads = 96,
        .n_kv_heads = 8,
        .intermediate = 10944,
        .vocab = 151552,
        .max_position = 131072,
        .rms_eps = 1e-5f,
        .rope.theta = 10000,
        .experts = {.n = 128, .n_used = 8, .intermediate = 1408, .normed = true, .factor = 1},
    };
    c->partial_rotary = 0.5;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_json_get_bool(config, "attention_bias", &c->qkv_bias, err));
    SAC_TRY(sac_json_get_bool(config, "use_qk_norm", &c->qk_norm, err));
    SAC_TRY(sac_config_read_decoder(c, config, err));
    return sac_config_read_routed_experts(c, config, 1, 1, err);
}

static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    return sac_config_read_gguf_routed_experts(c, keys, false, err);
}

const sac_family sac_family_glm4_moe = {
    .name = "glm4_moe", .defaults = defaults, .read = read, .positions = sac_positions_plain, .read_gguf = read_gguf};
