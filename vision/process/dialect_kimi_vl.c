/* dialect_kimi_vl.c - Kimi-VL (arXiv:2504.07491, sec. 2.1): a picture keeps its size; one of more patches than a bound is made smaller,
 * and black at the right and below fills the last squares of patches. See dialect.h. Rules: KimiVLImageProcessor of the published
 * folders. */
#include "squares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A side has fewer than 512 patches: the model's rotations go no further. */
enum { MOST_SIDE = 511, MOST_PATCHES = 1 << 18, USUAL_FRAME_SQUARES = 768 };

typedef struct settings {
    int square, merge;    /* pixels a side of a square of patches; patches a side of it */
    int64_t most_patches; /* of a picture that keeps its size: "in_token_limit" */
} settings;

/* ---------------------------------------------------------------- sizes */

typedef struct size {
    int w, h;
} size;

static int squares_of(int side, int square) {
    return (side - 1) / square + 1;
}

/* What the picture is drawn at. */
static size drawn_size(const sac_processor_config *c, int width, int height) {
    const settings *own = c->own;
    const int64_t n = (int64_t)(width / c->patch_size) * (height / c->patch_size);
    if (n <= own->most_patches) return (size){width, height};
    const double scale = sqrt((double)own->most_patches / (double)n);
    return (size){(int)(width * scale), (int)(height * scale)};
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    const size s = drawn_size(c, p->width, p->height);
    if (s.w < 1 || s.h < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels is less than a pixel wide or high at %lld patches", p->width,
                        p->height, (long long)own->most_patches);
    const int columns = squares_of(s.w, own->square), rows = squares_of(s.h, own->square);
    if (columns > MOST_SIDE / own->merge || rows > MOST_SIDE / own->merge)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels is %d x %d patches; this model takes at most %d a side",
                        p->width, p->height, columns * own->merge, rows * own->merge, MOST_SIDE);
    sac_squares_describe(c, own->merge, columns, rows, p);
    return SAC_OK;
}

/* Columns and rows of squares of a picture that has as many as any. One of W patches a side was drawn with more than W - merge; before
 * its sides were rounded down to whole patches the product of the two was the bound, and rounding leaves out less than one a side. */
static void largest(const sac_processor_config *c, bool is_video_frame, sac_visual_plan *p) {
    const settings *own = c->own;
    const double n = (double)own->most_patches;
    const int most = MOST_SIDE / own->merge;
    int columns = 1, rows = 1;
    for (int w = 1; w <= most; w++) {
        const double least = fmax((w - 1) * own->merge - 1, n / (MOST_SIDE + 1));
        const double high = ceil((n / fmax(least, 1) + 1) / own->merge);
        const int h = high < most ? (int)high : most;
        if (w * h > columns * rows) columns = w, rows = h;
    }
    if (is_video_frame && columns * rows > USUAL_FRAME_SQUARES) columns = USUAL_FRAME_SQUARES / 24, rows = 24;
    sac_squares_describe(c, own->merge, columns, rows, p);
}

static int most_tiles(const sac_processor_config *c) {
    (void)c;
    return 1;
}

/* ---------------------------------------------------------------- pixels */

/* The picture at its size onto a black canvas of whole squares. */
static sac_status draw(const sac_processor_config *c, const sac_image *image, size s, uint8_t *canvas, int width, sac_error *err) {
    const uint8_t *from = image->rgb;
    uint8_t *resized = NULL;
    sac_status st = SAC_OK;
    if (s.w != image->width || s.h != image->height) {
        from = resized = malloc((size_t)s.w * (size_t)s.h * 3);
        if (!resized) return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", s.w, s.h);
        st = sac_resize(resized, s.w, s.h, image->rgb, image->width, image->height, c->filter, c->arithmetic, err);
    }
    const size_t line = (size_t)s.w * 3;
    for (int y = 0; y < s.h && st == SAC_OK; y++) memcpy(canvas + (size_t)y * (size_t)width * 3, from + (size_t)y * line, line);
    free(resized);
    return st;
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p, uint8_t *rows, sac_error *err) {
    const sac_patch_order order = sac_visual_order(p);
    uint8_t *canvas = calloc((size_t)p->tile_w * (size_t)p->tile_h, 3);
    if (!canvas) return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", p->tile_w, p->tile_h);
    sac_status st = draw(c, image, drawn_size(c, image->width, image->height), canvas, p->tile_w, err);
    if (st == SAC_OK) sac_patches_cut(rows, &order, 0, canvas, p->tile_w);
    free(canvas);
    return st;
}

/* ---------------------------------------------------------------- settings */

/* A size or two, as the tower has them. */
static sac_status check_side(const json_t *json, const char *key, int want, sac_error *err) {
    const json_t *v = json_object_get(json, key);
    const size_t n = json_is_array(v) ? json_array_size(v) : 1;
    if (!v || json_is_null(v)) return SAC_OK;
    for (size_t i = 0; i < n; i++) {
        const json_t *one = json_is_array(v) ? json_array_get(v, i) : v;
        if (!json_is_integer(one) || json_integer_value(one) != want)
            return sac_fail(err, SAC_BAD_FILE, "\"%s\" must be the vision tower's, %d", key, want);
    }
    return n ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "\"%s\" is an empty list", key);
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor, sac_error *err) {
    settings *own = c->own;
    bool pads = false; /* the class's own default */
    *own = (settings){.square = c->patch_size * model->merge_size, .merge = model->merge_size, .most_patches = 4096};
    SAC_TRY(check_side(preprocessor, "patch_size", c->patch_size, err));
    SAC_TRY(check_side(preprocessor, "merge_kernel_size", own->merge, err));
    SAC_TRY(sac_json_get_int(preprocessor, "in_token_limit", 1, MOST_PATCHES, &own->most_patches, err));
    SAC_TRY(sac_json_get_bool(preprocessor, "pad_input", &pads, err));
    if (pads) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"pad_input\" is not true: pictures that are cut to whole patches are not supported");
}

static sac_status limit(sac_processor_config *c, int64_t min_pixels, int64_t max_pixels, sac_error *err) {
    settings *own = c->own;
    const int64_t patch = (int64_t)c->patch_size * c->patch_size;
    if (min_pixels) return sac_fail(err, SAC_UNSUPPORTED, "min_pixels: this model's pictures are never made larger");
    if (max_pixels < patch)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%lld pixels a picture: give %lld or more", (long long)max_pixels, (long long)patch);
    if (max_pixels / patch < own->most_patches) own->most_patches = max_pixels / patch;
    return SAC_OK;
}

static const char *const classes[] = {"KimiVLImageProcessor", NULL};

const sac_dialect sac_dialect_kimi_vl = {.name = "kimi_vl",
                                         .classes = classes,
                                         .own_bytes = sizeof(settings),
                                         .read = read,
                                         .plan = plan,
                                         .cut = cut,
                                         .layout = sac_tile_layout,
                                         .most_tiles = most_tiles,
                                         .limit = limit,
                                         .largest = largest};
