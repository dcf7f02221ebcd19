/* internvl.c - InternVL 2.5, 3 and 3.5 in transformers' format (arXiv:2504.10479, arXiv:2508.18265): an InternViT tower,
 * pixel shuffle before a projector, Qwen2, Qwen3 (with experts, too) or Llama; frames of a video stand behind their numbers. */
#include "config_values.h"
#include "family.h"

#include <string.h>

/* transformers' InternVLVisionConfig: InternViT-300M, without biases of queries, keys and values. */
static const sac_tower_config internvit_300m = {
    .kind = &sac_tower_internvit,
    .image_size = 448,
    .patch_size = 14,
    .hidden = 1024,
    .n_layers = 24,
    .n_heads = 16,
    .intermediate = 4096,
    .norm_eps = 1e-6f,
    .act = SAC_ACT_GELU,
    .norm_bias = true,
};

static void defaults(sac_model_config *c) {
    c->has_vision = true;
    c->merger = &sac_merger_shuffle;
    c->projector_act = SAC_ACT_GELU;
    c->projector_bias = true;
    c->image_token = 151667;
    c->media_begin = "<img>";
    c->media_end = "</img>";
    c->video_mark = "<video>";
    c->dialect = &sac_dialect_internvl;
}

static sac_status read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    sac_tower_config *v = &c->tower;
    const char *norm = "layer_norm";
    bool mean_pooling = true;
    SAC_TRY(sac_config_read_tower(c, vision, err));
    if (v->kind != &sac_tower_internvit)
        return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s",
                        v->kind->model_type, c->family->name);
    SAC_TRY(sac_json_get_bool(vision, "attention_bias", &v->qkv_bias, err));
    SAC_TRY(sac_json_get_bool(vision, "use_qk_norm", &v->qk_norm, err));
    SAC_TRY(sac_json_get_bool(vision, "use_mean_pooling", &mean_pooling, err));
    SAC_TRY(sac_json_get_string(vision, "norm_type", &norm, err));
    v->norm_bias = strcmp(norm, "layer_norm") == 0;
    v->final_norm = !mean_pooling;
    if (v->norm_bias || strcmp(norm, "rms_norm") == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"norm_type\" is \"%.30s\"; layer_norm and rms_norm are supported",
                    norm);
}

/* Features of 1 / ratio a side make one row. transformers splits the grid with products of the ratio itself, which
 * come out even for powers of two only. */
static sac_status read_ratio(sac_model_config *c, const json_t *config, sac_error *err) {
    const int grid = c->tower.image_size / c->tower.patch_size;
    double ratio = 0.5;
    int side = 1;
    SAC_TRY(sac_config_get_positive(config, "downsample_ratio", &ratio, err));
    while (side < 8 && ratio * side < 1) side *= 2;
    if (ratio * side != 1)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"downsample_ratio\" is %g; 1, 0.5, 0.25 and 0.125 are supported", ratio);
    if (grid % side)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"downsample_ratio\" %g does not divide the %d x %d patches of a picture", ratio,
                        grid, grid);
    c->tower.merge_size = side;
    return SAC_OK;
}

/* One layer, whose patches are a square: several layers and a class token among them fail in transformers too. */
static sac_status check_features(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *layer = json_object_get(config, "vision_feature_layer");
    if (json_is_array(layer))
        return sac_fail(err, SAC_UNSUPPORTED, "\"vision_feature_layer\" is a list; one layer is supported");
    if (c->tower.keep_class)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"vision_feature_select_strategy\" full is not supported under %s: the "
                        "class token has no place in the grid",
                        c->family->name);
    /* the norm behind the layers is the last hidden state's only where that is asked for as -1 */
    if (sac_config_has(config, "vision_feature_layer") && json_integer_value(layer) != -1)
        c->tower.final_norm = false;
    return SAC_OK;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    static const sac_llava_defaults own = {.text = "qwen2",
                                           .tower = &internvit_300m,
                                           .feature_layer = -1,
                                           .strategy = "default",
                                           .read_tower = read_tower};
    SAC_TRY(sac_config_read_llava(c, config, &own, err));
    if (!sac_config_has(config, "tie_word_embeddings")) c->tied_head = true; /* InternVLConfig's */
    SAC_TRY(check_features(c, config, err));
    return read_ratio(c, config, err);
}

/* What there are no keys for, the tensors say. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    int64_t side = 2;
    SAC_TRY(sac_json_get_int(p->keys, "clip.vision.projector.scale_factor", 1, 8, &side, err));
    const bool has_bias =
                   p->rows(p->tensors, "v.blk.0.attn_q.bias") || p->rows(p->tensors, "v.blk.0.attn_qkv.bias"),
               has_mean = p->rows(p->tensors, "v.blk.0.ln1.bias"),
               has_qk = p->rows(p->tensors, "v.blk.0.attn_q_norm.weight"),
               has_final = p->rows(p->tensors, "v.post_ln.weight");
    json_object_set_new(p->config, "downsample_ratio", json_real(1 / (double)side));
    json_object_set_new(p->vision, "attention_bias", json_boolean(has_bias));
    json_object_set_new(p->vision, "use_qk_norm", json_boolean(has_qk));
    json_object_set_new(p->vision, "norm_type", json_string(has_mean ? "layer_norm" : "rms_norm"));
    json_object_set_new(p->vision, "use_mean_pooling", json_boolean(!has_final));
    json_t *size = json_object_get(p->vision, "image_size");
    json_object_set_new(p->preprocessor, "size", json_pack("{s:O, s:O}", "height", size, "width", size));
    return SAC_OK;
}

const sac_family sac_family_internvl = {.name = "internvl",
                                        .defaults = defaults,
                                        .read = read,
                                        .positions = sac_positions_plain,
                                        .mmproj = mmproj};
