/* glm4v.c - GLM-4.1V and the dense GLM-4.6V (arXiv:2507.01006): GLM-4 with rows numbered on three axes, a tower for pictures of
 * any size with learned positions beside rotations, and frames of videos that are pictures before their seconds. */
#include "config_values.h"
#include "glm4.h"
#include "qwen2_vl.h"

#include <string.h>

static void defaults(sac_model_config *c) { /* transformers' Glm4vTextConfig */
    sac_family_glm4.defaults(c);
    c->decoder.head_dim = 0;
    c->decoder.max_position = 32768;
    c->decoder.rms_eps = 1e-5f;
    c->partial_rotary = 1;
    sac_glm4v_defaults(c);
}

void sac_glm4v_defaults(sac_model_config *c) { /* transformers' Glm4vConfig and Glm4vVisionConfig */
    c->has_axes = true;
    c->has_vision = true;
    c->image_token = 151343;
    c->media_begin = "<|begin_of_image|>";
    c->media_end = "<|end_of_image|>";
    c->video_mark = "<|video|>";
    c->dialect = &sac_dialect_glm4v;
    c->video_fps = 2;
    c->merger = &sac_merger_glm;
    c->merger_width = 13696;
    c->tower = (sac_tower_config){.kind = &sac_tower_glmvit,
                                  .patch_size = 14,
                                  .hidden = 1536,
                                  .n_layers = 24,
                                  .n_heads = 12,
                                  .norm_eps = 1e-5f,
                                  .act = SAC_ACT_SILU,
                                  .temporal_patch_size = 2,
                                  .merge_size = 2,
                                  .table_is_cubic = true};
}

/* Learned positions of pictures of image_size pixels a side. */
static sac_status read_table(sac_tower_config *v, const json_t *vision, sac_error *err) {
    int size = 336;
    SAC_TRY(sac_config_get_int(vision, "image_size", 1, SAC_CONFIG_MAX_IMAGE, &size, err));
    v->table_side = size / v->patch_size;
    if (v->table_side > 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"image_size\" %d is smaller than a patch of %d", size,
                    v->patch_size);
}

sac_status sac_glm4v_read_tower(sac_model_config *c, const json_t *vision, int out, sac_error *err) {
    sac_tower_config *v = &c->tower;
    SAC_TRY(sac_config_get_int(vision, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &v->hidden, err));
    SAC_TRY(sac_config_get_int(vision, "out_hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &out, err));
    SAC_TRY(sac_config_get_float(vision, "rms_norm_eps", &v->norm_eps, err));
    SAC_TRY(sac_json_get_bool(vision, "attention_bias", &v->qkv_bias, err));
    if (out != c->decoder.hidden)
        return sac_fail(err, SAC_BAD_FILE, "\"out_hidden_size\" %d is not the language model's %d", out,
                        c->decoder.hidden);
    SAC_TRY(sac_qwen2_vl_read_tower(v, vision, err));
    if (v->act != SAC_ACT_SILU) return sac_fail(err, SAC_UNSUPPORTED, "\"hidden_act\" must be silu");
    if (v->temporal_patch_size == 2) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"temporal_patch_size\" is %d; only 2 is supported", v->temporal_patch_size);
}

/* The MLPs of the tower are as wide as what it gives out, that of the merger is intermediate_size wide. */
sac_status sac_glm4v_read_own_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    SAC_TRY(sac_config_get_int(vision, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &c->merger_width, err));
    c->tower.intermediate = c->decoder.hidden; /* which out_hidden_size must be */
    SAC_TRY(sac_glm4v_read_tower(c, vision, 4096, err));
    return read_table(&c->tower, vision, err);
}

/* Glm4vTextConfig; its heads are as wide as the hidden size says. */
static sac_status read_own_text(sac_model_config *c, const json_t *text, sac_error *err) {
    SAC_TRY(sac_glm4_read(c, text, err));
    if (c->decoder.head_dim * c->decoder.n_heads == c->decoder.hidden) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"head_dim\" is %d, but %d heads share the hidden size of %d",
                    c->decoder.head_dim, c->decoder.n_heads, c->decoder.hidden);
}

/* A language model in GGUF says the name of the family that it has alone. */
static sac_status check_type(const sac_model_config *c, const json_t *text, const char *only,
                             sac_error *err) {
    const char *type = only;
    SAC_TRY(sac_json_get_string(text, "model_type", &type, err));
    if (strcmp(type, only) == 0 || strcmp(type, c->text_family->name) == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s; %s is", type,
                    c->family->name, only);
}

sac_status sac_glm4v_read(sac_model_config *c, const json_t *config, const char *text_type, sac_glm4v_half_fn read_text,
                          sac_glm4v_half_fn read_tower, sac_error *err) {
    const json_t *text = NULL, *vision = NULL;
    bool tied = false; /* tying in either place counts */
    SAC_TRY(sac_json_get_object(config, "text_config", &text, err));
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    sac_status st = check_type(c, text, text_type, err);
    if (st == SAC_OK) st = read_text(c, text, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "text_config");
    st = read_tower(c, vision, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(sac_config_read_token(&c->image_token, config, "image_token_id", NULL, c->decoder.vocab, err));
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &tied, err));
    c->tied_head |= tied;
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    return sac_glm4v_read(c, config, "glm4v_text", read_own_text, sac_glm4v_read_own_tower, err);
}

/* Llama.cpp's converter writes no bounds of pixels: those of pictures are then as in the published preprocessor_config.json files, whose
 * largest makes 6,144 tokens, and not transformers' default. Those of videos are that default; how wide the merger is the tensors say.
 * Which of GLM-4.1V's and GLM-4.6V's rules choose frames no key tells: they are chosen by GLM-4.1V's. */
sac_status sac_glm4v_mmproj(sac_mmproj *p, sac_error *err) {
    static const char keys_norm[] = "v.blk.0.attn_k_norm.weight";
    int least = 112 * 112, most = 2 * 28 * 28 * 6144; /* two frames: a picture counts as both */
    if (p->rows(p->tensors, keys_norm) && !p->rows(p->tensors, "v.blk.0.attn_q_norm.weight"))
        return sac_fail(err, SAC_UNSUPPORTED, "tensor %s: norms of heads of keys alone are not supported in this tower", keys_norm);
    SAC_TRY(sac_config_get_int(p->keys, "clip.vision.image_min_pixels", 1, INT32_MAX, &least, err));
    SAC_TRY(sac_config_get_int(p->keys, "clip.vision.image_max_pixels", 1, INT32_MAX, &most, err));
    json_object_set_new(p->vision, "attention_bias",
                        json_boolean(p->rows(p->tensors, "v.blk.0.attn_qkv.bias") || p->rows(p->tensors, "v.blk.0.attn_q.bias")));
    json_object_set_new(p->vision, "intermediate_size", json_integer(p->rows(p->tensors, "mm.up.weight")));
    json_object_set_new(p->vision, "out_hidden_size", json_integer(p->rows(p->tensors, "mm.model.fc.weight")));
    json_object_set_new(p->preprocessor, "size", json_pack("{s:i, s:i}", "shortest_edge", least, "longest_edge", most));
    json_object_set_new(p->video, "size", json_pack("{s:i, s:i}", "shortest_edge", 112 * 112, "longest_edge", 28 * 28 * 2 * 30000));
    return SAC_OK;
}

const sac_family sac_family_glm4v = {
    .name = "glm4v", .defaults = defaults, .read = read, .positions = sac_positions_mrope, .mmproj = sac_glm4v_mmproj};
