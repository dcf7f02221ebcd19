/* qwen3_5.c - Qwen3.5, dense: its language model (qwen3_5_text.c) with the tower, the frames behind their times and the
 * numbers on three axes of Qwen3-VL (qwen3_vl.c), but nothing of the tower is added after the first layers. */
#include "qwen3_5.h"

#include "config_values.h"
#include "qwen2_vl.h"

void sac_qwen3_5_token_defaults(sac_model_config *c) {
    c->image_token = 248056;
    c->video_token = 248057;
    c->vision_start = 248053;
    c->vision_end = 248054;
}

static void defaults(sac_model_config *c) { /* transformers' Qwen3_5Config and Qwen3_5VisionConfig */
    sac_family_qwen3_vl.defaults(c);
    sac_family_qwen3_5_text.defaults(c);
    sac_qwen3_5_token_defaults(c);
}

static sac_status read(sac_model_config *c, const json_t *config, sac_error *err) {
    SAC_TRY(sac_qwen2_vl_read(c, config, sac_qwen3_vl_read_tower, err));
    SAC_TRY(sac_config_read_token(&c->vision_start, config, "vision_start_token_id", NULL, c->decoder.vocab,
                                  err));
    return sac_config_read_token(&c->vision_end, config, "vision_end_token_id", NULL, c->decoder.vocab, err);
}

sac_status sac_qwen3_5_mmproj(sac_mmproj *p, sac_error *err) {
    SAC_TRY(sac_family_qwen3_vl.mmproj(p, err));
    if (json_array_size(json_object_get(p->vision, "deepstack_visual_indexes")) == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "clip.vision.is_deepstack_layers names layers; the language model takes none of theirs");
}

const sac_family sac_family_qwen3_5 = {
    .name = "qwen3_5", .defaults = defaults, .read = read, .positions = sac_positions_mrope, .mmproj = sac_qwen3_5_mmproj};
