/* processor.h - from a decoded picture to the patch rows that the vision tower takes, and from the tokens that
 * come of them to their order in the prompt. How, a dialect says (dialect.h). */
#ifndef SAC_VISION_PROCESSOR_H
#define SAC_VISION_PROCESSOR_H

#include "grid.h"
#include "image.h"
#include "json.h"
#include "patches.h"
#include "resize.h"

#include <stdbool.h>

#define SAC_PROCESSOR_MAX_TILES       256 /* of one picture */
/* With pad_to_square the work grows with the square of the longer side, however narrow the picture is. */
#define SAC_PROCESSOR_MAX_PADDED_SIDE 32768

typedef struct sac_dialect sac_dialect;

/* How the model's own code chooses a video's frames where nothing is asked; zeros: its files do not say. See
 * sac_frame_request. */
typedef struct sac_processor_sampling {
    double fps, skip_s, most_s;
    int most_frames, pace;
} sac_processor_sampling;

typedef struct sac_processor_config {
    const sac_dialect *dialect;
    sac_resize_arithmetic arithmetic; /* Pillow's, unless the caller changes it: see sac_processor_read */
    sac_filter filter;
    int tile_size;  /* S: tiles are S x S pixels */
    int patch_size; /* of the tower; S / patch_size tokens a side */
    bool keep_class_token;
    bool do_resize;
    int resize_shortest; /* 0: resize to resize_w x resize_h */
    int resize_w, resize_h;
    bool do_center_crop; /* to S x S */
    bool pad_to_square;
    uint8_t pad_rgb[3];
    float mean[3], std[3]; /* the tower sees (pixel / 255 - mean) / std */
    int64_t max_tokens;    /* of one picture; INT32_MAX unless the caller lowers it */
    sac_processor_sampling sampling;
    void *own;             /* the dialect's own settings, dialect->own_bytes; NULL where it has none */
} sac_processor_config;

/* What a family knows of the model. */
typedef struct sac_processor_model {
    const sac_dialect *dialect;
    int image_size, patch_size; /* of the vision tower */
    bool keep_class;            /* its class token is among the features */
    int temporal_patch_size, merge_size;
    const json_t *video;     /* video_preprocessor_config.json, or NULL; borrowed */
    const json_t *processor; /* processor_config.json, or NULL; borrowed */
    /* config.json, borrowed, may be NULL: for the dialects. */
    const json_t *config;
} sac_processor_model;

/* preprocessor is the object of preprocessor_config.json (or "image_processor" of processor_config.json); NULL
 * takes CLIP's defaults at the tower's size, as LongVA's own folders need. BAD_FILE says which key cannot be
 * honoured.
 *
 * transformers 5 resizes with torchvision where that is installed and with Pillow elsewhere, whatever the
 * checkpoint was trained with; on photographs the two differ by one level in 0.3 % of the values. The models read
 * here were trained with Pillow, so that is the default; set config->arithmetic for the other.
 * After a failure there is nothing to free. */
sac_status sac_processor_read(sac_processor_config *config, const json_t *preprocessor,
                              const sac_processor_model *model, sac_error *err);
void sac_processor_free(sac_processor_config *config); /* a zeroed one is fine */

/* The JSON object for sac_processor_read out of a model folder, as transformers looks for it:
 * processor_config.json when it has "image_processor", else preprocessor_config.json; *out is NULL when there is
 * neither. Owned by the caller. */
sac_status sac_processor_find(json_t **out, const char *folder, sac_error *err);

/* Newlines among a video frame's tokens: one behind each row of its grid, or one behind them all. */
typedef enum sac_frame_newlines { SAC_NEWLINES_NONE, SAC_NEWLINES_ROWS, SAC_NEWLINES_END } sac_frame_newlines;

