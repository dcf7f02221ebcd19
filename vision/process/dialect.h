/* dialect.h - how a family's pictures become patch rows and tokens: one file and one table each, and one line in
 * SAC_DIALECTS.
 *
 *   clip    LLaVA-1.5: shortest edge to the tile's size, centre crop: one tile. With pad_to_square
 *           (LlavaImageProcessor's do_pad) the picture is first made square with the mean colour.
 *   anyres  LLaVA-NeXT: the whole picture squeezed into one tile, then the picture fitted into the best of the
 *           pinpoint sizes, centred on black and cut into tiles. Tokens of the first tile, then those of the
 *           others row by row across the grid, without the rows or columns that hold padding only, each row
 *           followed by the image_newline embedding (transformers' pack_image_features).
 *   next_video LLaVA-NeXT-Video: pictures as anyres; frames by the video processor's own sizes, their features pooled over
 *           pool x pool squares.
 *   unires  LongVA: as anyres, but without the first tile, unpadding and newlines; each tile's tokens are
 *           averaged over pool x pool squares, and tiles follow one another whole.
 *
 *   onevision  LLaVA-OneVision: as anyres, with the grid of the tiles resized where it is much larger than
 *           "anyres_max_N" tiles. One of several pictures is one tile, made square with the mean colour, and ends in a
 *           newline. Frames of a video are squeezed into a tile; their tokens are resized to half the side.
 *   internvl InternVL: the picture squeezed into the grid of tiles whose shape is nearest to its own, then, behind
 *           several tiles, squeezed into one; each tile's tokens stand for squares of patches, tiles follow one another.
 *           Frames of a video are squeezed into a tile.
 *   internvl_chat InternVL's original code: the same, but the settings stand in config.json, and frames are resized as pictures.
 *   qwen2vl Qwen2-VL: one tile of the picture's own shape, its sides whole squares of patches, within bounds of pixels;
 *           two frames of a video make a tile.
 *   paddleocr_vl PaddleOCR-VL: the same, but what is narrower than a square of patches is made as wide first, and frames are pictures.
 *   smolvlm SmolVLM, Idefics3: a picture in whole tiles, then the whole in one, each behind a text; frames are a tile each,
 *           behind their times.
 *   gemma3  Gemma 3: the picture squeezed into one tile, and crops of it behind; frames are a tile each. Tiles stand
 *           between two tokens, and crops behind texts.
 *   pixtral Pixtral, Mistral 3: one tile of the picture's own shape, made smaller where it is larger than a square, its sides
 *           whole squares of patches; each row of its tokens ends in a text. Frames are pictures.
 *   lighton_ocr LightOnOCR: the same without these texts.
 *   qwen3vl Qwen3-VL: as qwen2vl, but the bounds of a video's pixels are those of all its frames together.
 *   glm4v   GLM-4.1V: the same, also of a picture, which is two frames.
 *   glm46v  GLM-4.6V: the same with other seconds behind a video's frames, and another choice of these.
 *   kimi_vl Kimi-VL: one tile of the picture's own size, made smaller where it has more patches than a bound, and padded with
 *           black at the right and below to whole squares of patches. Frames are pictures.
 *   minicpmv MiniCPM-V 4.6: the whole picture, then slices of it where it is large, sizes of their own each; one tile, whose
 *           pictures stand between texts. Frames are pictures.
 *
 * Frames of a video are one tile each, made by clip's rule, in the first three; unires pools them too. */
#ifndef SAC_VISION_DIALECT_H
#define SAC_VISION_DIALECT_H

#include "processor.h"

#define SAC_DIALECTS(X)                                                                                      \
    X(clip)                                                                                                  \
    X(anyres) X(next_video) X(unires) X(onevision) X(internvl) X(internvl_chat) X(qwen2vl) X(qwen3vl)        \
    X(smolvlm) X(gemma3) X(glm4v) X(glm46v) X(pixtral) X(kimi_vl) X(minicpmv) X(lighton_ocr) X(paddleocr_vl)

typedef struct sac_colors {
    double mean[3], std[3]; /* of pixels from 0 to 1 */
} sac_colors;

