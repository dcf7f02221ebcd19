/* llava.c - LLaVA-1.5 in transformers' format: a CLIP tower, a two-layer projector, a text model of its own
 * family under text_config. LLaVA-Interleave is the same with a SigLIP tower and Qwen2, Pixtral with its own tower, dialect
 * and Mistral. */
#include "config_values.h"
#include "family.h"
#include "family_spec.h"

#include <stdio.h>
#include <string.h>

/* transformers' CLIPVisionConfig: what a vision_config without a key means. */
static const sac_tower_config clip_defaults = {
    .kind = &sac_tower_clip,
    .image_size = 224,
    .patch_size = 32,
    .hidden = 768,
    .n_layers = 12,
    .n_heads = 12,
    .intermediate = 3072,
    .norm_eps = 1e-5f,
    .act = SAC_ACT_QUICK_GELU,
};
/* SiglipVisionConfig's. */
static const sac_tower_config siglip_defaults = {
    .kind = &sac_tower_siglip,
    .image_size = 224,
    .patch_size = 16,
    .hidden = 768,
    .n_layers = 12,
    .n_heads = 12,
    .intermediate = 3072,
    .norm_eps = 1e-6f,
    .act = SAC_ACT_GELU_TANH,
};
/* LlavaConfig without any vision_config: CLIP ViT-L/14 at 336. */
static const sac_tower_config clip_large_336 = {
    .kind = &sac_tower_clip,
    .image_size = 336,
    .patch_size = 14,
    .hidden = 1024,
    .n_layers = 24,
    .n_heads = 16,
    .intermediate = 4096,
    .norm_eps = 1e-5f,
    .act = SAC_ACT_QUICK_GELU,
};

static void defaults(sac_model_config *c) {
    c->has_vision = true;
    c->merger = &sac_merger_mlp;
    c->projector_act = SAC_ACT_GELU;
    c->projector_bias = true;
    c->image_token = 32000;
    c->dialect = &sac_dialect_clip;
}

/* The text model by text_config.model_type, through its own family. */
static sac_status read_text(sac_model_config *c, const json_t *config, const char *type, sac_error *err) {
    const json_t *text = NULL;
    SAC_TRY(sac_json_get_object(config, "text_config", &text, err));
    if (text) SAC_TRY(sac_json_get_string(text, "model_type", &type, err));
    const sac_family_spec *spec;
    SAC_TRY(sac_family_spec_find(&spec, c->family->name, err));
    const sac_family *family = sac_family_find(c->families, type);
    const bool is_granite = family == &sac_family_granite;
    if (!family || !sac_spec_list_has(&spec->text, type))
        return sac_fail(err, SAC_UNSUPPORTED, "text_config: model_type \"%.40s\" is not supported under %s",
                        type, c->family->name);
    family->defaults(c);
    json_t *empty = json_object();
    sac_status st = family->read(c, text ? text : empty, err);
    json_decref(empty);
    if (is_granite) c->merger_scale = c->decoder.embed_scale; /* its factor of embeddings is that of whatever stands in their place */
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "text_config");
}

sac_status sac_config_read_llava_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    const char *type = c->tower.kind ? c->tower.kind->model_type : clip_defaults.kind->model_type;
    SAC_TRY(sac_json_get_string(vision, "model_type", &type, err));
    c->tower = strcmp(type, siglip_defaults.kind->model_type) == 0 ? siglip_defaults : clip_defaults;
    SAC_TRY(sac_config_read_tower(c, vision, err));
    if (c->tower.kind == &sac_tower_clip || c->tower.kind == &sac_tower_siglip) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s", type,
                    c->family->name);
}

static sac_status read_vision(sac_model_config *c, const json_t *config, const sac_llava_defaults *own,
                              sac_error *err) {
    const json_t *vision = NULL;
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    c->tower = *own->tower;
    sac_status st = SAC_OK;
    if (vision) st = (own->read_tower ? own->read_tower : sac_config_read_llava_tower)(c, vision, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(sac_config_read_layers(c, config, "vision_feature_layer", own->feature_layer, err));
    const char *strategy = own->strategy;
    SAC_TRY(sac_json_get_string(config, "vision_feature_select_strategy", &strategy, err));
    bool full = strcmp(strategy, "full") == 0, has_class = c->tower.kind->has_class;
    c->tower.keep_class = full && has_class;
    if (!full && strcmp(strategy, "default") != 0)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"vision_feature_select_strategy\" is \"%.30s\", must be default or full", strategy);
    if (full || has_class) return SAC_OK;
    return sac_fail(
        err, SAC_UNSUPPORTED,
        "\"vision_feature_select_strategy\" default would drop a patch: this tower has no class token; "
        "full is supported");
}

