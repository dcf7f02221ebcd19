/* qwen3_moe.c - Qwen3 with experts (arXiv:2505.09388, sec. 2): as Qwen3, but where a layer has experts these are in the
 * place of its MLP, heads are as wide as they come of the hidden size, and a window is of all layers. */
#include "config_values.h"
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Qwen3MoeConfig */
    sac_family_qwen3.defaults(c);
    c->text_family = &sac_family_qwen3_moe;
    c->decoder.n_layers = 24;
    c->decoder.hidden = 2048;
    c->decoder.n_heads = 32;
    c->decoder.n_kv_heads = 4;
    c->decoder.head_dim = 0;
    c->decoder.intermediate = 6144;
    c->decoder.experts = (sac_expert_shape){.n = 128, .n_used = 8, .intermediate = 768};
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    bool slides = false;
    int64_t window = 4096;
    SAC_TRY(sac_json_get_bool(config, "attention_bias", &c->qkv_bias, err));
    c->o_bias = c->qkv_bias;
    SAC_TRY(sac_config_read_decoder(c, config, err));
    SAC_TRY(sac_config_read_experts(c, config, err));
    SAC_TRY(sac_json_get_bool(config, "norm_topk_prob", &d->experts.normed, err));
    SAC_TRY(sac_json_get_bool(config, "use_sliding_window", &slides, err));
    SAC_TRY(sac_json_get_int(config, "sliding_window", 1, INT32_MAX, &window, err));
    if (slides && !json_is_null(json_object_get(config, "sliding_window"))) d->sliding_window = window;
    return SAC_OK;
}

static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    const json_t *window = json_object_get(keys, "attention.sliding_window");
    if (window && json_number_value(window) != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "\"attention.sliding_window\" is supported as 0 only");
    return sac_config_read_gguf_experts(c, keys, true, err);
}

const sac_family sac_family_qwen3_moe = {.name = "qwen3_moe",
                                         .defaults = defaults,
                                         .read = read,
                                         .positions = sac_positions_plain,
                                         .read_gguf = read_gguf};
