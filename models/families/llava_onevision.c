/* llava_onevision.c - LLaVA-OneVision (Li et al., arXiv:2408.03326) in transformers' format: LLaVA-NeXT's tiles with a
 * SigLIP tower and Qwen2; a video is one placeholder, its frames' tokens resized and a newline behind them. */
#include "config_values.h"
#include "family.h"

/* transformers' LlavaOnevisionConfig without a vision_config: SigLIP so400m at 384, the last layer left out. */
static const sac_tower_config siglip_so400m = {
    .kind = &sac_tower_siglip,
    .image_size = 384,
    .patch_size = 14,
    .hidden = 1152,
    .n_layers = 26,
    .n_heads = 16,
    .intermediate = 4304,
    .norm_eps = 1e-6f,
    .act = SAC_ACT_GELU_TANH,
};

static void defaults(sac_model_config *c) {
    sac_family_llava.defaults(c);
    c->dialect = &sac_dialect_onevision;
    c->image_newline = c->video_newline = true;
    c->image_token = 151646;
    c->video_token = 151647;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    static const sac_llava_defaults own = {
        .text = "qwen2", .tower = &siglip_so400m, .feature_layer = -1, .strategy = "full"};
    SAC_TRY(sac_config_read_llava(c, config, &own, err));
    if (c->tower.keep_class) /* the class token has no place in the grid of rows that newlines end */
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "\"vision_feature_select_strategy\" full is not supported with a tower that has a class token");
    return sac_config_read_token(&c->video_token, config, "video_token_index", "video_token_id",
                                 c->decoder.vocab, err);
}

const sac_family sac_family_llava_onevision = {.name = "llava_onevision",
                                               .defaults = defaults,
                                               .read = read,
                                               .positions = sac_positions_plain};
