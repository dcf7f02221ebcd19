/* squares.h - pictures that keep their shape, their sides rounded to whole squares of patches, within bounds of pixels: what
 * the dialects of Qwen2-VL's kind share. c->own is a sac_squares. */
#ifndef SAC_VISION_SQUARES_H
#define SAC_VISION_SQUARES_H

#include "dialect.h"

typedef struct sac_square_bounds {
    int64_t min_pixels, max_pixels; /* of a picture or frame, or of all frames together */
} sac_square_bounds;

typedef struct sac_squares {
    int square, frames, merge; /* pixels a side of a square of patches; frames of a patch; patches a side */
    sac_square_bounds picture, frame;
    bool bounds_volumes; /* a picture's bounds too are those of all frames of its patches */
    const char *other;   /* key by which frames would have other colours than pictures, so that none are drawn; or NULL */
    bool old_bounds;     /* "min_pixels" and "max_pixels" are keys too, and stand before "size" */
} sac_squares;

/* Tile, grids and tokens of columns x rows squares of merge x merge patches, a token each, of one frame. */
void sac_squares_describe(const sac_processor_config *c, int merge, int columns, int rows, sac_visual_plan *p);

/* A picture or frame by its own bounds. */
sac_status sac_squares_plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err);
/* One of n_frames (0: not known), which are bounded together: made as large as a square at least, then fitted by their volume,
 * whose frames are counted in whole patches, halves to even. */
sac_status sac_squares_plan_volume(const sac_processor_config *c, int64_t n_frames, sac_visual_plan *p,
                                   sac_error *err);

/* Slots of a dialect. */
sac_status sac_squares_cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                           uint8_t *rows, sac_error *err);
void sac_squares_largest(const sac_processor_config *c, bool is_video_frame, sac_visual_plan *p);
int sac_squares_most_tiles(const sac_processor_config *c);
sac_status sac_squares_limit(sac_processor_config *c, int64_t min_pixels, int64_t max_pixels, sac_error *err);

/* The keys that all have, of both files, over what c->own says without them. */
sac_status sac_squares_read(sac_processor_config *c, const sac_processor_model *model,
                            const json_t *preprocessor, sac_error *err);

#define SAC_SQUARES_DIALECT                                                                                  \
    .own_bytes = sizeof(sac_squares), .cut = sac_squares_cut, .layout = sac_tile_layout,                     \
    .most_tiles = sac_squares_most_tiles, .limit = sac_squares_limit, .largest = sac_squares_largest

#endif
