/* squares.c - see squares.h. Rules: transformers' Qwen2VLImageProcessor, Qwen2VLVideoProcessor, Qwen3VLVideoProcessor,
 * Glm4vImageProcessor and Glm4vVideoProcessor (smart_resize). */
#include "squares.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RATIO = 200, USUAL_FRAME_SQUARES = 768, MAX_SQUARES = 1 << 20, USUAL_FRAMES = 768 };

/* ---------------------------------------------------------------- sizes */

static double round_down(double x, int square) {
    return floor(x / square) * square;
}

/* width and height in whole squares; pictures of a volume of `frames`, of which `whole` are counted against the bounds:
 * both 1 where pictures are bounded one by one. */
static sac_status fit(const sac_squares *own, sac_square_bounds b, double frames, double whole, int width,
                      int height, int *w, int *h, sac_error *err) {
    const int f = own->square;
    const double long_side = width > height ? width : height, short_side = width > height ? height : width;
    if (long_side / short_side > MAX_RATIO)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "a picture of %d x %d pixels: this model takes one side up to %d times the other",
                        width, height, MAX_RATIO);
    double fit_h = rint((double)height / f) * f, fit_w = rint((double)width / f) * f; /* halves to even */
    if (whole * fit_h * fit_w > (double)b.max_pixels) {
        double beta = sqrt(frames * height * width / (double)b.max_pixels);
        fit_h = fmax(f, round_down(height / beta, f));
        fit_w = fmax(f, round_down(width / beta, f));
    } else if (whole * fit_h * fit_w < (double)b.min_pixels) {
        double beta = sqrt((double)b.min_pixels / (frames * height * width));
        fit_h = ceil(height * beta / f) * f;
        fit_w = ceil(width * beta / f) * f;
    }
    *w = (int)fit_w;
    *h = (int)fit_h;
    return SAC_OK;
}

/* Squares that no picture has more of: the bound itself, a strip of one square's height, which is not cut below
 * that, and what rounding up adds to the lower bound. */
static int64_t most_squares(const sac_squares *own, sac_square_bounds b) {
    double f = own->square, low = (double)b.min_pixels / (f * f);
    double most = (double)b.max_pixels / (f * f);
    most = fmax(most, sqrt(MAX_RATIO * (double)b.max_pixels) / f + 1);
    return (int64_t)fmax(most, low + sqrt(low) * (sqrt(MAX_RATIO) + 1 / sqrt(MAX_RATIO)) + 1);
}

void sac_squares_describe(const sac_processor_config *c, int merge, int columns, int rows, sac_visual_plan *p) {
    const int square = merge * c->patch_size;
    p->n_tiles = p->tiles_w = p->tiles_h = 1;
    p->tile_w = columns * square;
    p->tile_h = rows * square;
    p->patch = c->patch_size;
    p->merge = merge;
    p->patches = (sac_grid){1, rows * merge, columns * merge};
    p->pool = p->frames = 1;
    p->tokens = (sac_grid){1, rows, columns};
    p->n_tokens = p->tokens_per_tile = rows * columns;
}

/* Of w x h pixels, in whole squares. */
static void describe(const sac_processor_config *c, int w, int h, sac_visual_plan *p) {
    const sac_squares *own = c->own;
    sac_squares_describe(c, own->merge, w / own->square, h / own->square, p);
    p->frames = own->frames;
}

static sac_status check_frames(const sac_squares *own, const sac_visual_plan *p, sac_error *err) {
    if (!p->is_video_frame || !own->other) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "video_preprocessor_config.json: \"%s\" is not that of the pictures' processor: give frames as pictures",
                    own->other);
}

sac_status sac_squares_plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const sac_squares *own = c->own;
    int w = 0, h = 0;
    SAC_TRY(check_frames(own, p, err));
    SAC_TRY(fit(own, p->is_video_frame ? own->frame : own->picture, 1, 1, p->width, p->height, &w, &h, err));
    describe(c, w, h, p);
    return SAC_OK;
}

