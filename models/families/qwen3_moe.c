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

/* What other models with experts say, and these do not. */
static sac_status check_gguf(const json_t *keys, sac_error *err) {
    static const struct {
        const char *key;
        double usual;
    } only[] = {{"expert_shared_count", 0},  {"expert_group_count", 0},     {"expert_gating_func", 1 /* softmax */},
                {"leading_dense_block_count", 0}, {"expert_weights_scale", 1}, {"attention.sliding_window", 0}};
    for (size_t i = 0; i < SAC_COUNT(only); i++) {
        const json_t *v = json_object_get(keys, only[i].key);
        if (v && (!json_is_number(v) || json_number_value(v) != only[i].usual))
            return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" is supported as %g only", only[i].key, only[i].usual);
    }
    return SAC_OK;
}

/* Every layer has experts, whose weights add up to 1. */
static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    static const char *const needed[] = {"expert_count", "expert_used_count"};
    sac_expert_shape *x = &c->decoder.experts;
    for (size_t i = 0; i < SAC_COUNT(needed); i++)
        if (!json_object_get(keys, needed[i])) return sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", needed[i]);
    SAC_TRY(check_gguf(keys, err));
    x->intermediate = c->decoder.intermediate;
    x->normed = true;
    SAC_TRY(sac_config_get_int(keys, "expert_count", 1, SAC_ROUTE_MOST_EXPERTS, &x->n, err));
    SAC_TRY(sac_config_get_int(keys, "expert_used_count", 1, SAC_ROUTE_MOST_EXPERTS, &x->n_used, err));
    SAC_TRY(sac_config_get_int(keys, "expert_feed_forward_length", 1, SAC_CONFIG_MAX_WIDTH, &x->intermediate, err));
    SAC_TRY(sac_json_get_bool(keys, "expert_weights_norm", &x->normed, err));
    for (int i = 0; i < c->decoder.n_layers; i++) sac_layer_set_add(&c->decoder.sparse, i);
    return sac_config_check_experts(x, err);
}

const sac_family sac_family_qwen3_moe = {.name = "qwen3_moe",
                                         .defaults = defaults,
                                         .read = read,
                                         .positions = sac_positions_plain,
                                         .read_gguf = read_gguf};
