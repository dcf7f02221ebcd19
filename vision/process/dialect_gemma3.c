/* dialect_gemma3.c - Gemma 3 (arXiv:2503.19786, sec. 2, "pan and scan"): the picture squeezed into a tile, and where that is
 * asked for and its shape is far from square, crops of it along its longer side behind the whole. See dialect.h. Rules:
 * transformers' Gemma3ImageProcessor and Gemma3Processor. */
#include "dialect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CROPS = SAC_PROCESSOR_MAX_TILES - 1, MOST_CROP_SIDE = 1 << 20 };

typedef struct settings {
    int merge;
    bool crops;
    int min_side, most_crops; /* pixels of a crop's sides; crops of a picture */
    double min_ratio;         /* of the longer side to the shorter from which on a picture is cropped */
} settings;

/* ---------------------------------------------------------------- settings */

/* "size" {height, width}: the tower's, both. */
static sac_status check_size(const sac_processor_config *c, const json_t *object, sac_error *err) {
    const json_t *size = NULL;
    int64_t w = 224, h = 224; /* the class's own */
    SAC_TRY(sac_json_get_object(object, "size", &size, err));
    if (size) {
        w = h = 0;
        SAC_TRY(sac_json_get_int(size, "width", 1, INT32_MAX, &w, err));
        SAC_TRY(sac_json_get_int(size, "height", 1, INT32_MAX, &h, err));
        if (!w || !h) return sac_fail(err, SAC_BAD_FILE, "\"size\" needs \"height\" and \"width\"");
    }
    if (w == c->tile_size && h == c->tile_size) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"size\" is %lld x %lld, but the vision tower takes %d x %d",
                    (long long)w, (long long)h, c->tile_size, c->tile_size);
}

static sac_status check_steps(const json_t *object, sac_error *err) {
    bool resize = true, crop = false, pad = false;
    SAC_TRY(sac_json_get_bool(object, "do_resize", &resize, err));
    SAC_TRY(sac_json_get_bool(object, "do_center_crop", &crop, err));
    SAC_TRY(sac_json_get_bool(object, "do_pad", &pad, err));
    if (!resize) return sac_fail(err, SAC_UNSUPPORTED, "\"do_resize\" false: pictures are resized to a tile");
    if (crop) return sac_fail(err, SAC_UNSUPPORTED, "\"do_center_crop\" true");
    return pad ? sac_fail(err, SAC_UNSUPPORTED, "\"do_pad\" true") : SAC_OK;
}

static sac_status read_crops(settings *own, const json_t *object, sac_error *err) {
    int64_t side = 256, most = 4;
    SAC_TRY(sac_json_get_bool(object, "do_pan_and_scan", &own->crops, err));
    SAC_TRY(sac_json_get_int(object, "pan_and_scan_min_crop_size", 1, MOST_CROP_SIDE, &side, err));
    SAC_TRY(sac_json_get_int(object, "pan_and_scan_max_num_crops", 1, MOST_CROPS, &most, err));
    SAC_TRY(sac_json_get_float(object, "pan_and_scan_min_ratio_to_activate", &own->min_ratio, err));
    own->min_side = (int)side;
    own->most_crops = (int)most;
    if (isfinite(own->min_ratio) && own->min_ratio >= 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"pan_and_scan_min_ratio_to_activate\" is %g, must be 0 or more",
                    own->min_ratio);
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    settings *own = c->own;
    *own = (settings){.merge = model->merge_size > 1 ? model->merge_size : 1, .min_ratio = 1.2};
    if (!json_object_get(preprocessor, "resample")) c->filter = SAC_FILTER_BILINEAR;
    SAC_TRY(check_size(c, preprocessor, err));
    SAC_TRY(check_steps(preprocessor, err));
    return read_crops(own, preprocessor, err);
}

/* ---------------------------------------------------------------- sizes */

/* Crops along a side of `length`, of a picture whose other side is `across`; 1: it is not cropped. */
static int crops_along(const settings *own, int length, int across) {
    const double ratio = (double)length / across;
    if (ratio < own->min_ratio) return 1;
    int64_t n = (int64_t)floor(ratio + 0.5), fit = length / own->min_side;
    n = n < fit ? n : fit;
    n = n > 2 ? n : 2;
    return (int)(n < own->most_crops ? n : own->most_crops);
}

static int crop_side(int length, int n) {
    return (length + n - 1) / n;
}

