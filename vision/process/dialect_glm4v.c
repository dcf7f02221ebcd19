/* dialect_glm4v.c - GLM-4.1V and GLM-4.6V: as Qwen3-VL's, with bounds of volumes for pictures too, and frames that their own
 * code chooses by the seconds at which they stand. See dialect.h. Rules: transformers' Glm4vImageProcessor,
 * Glm4vVideoProcessor, Glm4vProcessor and those of Glm46V. */
#include "squares.h"

#include <stdio.h>
#include <string.h>

enum { MOST_FPS = 1000, MOST_S = 36000 };

/* "fps" and "max_duration", which only GLM-4.1V's code looks at. */
static sac_status read_sampling(sac_processor_config *c, const json_t *video, sac_error *err) {
    const bool by_length = c->dialect == &sac_dialect_glm46v;
    double fps = 2, most_s = 300;
    SAC_TRY(sac_json_get_float(video, "fps", &fps, err));
    SAC_TRY(sac_json_get_float(video, "max_duration", &most_s, err));
    if (!(fps > 0 && fps <= MOST_FPS))
        return sac_fail(err, SAC_BAD_FILE, "\"fps\" is %g, must be above 0, at most %d", fps, MOST_FPS);
    if (!(most_s >= 1 && most_s <= MOST_S))
        return sac_fail(err, SAC_BAD_FILE, "\"max_duration\" is %g, must be 1 to %d", most_s, MOST_S);
    c->sampling = (sac_processor_sampling){.fps = fps, .pace = by_length ? 2 : 1, .most_s = most_s};
    return SAC_OK;
}

/* The classes of both files are of the same model. */
static sac_status check_video_class(const sac_processor_config *c, const json_t *video, sac_error *err) {
    const char *type = NULL,
               *want = c->dialect == &sac_dialect_glm46v ? "Glm46VVideoProcessor" : "Glm4vVideoProcessor";
    SAC_TRY(sac_json_get_string(video, "video_processor_type", &type, err));
    if (!type || strcmp(type, want) == 0) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"video_processor_type\" is \"%.60s\"; beside this image processor %s is supported",
                    type, want);
}

static sac_status read_video(sac_processor_config *c, const json_t *video, sac_error *err) {
    SAC_TRY(check_video_class(c, video, err));
    return read_sampling(c, video, err);
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    *(sac_squares *)c->own = (sac_squares){.square = c->patch_size * model->merge_size,
                                           .frames = model->temporal_patch_size,
                                           .merge = model->merge_size,
                                           .picture = {112 * 112, 28 * 28 * 15000},
                                           .frame = {112 * 112, 28 * 28 * 2 * 30000},
                                           .bounds_volumes = true};
    SAC_TRY(sac_squares_read(c, model, preprocessor, err));
    sac_status st = read_video(c, model->video ? model->video : preprocessor, err);
    return st == SAC_OK || !model->video ? st : sac_fail_prefix(err, st, "video_preprocessor_config.json");
}

/* An odd number of frames is made even before they are measured. */
static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const sac_squares *own = c->own;
    const int64_t n = own->frames;
    return sac_squares_plan_volume(c, p->is_video_frame ? (p->n_frames + n - 1) / n * n : n, p, err);
}

static int whole_seconds(double seconds, char *out, size_t capacity) {
    return snprintf(out, capacity, "%lld", (long long)seconds);
}
static int tenths(double seconds, char *out, size_t capacity) {
    return snprintf(out, capacity, "%.1f seconds", seconds);
}

static const char *const classes[] = {"Glm4vImageProcessor", NULL};
static const char *const classes_46v[] = {"Glm46VImageProcessor", NULL};

const sac_dialect sac_dialect_glm4v = {.name = "glm4v",
                                       .classes = classes,
                                       .kin = &sac_dialect_glm46v,
                                       .read = read,
                                       .plan = plan,
                                       .counts_frames = true,
                                       .seconds = whole_seconds,
                                       SAC_SQUARES_DIALECT};
const sac_dialect sac_dialect_glm46v = {.name = "glm46v",
                                        .classes = classes_46v,
                                        .read = read,
                                        .plan = plan,
                                        .counts_frames = true,
                                        .seconds = tenths,
                                        SAC_SQUARES_DIALECT};
