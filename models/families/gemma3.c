/* gemma3.c - Gemma 3 with its SigLIP tower (arXiv:2503.19786): features averaged over squares, normed and projected; the
 * rows of a picture, or of each crop of one, stand between two tokens and see one another. */
#include "config_values.h"
#include "family.h"

static void defaults(sac_model_config *c) { /* transformers' Gemma3Config and SiglipVisionConfig */
    sac_family_gemma3_text.defaults(c);
    c->has_vision = true;
    c->merger = &sac_merger_gemma3;
    c->dialect = &sac_dialect_gemma3;
    c->image_token = 262144;
    c->media_begin = "<start_of_image>";
    c->media_end = "<end_of_image>";
    c->begin_is_mark = true;
    c->tower = (sac_tower_config){.kind = &sac_tower_siglip,
                                  .image_size = 224,
                                  .patch_size = 16,
                                  .hidden = 768,
                                  .n_layers = 12,
                                  .n_heads = 12,
                                  .intermediate = 3072,
                                  .norm_eps = 1e-6f,
                                  .act = SAC_ACT_GELU_TANH};
}

static sac_status read_own_text(sac_model_config *c, const json_t *text, sac_error *err) {
    SAC_TRY(sac_family_gemma3_text.read(c, text, err));
    c->decoder.sees_spans = true;
    if (!(c->decoder.logit_softcap > 0)) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"final_logit_softcapping\" has no effect in transformers where pictures are read, and is "
                    "supported as null only");
}

static sac_status read_tower(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *vision = NULL;
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    if (vision) SAC_TRY(sac_config_read_tower(c, vision, err));
    c->tower.n_feature_layers = 1;
    c->tower.feature_layer[0] = c->tower.n_layers;
    if (c->tower.kind == &sac_tower_siglip) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s",
                    c->tower.kind->model_type, c->family->name);
}

/* Of how many patches a side a row is the mean. */
static sac_status read_squares(sac_model_config *c, const json_t *config, sac_error *err) {
    const int side = c->tower.image_size / c->tower.patch_size;
    int tokens = 256, tokens_side = 1;
    SAC_TRY(sac_config_get_int(config, "mm_tokens_per_image", 1, SAC_CONFIG_MAX_IMAGE, &tokens, err));
    while ((tokens_side + 1) * (tokens_side + 1) <= tokens) tokens_side++;
    c->tower.merge_size = side / tokens_side;
    if (tokens_side * tokens_side == tokens && c->tower.merge_size > 0 && side % tokens_side == 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE,
                    "\"mm_tokens_per_image\" %d: the tower's %d x %d patches are not so many equal squares",
                    tokens, side, side);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_config_read_only_text(c, config, &sac_family_gemma3_text, read_own_text, err));
    sac_status st = read_tower(c, config, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(read_squares(c, config, err));
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &c->tied_head, err));
    SAC_TRY(sac_config_read_token(&c->image_token, config, "image_token_index", "image_token_id",
                                  c->decoder.vocab, err));
    if (sac_config_has(config, "eos_token_id")) c->n_stop_ids = 0; /* stands before text_config's */
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
}

/* Squares of 4 x 4 patches where no key says otherwise. */
static sac_status mmproj(sac_mmproj *p, sac_error *err) {
    const json_t *side = json_object_get(p->vision, "image_size"), *patch = json_object_get(p->vision, "patch_size");
    int scale = 4;
    SAC_TRY(sac_config_get_int(p->keys, "clip.vision.projector.scale_factor", 1, SAC_CONFIG_MAX_IMAGE, &scale, err));
    const json_int_t across = json_integer_value(side) / json_integer_value(patch), n = across / scale;
    if (n < 1 || n > SAC_CONFIG_MAX_IMAGE || across % scale != 0)
        return sac_fail(err, SAC_BAD_FILE, "the tower's %lld x %lld patches are not whole squares of %d a side", (long long)across,
                        (long long)across, scale);
    json_object_set_new(p->config, "mm_tokens_per_image", json_integer(n * n));
    json_object_set_new(p->preprocessor, "size", json_pack("{s:O, s:O}", "height", side, "width", side));
    return SAC_OK;
}

const sac_family sac_family_gemma3 = {.name = "gemma3",
                                      .defaults = defaults,
                                      .read = read,
                                      .positions = sac_positions_plain,
                                      .mmproj = mmproj};
