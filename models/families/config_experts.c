/* config_experts.c - which layers have experts in the place of their MLP, and how many see a row. */
#include "config.h"
#include "config_values.h"

sac_status sac_config_check_experts(const sac_expert_shape *x, sac_error *err) {
    if (x->n == 0) return SAC_OK; /* every layer has its MLP */
    SAC_TRY(sac_config_check_range("number of experts", x->n, SAC_ROUTE_MOST_EXPERTS, err));
    SAC_TRY(
        sac_config_check_range("intermediate size of an expert", x->intermediate, SAC_CONFIG_MAX_WIDTH, err));
    SAC_TRY(sac_config_check_range("number of experts of a token", x->n_used, SAC_ROUTE_MOST_EXPERTS, err));
    if (x->n_used <= x->n) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "%d experts of a token, but there are %d", x->n_used, x->n);
}

/* Layers of the list have an MLP in any case; numbers that are no layer's change nothing. */
static sac_status leave_out(sac_layer_set *dense, const json_t *list, int n_layers, sac_error *err) {
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t layer = json_integer_value(item);
        if (!json_is_integer(item))
            return sac_fail(err, SAC_BAD_FILE, "\"mlp_only_layers\" must list numbers of layers");
        if (layer >= 0 && layer < n_layers) sac_layer_set_add(dense, (int)layer);
    }
    return SAC_OK;
}

static sac_status read_counts(sac_expert_shape *x, const json_t *object, int fewest, sac_error *err) {
    SAC_TRY(sac_config_get_int(object, "num_experts", fewest, SAC_ROUTE_MOST_EXPERTS, &x->n, err));
    SAC_TRY(sac_config_get_int(object, "num_local_experts", fewest, SAC_ROUTE_MOST_EXPERTS, &x->n, err));
    return sac_config_get_int(object, "num_experts_per_tok", 1, SAC_ROUTE_MOST_EXPERTS, &x->n_used, err);
}

sac_status sac_config_read_experts_alone(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    SAC_TRY(read_counts(&d->experts, object, 1, err));
    d->experts.intermediate = d->intermediate;
    for (int i = 0; i < d->n_layers; i++) sac_layer_set_add(&d->sparse, i);
    return sac_config_check_experts(&d->experts, err);
}

