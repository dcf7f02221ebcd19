/* dialect_onevision.c - LLaVA-OneVision (Li et al., arXiv:2408.03326): the whole picture, then its tiles, of which a
 * large grid is resized. See dialect.h. Rules: transformers' LlavaOnevisionImageProcessor, -VideoProcessor and
 * pack_image_features. */
#include "dialect.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct settings {
    sac_pinpoints pinpoints;
    int most_tiles; /* that a grid may be worth: anyres_max_N */
    sac_frame_newlines newlines;
    bool flat;     /* the original's files: its code draws frames as it draws pictures */
    bool averages; /* frames' tokens are means of 2 x 2, without an odd last row and column */
} settings;

/* ---------------------------------------------------------------- settings */

/* The class's own sizes: all grids of up to 6 x 6 tiles of 384, by their height. */
static sac_status default_pinpoints(json_t **out, sac_error *err) {
    json_t *list = *out = json_array();
    for (int h = 1; h <= 6; h++)
        for (int w = 1; w <= 6; w++) json_array_append_new(list, json_pack("[ii]", 384 * h, 384 * w));
    return json_array_size(list) == 36 ? SAC_OK : sac_fail(err, SAC_NO_MEMORY, "no memory for \"image_grid_pinpoints\"");
}

/* The original's config.json, which has other names for some keys, and keys of its own. */
static bool is_flat(const json_t *config) {
    return json_object_get(config, "mm_patch_merge_type") && !json_object_get(config, "text_config");
}

static bool has_pinpoints(const json_t *object) {
    const json_t *v = json_object_get(object, "image_grid_pinpoints");
    return v && !json_is_null(v);
}

static sac_status read_pinpoints(sac_processor_config *c, const json_t *config, const json_t *preprocessor,
                                 sac_error *err) {
    settings *own = c->own;
    json_t *usual = NULL;
    const bool is_one = is_flat(config) && (has_pinpoints(config) || has_pinpoints(preprocessor)); /* read by the original's code */
    sac_status st = default_pinpoints(&usual, err);
    if (st == SAC_OK) st = sac_pinpoints_read(&own->pinpoints, c, preprocessor, config, is_one ? NULL : usual, true, err);
    json_decref(usual);
    return st;
}

static sac_status read_ratio(settings *own, const json_t *config, sac_error *err) {
    static const char rule[] = "anyres_max_";
    const char *text = "anyres_max_9";
    const char *key = is_flat(config) ? "image_aspect_ratio" : "vision_aspect_ratio";
    SAC_TRY(sac_json_get_string(config, key, &text, err));
    char *end = NULL;
    bool fits = strncmp(text, rule, sizeof rule - 1) == 0;
    long n = fits ? strtol(text + sizeof rule - 1, &end, 10) : 0;
    if (!fits || *end || n < 1 || n > SAC_PROCESSOR_MAX_TILES)
        return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" is \"%.30s\"; anyres_max_1 to %d are known", key, text,
                        SAC_PROCESSOR_MAX_TILES);
    own->most_tiles = (int)n;
    return SAC_OK;
}

/* How a frame's tokens are made fewer, and which of them newlines follow (LLaVA-Video, Zhang et al., arXiv:2410.02713); the
 * one behind a whole video is the model's. */
static sac_status read_frames(settings *own, const sac_processor_config *c, const json_t *config,
                              sac_error *err) {
    const char *mode = "bilinear", *position = "one_token";
    own->flat = is_flat(config);
    if (!own->flat) return SAC_OK;
    SAC_TRY(sac_json_get_string(config, "mm_spatial_pool_mode", &mode, err));
    SAC_TRY(sac_json_get_string(config, "mm_newline_position", &position, err));
    own->averages = strcmp(mode, "average") == 0;
    if (!own->averages && strcmp(mode, "bilinear") != 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"mm_spatial_pool_mode\" is \"%.40s\"; bilinear and average are known", mode);
    own->newlines = strcmp(position, "grid") == 0    ? SAC_NEWLINES_ROWS
                    : strcmp(position, "frame") == 0 ? SAC_NEWLINES_END
                                                     : SAC_NEWLINES_NONE;
    if (own->newlines == SAC_NEWLINES_NONE && strcmp(position, "one_token") != 0 &&
        strcmp(position, "no_token") != 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"mm_newline_position\" is \"%.40s\"; grid, frame, one_token and no_token are known",
                        position);
    if (c->tile_size / c->patch_size >= 2) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "frames of one patch cannot be pooled");
}