/* The grid of crops into tiles_w, tiles_h; 0: none. */
static void choose_crops(const settings *own, sac_visual_plan *p) {
    const bool is_wide = p->width >= p->height;
    const int length = is_wide ? p->width : p->height, across = is_wide ? p->height : p->width;
    p->tiles_w = p->tiles_h = 0;
    if (!own->crops || (double)length / across < own->min_ratio) return;
    const int n = crops_along(own, length, across), side = crop_side(length, n);
    if ((side < across ? side : across) < own->min_side) return;
    p->tiles_w = is_wide ? n : 1;
    p->tiles_h = is_wide ? 1 : n;
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    if (p->width > SAC_RESIZE_MAX_SIDE || p->height > SAC_RESIZE_MAX_SIDE)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels is too long to be resized",
                        p->width, p->height);
    sac_tile_merged(c, own->merge, p);
    if (p->is_video_frame) return SAC_OK;
    choose_crops(own, p);
    const int n = p->tiles_w * p->tiles_h;
    p->n_tiles = n + 1;
    p->n_tokens = (int64_t)p->n_tiles * p->tokens_per_tile;
    return SAC_OK;
}

static int most_tiles(const sac_processor_config *c) {
    const settings *own = c->own;
    return own->crops ? own->most_crops + 1 : 1;
}

/* ---------------------------------------------------------------- pixels */

/* A packed picture squeezed into the tile `number`. */
static sac_status draw(const sac_processor_config *c, const uint8_t *rgb, int w, int h, const sac_visual_plan *p,
                       int number, uint8_t *rows, sac_error *err) {
    const sac_patch_order order = sac_visual_order(p);
    const int side = c->tile_size;
    uint8_t *pixels = malloc((size_t)side * (size_t)side * 3);
    if (!pixels) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tile of a picture");
    sac_status st = sac_resize(pixels, side, side, rgb, w, h, c->filter, c->arithmetic, err);
    if (st == SAC_OK) sac_patches_cut(rows + sac_visual_bytes(p, number), &order, 0, pixels, side);
    free(pixels);
    return st;
}

/* The last crop of a side is what is left of it. Where nothing is, as of the sixth of 7 pixels by twos, it is black: so are those of
 * transformers' Pillow backend (its other one fails). */
static sac_status draw_crop(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                            int number, uint8_t *rows, sac_error *err) {
    const int w = crop_side(p->width, p->tiles_w), h = crop_side(p->height, p->tiles_h);
    const int x = number % p->tiles_w * w, y = number / p->tiles_w * h;
    const int own_w = p->width - x < w ? p->width - x : w, own_h = p->height - y < h ? p->height - y : h;
    if (own_w <= 0 || own_h <= 0) return draw(c, (const uint8_t[3]){0}, 1, 1, p, number + 1, rows, err);
    uint8_t *crop = malloc((size_t)own_w * (size_t)own_h * 3);
    if (!crop) return sac_fail(err, SAC_NO_MEMORY, "no memory for a crop of a picture");
    for (int i = 0; i < own_h; i++)
        memcpy(crop + (size_t)i * (size_t)own_w * 3,
               image->rgb + ((size_t)(y + i) * (size_t)p->width + (size_t)x) * 3, (size_t)own_w * 3);
    sac_status st = draw(c, crop, own_w, own_h, p, number + 1, rows, err);
    free(crop);
    return st;
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    SAC_TRY(draw(c, image->rgb, image->width, image->height, p, 0, rows, err));
    for (int i = 0; i < p->n_tiles - 1; i++) SAC_TRY(draw_crop(c, image, p, i, rows, err));
    return SAC_OK;
}

/* ---------------------------------------------------------------- texts */

#define BEGIN "\n\n<start_of_image>"
#define END   "<end_of_image>\n\n"

static int text(const sac_visual_shown *m, int64_t tile, char *out, size_t capacity) {
    const bool is_cropped = !m->plan->is_video_frame && m->n_tiles > 1;
    const char *before = tile > 0 ? END : "", *behind = tile < m->n_tiles ? BEGIN : "", *between = "";
    if (is_cropped && tile < m->n_tiles)
        between = tile == 0   ? "Here is the original image "
                  : tile == 1 ? " and here are some crops to help you see better "
                              : " ";
    return snprintf(out, capacity, "%s%s%s", before, between, behind);
}

static const char *const classes[] = {"Gemma3ImageProcessor", NULL};

const sac_dialect sac_dialect_gemma3 = {.name = "gemma3",
                                        .classes = classes,
                                        .own_bytes = sizeof(settings),
                                        .read = read,
                                        .plan = plan,
                                        .cut = cut,
                                        .layout = sac_tile_layout,
                                        .text = text,
                                        .most_tiles = most_tiles};