sac_status sac_config_read_experts(sac_model_config *c, const json_t *object, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    sac_expert_shape *x = &d->experts;
    const json_t *list = NULL;
    sac_layer_set dense = {{0}};
    int step = 1;
    SAC_TRY(read_counts(x, object, 0, err));
    SAC_TRY(
        sac_config_get_int(object, "moe_intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &x->intermediate, err));
    SAC_TRY(sac_config_get_int(object, "decoder_sparse_step", 1, INT32_MAX, &step, err));
    SAC_TRY(sac_json_get_array(object, "mlp_only_layers", &list, err));
    SAC_TRY(leave_out(&dense, list, d->n_layers, err));
    for (int i = 0; i < d->n_layers; i++)
        if ((i + 1) % step == 0 && !sac_layer_set_has(&dense, i)) sac_layer_set_add(&d->sparse, i);
    SAC_TRY(sac_config_check_experts(x, err));
    if (!sac_decoder_n_experts(d)) x->n = 0;
    return SAC_OK;
}

/* What config.json and GGUF call the same. */
typedef struct routed_names {
    const char *n, *n_used, *width, *shared, *dense, *factor, *normed, *groups, *groups_used;
    int no_groups; /* how it says that there are none: 1, or 0 too */
} routed_names;

/* Groups of experts, of which some are chosen from: as in transformers, by the two best of each. */
static sac_status read_groups(sac_expert_shape *x, const json_t *object, const routed_names *k, sac_error *err) {
    int n = x->n_groups ? x->n_groups : 1, used = x->n_groups ? x->n_groups_used : 1;
    SAC_TRY(sac_config_get_int(object, k->groups, k->no_groups, SAC_ROUTE_MOST_EXPERTS, &n, err));
    SAC_TRY(sac_config_get_int(object, k->groups_used, n > 1 ? 1 : k->no_groups, SAC_ROUTE_MOST_EXPERTS, &used, err));
    if (n == 0) n = used = 1;
    if (used == 0) used = 1;
    if (used > n) return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %d, but there are %d groups", k->groups_used, used, n);
    if (n > 1 && (x->n % n != 0 || x->n / n < 2))
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %d; %d experts do not stand in so many equal groups of two or more", k->groups, n,
                        x->n);
    if (x->n_used > x->n / n * used)
        return sac_fail(err, SAC_BAD_FILE, "%d experts of a token, but \"%s\" %d of %d groups have %d", x->n_used, k->groups_used, used,
                        n, x->n / n * used);
    x->n_groups = used < n ? n : 0; /* all of them: as if there were none */
    x->n_groups_used = used < n ? used : 0;
    return SAC_OK;
}

static sac_status read_routed(sac_model_config *c, const json_t *object, const routed_names *k, int n_shared, int n_dense,
                              sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    sac_expert_shape *x = &d->experts;
    double factor = x->factor > 0 ? x->factor : 1;
    SAC_TRY(sac_config_get_int(object, k->n, 1, SAC_ROUTE_MOST_EXPERTS, &x->n, err));
    SAC_TRY(sac_config_get_int(object, k->n_used, 1, SAC_ROUTE_MOST_EXPERTS, &x->n_used, err));
    SAC_TRY(sac_config_get_int(object, k->width, 1, SAC_CONFIG_MAX_WIDTH, &x->intermediate, err));
    SAC_TRY(sac_config_get_int(object, k->shared, 0, SAC_CONFIG_MAX_WIDTH, &n_shared, err));
    SAC_TRY(sac_config_get_int(object, k->dense, 0, INT32_MAX, &n_dense, err));
    SAC_TRY(sac_config_get_positive(object, k->factor, &factor, err));
    SAC_TRY(sac_json_get_bool(object, k->normed, &x->normed, err));
    SAC_TRY(sac_config_check_experts(x, err));
    SAC_TRY(read_groups(x, object, k, err));
    const int64_t shared = (int64_t)n_shared * x->intermediate;
    if (shared) SAC_TRY(sac_config_check_range("intermediate size of shared experts", shared, SAC_CONFIG_MAX_WIDTH, err));
    x->sigmoid = true;
    x->factor = (float)factor;
    x->shared = (int)shared;
    for (int i = n_dense; i < d->n_layers; i++) sac_layer_set_add(&d->sparse, i);
    if (!sac_decoder_n_experts(d)) *x = (sac_expert_shape){0};
    return SAC_OK;
}

sac_status sac_config_read_routed_experts(sac_model_config *c, const json_t *object, int n_shared, int n_dense, sac_error *err) {
    static const routed_names names = {"n_routed_experts",      "num_experts_per_tok",   "moe_intermediate_size",
                                       "n_shared_experts",      "first_k_dense_replace", "routed_scaling_factor",
                                       "norm_topk_prob",        "n_group",               "topk_group",
                                       1};
    SAC_TRY(sac_config_get_int(object, "num_local_experts", 1, SAC_ROUTE_MOST_EXPERTS, &c->decoder.experts.n, err));
    return read_routed(c, object, &names, n_shared, n_dense, err);
}

/* How scores are made: 1 a softmax of all, 2 sigmoids. Where the file does not say, a bias of scores tells that they are sigmoids, as
 * of GLM-4.7-Flash, whose files llama.cpp reads so, too. */
static sac_status read_gate(const json_t *keys, bool may_be_softmax, bool *sigmoid, sac_error *err) {
    const bool has_bias = json_object_get(keys, "exp_probs_b") != NULL;
    const int usual = may_be_softmax && !has_bias ? 1 : 2;
    int gate = usual;
    SAC_TRY(sac_config_get_int(keys, "expert_gating_func", 0, INT32_MAX, &gate, err));
    if (gate == 0) gate = usual;
    *sigmoid = gate == 2;
    if (gate == 1 && may_be_softmax && has_bias)
        return sac_fail(err, SAC_UNSUPPORTED, "\"expert_gating_func\" is 1 (softmax); tensors exp_probs_b are not supported beside it");
    if (gate == 2 || (gate == 1 && may_be_softmax)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"expert_gating_func\" is %d; %s supported here", gate,
                    may_be_softmax ? "1 (softmax) and 2 (sigmoid) are" : "only 2 (sigmoid) is");
}

/* They guess tokens ahead, and are counted among the others. */
sac_status sac_config_drop_gguf_layers(sac_model_config *c, const json_t *keys, sac_error *err) {
    sac_decoder_config *d = &c->decoder;
    int n_behind = 0;
    SAC_TRY(sac_config_get_int(keys, "nextn_predict_layers", 0, SAC_CONFIG_MAX_LAYERS, &n_behind, err));
    if (n_behind >= d->n_layers)
        return sac_fail(err, SAC_BAD_FILE, "\"nextn_predict_layers\" is %d of %d layers", n_behind, d->n_layers);
    d->n_layers -= n_behind;
    return SAC_OK;
}

/* A key that is not there has llama.cpp's default. */
sac_status sac_config_read_gguf_routed_experts(sac_model_config *c, const json_t *keys, bool may_be_softmax, sac_error *err) {
    static const routed_names names = {"expert_count",         "expert_used_count",         "expert_feed_forward_length",
                                       "expert_shared_count",  "leading_dense_block_count", "expert_weights_scale",
                                       "expert_weights_norm",  "expert_group_count",        "expert_group_used_count",
                                       0};
    static const char *const needed[] = {"expert_count", "expert_used_count", "expert_feed_forward_length", "expert_shared_count"};
    sac_decoder_config *d = &c->decoder;
    bool sigmoid;
    for (size_t i = 0; i < SAC_COUNT(needed); i++)
        if (!json_object_get(keys, needed[i])) return sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", needed[i]);
    SAC_TRY(read_gate(keys, may_be_softmax, &sigmoid, err));
    SAC_TRY(sac_config_drop_gguf_layers(c, keys, err));
    d->experts.normed = false;
    d->experts.factor = 1;
    d->experts.n_groups = d->experts.n_groups_used = 0;
    SAC_TRY(read_routed(c, keys, &names, 0, 0, err));
    d->experts.sigmoid = sigmoid && d->experts.n;
    return SAC_OK;
}

/* What other models with experts say, and these do not. */
static sac_status check_gguf(const json_t *keys, sac_error *err) {
    static const struct {
        const char *key;
        double usual;
    } only[] = {{"expert_shared_count", 0},       {"expert_group_count", 0},   {"expert_gating_func", 1 /* softmax */},
                {"leading_dense_block_count", 0}, {"expert_weights_scale", 1}, {"expert_shared_feed_forward_length", 0}};
    for (size_t i = 0; i < SAC_COUNT(only); i++) {
        const json_t *v = json_object_get(keys, only[i].key);
        if (v && (!json_is_number(v) || json_number_value(v) != only[i].usual))
            return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" is supported as %g only", only[i].key, only[i].usual);
    }
    return SAC_OK;
}

sac_status sac_config_read_gguf_experts(sac_model_config *c, const json_t *keys, bool normed, sac_error *err) {
    static const char *const needed[] = {"expert_count", "expert_used_count"};
    sac_expert_shape *x = &c->decoder.experts;
    for (size_t i = 0; i < SAC_COUNT(needed); i++)
        if (!json_object_get(keys, needed[i])) return sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing", needed[i]);
    SAC_TRY(check_gguf(keys, err));
    x->intermediate = c->decoder.intermediate;
    x->normed = normed;
    SAC_TRY(sac_config_get_int(keys, "expert_count", 1, SAC_ROUTE_MOST_EXPERTS, &x->n, err));
    SAC_TRY(sac_config_get_int(keys, "expert_used_count", 1, SAC_ROUTE_MOST_EXPERTS, &x->n_used, err));
    SAC_TRY(sac_config_get_int(keys, "expert_feed_forward_length", 1, SAC_CONFIG_MAX_WIDTH, &x->intermediate, err));
    SAC_TRY(sac_json_get_bool(keys, "expert_weights_norm", &x->normed, err));
    for (int i = 0; i < c->decoder.n_layers; i++) sac_layer_set_add(&c->decoder.sparse, i);
    return sac_config_check_experts(x, err);
}
