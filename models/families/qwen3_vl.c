/* qwen3_vl.c - Qwen3-VL, dense (arXiv:2511.21631): Qwen3 with rows numbered on three axes that take turns among the
 * rotary pairs, a tower with learned positions beside rotations, features of several of its layers added after the
 * first layers of the language model (DeepStack, arXiv:2406.04334), and frames that stand behind their times. */
#include "config_values.h"
#include "qwen2_vl.h"

static void defaults(sac_model_config *c) { /* transformers' Qwen3VLTextConfig and Qwen3VLVisionConfig */
    sac_qwen2_vl_defaults(c);
    sac_family_qwen3.defaults(c);
    c->decoder.max_position = 128000;
    c->decoder.rope.theta = 500000;
    c->axes_take_turns = true;
    c->vision_start = 151652;
    c->vision_end = 151653;
    c->merger = &sac_merger_deepstack;
    c->dialect = &sac_dialect_qwen3vl;
    c->projector_norm_bias = true;
    c->tower = (sac_tower_config){.kind = &sac_tower_qwen3vl,
                                  .patch_size = 16,
                                  .hidden = 1152,
                                  .n_layers = 27,
                                  .n_heads = 16,
                                  .intermediate = 4304,
                                  .norm_eps = 1e-6f,
                                  .act = SAC_ACT_GELU_TANH,
                                  .temporal_patch_size = 2,
                                  .merge_size = 2,
                                  .table_side = 48};
}

/* After which layers of the tower features are taken for the language model's first layers, one each. */
static sac_status read_deep_layers(sac_model_config *c, const json_t *vision, sac_error *err) {
    static const char key[] = "deepstack_visual_indexes";
    static const int usual[] = {8, 16, 24};
    sac_tower_config *v = &c->tower;
    const json_t *list = NULL;
    SAC_TRY(sac_json_get_array(vision, key, &list, err));
    const size_t n = list ? json_array_size(list) : SAC_COUNT(usual);
    if (n >= SAC_TOWER_MAX_FEATURE_LAYERS || n > (size_t)c->decoder.n_layers)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"%s\" lists %zu layers; at most %d are supported, and one for each of the "
                        "language model's %d",
                        key, n, SAC_TOWER_MAX_FEATURE_LAYERS - 1, c->decoder.n_layers);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        const json_int_t layer = list ? json_integer_value(item) : usual[i],
                         before = i ? v->feature_layer[i] - 1 : -1;
        if ((list && !json_is_integer(item)) || layer <= before || layer >= v->n_layers)
            return sac_fail(err, SAC_BAD_FILE,
                            "\"%s\" must list layers of the %d of the tower, each after the one before", key,
                            v->n_layers);
        v->feature_layer[i + 1] = (int)layer + 1;
    }
    v->n_feature_layers = (int)n + 1;
    c->decoder.n_deep = (int)n;
    return SAC_OK;
}

static sac_status read_table(sac_tower_config *v, const json_t *vision, sac_error *err) {
    int n = v->table_side * v->table_side, side = 1;
    SAC_TRY(sac_config_get_int(vision, "num_position_embeddings", 1, 1 << 20, &n, err));
    while (side * side < n) side++;
    if (side * side != n)
        return sac_fail(err, SAC_BAD_FILE, "\"num_position_embeddings\" %d is not the square of a number", n);
    v->table_side = side;
    return SAC_OK;
}

sac_status sac_qwen3_vl_read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    sac_tower_config *v = &c->tower;
    int out = 3584;
    SAC_TRY(sac_config_get_int(vision, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &v->hidden, err));
    SAC_TRY(sac_config_get_int(vision, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &v->intermediate, err));
    SAC_TRY(sac_config_get_int(vision, "out_hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &out, err));
    if (out != c->decoder.hidden)
        return sac_fail(err, SAC_BAD_FILE, "\"out_hidden_size\" %d is not the language model's %d", out,
                        c->decoder.hidden);
    SAC_TRY(read_table(v, vision, err));
    return sac_qwen2_vl_read_tower(v, vision, err);
}

static sac_status read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    SAC_TRY(sac_qwen3_vl_read_tower(c, vision, err));
    return read_deep_layers(c, vision, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_qwen2_vl_read(c, config, read_tower, err));
    SAC_TRY(sac_config_read_token(&c->vision_start, config, "vision_start_token_id", NULL, c->decoder.vocab,
                                  err));
    return sac_config_read_token(&c->vision_end, config, "vision_end_token_id", NULL, c->decoder.vocab, err);
}

/* A flag for each layer of the tower; of how many positions there are, their tensor tells. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    static const char key[] = "clip.vision.is_deepstack_layers";
    const json_t *flags = json_object_get(p->keys, key), *flag;
    size_t i;
    if (flags && !json_is_array(flags)) return sac_fail(err, SAC_BAD_FILE, "%s must be a list", key);
    json_t *layers = json_array();
    json_array_foreach((json_t *)(uintptr_t)flags, i, flag) {
        if (json_is_true(flag)) json_array_append_new(layers, json_integer((json_int_t)i));
    }
    json_object_set_new(p->vision, "deepstack_visual_indexes", layers);
    json_object_set_new(p->vision, "num_position_embeddings",
                        json_integer(p->rows(p->tensors, "v.position_embd.weight")));
    sac_qwen2_vl_bounds(p, 256 * 256, 4096 * 4096);
    json_object_set_new(p->video, "size",
                        json_pack("{s:i, s:i}", "shortest_edge", 64 * 64, "longest_edge", 6144 * 4096));
    return SAC_OK;
}

const sac_family sac_family_qwen3_vl = {.name = "qwen3_vl",
                                        .defaults = defaults,
                                        .read = read,
                                        .positions = sac_positions_mrope,
                                        .mmproj = mmproj};
