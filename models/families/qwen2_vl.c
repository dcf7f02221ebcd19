/* qwen2_vl.c - Qwen2-VL (Wang et al., arXiv:2409.12191): Qwen2 with rows numbered on three axes, and a tower for
 * pictures of any size. Its config.json is flat, or has the language model under text_config. Qwen2.5-VL's is read
 * here too (qwen2_5_vl.c has its defaults). */
#include "qwen2_vl.h"

#include "config_values.h"

#include <string.h>

static void defaults(sac_model_config *c) {
    sac_qwen2_vl_defaults(c);
    c->projector_norm_bias = true;
    c->tower = (sac_tower_config){.kind = &sac_tower_qwen2vl,
                                  .patch_size = 14,
                                  .hidden = 1280,
                                  .n_layers = 32,
                                  .n_heads = 16,
                                  .intermediate = 5120,
                                  .norm_eps = 1e-6f,
                                  .act = SAC_ACT_QUICK_GELU,
                                  .temporal_patch_size = 2,
                                  .merge_size = 2};
}

/* transformers' Qwen2VLTextConfig and Qwen2_5_VLTextConfig, which are alike. */
void sac_qwen2_vl_defaults(sac_model_config *c) {
    sac_family_qwen2.defaults(c);
    c->decoder.n_layers = 80;
    c->decoder.hidden = 8192;
    c->decoder.n_heads = 64;
    c->decoder.n_kv_heads = 8;
    c->decoder.intermediate = 29568;
    c->decoder.vocab = 152064;
    c->decoder.rms_eps = 1e-5f;
    c->decoder.rope.theta = 1000000;
    c->has_axes = true;
    c->has_vision = true;
    c->merger = &sac_merger_patch;
    c->projector_act = SAC_ACT_GELU;
    c->projector_bias = true;
    c->image_token = 151655;
    c->video_token = 151656;
    c->dialect = &sac_dialect_qwen2vl;
    c->video_fps = 2; /* qwen-vl-utils */
}

/* A size that may be a list for each axis, all alike. */
static sac_status get_size(const json_t *object, const char *key, int *value, sac_error *err) {
    const json_t *list = json_object_get(object, key);
    if (!json_is_array(list)) return sac_config_get_int(object, key, 1, SAC_CONFIG_MAX_IMAGE, value, err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_int_t n = json_integer_value(json_array_get(list, i));
        if (n < 1 || n > SAC_CONFIG_MAX_IMAGE || n != json_integer_value(json_array_get(list, 0)))
            return sac_fail(err, SAC_BAD_FILE,
                            "\"%s\" must be one size of 1 to %d, or the same several times", key,
                            SAC_CONFIG_MAX_IMAGE);
        *value = (int)n;
    }
    return SAC_OK;
}

/* The tower's own rotations, as transformers 5 writes them: two axes, to the base 10000. */
static sac_status check_rotations(const json_t *object, sac_error *err) {
    const json_t *p = NULL;
    const char *type = "axial";
    double theta = 10000;
    SAC_TRY(sac_json_get_object(object, "rope_parameters", &p, err));
    SAC_TRY(sac_json_get_string(p, "rope_type", &type, err));
    SAC_TRY(sac_config_get_positive(p, "rope_theta", &theta, err));
    if (strcmp(type, "axial") == 0 && theta == 10000) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"rope_parameters\": type \"%.30s\" with theta %g; axial with 10000 is supported", type,
                    theta);
}

