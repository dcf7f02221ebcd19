/* dialect_unires.c - LongVA: tiles whose tokens are pooled. See dialect.h. */
#include "dialect.h"

#include <string.h>

static sac_status read(sac_processor_config *c, const json_t *preprocessor, const json_t *config,
                       sac_error *err) {
    const char *mode = "average";
    int64_t stride = 2;
    SAC_TRY(sac_pinpoints_read(c, preprocessor, config, false, err));
    SAC_TRY(
        sac_json_get_int(config, "mm_spatial_pool_stride", 1, c->tile_size / c->patch_size, &stride, err));
    SAC_TRY(sac_json_get_string(config, "mm_spatial_pool_mode", &mode, err));
    if (strcmp(mode, "average") != 0)
        return sac_fail(err, SAC_UNSUPPORTED, "\"mm_spatial_pool_mode\" is \"%.60s\"; \"average\" is known",
                        mode);
    c->pool_video = (int)stride;
    c->pool_image = 2; /* LongVA's code does not ask its configuration here */
    return SAC_OK;
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    SAC_TRY(sac_tile_plan(c, p, err));
    if (!p->is_video_frame) sac_pinpoints_plan(c, p);
    return SAC_OK;
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    if (p->is_video_frame) return sac_tile_rows(c, image, rows, err);
    return sac_pinpoints_cut(c, image, p, SAC_FILTER_BICUBIC, rows, err);
}

const sac_dialect sac_dialect_unires = {
    "unires", false, read, plan, cut, sac_tile_layout, sac_pinpoints_most_tiles};
