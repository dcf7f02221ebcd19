/* dialect_qwen2vl.c - Qwen2-VL, Qwen2.5-VL and Qwen3-VL: a picture keeps its shape, its sides rounded to whole squares of
 * patches. See dialect.h. */
#include "squares.h"

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    const int side = c->patch_size * model->merge_size;
    const int64_t square = (int64_t)side * side;
    *(sac_squares *)c->own = (sac_squares){.square = side,
                                           .frames = model->temporal_patch_size,
                                           .merge = model->merge_size,
                                           .picture = {56 * 56, square * 1280},
                                           .frame = {128 * square, 768 * square},
                                           .old_bounds = true};
    return sac_squares_read(c, model, preprocessor, err);
}

static sac_status plan_volume(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    return p->is_video_frame ? sac_squares_plan_volume(c, p->n_frames, p, err) : sac_squares_plan(c, p, err);
}

static const char *const classes[] = {"Qwen2VLImageProcessor", "Qwen2_5_VLImageProcessor", NULL};

const sac_dialect sac_dialect_qwen2vl = {
    .name = "qwen2vl", .classes = classes, .read = read, .plan = sac_squares_plan, SAC_SQUARES_DIALECT};
const sac_dialect sac_dialect_qwen3vl = {.name = "qwen3vl",
                                         .classes = classes,
                                         .read = read,
                                         .plan = plan_volume,
                                         .counts_frames = true,
                                         SAC_SQUARES_DIALECT};