sac_status sac_qwen2_vl_read_tower(sac_tower_config *v, const json_t *object, sac_error *err) {
    int channels = 3;
    SAC_TRY(sac_config_get_int(object, "in_channels", 3, 3, &channels, err));
    SAC_TRY(sac_config_get_int(object, "in_chans", 3, 3, &channels, err));
    SAC_TRY(sac_config_get_int(object, "depth", 1, SAC_CONFIG_MAX_LAYERS, &v->n_layers, err));
    SAC_TRY(sac_config_get_int(object, "num_heads", 1, SAC_CONFIG_MAX_HEADS, &v->n_heads, err));
    SAC_TRY(get_size(object, "patch_size", &v->patch_size, err));
    SAC_TRY(get_size(object, "temporal_patch_size", &v->temporal_patch_size, err));
    SAC_TRY(sac_config_get_int(object, "spatial_merge_size", 1, 16, &v->merge_size, err));
    SAC_TRY(sac_config_read_activation(&v->act, object, "hidden_act", err));
    SAC_TRY(check_rotations(object, err));
    v->image_size = v->patch_size * v->merge_size; /* the smallest picture */
    v->n_feature_layers = 1;
    v->feature_layer[0] = v->n_layers;
    SAC_TRY(sac_config_check_range("frames of a patch", v->temporal_patch_size, 16, err));
    SAC_TRY(sac_config_check_tower(v, err));
    if (v->hidden / v->n_heads % 4 == 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "vision heads of %d channels: their rotations need a multiple of 4",
                    v->hidden / v->n_heads);
}

sac_status sac_qwen2_vl_read(sac_model_config *c, const json_t *config, sac_qwen2_vl_tower_fn read_tower,
                             sac_error *err) {
    const json_t *text = NULL, *vision = NULL;
    SAC_TRY(sac_json_get_object(config, "text_config", &text, err));
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    sac_status st = c->text_family->read(c, text ? text : config, err);
    SAC_TRY(st == SAC_OK || !text ? st : sac_fail_prefix(err, st, "text_config"));
    st = read_tower(c, vision, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(sac_config_read_token(&c->image_token, config, "image_token_id", NULL, c->decoder.vocab, err));
    SAC_TRY(sac_config_read_token(&c->video_token, config, "video_token_id", NULL, c->decoder.vocab, err));
    bool tied = false; /* tying in either place counts */
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &tied, err));
    c->tied_head |= tied;
    if (text) return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
    return SAC_OK;
}

/* Here hidden_size is what the merger gives, embed_dim the tower's own. */
static sac_status read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    sac_tower_config *v = &c->tower;
    double ratio = 4;
    int out = c->decoder.hidden;
    SAC_TRY(sac_config_get_int(vision, "embed_dim", 1, SAC_CONFIG_MAX_WIDTH, &v->hidden, err));
    SAC_TRY(sac_config_get_int(vision, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &out, err));
    SAC_TRY(sac_config_get_positive(vision, "mlp_ratio", &ratio, err));
    if (ratio * v->hidden > SAC_CONFIG_MAX_WIDTH)
        return sac_fail(err, SAC_BAD_FILE, "\"mlp_ratio\" %g times %d is too wide", ratio, v->hidden);
    v->intermediate = (int)(ratio * v->hidden);
    if (out != c->decoder.hidden)
        return sac_fail(err, SAC_BAD_FILE, "\"hidden_size\" %d is not the language model's %d", out,
                        c->decoder.hidden);
    return sac_qwen2_vl_read_tower(v, vision, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_qwen2_vl_read(c, config, read_tower, err);
}

/* The bounds of pixels in the published folders, where the file says none. */
void sac_qwen2_vl_bounds(sac_mmproj *p, int64_t min_pixels, int64_t max_pixels) {
    if (!json_object_get(p->preprocessor, "min_pixels"))
        json_object_set_new(p->preprocessor, "min_pixels", json_integer(min_pixels));
    if (!json_object_get(p->preprocessor, "max_pixels"))
        json_object_set_new(p->preprocessor, "max_pixels", json_integer(max_pixels));
}

/* The file's feed_forward_length is something else, or 0: the tensors say it. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    const json_int_t rows = p->rows(p->tensors, "v.blk.0.ffn_up.weight"),
                     width = json_integer_value(json_object_get(p->vision, "embed_dim"));
    if (rows < 1 || width < 1)
        return sac_fail(err, SAC_BAD_FILE,
                        "tensor v.blk.0.ffn_up.weight or key clip.vision.embedding_length is missing");
    json_object_set_new(p->vision, "mlp_ratio", json_real((double)rows / (double)width));
    sac_qwen2_vl_bounds(p, 56 * 56, 28 * 28 * 16384);
    return SAC_OK;
}

const sac_family sac_family_qwen2_vl = {.name = "qwen2_vl",
                                        .defaults = defaults,
                                        .read = read,
                                        .positions = sac_positions_mrope,
                                        .mmproj = mmproj};
