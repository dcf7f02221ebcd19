/* llava_next_video.c - LLaVA-NeXT-Video in transformers' format: LLaVA-NeXT, and videos of one placeholder, whose frames'
 * features are pooled before the projector. */
#include "config_values.h"
#include "family.h"

#include <string.h>

static void defaults(sac_model_config *c) {
    sac_family_llava.defaults(c);
    c->dialect = &sac_dialect_next_video;
    c->image_newline = true;
    c->pools_first = true;
    c->image_token = 32001;
    c->video_token = 32000;
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    const char *mode = "average";
    SAC_TRY(sac_config_read_llava(c, config, NULL, err));
    if (c->tower.keep_class || !c->tower.kind->has_class)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"vision_feature_select_strategy\" full is not supported under llava_next_video");
    SAC_TRY(sac_json_get_string(config, "spatial_pool_mode", &mode, err));
    if (strcmp(mode, "average") != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "\"spatial_pool_mode\" is \"%.40s\"; only average is supported",
                        mode);
    return sac_config_read_token(&c->video_token, config, "video_token_index", "video_token_id",
                                 c->decoder.vocab, err);
}

const sac_family sac_family_llava_next_video = {
    .name = "llava_next_video", .defaults = defaults, .read = read, .positions = sac_positions_plain};