struct sac_dialect {
    const char *name; /* in reports */
    const char *const
        *classes;       /* image_processor_types, NULL-terminated; NULL: CLIP's and LLaVA's, which share the
                                   keys of sizes and crops; those of others are the dialect's own */
    const sac_dialect *kin; /* that a folder speaks instead whose image processor is of its classes; or NULL */
    bool pools;         /* may average or blend the tokens of a tile */
    bool tells_among;   /* one of several pictures becomes other tiles than a picture alone */
    bool counts_frames; /* the size of a video's frames depends on how many there are: p->n_frames */
    const sac_colors *colors; /* where no key says them; NULL: those of the image processor's class */
    size_t own_bytes;         /* of the settings that only this dialect has, c->own */
    /* Its own keys of preprocessor_config.json and of the model's files (any may be NULL) into c->own, which is zeroed,
     * after those that all share. */
    sac_status (*read)(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err);
    /* Tiles, grids and tokens of a picture; p->width, height, is_video_frame and n_frames are set. */
    sac_status (*plan)(const sac_processor_config *c, sac_visual_plan *p, sac_error *err);
    /* rows [n_tiles * patches of a tile][patch * patch][3] of a picture of the plan's size, which here is the only
     * frame of its patches. */
    sac_status (*cut)(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err);
    /* See sac_processor_layout. */
    void (*layout)(const sac_visual_plan *p, int32_t *source);
    /* See sac_processor_blend; NULL where nothing is blended. */
    void (*blend)(const sac_visual_plan *p, int32_t *source, float *weight);
    /* See sac_processor_text, by snprintf's rules; NULL: a picture's tokens stand together, without texts. */
    int (*text)(const sac_visual_shown *shown, int64_t tile, char *out, size_t capacity);
    /* The text behind a step of a video's time at `seconds`, by snprintf's rules (SAC_FRAMES_SECONDS). */
    int (*seconds)(double seconds, char *out, size_t capacity);
    int (*most_tiles)(const sac_processor_config *c); /* of one picture */
    /* Where tiles may be of any size: a picture that has as many patches as any; a video's frame that has as many as
     * most have. NULL where all tiles are of tile_size. */
    sac_status (*limit)(sac_processor_config *c, int64_t min_pixels, int64_t max_pixels, sac_error *err);
    void (*largest)(const sac_processor_config *c, bool is_video_frame, sac_visual_plan *p);
};

#define X(name) extern const sac_dialect sac_dialect_##name;
SAC_DIALECTS(X)
#undef X

/* The dialect of that name, or NULL. */
const sac_dialect *sac_dialect_find(const char *name);

/* ---------------------------------------------------------------- what dialects share */

/* One square tile by clip's rule: its plan, whose tokens are averaged over pool x pool squares (1: they are
 * not), and its patch rows. tile.c */
sac_status sac_tile_plan(const sac_processor_config *c, int pool, sac_visual_plan *p, sac_error *err);
sac_status sac_tile_rows(const sac_processor_config *c, const sac_image *image, uint8_t *rows,
                         sac_error *err);
/* One square tile, of which merge x merge patches become a token. */
void sac_tile_merged(const sac_processor_config *c, int merge, sac_visual_plan *p);
/* The whole picture squeezed into a tile. */
sac_status sac_tile_squeeze(const sac_processor_config *c, const sac_image *image, uint8_t *rows,
                            sac_error *err);
/* The grid of min to max tiles whose shape is nearest to the picture's; of equals the one of more tiles, as long as the
 * picture fills more than half of it. Grids come by their number of tiles, then by their width. tile_grid.c */
void sac_tile_grid_choose(const sac_processor_config *c, int min_tiles, int max_tiles, sac_visual_plan *p);
/* The whole picture squeezed into w x h tiles, and their patch rows. */
sac_status sac_tile_grid_draw(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                              int w, int h, sac_resize_arithmetic arithmetic, uint8_t *rows, sac_error *err);
/* The patch rows of a tile's pixels [tile_size][tile_size][3]. */
void sac_tile_cut(const sac_processor_config *c, const uint8_t *pixels, uint8_t *rows);
/* Tokens as they come out of the merger. */
void sac_tile_layout(const sac_visual_plan *p, int32_t *source);

#define SAC_PINPOINTS_MAX 1024

/* image_grid_pinpoints: sizes that a picture is fitted into, in whole tiles. pinpoints.c */
typedef struct sac_pinpoints {
    int n;
    struct {
        int width, height; /* in pixels */
    } size[SAC_PINPOINTS_MAX];
} sac_pinpoints;

/* Of config.json, else of the preprocessor, which may be NULL. `usual`: what transformers' class has in the place of either, [height, width]
 * in pixels; the two must then be the same sizes. NULL: the file is of the original code, which reads one of them. */
sac_status sac_pinpoints_read(sac_pinpoints *s, const sac_processor_config *c, const json_t *preprocessor, const json_t *config,
                              const json_t *usual, bool height_first, sac_error *err);
/* The best pinpoint for the plan's picture: its tiles of tile_size, and where the picture lies on them. */
void sac_pinpoints_plan(const sac_pinpoints *s, int tile_size, sac_visual_plan *p);
/* The patch rows of those tiles. */
sac_status sac_pinpoints_cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                             sac_filter filter, uint8_t *rows, sac_error *err);
/* Of the tiles' token grid, what lies over the picture (transformers' unpad_image). */
void sac_pinpoints_unpad(sac_visual_plan *p);
/* The tile, counted behind `first` others, and the token in it of a cell of that grid: a row of the merger's. */
int32_t sac_pinpoints_row(const sac_visual_plan *p, int first, int x, int y);
int sac_pinpoints_most_tiles(const sac_pinpoints *s, int tile_size);

/* Colours of an image processor's file into c->mean, std and pad_rgb: what it does not say is the dialect's, or `half` 0.5. */
sac_status sac_processor_read_colors(sac_processor_config *c, const json_t *json, bool half, sac_error *err);

#endif