sac_status sac_squares_plan_volume(const sac_processor_config *c, int64_t n_frames, sac_visual_plan *p,
                                   sac_error *err) {
    const sac_squares *own = c->own;
    const double f = own->square, frames = n_frames ? fmax((double)n_frames, own->frames) : USUAL_FRAMES;
    int width = p->width, height = p->height, w = 0, h = 0;
    SAC_TRY(check_frames(own, p, err));
    if (height < own->square || width < own->square) {
        double scale = fmax(f / height, f / width);
        if (width * scale > INT32_MAX || height * scale > INT32_MAX) scale = 1; /* refused for its shape */
        height = (int)(height * scale);
        width = (int)(width * scale);
    }
    SAC_TRY(fit(own, p->is_video_frame ? own->frame : own->picture, frames,
                rint(frames / own->frames) * own->frames, width, height, &w, &h, err));
    describe(c, w, h, p);
    return SAC_OK;
}

/* Of one of the frames of a patch. */
static sac_square_bounds of_one(const sac_squares *own, sac_square_bounds b) {
    return (sac_square_bounds){b.min_pixels / own->frames, b.max_pixels / own->frames};
}

void sac_squares_largest(const sac_processor_config *c, bool is_video_frame, sac_visual_plan *p) {
    const sac_squares *own = c->own;
    const sac_square_bounds frame = c->dialect->counts_frames ? of_one(own, own->frame) : own->frame,
                            picture = own->bounds_volumes ? of_one(own, own->picture) : own->picture;
    int64_t n = most_squares(own, picture), of_frame = most_squares(own, frame);
    if (is_video_frame)
        n = of_frame < USUAL_FRAME_SQUARES ? of_frame : USUAL_FRAME_SQUARES;
    else if (of_frame > n)
        n = of_frame;
    describe(c, (int)n * own->square, own->square, p);
}

/* ---------------------------------------------------------------- pixels */

/* Pictures are resized as the checkpoint's were, with Pillow; for frames of videos there is torchvision alone. */
sac_status sac_squares_cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                           uint8_t *rows, sac_error *err) {
    const sac_patch_order order = sac_visual_order(p);
    sac_resize_arithmetic arithmetic = p->is_video_frame ? SAC_RESIZE_TORCHVISION : c->arithmetic;
    uint8_t *pixels = malloc((size_t)p->tile_w * (size_t)p->tile_h * 3);
    if (!pixels)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", p->tile_w,
                        p->tile_h);
    sac_status st = sac_resize(pixels, p->tile_w, p->tile_h, image->rgb, image->width, image->height,
                               c->filter, arithmetic, err);
    if (st == SAC_OK) sac_patches_cut(rows, &order, 0, pixels, p->tile_w);
    free(pixels);
    return st;
}

int sac_squares_most_tiles(const sac_processor_config *c) {
    (void)c;
    return 1;
}

/* ---------------------------------------------------------------- sac_squares */

/* "size" {shortest_edge, longest_edge}, both numbers of pixels of a whole picture, or the older min_pixels and
 * max_pixels, which stand before it. */
static sac_status read_bounds(sac_square_bounds *b, const json_t *object, const sac_squares *own,
                              sac_error *err) {
    const json_t *size = NULL;
    const int64_t square = (int64_t)own->square * own->square, most = square * MAX_SQUARES;
    SAC_TRY(sac_json_get_object(object, "size", &size, err));
    SAC_TRY(sac_json_get_int(size, "shortest_edge", 1, most, &b->min_pixels, err));
    SAC_TRY(sac_json_get_int(size, "longest_edge", 1, most, &b->max_pixels, err));
    if (own->old_bounds) SAC_TRY(sac_json_get_int(object, "min_pixels", 1, most, &b->min_pixels, err));
    if (own->old_bounds) SAC_TRY(sac_json_get_int(object, "max_pixels", 1, most, &b->max_pixels, err));
    if (b->max_pixels >= b->min_pixels) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" %lld is below \"%s\" %lld",
                    own->old_bounds ? "max_pixels" : "longest_edge", (long long)b->max_pixels,
                    own->old_bounds ? "min_pixels" : "shortest_edge", (long long)b->min_pixels);
}

static sac_status expect(const json_t *object, const char *key, int64_t want, sac_error *err) {
    int64_t value = want;
    SAC_TRY(sac_json_get_int(object, key, 1, 1 << 16, &value, err));
    if (value == want) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %lld, but the vision tower's is %lld", key,
                    (long long)value, (long long)want);
}