/* Frames are drawn with the picture's settings: video_preprocessor_config.json must say the same. */
static sac_status check_video(const sac_processor_config *c, const json_t *video, const json_t *preprocessor,
                              sac_error *err) {
    static const char *const keys[] = {"image_mean", "image_std",  "rescale_factor", "resample",
                                       "do_resize",  "do_rescale", "do_normalize"};
    const json_t *size = NULL;
    int64_t w = c->tile_size, h = c->tile_size;
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        const json_t *v = json_object_get(video, keys[i]), *p = json_object_get(preprocessor, keys[i]);
        if (v && p && !json_equal(v, p))
            return sac_fail(err, SAC_UNSUPPORTED,
                            "video_preprocessor_config.json: \"%s\" is not that of preprocessor_config.json",
                            keys[i]);
    }
    SAC_TRY(sac_json_get_object(video, "size", &size, err));
    SAC_TRY(sac_json_get_int(size, "width", 1, INT32_MAX, &w, err));
    SAC_TRY(sac_json_get_int(size, "height", 1, INT32_MAX, &h, err));
    if (w == c->tile_size && h == c->tile_size) return SAC_OK;
    return sac_fail(
        err, SAC_BAD_FILE,
        "video_preprocessor_config.json: \"size\" is %lld x %lld, but the vision tower takes %d x %d",
        (long long)w, (long long)h, c->tile_size, c->tile_size);
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    SAC_TRY(read_pinpoints(c, model->config, preprocessor, err));
    SAC_TRY(read_ratio(c->own, model->config, err));
    SAC_TRY(read_frames(c->own, c, model->config, err));
    return model->video ? check_video(c, model->video, preprocessor, err) : SAC_OK;
}

/* ---------------------------------------------------------------- sizes */

/* Python's a // b of floats. */
static int whole(double a, double b) {
    double quotient = (a - fmod(a, b)) / b, down = floor(quotient);
    return (int)(quotient - down > 0.5 ? down + 1 : down);
}

/* A grid of more than 1.1 times the side of the tiles that it may be worth is made that small. */
static void shrink(const settings *own, sac_visual_plan *p) {
    int64_t most = (int64_t)own->most_tiles * p->tokens.h * p->tokens.h;
    double ratio = sqrt((double)((int64_t)p->keep_h * p->keep_w) / (double)most);
    p->grid_h = p->keep_h;
    p->grid_w = p->keep_w;
    if (ratio <= 1.1) return;
    p->grid_h = whole(p->keep_h, ratio);
    p->grid_w = whole(p->keep_w, ratio);
    p->blends = true;
}

static sac_status plan_frame(const settings *own, sac_visual_plan *p) {
    int side = own->averages ? p->patches.h / 2 : (p->patches.h + 1) / 2;
    p->tokens = (sac_grid){1, side, side};
    p->newlines = own->newlines;
    p->n_tokens = p->tokens_per_tile = side * side + sac_visual_newlines(p);
    p->blends = true;
    return SAC_OK;
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    SAC_TRY(sac_tile_plan(c, 1, p, err));
    if (p->is_video_frame) return plan_frame(own, p);
    if (p->is_among) {
        p->n_tokens++; /* a newline */
        return SAC_OK;
    }
    sac_pinpoints_plan(&own->pinpoints, c->tile_size, p);
    p->n_tiles++;
    sac_pinpoints_unpad(p);
    shrink(own, p);
    /* Without padding nothing may be left of a grid, as in transformers; that which shrinks to nothing it cannot make. */
    if ((p->grid_h < 1 && p->keep_h > 0) || (p->grid_w < 1 && p->keep_w > 0))
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels is too narrow for this model",
                        p->width, p->height);
    p->n_tokens = p->tokens_per_tile + (int64_t)p->grid_h * (p->grid_w + 1);
    return SAC_OK;
}

/* ---------------------------------------------------------------- pixels */

/* Pictures are resized as the checkpoint's were, with Pillow; for frames of videos transformers has torchvision alone. */
static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    sac_processor_config how = *c;
    if (p->is_video_frame) {
        const settings *own = c->own;
        if (!own->flat) how.arithmetic = SAC_RESIZE_TORCHVISION;
        return sac_tile_squeeze(&how, image, rows, err);
    }
    how.pad_to_square = p->is_among;
    if (p->is_among) return sac_tile_rows(&how, image, rows, err);
    SAC_TRY(sac_tile_squeeze(c, image, rows, err));
    return sac_pinpoints_cut(c, image, p, c->filter, rows + sac_visual_bytes(p, 1), err);
}

/* ---------------------------------------------------------------- tokens */

/* Where an output cell looks on an axis of n cells: two neighbours, and how much of the second. */
typedef struct tap {
    int at, next;
    float part;
} tap;

/* torch's interpolate, bilinear, without align_corners or antialias. */
static tap tap_of(int i, int n, int n_out) {
    float at = ((float)i + 0.5f) * ((float)n / (float)n_out) - 0.5f;
    if (at < 0) at = 0;
    int low = (int)at;
    if (low > n - 1) low = n - 1;
    return (tap){low, low < n - 1 ? low + 1 : low, at - (float)low};
}

