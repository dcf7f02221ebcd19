/* dialect_unires.c - LongVA: tiles whose tokens are pooled. See dialect.h. */
#include "dialect.h"

#include <string.h>

typedef struct settings {
    sac_pinpoints pinpoints;
    int pool_image, pool_video; /* tokens are averaged over squares of so many a side */
} settings;

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    const json_t *config = model->config;
    const char *mode = "average";
    int64_t stride = 2;
    settings *own = c->own;
    SAC_TRY(sac_pinpoints_read(&own->pinpoints, c, preprocessor, config, NULL, false, err));
    SAC_TRY(
        sac_json_get_int(config, "mm_spatial_pool_stride", 1, c->tile_size / c->patch_size, &stride, err));
    SAC_TRY(sac_json_get_string(config, "mm_spatial_pool_mode", &mode, err));
    if (strcmp(mode, "average") != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "\"mm_spatial_pool_mode\" is \"%.60s\"; \"average\" is known",
                        mode);
    own->pool_video = (int)stride;
    own->pool_image = 2; /* LongVA's code does not ask its configuration here */
    return SAC_OK;
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    SAC_TRY(sac_tile_plan(c, p->is_video_frame ? own->pool_video : own->pool_image, p, err));
    if (!p->is_video_frame) sac_pinpoints_plan(&own->pinpoints, c->tile_size, p);
    return SAC_OK;
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    if (p->is_video_frame) return sac_tile_rows(c, image, rows, err);
    return sac_pinpoints_cut(c, image, p, SAC_FILTER_BICUBIC, rows, err);
}

static int most_tiles(const sac_processor_config *c) {
    const settings *own = c->own;
    return sac_pinpoints_most_tiles(&own->pinpoints, c->tile_size);
}

const sac_dialect sac_dialect_unires = {.name = "unires",
                                        .pools = true,
                                        .own_bytes = sizeof(settings),
                                        .read = read,
                                        .plan = plan,
                                        .cut = cut,
                                        .layout = sac_tile_layout,
                                        .most_tiles = most_tiles};
