/* qwen2_5_vl.c - Qwen2.5-VL (Bai et al., arXiv:2502.13923): as Qwen2-VL, with windows in the tower and an axis of time
 * that counts seconds. */
#include "config_values.h"
#include "qwen2_vl.h"

static void defaults(sac_model_config *c) {
    sac_qwen2_vl_defaults(c);
    c->tokens_per_second = 4;
    c->tower = (sac_tower_config){.kind = &sac_tower_qwen2_5vl,
                                  .patch_size = 14,
                                  .hidden = 3584, /* transformers' default, which no published tower has */
                                  .n_layers = 32,
                                  .n_heads = 16,
                                  .intermediate = 3420,
                                  .norm_eps = 1e-6f,
                                  .act = SAC_ACT_SILU,
                                  .temporal_patch_size = 2,
                                  .merge_size = 2,
                                  .window_size = 112,
                                  .n_full_layers = 4,
                                  .full_layer = {7, 15, 23, 31}};
}

static sac_status read_full_layers(sac_tower_config *v, const json_t *vision, sac_error *err) {
    const json_t *list = NULL;
    SAC_TRY(sac_json_get_array(vision, "fullatt_block_indexes", &list, err));
    if (!list) return SAC_OK;
    if (json_array_size(list) > SAC_TOWER_MAX_FULL_LAYERS)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"fullatt_block_indexes\" lists %zu layers; %d at most are supported",
                        json_array_size(list), SAC_TOWER_MAX_FULL_LAYERS);
    v->n_full_layers = 0;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *n = json_array_get(list, i);
        if (!json_is_integer(n) || json_integer_value(n) < 0 || json_integer_value(n) > SAC_CONFIG_MAX_LAYERS)
            return sac_fail(err, SAC_BAD_FILE, "\"fullatt_block_indexes\" must list numbers of layers");
        v->full_layer[v->n_full_layers++] = (int)json_integer_value(n);
    }
    return SAC_OK;
}

static sac_status read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    sac_tower_config *v = &c->tower;
    int out = 3584, per_second = 4;
    SAC_TRY(sac_config_get_int(vision, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &v->hidden, err));
    SAC_TRY(sac_config_get_int(vision, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &v->intermediate, err));
    SAC_TRY(sac_config_get_int(vision, "out_hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &out, err));
    SAC_TRY(sac_config_get_int(vision, "tokens_per_second", 1, 1 << 16, &per_second, err));
    SAC_TRY(sac_config_get_int(vision, "window_size", 1, SAC_CONFIG_MAX_IMAGE, &v->window_size, err));
    SAC_TRY(read_full_layers(v, vision, err));
    c->tokens_per_second = per_second;
    if (out != c->decoder.hidden)
        return sac_fail(err, SAC_BAD_FILE, "\"out_hidden_size\" %d is not the language model's %d", out,
                        c->decoder.hidden);
    SAC_TRY(sac_qwen2_vl_read_tower(v, vision, err));
    if (v->act != SAC_ACT_SILU) return sac_fail(err, SAC_UNSUPPORTED, "\"hidden_act\" must be silu");
    if (v->window_size >= v->image_size) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"window_size\" %d is smaller than a square of patches, %d pixels",
                    v->window_size, v->image_size);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_qwen2_vl_read(c, config, read_tower, err);
}

/* Every n-th layer attends within whole pictures; n 0: all do. Seconds are counted as in the published folders. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    int64_t pattern = 0, n_layers = 0;
    if (!json_object_get(p->keys, "clip.vision.n_wa_pattern"))
        return sac_fail(err, SAC_BAD_FILE, "metadata key clip.vision.n_wa_pattern is missing");
    SAC_TRY(sac_json_get_int(p->keys, "clip.vision.n_wa_pattern", 0, SAC_CONFIG_MAX_LAYERS, &pattern, err));
    SAC_TRY(sac_json_get_int(p->vision, "depth", 1, SAC_CONFIG_MAX_LAYERS, &n_layers, err));
    if (json_object_get(p->keys, "clip.vision.wa_layer_indexes"))
        return sac_fail(err, SAC_UNSUPPORTED,
                        "clip.vision.wa_layer_indexes is not supported; clip.vision.n_wa_pattern is");
    json_t *full = json_array();
    for (int64_t i = pattern ? pattern - 1 : 0; i < n_layers; i += pattern ? pattern : 1)
        json_array_append_new(full, json_integer(i));
    json_object_set_new(p->vision, "fullatt_block_indexes", full);
    json_object_set_new(p->vision, "tokens_per_second", json_integer(2));
    sac_qwen2_vl_bounds(p, 56 * 56, 28 * 28 * 16384);
    return SAC_OK;
}

const sac_family sac_family_qwen2_5_vl = {.name = "qwen2_5_vl",
                                          .defaults = defaults,
                                          .read = read,
                                          .positions = sac_positions_mrope,
                                          .mmproj = mmproj};
