/* dialect_clip.c - LLaVA-1.5: a picture is one tile. See dialect.h. */
#include "dialect.h"

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    (void)c;
    (void)preprocessor;
    (void)model;
    (void)err;
    return SAC_OK; /* nothing beyond what all read */
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    return sac_tile_plan(c, 1, p, err);
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    (void)p;
    return sac_tile_rows(c, image, rows, err);
}

static int most_tiles(const sac_processor_config *c) {
    (void)c;
    return 1;
}

const sac_dialect sac_dialect_clip = {.name = "clip",
                                      .read = read,
                                      .plan = plan,
                                      .cut = cut,
                                      .layout = sac_tile_layout,
                                      .most_tiles = most_tiles};
