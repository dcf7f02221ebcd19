/* kimi_vl.c - Kimi-VL (arXiv:2504.07491, sec. 2.1): MoonViT for pictures of any size, a projector that joins squares of patches, and
 * DeepSeek-V3's language model under text_config. Frames of a video are pictures. */
#include "config_values.h"
#include "family.h"

#include <string.h>

static void defaults(sac_model_config *c) { /* moonshotai's KimiVLConfig and MoonViTConfig */
    sac_family_deepseek_v3.defaults(c);
    c->has_vision = true;
    c->image_token = 163605;
    c->dialect = &sac_dialect_kimi_vl;
    c->merger = &sac_merger_patch;
    c->projector_act = SAC_ACT_GELU;
    c->tower = (sac_tower_config){.kind = &sac_tower_moonvit,
                                  .patch_size = 14,
                                  .hidden = 1152,
                                  .n_layers = 27,
                                  .n_heads = 16,
                                  .intermediate = 4304,
                                  .norm_eps = 1e-5f, /* torch's, which no key changes */
                                  .act = SAC_ACT_GELU_TANH,
                                  .temporal_patch_size = 1,
                                  .merge_size = 2,
                                  .table_side = 64,
                                  .table_is_cubic = true};
}

static sac_status check_type(const sac_model_config *c, const json_t *object, const char *only, sac_error *err) {
    const char *type = only;
    SAC_TRY(sac_json_get_string(object, "model_type", &type, err));
    if (strcmp(type, only) == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s; %s is", type, c->family->name, only);
}

static sac_status read_table(sac_tower_config *v, const json_t *vision, sac_error *err) {
    int height = v->table_side, width = v->table_side;
    SAC_TRY(sac_config_get_int(vision, "init_pos_emb_height", 1, 1024, &height, err));
    SAC_TRY(sac_config_get_int(vision, "init_pos_emb_width", 1, 1024, &width, err));
    v->table_side = height;
    if (height == width) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"init_pos_emb_height\" %d beside \"init_pos_emb_width\" %d: only squares are supported", height,
                    width);
}

static sac_status read_tower(sac_tower_config *v, const json_t *vision, sac_error *err) {
    SAC_TRY(sac_config_get_int(vision, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &v->hidden, err));
    SAC_TRY(sac_config_get_int(vision, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &v->intermediate, err));
    SAC_TRY(sac_config_get_int(vision, "num_hidden_layers", 1, SAC_CONFIG_MAX_LAYERS, &v->n_layers, err));
    SAC_TRY(sac_config_get_int(vision, "num_attention_heads", 1, SAC_CONFIG_MAX_HEADS, &v->n_heads, err));
    SAC_TRY(sac_config_read_side(vision, "patch_size", &v->patch_size, err));
    SAC_TRY(sac_config_read_side(vision, "merge_kernel_size", &v->merge_size, err));
    SAC_TRY(sac_config_check_range("patches a side of a square", v->merge_size, 16, err));
    SAC_TRY(sac_config_check_range("pixels of a square of patches", (int64_t)v->patch_size * v->merge_size, SAC_CONFIG_MAX_IMAGE, err));
    SAC_TRY(read_table(v, vision, err));
    v->image_size = v->patch_size * v->merge_size; /* the smallest picture */
    v->n_feature_layers = 1;
    v->feature_layer[0] = v->n_layers;
    SAC_TRY(sac_config_check_tower(v, err));
    if (v->hidden / v->n_heads % 4 == 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "vision heads of %d channels: their rotations need a multiple of 4", v->hidden / v->n_heads);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *text = NULL, *vision = NULL;
    bool tied = false; /* tying in either place counts */
    SAC_TRY(sac_json_get_object(config, "text_config", &text, err));
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    sac_status st = check_type(c, text, sac_family_deepseek_v3.name, err);
    if (st == SAC_OK) st = sac_family_deepseek_v3.read(c, text, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "text_config");
    st = check_type(c, vision, sac_tower_moonvit.model_type, err);
    if (st == SAC_OK) st = read_tower(&c->tower, vision, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(sac_config_read_token(&c->image_token, config, "media_placeholder_token_id", NULL, c->decoder.vocab, err));
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &tied, err));
    c->tied_head |= tied;
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
}

/* Positions are as many as the file has rows of them; a bound of patches is in no key, unless one of pixels stands for it. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    const char *act = json_string_value(json_object_get(p->vision, "hidden_act"));
    int side = 0, patch = 14, most = 0;
    SAC_TRY(sac_mmproj_table_side(&side, p, err));
    if (!act || strcmp(act, "gelu") != 0) return sac_fail(err, SAC_UNSUPPORTED, "clip.use_gelu is not true: it is under kimi_vl");
    SAC_TRY(sac_config_get_int(p->vision, "patch_size", 1, SAC_CONFIG_MAX_IMAGE, &patch, err));
    SAC_TRY(sac_config_get_int(p->keys, "clip.vision.image_max_pixels", patch * patch, INT32_MAX, &most, err));
    if (most) json_object_set_new(p->preprocessor, "in_token_limit", json_integer(most / (patch * patch)));
    json_object_set_new(p->vision, "init_pos_emb_height", json_integer(side));
    json_object_set_new(p->vision, "init_pos_emb_width", json_integer(side));
    json_object_set_new(p->preprocessor, "pad_input", json_true());
    return SAC_OK;
}

const sac_family sac_family_kimi_vl = {
    .name = "kimi_vl", .defaults = defaults, .read = read, .positions = sac_positions_plain, .mmproj = mmproj};
