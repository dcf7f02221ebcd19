/* minicpmv4_6.c - MiniCPM-V 4.6 (transformers' MiniCPMV4_6): SigLIP's layers over pictures of any size, whose rows are joined in
 * squares of four twice, and the language model of Qwen3.5. A large picture is the whole and its slices, between tokens. */
#include "config_values.h"
#include "qwen3_5.h"

#include <string.h>

static const char *const text_tokens[][2] = {
    {"image_start_token", "<image>"},
    {"image_end_token", "</image>"},
    {"slice_start_token", "<slice>"},
    {"slice_end_token", "</slice>"},
    {"image_id_start_token", "<image_id>"},
    {"image_id_end_token", "</image_id>"},
    {NULL, NULL},
};

static void defaults(sac_model_config *c) { /* transformers' MiniCPMV4_6Config and MiniCPMV4_6VisionConfig */
    sac_family_qwen3_5_text.defaults(c);
    c->has_vision = true;
    c->image_token = c->video_token = -1;
    c->merger = &sac_merger_joined;
    c->projector_act = SAC_ACT_GELU;
    c->projector_norm_eps = 1e-6f;
    c->dialect = &sac_dialect_minicpmv;
    c->text_tokens = text_tokens;
    c->tower = (sac_tower_config){.kind = &sac_tower_minicpmv,
                                  .image_size = 224,
                                  .patch_size = 16,
                                  .hidden = 768,
                                  .n_layers = 12,
                                  .n_heads = 12,
                                  .intermediate = 3072,
                                  .norm_eps = 1e-6f,
                                  .act = SAC_ACT_GELU_TANH,
                                  .merge_size = 2};
}

/* Two numbers, both 2: widths of later layers follow from them. */
static sac_status check_pair(const json_t *object, const char *key, sac_error *err) {
    const json_t *pair = json_object_get(object, key);
    if (!pair || json_is_null(pair)) return SAC_OK;
    if (json_array_size(pair) == 2 && json_integer_value(json_array_get(pair, 0)) == 2 && json_integer_value(json_array_get(pair, 1)) == 2)
        return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" must be [2, 2]", key);
}

static sac_status read_tower(sac_model_config *c, const json_t *config, sac_error *err) {
    const json_t *vision = NULL;
    SAC_TRY(sac_json_get_object(config, "vision_config", &vision, err));
    if (vision) SAC_TRY(sac_config_read_tower(c, vision, err));
    SAC_TRY(check_pair(vision, "window_kernel_size", err));
    c->tower.n_feature_layers = 1;
    c->tower.feature_layer[0] = c->tower.n_layers;
    if (c->tower.kind == &sac_tower_minicpmv) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "model_type \"%.40s\" is not supported under %s", c->tower.kind->model_type, c->family->name);
}

/* Behind which layer the tower joins windows; config.json's own key counts, whatever vision_config says. */
static sac_status read_joining(sac_model_config *c, const json_t *config, sac_error *err) {
    const char *mode = "16x";
    int layer = 6, times = 1;
    SAC_TRY(sac_json_get_string(config, "downsample_mode", &mode, err));
    SAC_TRY(check_pair(config, "merge_kernel_size", err));
    SAC_TRY(sac_config_get_int(config, "merger_times", 1, 16, &times, err));
    SAC_TRY(sac_config_get_int(config, "insert_layer_id", 0, SAC_CONFIG_MAX_LAYERS, &layer, err));
    if (times != 1)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"merger_times\" is %d, but prompts have a row for each square of the first; 1 is supported", times);
    if (strcmp(mode, "4x") == 0) return SAC_OK;
    if (strcmp(mode, "16x") != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "\"downsample_mode\" is \"%.20s\"; 16x and 4x are supported", mode);
    if (layer >= c->tower.n_layers)
        return sac_fail(err, SAC_BAD_FILE, "\"insert_layer_id\" is %d, but the tower has layers 0 to %d", layer, c->tower.n_layers - 1);
    c->tower.joins_after = layer + 1;
    return SAC_OK;
}

static sac_status read_tokens(sac_model_config *c, const json_t *config, sac_error *err) {
    static const char *const keys[] = {"image_token_id", "video_token_id"};
    for (size_t i = 0; i < SAC_COUNT(keys); i++)
        if (!json_is_integer(json_object_get(config, keys[i])))
            return sac_fail(err, SAC_BAD_FILE, "\"%s\" is missing: which token stands for a row of a picture no other key says", keys[i]);
    SAC_TRY(sac_config_read_token(&c->image_token, config, keys[0], NULL, c->decoder.vocab, err));
    return sac_config_read_token(&c->video_token, config, keys[1], NULL, c->decoder.vocab, err);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    bool tied = false; /* tying in either place counts */
    SAC_TRY(sac_config_read_only_text(c, config, &sac_family_qwen3_5_text, sac_qwen3_5_read_text, err));
    sac_status st = read_tower(c, config, err);
    if (st != SAC_OK) return sac_fail_prefix(err, st, "vision_config");
    SAC_TRY(read_joining(c, config, err));
    SAC_TRY(read_tokens(c, config, err));
    SAC_TRY(sac_json_get_bool(config, "tie_word_embeddings", &tied, err));
    c->tied_head |= tied;
    return sac_config_add_stop_ids(c->stop_ids, &c->n_stop_ids, config, c->decoder.vocab, err);
}

const sac_family sac_family_minicpmv4_6 = {.name = "minicpmv4_6", .defaults = defaults, .read = read, .positions = sac_positions_plain};