/* What one picture or frame becomes; known before any pixel is touched. */
typedef struct sac_visual_plan {
    int width, height; /* of the picture */
    bool is_video_frame;
    bool is_among;      /* one of several pictures, where the dialect makes a difference (tells_among) */
    int64_t n_frames;   /* of its video; 0: not known */
    int n_tiles;        /* pictures that the tower takes, all of one size */
    int tile_w, tile_h; /* in pixels; what is over a multiple of the patch is drawn and not looked at */
    int patch;          /* pixels a side of a patch */
    int frames; /* pictures that share a patch: frames of a video that follow one another, or a picture and
                            itself; a tile of a video is so many frames */
    int merge;  /* patches stand in squares of merge x merge (patches.h) */
    sac_grid patches;    /* of a tile; a step of time attends to itself only */
    int pool;            /* a tile's embeddings are averaged over pool x pool squares of its grid */
    sac_grid tokens;     /* of a tile, after that */
    /* Cells of `tokens`, and the class token where it is kept (then in front), and a frame's newlines. */
    int tokens_per_tile;
    sac_frame_newlines newlines;
    int64_t n_tokens;    /* that the prompt receives */
    /* A tile that is several pictures of different sizes, whose squares of patches stand in one strip, and the tokens of each
     * apart in the prompt; their grids of patches, and how many of these a side make a token (MiniCPM-V). */
    sac_crops crops;
    int crop_side;
    bool is_numbered;    /* the number of the picture or video stands before it */
    int n_lines;         /* rows of its tokens that stand apart in the prompt, between texts; 0: a tile stands whole */
    /* The dialect's own: the tile grid of a picture in tiles (1 x 1 else), what of it the picture covers in
     * pixels, and the part of its token grid that unpadding keeps. */
    int tiles_w, tiles_h;
    int fit_w, fit_h, fit_x, fit_y;
    int keep_x, keep_y, keep_w, keep_h;
    int grid_w, grid_h; /* tokens of that part once it is resized */
    /* Of a picture the tokens, of a frame the embeddings of its tile are weighted sums: see sac_processor_blend. */
    bool blends;
} sac_visual_plan;

/* Bytes of the patch rows of n tiles. */
static inline size_t sac_visual_bytes(const sac_visual_plan *p, int64_t n_tiles) {
    return (size_t)(n_tiles * sac_grid_cells(p->patches) * p->frames * p->patch * p->patch * 3);
}
static inline sac_patch_order sac_visual_order(const sac_visual_plan *p) {
    return (sac_patch_order){p->patch, p->patches.h, p->patches.w, p->merge, p->frames, false};
}
/* Of picture i of a tile that is several. */
static inline sac_patch_order sac_visual_crop_order(const sac_visual_plan *p, int i) {
    const sac_grid g = sac_crop(&p->crops, i);
    return (sac_patch_order){p->patch, g.h, g.w, p->crop_side, 1, .nests = true};
}
static inline sac_grid sac_visual_crop_tokens(const sac_visual_plan *p, int i) {
    const sac_grid g = sac_crop(&p->crops, i);
    return (sac_grid){1, g.h / p->crop_side, g.w / p->crop_side};
}
/* Tiles of a video of n frames. */
static inline int64_t sac_visual_tiles(const sac_visual_plan *p, int64_t n_frames) {
    return (n_frames + p->frames - 1) / p->frames;
}

/* Newlines among the tokens of a frame. */
static inline int sac_visual_newlines(const sac_visual_plan *p) {
    return p->newlines == SAC_NEWLINES_ROWS ? p->tokens.h : p->newlines == SAC_NEWLINES_END ? 1 : 0;
}
/* The cell of `tokens` that token i of a tile is, counted behind the class token; -1: a newline. */
static inline int64_t sac_visual_cell(const sac_visual_plan *p, int64_t i) {
    const int64_t w = p->tokens.w;
    if (p->newlines == SAC_NEWLINES_ROWS) return i % (w + 1) == w ? -1 : i / (w + 1) * w + i % (w + 1);
    return p->newlines == SAC_NEWLINES_END && i == w * p->tokens.h ? -1 : i;
}

/* A picture; is_among: one of several of a conversation. TOO_LONG above max_tokens, BAD_ARGUMENT for sizes that cannot be
 * processed. */
sac_status sac_processor_plan(const sac_processor_config *config, int width, int height, bool is_among,
                              sac_visual_plan *plan, sac_error *err);

/* The same for a frame of a video of which n_frames are taken; 0: their number is not known. */
sac_status sac_processor_plan_frame(const sac_processor_config *config, int width, int height,
                                    int64_t n_frames, sac_visual_plan *plan, sac_error *err);

