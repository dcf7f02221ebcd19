/* mistral3.c - Mistral Small 3.1 and 3.2, and Ministral 3 (transformers' Mistral3): Pixtral's tower, a projector that joins
 * squares of patches, a text model of Mistral's kind under text_config. */
#include "mistral3.h"

#include "config_values.h"
#include "family.h"
#include "family_spec.h"

static void defaults(sac_model_config *c) { /* transformers' Mistral3Config */
    c->has_vision = true;
    c->merger = &sac_merger_mistral3;
    c->projector_act = SAC_ACT_GELU;
    c->projector_bias = false;
    c->image_token = 10;
    c->dialect = &sac_dialect_pixtral;
}

/* What Mistral3Config says where one of its two halves is missing: Mistral Small 3.1. */
static json_t *small_text(void) {
    return json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:n, s:i}", "head_dim", 128,
                     "hidden_size", 5120, "intermediate_size", 32768, "max_position_embeddings", 131072,
                     "num_attention_heads", 32, "num_hidden_layers", 40, "num_key_value_heads", 8,
                     "rms_norm_eps", 1e-5, "rope_theta", 1e9, "sliding_window", "vocab_size", 131072);
}
static json_t *small_vision(void) {
    return json_pack("{s:i}", "patch_size", 14);
}

static sac_status read_text(sac_model_config *c, const json_t *text, const char *usual, sac_error *err) {
    const char *type = usual;
    SAC_TRY(sac_json_get_string(text, "model_type", &type, err));
    const sac_family_spec *spec;
    SAC_TRY(sac_family_spec_find(&spec, c->family->name, err));
    const sac_family *family = sac_spec_list_has(&spec->text, type) ? sac_family_find(c->families, type) : NULL;
    if (!family)
        return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s", type,
                        c->family->name);
    family->defaults(c);
    return family->read(c, text, err);
}

/* The object under key, or what stands for it; the caller lets go of it. */
static sac_status take_half(json_t **half, const json_t *config, const char *key, json_t *(*missing)(void),
                            sac_error *err) {
    const json_t *object = NULL;
    SAC_TRY(sac_json_get_object(config, key, &object, err));
    *half = object ? json_incref((json_t *)(uintptr_t)object) : missing();
    return *half ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for \"%s\"", key);
}

static sac_status read_tower(sac_model_config *c, const json_t *vision, int merge, sac_error *err) {
    const char *type = sac_tower_pixtral.model_type;
    SAC_TRY(sac_json_get_string(vision, "model_type", &type, err));
    if (sac_tower_find(type) == &sac_tower_pixtral)
        return sac_config_read_pixtral_tower(c, vision, merge, err);
    return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s", type,
                    c->family->name);
}

sac_status sac_mistral3_read_halves(sac_model_config *c, const json_t *config, const sac_mistral3_usual *usual, sac_error *err) {
    json_t *text = NULL, *vision = NULL;
    int merge = 2;
    SAC_TRY(sac_config_get_int(config, "spatial_merge_size", 1, 16, &merge, err));
    SAC_TRY(take_half(&text, config, "text_config", usual->text, err));
    sac_status st = read_text(c, text, usual->text_type, err);
    json_decref(text);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "text_config");
    SAC_TRY(take_half(&vision, config, "vision_config", usual->vision, err));
    st = read_tower(c, vision, merge, err);
    json_decref(vision);
    c->projector_norm_eps = c->decoder.rms_eps;
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "vision_config");
}

sac_status sac_mistral3_read_tokens(sac_model_config *c, const json_t *config, sac_error *err) {
    c->tied_head = true; /* as these classes say; a head in the file is taken all the same */
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &c->tied_head, err));
    SAC_TRY(sac_config_read_token(&c->image_token, config, "image_token_index", "image_token_id", c->decoder.vocab, err));
    if (sac_config_has(config, "eos_token_id")) c->n_stop_ids = 0; /* stands before text_config's */
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    const sac_mistral3_usual usual = {sac_family_mistral.name, small_text, small_vision};
    SAC_TRY(sac_mistral3_read_halves(c, config, &usual, err));
    SAC_TRY(sac_config_read_layers(c, config, "vision_feature_layer", -1, err));
    if (c->tower.n_feature_layers > 1) /* the norm is as wide as one layer's */
        return sac_fail(err, SAC_UNSUPPORTED, "\"vision_feature_layer\" lists %d layers; one is supported",
                        c->tower.n_feature_layers);
    SAC_TRY(sac_config_read_activation(&c->projector_act, config, "projector_hidden_act", err));
    SAC_TRY(sac_json_get_bool(config, "multimodal_projector_bias", &c->projector_bias, err));
    return sac_mistral3_read_tokens(c, config, err);
}

sac_status sac_mistral3_mmproj_size(sac_mmproj *p, sac_error *err) {
    const json_t *size = json_object_get(p->keys, "clip.vision.image_size");
    if (!json_is_integer(size))
        return sac_fail(err, SAC_BAD_FILE, "metadata key clip.vision.image_size is missing");
    json_object_set_new(p->preprocessor, "size", json_pack("{s:O}", "longest_edge", size));
    return SAC_OK;
}

/* Biases are where the file has them. The embedding of [IMG_BREAK] that a file may have is the language model's own. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    SAC_TRY(sac_mistral3_mmproj_size(p, err));
    json_object_set_new(p->config, "multimodal_projector_bias",
                        json_boolean(p->rows(p->tensors, "mm.1.bias") || p->rows(p->tensors, "mm.2.bias")));
    return SAC_OK;
}

const sac_family sac_family_mistral3 = {.name = "mistral3",
                                        .defaults = defaults,
                                        .read = read,
                                        .positions = sac_positions_plain,
                                        .mmproj = mmproj};
