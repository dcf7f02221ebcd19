/* processor.h - from a decoded picture to the square tiles that the vision tower takes, and from the tower's
 * tokens to their order in the prompt.
 *
 *   CLIP    LLaVA-1.5: shortest edge to the tile's size, centre crop: one tile. With pad_to_square (the
 *           original LLaVA's image_aspect_ratio "pad") the picture is first made square with the mean colour.
 *   ANYRES  LLaVA-NeXT: the whole picture squeezed into one tile, then the picture fitted into the best of
 * the pinpoint sizes, centred on black and cut into tiles. Tokens of the first tile, then those of the others
 * row by row across the grid, without the rows or columns that hold padding only, each row followed by the
 * image_newline embedding (transformers' pack_image_features). UNIRES  LongVA: as ANYRES, but without the
 * first tile, unpadding and newlines; each tile's tokens are averaged over pool x pool squares, and tiles
 * follow one another whole. Frames of a video are one tile each, made by the CLIP rule, for every kind;
 * UNIRES pools them too. */
#ifndef SAC_VISION_PROCESSOR_H
#define SAC_VISION_PROCESSOR_H

#include "image.h"
#include "json.h"
#include "resize.h"

#include <stdbool.h>

#define SAC_PROCESSOR_MAX_PINPOINTS   1024
#define SAC_PROCESSOR_MAX_TILES       256 /* of one picture */
/* With pad_to_square the work grows with the square of the longer side, however narrow the picture is. */
#define SAC_PROCESSOR_MAX_PADDED_SIDE 32768

typedef enum sac_processor_kind {
    SAC_PROCESSOR_CLIP,
    SAC_PROCESSOR_ANYRES,
    SAC_PROCESSOR_UNIRES
} sac_processor_kind;

typedef struct sac_processor_config {
    sac_processor_kind kind;
    sac_resize_arithmetic
        arithmetic; /* pillow unless the caller changes it, see docs of sac_processor_read */
    sac_filter filter;
    int tile_size;  /* S: tiles are [S][S][3] */
    int patch_size; /* of the tower; S / patch_size tokens a side */
    bool keep_class_token;
    bool do_resize;
    int resize_shortest; /* 0: resize to resize_w x resize_h */
    int resize_w, resize_h;
    bool do_center_crop; /* to S x S */
    bool pad_to_square;
    uint8_t pad_rgb[3];
    float mean[3], std[3];      /* the tower sees (pixel / 255 - mean) / std */
    int pool_image, pool_video; /* token pooling, 1 = none */
    int n_pinpoints;
    struct {
        int width, height;
    } pinpoint[SAC_PROCESSOR_MAX_PINPOINTS];
    int64_t max_tokens; /* of one picture; INT32_MAX unless the caller lowers it */
} sac_processor_config;

/* What a family knows of the model. */
typedef struct sac_processor_model {
    sac_processor_kind kind;
    int image_size, patch_size; /* of the vision tower */
    /* config.json, borrowed, may be NULL. Read here: vision_feature_select_strategy or
     * mm_vision_select_feature, image_grid_pinpoints, image_aspect_ratio, mm_spatial_pool_stride,
     * mm_spatial_pool_mode. */
    const json_t *config;
} sac_processor_model;

/* preprocessor is the object of preprocessor_config.json (or "image_processor" of processor_config.json);
 * NULL takes CLIP's defaults at the tower's size, as LongVA's own folders need. BAD_FILE says which key
 * cannot be honoured.
 *
 * transformers 5 resizes with torchvision where that is installed and with Pillow elsewhere, whatever the
 * checkpoint was trained with; on photographs the two differ by one level in 0.3 % of the values. The models
 * read here were trained with Pillow, so that is the default; set config->arithmetic for the other. */
sac_status sac_processor_read(sac_processor_config *config, const json_t *preprocessor,
                              const sac_processor_model *model, sac_error *err);

/* The JSON object for sac_processor_read out of a model folder, as transformers looks for it:
 * processor_config.json when it has "image_processor", else preprocessor_config.json; *out is NULL when there
 * is neither. Owned by the caller. */
sac_status sac_processor_find(json_t **out, const char *folder, sac_error *err);

/* What one picture or frame becomes; known before any pixel is touched. */
typedef struct sac_visual_plan {
    int width, height; /* of the picture */
    bool is_video_frame;
    int n_tiles, tile_size;
    int pool; /* the projector's tokens are averaged over pool x pool squares of each tile's grid */
    int grid; /* tokens a side of a tile after pooling */
    int tokens_per_tile; /* grid * grid, and the class token where it is kept (then in front) */
    int64_t n_tokens;    /* that the prompt receives */
    /* The tile grid of ANYRES and UNIRES (1 x 1 else), what of it the picture covers in pixels... */
    int tiles_w, tiles_h;
    int fit_w, fit_h, fit_x, fit_y;
    /* ...and the part of the token grid that unpadding keeps. */
    int keep_x, keep_y, keep_w, keep_h;
} sac_visual_plan;

/* TOO_LONG above max_tokens, BAD_ARGUMENT for sizes that cannot be processed. */
sac_status sac_processor_plan(const sac_processor_config *config, int width, int height, bool is_video_frame,
                              sac_visual_plan *plan, sac_error *err);

/* tiles [n_tiles][S][S][3]. Black of padding and cropping is in the tiles: it is normalised like any pixel.
 */
sac_status sac_processor_run(const sac_processor_config *config, const sac_image *image,
                             const sac_visual_plan *plan, uint8_t *tiles, sac_error *err);

#define SAC_SOURCE_NEWLINE (-1)

/* source [n_tokens]: for every visual token, in the prompt's order, its row in the pooled projector outputs
 * [n_tiles * tokens_per_tile], or SAC_SOURCE_NEWLINE for the image_newline embedding. */
void sac_processor_layout(const sac_visual_plan *plan, sac_processor_kind kind, int32_t *source);

#endif