/* Patch rows [n_tiles * cells of plan->patches][frames][patch * patch][3] of a picture, which is all the frames of
 * its patches. Black of padding and cropping is in them: it is normalised like any pixel. */
sac_status sac_processor_cut(const sac_processor_config *config, const sac_image *image,
                             const sac_visual_plan *plan, uint8_t *rows, sac_error *err);

/* A frame of a video for itself: the same rows with one frame, which is what a plan with frames = 1 has. */
sac_status sac_processor_cut_frame(const sac_processor_config *config, const sac_image *image,
                                   const sac_visual_plan *plan, uint8_t *rows, sac_error *err);

/* Those as frame k of a tile of the plan. */
void sac_processor_place_frame(const sac_visual_plan *plan, int k, const uint8_t *frame, uint8_t *rows);

/* Parts of a tile that stand apart in the prompt. */
static inline int sac_visual_parts(const sac_visual_plan *p) {
    return p->n_lines > 0 ? p->n_lines : 1;
}
/* Tokens of part i of a tile, and of those before it. */
static inline int64_t sac_visual_part_first(const sac_visual_plan *p, int i) {
    const int64_t each = p->n_tokens / sac_visual_parts(p);
    return p->crops.n ? sac_crops_before(&p->crops, i) * p->n_tokens / sac_grid_cells(p->patches) : i * each;
}
static inline int64_t sac_visual_part_tokens(const sac_visual_plan *p, int i) {
    return sac_visual_part_first(p, i + 1) - sac_visual_part_first(p, i);
}

/* A picture's or a video's tiles as they stand in the prompt. */
typedef struct sac_visual_shown {
    const sac_visual_plan *plan;
    int64_t n_tiles;      /* of a video: of all its frames; times sac_visual_parts */
    const double *time_s; /* [n_tiles] of a video's frames */
    double duration_s;    /* of the video; 0: not known */
    int number;           /* among the conversation's pictures, or among its videos, from 0 on */
} sac_visual_shown;

/* Tiles, or their rows of tokens, stand apart in the prompt, each behind a text. */
bool sac_processor_has_texts(const sac_processor_config *config);

/* The text before a tile or a part of one, or with tile == n_tiles behind the last, 0 at its end, its control tokens by name;
 * its length is returned. */
enum { SAC_VISUAL_TEXT_BYTES = 512 };
size_t sac_processor_text(const sac_processor_config *config, const sac_visual_shown *shown, int64_t tile,
                          char out[SAC_VISUAL_TEXT_BYTES]);

#define SAC_SOURCE_NEWLINE (-1)

/* source [n_tokens]: for every visual token, in the prompt's order, its row in the merger's outputs [n_tiles *
 * tokens_per_tile], or SAC_SOURCE_NEWLINE for the image_newline embedding. */
void sac_processor_layout(const sac_processor_config *config, const sac_visual_plan *plan, int32_t *source);

/* Of a plan that blends: for each of n_tokens the rows of the merger's outputs (of a frame's tile) that it is a sum of,
 * and their weights, [n_tokens][SAC_VISUAL_TAPS]; SAC_SOURCE_NEWLINE in front: the image_newline embedding.
 * sac_processor_layout then has the row that weighs most. */
enum { SAC_VISUAL_TAPS = 4 };
void sac_processor_blend(const sac_processor_config *config, const sac_visual_plan *plan, int32_t *source,
                         float *weight);

/* Bounds on the pixels of pictures and frames in place of the checkpoint's; 0 leaves one as it is. UNSUPPORTED where all
 * pictures become the same size. */
sac_status sac_processor_limit(sac_processor_config *config, int64_t min_pixels, int64_t max_pixels,
                               sac_error *err);

/* The picture whose tiles have the most patches; where all tiles are of one size, one of that size. */
sac_status sac_processor_largest(const sac_processor_config *config, sac_visual_plan *plan, sac_error *err);

/* A frame of a video whose size is not known: one that costs as much as most do. */
sac_status sac_processor_usual_frame(const sac_processor_config *config, sac_visual_plan *plan,
                                     sac_error *err);

/* Tiles of the picture that has most of them. */
int sac_processor_most_tiles(const sac_processor_config *config);

#endif