sac_status sac_config_read_llava(sac_model_config *c, const json_t *config, const sac_llava_defaults *own,
                                 sac_error *err) {
    static const sac_llava_defaults llava = {
        .text = "llama", .tower = &clip_large_336, .feature_layer = -2, .strategy = "default"};
    if (!own) own = &llava;
    SAC_TRY(read_text(c, config, own->text, err));
    SAC_TRY(read_vision(c, config, own, err));
    SAC_TRY(sac_config_read_activation(&c->projector_act, config, "projector_hidden_act", err));
    SAC_TRY(sac_json_get_bool(config, "multimodal_projector_bias", &c->projector_bias, err));
    bool tied = false; /* tying in either place counts */
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &tied, err));
    c->tied_head |= tied;
    SAC_TRY(sac_config_read_token(&c->image_token, config, "image_token_index", "image_token_id",
                                  c->decoder.vocab, err));
    if (sac_config_has(config, "eos_token_id")) c->n_stop_ids = 0; /* stands before text_config's */
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
}

/* Pixtral's pictures keep their shape. */
static sac_status read_tower(sac_model_config *c, const json_t *vision, sac_error *err) {
    const char *type = NULL;
    SAC_TRY(sac_json_get_string(vision, "model_type", &type, err));
    if (!type || strcmp(type, sac_tower_pixtral.model_type) != 0) return sac_config_read_llava_tower(c, vision, err);
    c->dialect = &sac_dialect_pixtral;
    snprintf(c->default_chat, sizeof c->default_chat, "mistral");
    return sac_config_read_pixtral_tower(c, vision, 1, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    static const sac_llava_defaults own = {.text = "llama",
                                           .tower = &clip_large_336,
                                           .feature_layer = -2,
                                           .strategy = "default",
                                           .read_tower = read_tower};
    return sac_config_read_llava(c, config, &own, err);
}

/* Layers behind the last one that is looked at are left out by the converters, which name it only where that is said in
 * config.json. Pictures are cropped as in the published folders. */
sac_status sac_llava_mmproj(sac_mmproj *p, sac_error *err) {
    const json_t *size = json_object_get(p->vision, "image_size");
    static const char *const others[] = {"mm.1.weight", "mm.3.weight", "mm.model.mlp.0.weight"};
    for (size_t i = 0; i < SAC_COUNT(others); i++)
        if (p->rows(p->tensors, others[i]))
            return sac_fail(err, SAC_UNSUPPORTED, "tensor %s: a projector of other layers than mm.0 and mm.2",
                            others[i]);
    json_object_set_new(p->config, "multimodal_projector_bias",
                        json_boolean(p->rows(p->tensors, "mm.0.bias") || p->rows(p->tensors, "mm.2.bias")));
    if (!json_object_get(p->config, "vision_feature_layer"))
        json_object_set(p->config, "vision_feature_layer", json_object_get(p->vision, "num_hidden_layers"));
    json_object_set_new(p->preprocessor, "size", json_pack("{s:O}", "shortest_edge", size));
    json_object_set_new(p->preprocessor, "crop_size", json_pack("{s:O, s:O}", "height", size, "width", size));
    return SAC_OK;
}

/* Pictures made square first, as the original code does where its config.json says so. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    const char *ratio = "square";
    SAC_TRY(sac_json_get_string(p->keys, "clip.vision.image_aspect_ratio", &ratio, err));
    SAC_TRY(sac_llava_mmproj(p, err));
    if (strcmp(ratio, "square") == 0) return SAC_OK;
    if (strcmp(ratio, "pad") != 0)
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "clip.vision.image_aspect_ratio \"%.30s\" without pinpoints; square and pad are supported",
            ratio);
    json_object_set_new(p->preprocessor, "image_processor_type", json_string("LlavaImageProcessor"));
    json_object_set_new(p->preprocessor, "do_pad", json_true());
    return SAC_OK;
}

const sac_family sac_family_llava = {.name = "llava",
                                     .defaults = defaults,
                                     .read = read,
                                     .positions = sac_positions_plain,
                                     .mmproj = mmproj};
