/* pixtral.c - what config.json says of Pixtral's tower, under LLaVA (mistral-community/pixtral-12b) and under Mistral 3. */
#include "config.h"

#include "config_values.h"

#include <string.h>

/* Rotations of two axes, as transformers 5 writes them, where "default" means that too; older files have the base alone. */
static sac_status read_rotations(sac_tower_config *v, const json_t *vision, sac_error *err) {
    const json_t *p = NULL;
    const char *type = "axial";
    double theta = 10000;
    SAC_TRY(sac_config_get_positive(vision, "rope_theta", &theta, err));
    SAC_TRY(sac_json_get_object(vision, "rope_parameters", &p, err));
    SAC_TRY(sac_config_get_positive(p, "rope_theta", &theta, err));
    SAC_TRY(sac_json_get_string(p, "type", &type, err));
    SAC_TRY(sac_json_get_string(p, "rope_type", &type, err));
    v->rope_theta = (float)theta;
    if (strcmp(type, "axial") == 0 || strcmp(type, "default") == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"rope_parameters\": type \"%.30s\"; axial is supported", type);
}

static sac_status check(const sac_tower_config *v, const json_t *vision, sac_error *err) {
    int head_dim = v->hidden / v->n_heads;
    SAC_TRY(sac_config_check_tower(v, err));
    SAC_TRY(sac_config_get_int(vision, "head_dim", 1, SAC_CONFIG_MAX_HEAD_DIM, &head_dim, err));
    if (head_dim != v->hidden / v->n_heads)
        return sac_fail(err, SAC_BAD_FILE, "\"head_dim\" %d: %d channels in %d heads are %d each", head_dim,
                        v->hidden, v->n_heads, v->hidden / v->n_heads);
    if (head_dim % 4 == 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "vision heads of %d channels: their rotations need a multiple of 4",
                    head_dim);
}

sac_status sac_config_read_pixtral_tower(sac_model_config *c, const json_t *vision, int merge,
                                         sac_error *err) {
    sac_tower_config *v = &c->tower;
    int channels = 3;
    *v = (sac_tower_config){.kind = &sac_tower_pixtral,
                            .patch_size = 16,
                            .hidden = 1024,
                            .n_layers = 24,
                            .n_heads = 16,
                            .intermediate = 4096,
                            .norm_eps = 1e-5f, /* transformers' own, which no key changes */
                            .act = SAC_ACT_GELU,
                            .temporal_patch_size = 1,
                            .merge_size = merge};
    SAC_TRY(sac_config_get_int(vision, "num_channels", 3, 3, &channels, err));
    SAC_TRY(sac_config_get_int(vision, "hidden_size", 1, SAC_CONFIG_MAX_WIDTH, &v->hidden, err));
    SAC_TRY(sac_config_get_int(vision, "intermediate_size", 1, SAC_CONFIG_MAX_WIDTH, &v->intermediate, err));
    SAC_TRY(sac_config_get_int(vision, "num_hidden_layers", 1, SAC_CONFIG_MAX_LAYERS, &v->n_layers, err));
    SAC_TRY(sac_config_get_int(vision, "num_attention_heads", 1, SAC_CONFIG_MAX_HEADS, &v->n_heads, err));
    SAC_TRY(sac_config_read_side(vision, "patch_size", &v->patch_size, err));
    SAC_TRY(sac_config_read_activation(&v->act, vision, "hidden_act", err));
    SAC_TRY(read_rotations(v, vision, err));
    SAC_TRY(sac_config_check_range("pixels of a square of patches", (int64_t)v->patch_size * merge,
                                   SAC_CONFIG_MAX_IMAGE, err));
    v->image_size = v->patch_size * merge; /* the smallest picture */
    v->n_feature_layers = 1;
    v->feature_layer[0] = v->n_layers;
    return check(v, vision, err);
}
