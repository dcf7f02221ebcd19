/* dialect_pixtral.h - pictures as Pixtral has them (dialect_pixtral.c), for dialects that differ in what stands between their rows of
 * tokens. */
#ifndef SAC_VISION_DIALECT_PIXTRAL_H
#define SAC_VISION_DIALECT_PIXTRAL_H

#include "dialect.h"

typedef struct sac_pixtral_settings {
    int square, merge;  /* pixels a side of a square of patches; patches a side of it */
    int most_w, most_h; /* pixels that a picture is made smaller to fit into */
} sac_pixtral_settings;

sac_status sac_pixtral_read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor, sac_error *err);
sac_status sac_pixtral_plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err);
sac_status sac_pixtral_cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p, uint8_t *rows,
                           sac_error *err);
int sac_pixtral_most_tiles(const sac_processor_config *c);
sac_status sac_pixtral_limit(sac_processor_config *c, int64_t min_pixels, int64_t max_pixels, sac_error *err);
void sac_pixtral_largest(const sac_processor_config *c, bool is_video_frame, sac_visual_plan *p);
#define SAC_PIXTRAL_PICTURES                                                                                 \
    .own_bytes = sizeof(sac_pixtral_settings), .cut = sac_pixtral_cut, .layout = sac_tile_layout,            \
    .most_tiles = sac_pixtral_most_tiles, .limit = sac_pixtral_limit

#endif
