/* longva.c - LlavaQwenForCausalLM: Qwen2 in the original LLaVA's flat config.json, whose "mm_patch_merge_type" says
 * which of two models it is. The tower's sizes are not in the file; its name is.
 *
 *   unires         LongVA (Zhang et al., arXiv:2406.16852) with a CLIP tower: tiles and frames alike give their
 *                  projected tokens averaged 2 x 2, a video is one placeholder
 *   spatial_unpad  LLaVA-OneVision (Li et al., arXiv:2408.03326) with a SigLIP tower: as llava_onevision.c; and LLaVA-Video
 *                  (Zhang et al., arXiv:2410.02713), whose "mm_newline_position" has newlines among a video's rows. The
 *                  authors' code halves the sides of frames, whatever "mm_spatial_pool_stride" says, in some of its
 *                  versions, and goes by the key in others: only 2 is taken */
#include "config_values.h"
#include "family.h"

#include <string.h>

static void defaults(sac_model_config *c) {
    sac_family_qwen2.defaults(c);
    c->has_vision = true;
    c->merger = &sac_merger_mlp;
    c->projector_act = SAC_ACT_GELU;
    c->projector_bias = true;
    c->image_token = -200; /* IMAGE_TOKEN_INDEX: stands outside the vocabulary */
    c->dialect = &sac_dialect_unires;
}

static sac_status only(const json_t *config, const char *key, const char *fallback, const char *supported,
                       sac_error *err) {
    const char *value = fallback;
    SAC_TRY(sac_json_get_string(config, key, &value, err));
    if (strcmp(value, supported) == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"%s\" is \"%.40s\" in a LlavaQwenForCausalLM; only %s is supported", key, value,
                    supported);
}

/* Sizes of the towers that such checkpoints name. */
static sac_status tower_by_name(sac_model_config *c, sac_error *err) {
    static const struct {
        const char *name;
        int image_size, patch_size, hidden, intermediate, n_layers, n_heads;
        bool is_siglip;
    } towers[] = {
        {"clip-vit-large-patch14-336", 336, 14, 1024, 4096, 24, 16, false},
        {"clip-vit-large-patch14", 224, 14, 1024, 4096, 24, 16, false},
        {"clip-vit-base-patch16", 224, 16, 768, 3072, 12, 12, false},
        {"clip-vit-base-patch32", 224, 32, 768, 3072, 12, 12, false},
        {"siglip-so400m-patch14-384", 384, 14, 1152, 4304, 27, 16, true},
    };
    const char *slash = strrchr(c->tower_name, '/'), *name = slash ? slash + 1 : c->tower_name;
    for (size_t i = 0; i < SAC_COUNT(towers); i++) {
        if (strcmp(name, towers[i].name) != 0) continue;
        c->tower = (sac_tower_config){.kind = towers[i].is_siglip ? &sac_tower_siglip : &sac_tower_clip,
                                      .image_size = towers[i].image_size,
                                      .patch_size = towers[i].patch_size,
                                      .hidden = towers[i].hidden,
                                      .n_layers = towers[i].n_layers,
                                      .n_heads = towers[i].n_heads,
                                      .intermediate = towers[i].intermediate,
                                      .norm_eps = towers[i].is_siglip ? 1e-6f : 1e-5f,
                                      .act = towers[i].is_siglip ? SAC_ACT_GELU_TANH : SAC_ACT_QUICK_GELU};
        return SAC_OK;
    }
    return sac_fail(err, SAC_NOT_FOUND,
                    "sizes of \"mm_vision_tower\" %.80s are not known; put its config.json into a folder "
                    "vision_tower beside this file",
                    c->tower_name);
}

static sac_status read_tower(sac_model_config *c, const json_t *config, sac_error *err) {
    c->tower_name = NULL;
    SAC_TRY(sac_json_get_string(config, "mm_vision_tower", &c->tower_name, err));
    if (!c->tower_name) return sac_fail(err, SAC_BAD_FILE, "\"mm_vision_tower\" is missing");
    /* sac_model_config_open_tower put vision_config here when the folder holds one */
    const json_t *vision = NULL;
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    return vision ? sac_config_read_llava_tower(c, vision, err) : tower_by_name(c, err);
}

static sac_status check_tower(const sac_model_config *c, const sac_tower_kind *kind, const char *model,
                              sac_error *err) {
    if (c->tower.kind == kind) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"mm_vision_tower\" %.80s is of the kind %s; %s is supported with %s", c->tower_name,
                    c->tower.kind->name, model, kind->name);
}

static sac_status read_longva(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(only(config, "image_aspect_ratio", "anyres", "anyres", err));
    SAC_TRY(check_tower(c, &sac_tower_clip, "LongVA", err));
    SAC_TRY(sac_json_get_bool(config, "add_time_instruction", &c->time_instruction, err));
    if (c->time_instruction)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"add_time_instruction\" is true; under \"mm_patch_merge_type\" unires only false is supported");
    return sac_config_read_layers(c, config, "mm_vision_select_layer", -2, err);
}

/* The original's SigLIP leaves its last layer out, whatever layer is asked for. */
static sac_status read_onevision(sac_model_config *c, const json_t *config, sac_error *err) {
    int stride = 2, layer = -2;
    const char *newline = "one_token";
    SAC_TRY(sac_json_get_string(config, "mm_newline_position", &newline, err));
    SAC_TRY(sac_config_get_int(config, "mm_spatial_pool_stride", 2, 2, &stride, err));
    SAC_TRY(sac_config_get_int(config, "mm_vision_select_layer", -2, -2, &layer, err));
    SAC_TRY(check_tower(c, &sac_tower_siglip, "LLaVA-OneVision", err));
    if (c->tower.n_layers < 2)
        return sac_fail(err, SAC_BAD_FILE, "the tower has %d layer, of which the last is left out",
                        c->tower.n_layers);
    c->tower.n_layers--;
    c->tower.n_feature_layers = 1;
    c->tower.feature_layer[0] = c->tower.n_layers;
    c->dialect = &sac_dialect_onevision;
    c->image_newline = true;
    c->video_newline = strcmp(newline, "one_token") == 0;
    return sac_json_get_bool(config, "add_time_instruction", &c->time_instruction, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    const char *merge = "flat", *feature = "patch";
    SAC_TRY(sac_json_get_string(config, "mm_patch_merge_type", &merge, err));
    const bool is_onevision = strcmp(merge, "spatial_unpad") == 0;
    if (!is_onevision && strcmp(merge, "unires") != 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"mm_patch_merge_type\" is \"%.40s\", neither LongVA's unires nor LLaVA-OneVision's "
                        "spatial_unpad",
                        merge);
    SAC_TRY(only(config, "mm_projector_type", "linear", "mlp2x_gelu", err));
    SAC_TRY(sac_family_qwen2.read(c, config, err));
    SAC_TRY(read_tower(c, config, err));
    SAC_TRY(sac_json_get_string(config, "mm_vision_select_feature", &feature, err));
    if (strcmp(feature, "patch") != 0) /* pooling needs the bare grid */
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"mm_vision_select_feature\" is \"%.30s\"; only patch is supported", feature);
    return is_onevision ? read_onevision(c, config, err) : read_longva(c, config, err);
}

const sac_family sac_family_longva = {
    .name = "longva", .defaults = defaults, .read = read, .positions = sac_positions_plain};