static void put_taps(const int32_t from[SAC_VISUAL_TAPS], tap y, tap x, int32_t *source, float *weight) {
    const float by[SAC_VISUAL_TAPS] = {(1 - y.part) * (1 - x.part), (1 - y.part) * x.part,
                                       y.part * (1 - x.part), y.part * x.part};
    memcpy(source, from, SAC_VISUAL_TAPS * sizeof *source);
    memcpy(weight, by, sizeof by);
}

static const tap no_tap = {0, 0, 0};

static void put_one(int32_t from, int32_t *source, float *weight) {
    put_taps((const int32_t[]){from, from, from, from}, no_tap, no_tap, source, weight);
}

/* A grid of half an odd side leaves its last cell out: means, as any half of an even one is. */
static tap frame_tap(int i, int n, int n_out) {
    return n_out == n / 2 ? tap_of(i, 2 * n_out, n_out) : tap_of(i, n, n_out);
}

static void blend_frame(const sac_visual_plan *p, int32_t *source, float *weight) {
    int w = p->patches.w;
    for (int i = 0; i < p->n_tokens; i++, source += SAC_VISUAL_TAPS, weight += SAC_VISUAL_TAPS) {
        const int at = (int)sac_visual_cell(p, i);
        if (at < 0) {
            put_one(SAC_SOURCE_NEWLINE, source, weight);
            continue;
        }
        tap y = frame_tap(at / p->tokens.w, p->patches.h, p->tokens.h),
            x = frame_tap(at % p->tokens.w, w, p->tokens.w);
        const int32_t from[] = {y.at * w + x.at, y.at * w + x.next, y.next * w + x.at, y.next * w + x.next};
        put_taps(from, y, x, source, weight);
    }
}

/* The grid's cell (x, y) after unpadding. */
static int32_t cell(const sac_visual_plan *p, int x, int y) {
    return sac_pinpoints_row(p, 1, p->keep_x + x, p->keep_y + y);
}

static void blend_picture(const sac_visual_plan *p, int32_t *source, float *weight) {
    for (int32_t i = 0; i < p->n_tokens; i++, source += SAC_VISUAL_TAPS, weight += SAC_VISUAL_TAPS) {
        int at = i - p->tokens_per_tile, row = at / (p->grid_w + 1), column = at % (p->grid_w + 1);
        bool is_newline = at >= 0 && column == p->grid_w;
        if (at < 0 || is_newline) { /* the picture as a whole comes first */
            put_one(is_newline ? SAC_SOURCE_NEWLINE : i, source, weight);
            continue;
        }
        tap y = tap_of(row, p->keep_h, p->grid_h), x = tap_of(column, p->keep_w, p->grid_w);
        const int32_t from[] = {cell(p, x.at, y.at), cell(p, x.next, y.at), cell(p, x.at, y.next),
                                cell(p, x.next, y.next)};
        put_taps(from, y, x, source, weight);
    }
}

static void blend(const sac_visual_plan *p, int32_t *source, float *weight) {
    if (p->is_video_frame)
        blend_frame(p, source, weight);
    else
        blend_picture(p, source, weight);
}

/* Cell of n that output cell i of n_out lies on. */
static int nearest(int i, int n, int n_out) {
    tap t = tap_of(i, n, n_out);
    return t.part < 0.5f ? t.at : t.next;
}

static void layout(const sac_visual_plan *p, int32_t *source) {
    int32_t n = 0;
    if (p->is_video_frame) {
        sac_tile_layout(p, source);
        return;
    }
    for (; n < p->tokens_per_tile; n++) source[n] = n;
    if (p->is_among) source[n] = SAC_SOURCE_NEWLINE;
    for (int y = 0; y < p->grid_h && !p->is_among; y++) {
        for (int x = 0; x < p->grid_w; x++)
            source[n++] = cell(p, nearest(x, p->keep_w, p->grid_w), nearest(y, p->keep_h, p->grid_h));
        source[n++] = SAC_SOURCE_NEWLINE;
    }
}

static int most_tiles(const sac_processor_config *c) {
    const settings *own = c->own;
    return sac_pinpoints_most_tiles(&own->pinpoints, c->tile_size) + 1; /* the whole picture is one more */
}

const sac_dialect sac_dialect_onevision = {.name = "onevision",
                                           .pools = true,
                                           .tells_among = true,
                                           .own_bytes = sizeof(settings),
                                           .read = read,
                                           .plan = plan,
                                           .cut = cut,
                                           .layout = layout,
                                           .blend = blend,
                                           .most_tiles = most_tiles};
