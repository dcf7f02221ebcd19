/* longva.c - LongVA (Zhang et al., arXiv:2406.16852): Qwen2 with a CLIP tower in the original LLaVA's flat
 * config.json. UniRes: tiles and frames alike give their projected tokens averaged 2 x 2, a video is one
 * placeholder. The tower's sizes are not in the file; its name is. */
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
                    "\"%s\" is \"%.40s\": not LongVA but another LlavaQwenForCausalLM; only %s is supported",
                    key, value, supported);
}

/* Sizes of the towers that LongVA-like checkpoints name. */
static sac_status tower_by_name(sac_model_config *c, sac_error *err) {
    static const struct {
        const char *name;
        int image_size, patch_size, hidden, n_layers, n_heads;
    } towers[] = {
        {"clip-vit-large-patch14-336", 336, 14, 1024, 24, 16},
        {"clip-vit-large-patch14", 224, 14, 1024, 24, 16},
        {"clip-vit-base-patch16", 224, 16, 768, 12, 12},
        {"clip-vit-base-patch32", 224, 32, 768, 12, 12},
    };
    const char *slash = strrchr(c->tower_name, '/'), *name = slash ? slash + 1 : c->tower_name;
    for (size_t i = 0; i < SAC_COUNT(towers); i++) {
        if (strcmp(name, towers[i].name) != 0) continue;
        c->tower = (sac_tower_config){.kind = &sac_tower_clip,
                                      .image_size = towers[i].image_size,
                                      .patch_size = towers[i].patch_size,
                                      .hidden = towers[i].hidden,
                                      .n_layers = towers[i].n_layers,
                                      .n_heads = towers[i].n_heads,
                                      .intermediate = 4 * towers[i].hidden,
                                      .norm_eps = 1e-5f,
                                      .act = SAC_ACT_QUICK_GELU};
        return SAC_OK;
    }
    return sac_fail(err, SAC_NOT_FOUND,
                    "sizes of \"mm_vision_tower\" %.80s are not known; put its config.json into a folder "
                    "vision_tower beside this file",
                    c->tower_name);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(only(config, "mm_patch_merge_type", "flat", "unires", err));
    SAC_TRY(only(config, "mm_projector_type", "linear", "mlp2x_gelu", err));
    SAC_TRY(sac_family_qwen2.read(c, config, err));
    const char *feature = "patch";
    SAC_TRY(sac_json_get_string(config, "mm_vision_select_feature", &feature, err));
    c->tower_name = NULL;
    SAC_TRY(sac_json_get_string(config, "mm_vision_tower", &c->tower_name, err));
    if (!c->tower_name) return sac_fail(err, SAC_BAD_FILE, "\"mm_vision_tower\" is missing");
    /* sac_model_config_open_tower put vision_config here when the folder holds one */
    const json_t *vision = NULL;
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    if (vision) {
        c->tower = (sac_tower_config){.kind = &sac_tower_clip,
                                      .image_size = 224,
                                      .patch_size = 32,
                                      .hidden = 768,
                                      .n_layers = 12,
                                      .n_heads = 12,
                                      .intermediate = 3072,
                                      .norm_eps = 1e-5f,
                                      .act = SAC_ACT_QUICK_GELU};
        SAC_TRY(sac_config_read_tower(c, vision, err));
    } else {
        SAC_TRY(tower_by_name(c, err));
    }
    SAC_TRY(sac_config_read_layers(c, config, "mm_vision_select_layer", -2, err));
    c->tower.keep_class = strcmp(feature, "cls_patch") == 0;
    if (strcmp(feature, "patch") != 0) /* pooling needs the bare grid */
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"mm_vision_select_feature\" is \"%.30s\"; only patch is supported", feature);
    return SAC_OK;
}

const sac_family sac_family_longva = {"longva", defaults, read, sac_positions_plain};