static sac_status read_file(const sac_processor_config *c, const json_t *object, sac_square_bounds *b,
                            sac_error *err) {
    const sac_squares *own = c->own;
    bool resize = true, cap = false;
    SAC_TRY(expect(object, "patch_size", c->patch_size, err));
    SAC_TRY(expect(object, "merge_size", own->merge, err));
    SAC_TRY(expect(object, "temporal_patch_size", own->frames, err));
    SAC_TRY(sac_json_get_bool(object, "do_resize", &resize, err));
    SAC_TRY(sac_json_get_bool(object, "cap_pixels_per_frame", &cap, err));
    if (!resize)
        return sac_fail(err, SAC_UNSUPPORTED, "\"do_resize\" false: pictures are resized to whole patches");
    if (cap)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "\"cap_pixels_per_frame\" is not supported: set \"max_pixels\"");
    return read_bounds(b, object, own, err);
}

/* Frames get the picture's colours: where their own file says others, by *other, they are refused. */
static sac_status check_colors(const sac_processor_config *c, const json_t *video, const json_t *preprocessor, const char **other,
                               sac_error *err) {
    static const char *const keys[] = {"image_mean", "image_std", "rescale_factor", "do_rescale", "do_normalize"};
    sac_processor_config its = *c;
    json_t *both = preprocessor ? json_copy((json_t *)preprocessor) : json_object();
    const char *last = NULL;
    if (!both) return sac_fail_no_memory(err);
    sac_status st = SAC_OK;
    for (size_t i = 0; st == SAC_OK && i < SAC_COUNT(keys); i++) {
        json_t *v = json_object_get(video, keys[i]);
        if (!v || json_is_null(v) || json_equal(v, json_object_get(both, keys[i]))) continue;
        last = keys[i];
        if (json_object_set(both, last, v) != 0) st = sac_fail_no_memory(err);
    }
    if (st == SAC_OK && last) st = sac_processor_read_colors(&its, both, false, err);
    json_decref(both);
    SAC_TRY(st);
    const bool is_same = memcmp(its.mean, c->mean, sizeof its.mean) == 0 && memcmp(its.std, c->std, sizeof its.std) == 0;
    *other = is_same ? NULL : last;
    return SAC_OK;
}

sac_status sac_squares_read(sac_processor_config *c, const sac_processor_model *model,
                            const json_t *preprocessor, sac_error *err) {
    sac_squares *own = c->own;
    SAC_TRY(read_file(c, preprocessor, &own->picture, err));
    if (model->video) {
        sac_status st = read_file(c, model->video, &own->frame, err);
        if (st == SAC_OK) st = check_colors(c, model->video, preprocessor, &own->other, err);
        return st == SAC_OK ? st : sac_fail_prefix(err, st, "video_preprocessor_config.json");
    }
    return read_file(c, preprocessor, &own->frame, err); /* as transformers does without that file */
}

static sac_status set_bounds(const sac_squares *own, sac_square_bounds *b, int64_t min_pixels,
                             int64_t max_pixels, sac_error *err) {
    const int64_t square = (int64_t)own->square * own->square;
    if (min_pixels) b->min_pixels = min_pixels;
    if (max_pixels) b->max_pixels = max_pixels;
    if (max_pixels && !min_pixels && b->min_pixels > max_pixels)
        b->min_pixels = max_pixels; /* the one that was asked */
    if (b->min_pixels < 1 || b->max_pixels > square * MAX_SQUARES || b->max_pixels < b->min_pixels)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%lld to %lld pixels a picture: give a range within 1 to %lld",
                        (long long)b->min_pixels, (long long)b->max_pixels,
                        (long long)(square * MAX_SQUARES));
    return SAC_OK;
}

sac_status sac_squares_limit(sac_processor_config *c, int64_t min_pixels, int64_t max_pixels,
                             sac_error *err) {
    sac_squares *own = c->own;
    const int64_t n = own->bounds_volumes ? own->frames : 1, most = INT64_MAX / 16;
    if (min_pixels > most || max_pixels > most) min_pixels = max_pixels = most; /* refused */
    SAC_TRY(set_bounds(own, &own->picture, n * min_pixels, n * max_pixels, err));
    return set_bounds(own, &own->frame, min_pixels, max_pixels, err);
}
