/* dialect_next_video.c - LLaVA-NeXT-Video: pictures are LLaVA-NeXT's; frames have a processor and a pool of their own. See
 * dialect.h. Rules: transformers' LlavaNextVideoVideoProcessor and LlavaNextVideoPooler. */
#include "dialect.h"

#include <string.h>

typedef struct settings {
    sac_pinpoints pinpoints;    /* in front: what anyres has of its own */
    sac_processor_config frame; /* of a video's frames, which are a tile by clip's rule */
    int pool;
} settings;

/* Old files name the class that video processors came of. */
static sac_status read_file(sac_processor_config *out, const json_t *video, const sac_processor_model *model,
                            sac_error *err) {
    const char *type = json_string_value(json_object_get(video, "image_processor_type"));
    json_t *own = json_copy((json_t *)video);
    if (!own) return sac_fail(err, SAC_NO_MEMORY, "no memory for a video processor");
    if (type && strcmp(type, "LlavaNextVideoImageProcessor") == 0)
        json_object_del(own, "image_processor_type");
    sac_status st = sac_processor_read(out, own, model, err);
    json_decref(own);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "the video processor");
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    settings *own = c->own;
    int64_t stride = 2;
    sac_processor_model tile = *model;
    tile.dialect = &sac_dialect_clip;
    SAC_TRY(sac_dialect_anyres.read(c, model, preprocessor, err));
    SAC_TRY(sac_json_get_int(model->config, "spatial_pool_stride", 1, c->tile_size / c->patch_size, &stride,
                             err));
    own->pool = (int)stride;
    /* Without a file of its own, transformers takes the picture's. */
    SAC_TRY(model->video ? read_file(&own->frame, model->video, &tile, err)
                         : sac_processor_read(&own->frame, preprocessor, &tile, err));
    own->frame.arithmetic = SAC_RESIZE_TORCHVISION; /* transformers has no other for videos */
    if (memcmp(own->frame.mean, c->mean, sizeof c->mean) == 0 &&
        memcmp(own->frame.std, c->std, sizeof c->std) == 0)
        return SAC_OK;
    return sac_fail(
        err, SAC_UNSUPPORTED,
        "the video processor: its image_mean, image_std or rescale_factor are not those of "
        "preprocessor_config.json");
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    return p->is_video_frame ? sac_tile_plan(&own->frame, own->pool, p, err)
                             : sac_dialect_anyres.plan(c, p, err);
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    const settings *own = c->own;
    return p->is_video_frame ? sac_tile_rows(&own->frame, image, rows, err)
                             : sac_dialect_anyres.cut(c, image, p, rows, err);
}

static void layout(const sac_visual_plan *p, int32_t *source) {
    sac_dialect_anyres.layout(p, source);
}

static int most_tiles(const sac_processor_config *c) {
    return sac_dialect_anyres.most_tiles(c);
}

const sac_dialect sac_dialect_next_video = {.name = "next_video",
                                            .pools = true,
                                            .own_bytes = sizeof(settings),
                                            .read = read,
                                            .plan = plan,
                                            .cut = cut,
                                            .layout = layout,
                                            .most_tiles = most_tiles};
