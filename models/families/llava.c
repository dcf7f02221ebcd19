/* llava.c - LLaVA-1.5 in transformers' format: a CLIP tower, a two-layer projector, a text model of its own
 * family under text_config. */
#include "config_values.h"
#include "family.h"
#include "family_spec.h"

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
static sac_status read_text(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *text = NULL;
    SAC_TRY(sac_json_get_object(config, "text_config", &text, err));
    const char *type = "llama";
    if (text) SAC_TRY(sac_json_get_string(text, "model_type", &type, err));
    sac_family_spec spec;
    SAC_TRY(sac_family_spec_open(&spec, c->family->name, err));
    const sac_family *family = sac_family_find(c->families, type);
    bool allowed = sac_spec_list_has(&spec.text, type);
    sac_family_spec_free(&spec);
    if (!family || !allowed)
        return sac_fail(err, SAC_UNSUPPORTED, "text_config: model_type \"%.40s\" is not supported under %s",
                        type, c->family->name);
    family->defaults(c);
    json_t *empty = json_object();
    sac_status st = family->read(c, text ? text : empty, err);
    json_decref(empty);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "text_config");
}

static sac_status read_vision(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *vision = NULL;
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    c->tower = vision ? clip_defaults : clip_large_336;
    sac_status st = vision ? sac_config_read_tower(c, vision, err) : SAC_OK;
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(sac_config_read_layers(c, config, "vision_feature_layer", err));
    const char *strategy = "default";
    SAC_TRY(sac_json_get_string(config, "vision_feature_select_strategy", &strategy, err));
    c->tower.keep_class = strcmp(strategy, "full") == 0;
    if (!c->tower.keep_class && strcmp(strategy, "default") != 0)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"vision_feature_select_strategy\" is \"%.30s\", must be default or full", strategy);
    return SAC_OK;
}

sac_status sac_config_read_llava(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(read_text(c, config, err));
    SAC_TRY(read_vision(c, config, err));
    SAC_TRY(sac_config_read_activation(&c->projector_act, config, "projector_hidden_act", err));
    SAC_TRY(sac_json_get_bool(config, "multimodal_projector_bias", &c->projector_bias, err));
    bool tied = false; /* tying in either place counts */
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &tied, err));
    c->tied_head |= tied;
    int64_t token = c->image_token;
    SAC_TRY(sac_json_get_int(config, "image_token_index", 0, c->decoder.vocab - 1, &token, err));
    SAC_TRY(sac_json_get_int(config, "image_token_id", 0, c->decoder.vocab - 1, &token, err));
    if (token >= c->decoder.vocab)
        return sac_fail(err, SAC_BAD_FILE,
                        "\"image_token_index\" is missing, and its default %lld is outside the "
                        "vocabulary of %d",
                        (long long)token, c->decoder.vocab);
    c->image_token = (int32_t)token;
    if (sac_config_has(config, "eos_token_id")) c->n_stop_ids = 0; /* stands before text_config's */
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
}

const sac_family sac_family_llava = {"llava", defaults, sac_config_read_llava, sac_positions_plain};
