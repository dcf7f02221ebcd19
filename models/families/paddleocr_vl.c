/* paddleocr_vl.c - PaddleOCR-VL (arXiv:2510.14528), which reads documents: ERNIE 4.5's small language model, which is built like Llama's,
 * with rows numbered on three axes, a tower for pictures of any size, and Qwen2-VL's merger. Its config.json is flat, or has the
 * language model under text_config. */
#include "config_values.h"
#include "family.h"

#include <string.h>

static void defaults(sac_model_config *c) { /* transformers' PaddleOCRTextConfig, PaddleOCRVLConfig and PaddleOCRVisionConfig */
    sac_family_llama.defaults(c);
    c->decoder = (sac_decoder_config){
        .n_layers = 18,
        .hidden = 1024,
        .n_heads = 16,
        .n_kv_heads = 2,
        .head_dim = 128,
        .intermediate = 3072,
        .vocab = 103424,
        .max_position = 131072,
        .rms_eps = 1e-5f,
        .rope.theta = 500000,
    };
    c->has_axes = true;
    c->has_vision = true;
    c->image_token = 100295;
    c->dialect = &sac_dialect_paddleocr_vl;
    c->merger = &sac_merger_patch;
    c->projector_act = SAC_ACT_GELU;
    c->projector_bias = true;
    c->projector_norm_eps = 1e-5f;
    c->tower = (sac_tower_config){.kind = &sac_tower_paddleocrvit,
                                  .image_size = 384,
                                  .patch_size = 14,
                                  .hidden = 1152,
                                  .n_layers = 27,
                                  .n_heads = 16,
                                  .intermediate = 4304,
                                  .norm_eps = 1e-6f,
                                  .act = SAC_ACT_GELU_TANH,
                                  .temporal_patch_size = 1,
                                  .merge_size = 2,
                                  .table_by_cells = true};
}

/* Published files say the whole model's type in either half; in_gguf: what a half of GGUF says. */
static sac_status check_type(const sac_model_config *c, const json_t *half, const char *own, const char *in_gguf, sac_error *err) {
    const char *type = own;
    SAC_TRY(sac_json_get_string(half, "model_type", &type, err));
    if (strcmp(type, own) == 0 || strcmp(type, in_gguf) == 0 || strcmp(type, c->family->name) == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s; %s is", type, c->family->name, own);
}

static sac_status read_rotations(sac_tower_config *v, const json_t *vision, sac_error *err) {
    const json_t *p = NULL;
    const char *type = "axial";
    double theta = 10000;
    SAC_TRY(sac_json_get_object(vision, "rope_parameters", &p, err));
    SAC_TRY(sac_json_get_string(p, "rope_type", &type, err));
    SAC_TRY(sac_config_get_positive(p, "rope_theta", &theta, err));
    v->rope_theta = (float)theta;
    if (strcmp(type, "axial") == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"rope_parameters\": type \"%.30s\"; axial is supported", type);
}

static sac_status read_sizes(sac_tower_config *v, const json_t *vision, sac_error *err) {
    int channels = 3;
    SAC_TRY(sac_config_get_int(vision, "num_channels", 3, 3, &channels, err));
    SAC_TRY(sac_config_get_int(vision, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &v->hidden, err));
    SAC_TRY(sac_config_get_int(vision, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &v->intermediate, err));
    SAC_TRY(sac_config_get_int(vision, "num_hidden_layers", 1, SAC_CONFIG_MAX_LAYERS, &v->n_layers, err));
    SAC_TRY(sac_config_get_int(vision, "num_attention_heads", 1, SAC_CONFIG_MAX_HEADS, &v->n_heads, err));
    SAC_TRY(sac_config_get_int(vision, "spatial_merge_size", 1, 16, &v->merge_size, err));
    SAC_TRY(sac_config_get_int(vision, "image_size", 1, SAC_CONFIG_MAX_IMAGE, &v->image_size, err));
    SAC_TRY(sac_config_get_int(vision, "patch_size", 1, SAC_CONFIG_MAX_IMAGE, &v->patch_size, err));
    SAC_TRY(sac_config_get_float(vision, "layer_norm_eps", &v->norm_eps, err));
    SAC_TRY(sac_config_read_activation(&v->act, vision, "hidden_act", err));
    SAC_TRY(read_rotations(v, vision, err));
    SAC_TRY(sac_config_check_tower(v, err));
    return sac_config_check_range("pixels of a square of patches", (int64_t)v->patch_size * v->merge_size, SAC_CONFIG_MAX_IMAGE, err);
}

/* Learned positions are those of the patches of a square picture of image_size. */
static sac_status read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    sac_tower_config *v = &c->tower;
    SAC_TRY(check_type(c, vision, v->kind->model_type, v->kind->model_type, err));
    SAC_TRY(read_sizes(v, vision, err));
    v->table_side = v->image_size / v->patch_size;
    v->image_size = v->patch_size * v->merge_size; /* the smallest picture */
    v->n_feature_layers = 1;
    v->feature_layer[0] = v->n_layers;
    if (v->hidden / v->n_heads % 4 == 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "vision heads of %d channels: their rotations need a multiple of 4", v->hidden / v->n_heads);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *text = NULL, *vision = NULL;
    SAC_TRY(sac_json_get_object(config, "text_config", &text, err));
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    sac_status st = check_type(c, text, "paddleocr_vl_text", sac_family_paddleocr.name, err);
    if (st == SAC_OK) st = sac_family_llama.read(c, text ? text : config, err);
    SAC_TRY(st == SAC_OK || !text ? st : sac_fail_prefix(err, st, "text_config"));
    st = read_tower(c, vision, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(sac_config_read_token(&c->image_token, config, "image_token_id", NULL, c->decoder.vocab, err));
    bool whole = true, own = true; /* tying in either place counts; of a flat file the language model's is not said */
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &whole, err));
    SAC_TRY(sac_json_get_bool(text, "tie_word_embeddings", &own, err));
    c->tied_head = whole || own;
    return text ? sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err) : SAC_OK;
}

/* clip.vision.image_size is of the largest picture: the table of positions is as large as its tensor. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    int side, patch = 14;
    SAC_TRY(sac_config_get_int(p->vision, "patch_size", 1, SAC_CONFIG_MAX_IMAGE, &patch, err));
    SAC_TRY(sac_mmproj_table_side(&side, p, err));
    json_object_set_new(p->vision, "image_size", json_integer((json_int_t)side * patch));
    return SAC_OK;
}

const sac_family sac_family_paddleocr_vl = {
    .name = "paddleocr_vl", .defaults = defaults, .read = read, .positions = sac_positions_mrope, .mmproj = mmproj};
