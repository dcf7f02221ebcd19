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

static sac_status end_experts(sac_model_config *c, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    SAC_TRY(sac_config_check_experts(&d->experts, err));
    d->intermediate = d->experts.shared; /* of what is told of it: no layer has an MLP alone */
    for (int i = 0; i < d->n_layers; i++) sac_layer_set_add(&d->sparse, i);
    return SAC_OK;
}

static sac_status read(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_expert_shape *x = &c->decoder.experts;
    SAC_TRY(sac_qwen3_5_read_text(c, object, err));
    SAC_TRY(sac_config_get_int(object, "num_experts", 1, SAC_ROUTE_MOST_EXPERTS, &x->n, err));
    SAC_TRY(sac_config_get_int(object, "num_experts_per_tok", 1, SAC_ROUTE_MOST_EXPERTS, &x->n_used, err));
    SAC_TRY(
        sac_config_get_int(object, "moe_intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &x->intermediate, err));
    SAC_TRY(sac_qwen3_5_read_shared(c, object, err));
    return end_experts(c, err);
}

/* What files of other models with experts say otherwise. */
static sac_status check_gguf(const json_t *keys, sac_error *err) {
    static const struct {
        const char *key;
        double usual;
    } only[] = {{"expert_gating_func", 1 /* softmax */},
                {"expert_weights_scale", 1},
                {"leading_dense_block_count", 0},
                {"expert_group_count", 0}};
    bool normed = true;
    for (size_t i = 0; i < SAC_COUNT(only); i++) {
        const json_t *v = json_object_get(keys, only[i].key);
        if (v && (!json_is_number(v) || json_number_value(v) != only[i].usual))
            return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" is supported as %g only", only[i].key,
                            only[i].usual);
    }
    SAC_TRY(sac_json_get_bool(keys, "expert_weights_norm", &normed, err));
    return normed ? SAC_OK
                  : sac_fail(err, SAC_UNSUPPORTED, "\"expert_weights_norm\" is supported as true only");
}

static sac_status read_gguf(sac_model_config *c, const json_t *keys, sac_error *err) {
    static const char *const needed[] = {"expert_count", "expert_used_count", "expert_feed_forward_length",
                                         "expert_shared_feed_forward_length"};
    sac_decoder_config *d = &c->decoder;
    sac_expert_shape *x = &d->experts;
    for (size_t i = 0; i < SAC_COUNT(needed); i++)
        if (!json_object_get(keys, needed[i]))
            return sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", needed[i]);
    SAC_TRY(check_gguf(keys, err));
    SAC_TRY(sac_qwen3_5_read_gguf(c, keys, err));
    SAC_TRY(sac_config_get_int(keys, "expert_count", 1, SAC_ROUTE_MOST_EXPERTS, &x->n, err));
    SAC_TRY(sac_config_get_int(keys, "expert_used_count", 1, SAC_ROUTE_MOST_EXPERTS, &x->n_used, err));
    SAC_TRY(sac_config_get_int(keys, "expert_feed_forward_length", 1, SAC_CONFIG_MAX_WIDTH, &x->intermediate,
                               err));
    SAC_TRY(sac_config_get_int(keys, "expert_shared_feed_forward_length", 1, SAC_CONFIG_MAX_WIDTH, &x->shared,
                               err));
    return end_experts(c, err);
}

const sac_family sac_family_qwen3_5_moe_text = {.name = "qwen3_5_moe_text",
                                                .defaults = defaults,
                                                .read = read,
                                                .positions = sac_positions_plain,
                                                .read_gguf = read_gguf,
                                                .gguf_experts = true,
                                                .gguf_all_sparse = true};
