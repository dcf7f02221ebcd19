/* dialect_pixtral.c - Pixtral (Agrawal et al., arXiv:2410.07073, sec. 2.1) and Mistral Small 3.1: a picture keeps its shape, made
 * smaller where it does not fit into a square, its sides rounded up to whole squares of patches. A token ends each row of its
 * tokens, another the last. See dialect.h. Rules: transformers' PixtralImageProcessor and PixtralProcessor. */
#include "dialect_pixtral.h"
#include "squares.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SQUARES = 1 << 20, MAX_SIDE = 1 << 20, USUAL_FRAME_SQUARES = 768 };

typedef sac_pixtral_settings settings;

/* ---------------------------------------------------------------- sizes */

static int squares_of(int side, int square) {
    return side > 0 ? (side - 1) / square + 1 : 0;
}

static void describe(const sac_processor_config *c, int columns, int rows, sac_visual_plan *p) {
    const settings *own = c->own;
    sac_squares_describe(c, own->merge, columns, rows, p);
    p->n_lines = rows;
}

sac_status sac_pixtral_plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    int w = p->width, h = p->height;
    const double ratio = fmax((double)h / own->most_h, (double)w / own->most_w);
    if (ratio > 1) {
        h = (int)floor(h / ratio);
        w = (int)floor(w / ratio);
    }
    if (w < 1 || h < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "a picture of %d x %d pixels is less than a pixel wide or high once it fits into "
                        "%d x %d: give one that is less narrow",
                        p->width, p->height, own->most_w, own->most_h);
    describe(c, squares_of(w, own->square), squares_of(h, own->square), p);
    return SAC_OK;
}

void sac_pixtral_largest(const sac_processor_config *c, bool is_video_frame, sac_visual_plan *p) {
    const settings *own = c->own;
    const int columns = squares_of(own->most_w, own->square), rows = squares_of(own->most_h, own->square);
    if (is_video_frame && (int64_t)columns * rows > USUAL_FRAME_SQUARES)
        describe(c, USUAL_FRAME_SQUARES / 24, 24, p);
    else
        describe(c, columns, rows, p);
}

/* ---------------------------------------------------------------- pixels */

sac_status sac_pixtral_cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                           uint8_t *rows, sac_error *err) {
    const sac_patch_order order = sac_visual_order(p);
    uint8_t *pixels = malloc((size_t)p->tile_w * (size_t)p->tile_h * 3);
    if (!pixels)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", p->tile_w,
                        p->tile_h);
    sac_status st = sac_resize(pixels, p->tile_w, p->tile_h, image->rgb, image->width, image->height,
                               c->filter, c->arithmetic, err);
    if (st == SAC_OK) sac_patches_cut(rows, &order, 0, pixels, p->tile_w);
    free(pixels);
    return st;
}

int sac_pixtral_most_tiles(const sac_processor_config *c) {
    (void)c;
    return 1;
}

/* ---------------------------------------------------------------- texts */

static int text(const sac_visual_shown *m, int64_t line, char *out, size_t capacity) {
    const char *token = line == 0 ? "" : line % m->plan->n_lines ? "[IMG_BREAK]" : "[IMG_END]";
    return snprintf(out, capacity, "%s", token);
}

/* ---------------------------------------------------------------- settings */

/* "size": {"longest_edge"}, {"height", "width"} or a number. */
static sac_status read_size(settings *own, const json_t *preprocessor, sac_error *err) {
    const json_t *v = json_object_get(preprocessor, "size"), *object = NULL;
    int64_t longest = 0, w = 0, h = 0;
    if (!v || json_is_null(v)) return SAC_OK;
    if (json_is_number(v))
        SAC_TRY(sac_json_get_int(preprocessor, "size", 1, MAX_SIDE, &longest, err));
    else
        SAC_TRY(sac_json_get_object(preprocessor, "size", &object, err));
    SAC_TRY(sac_json_get_int(object, "longest_edge", 1, MAX_SIDE, &longest, err));
    SAC_TRY(sac_json_get_int(object, "width", 1, MAX_SIDE, &w, err));
    SAC_TRY(sac_json_get_int(object, "height", 1, MAX_SIDE, &h, err));
    if (longest) w = h = longest;
    if (!w || !h)
        return sac_fail(err, SAC_BAD_FILE, "\"size\" needs \"longest_edge\", or \"height\" and \"width\"");
    own->most_w = (int)w;
    own->most_h = (int)h;
    return SAC_OK;
}

static sac_status expect(const json_t *processor, const char *key, int64_t want, sac_error *err) {
    int64_t value = want;
    SAC_TRY(sac_json_get_int(processor, key, 1, MAX_SIDE, &value, err));
    if (value == want) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %lld, but the model's is %lld", key, (long long)value,
                    (long long)want);
}

static sac_status check_size(const settings *own, sac_error *err) {
    const int64_t columns = squares_of(own->most_w, own->square), rows = squares_of(own->most_h, own->square);
    if (columns * rows <= MAX_SQUARES) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE,
                    "\"size\": %d x %d pixels would be %lld tokens; %d at most are supported", own->most_w,
                    own->most_h, (long long)(columns * rows), MAX_SQUARES);
}

/* The size of patches that pictures are made for is processor_config.json's, whatever the image processor's own says. */
sac_status sac_pixtral_read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                            sac_error *err) {
    settings *own = c->own;
    bool resizes = true, crops = false;
    const int merge = model->merge_size > 1 ? model->merge_size : 1;
    *own = (settings){.square = c->patch_size * merge, .merge = merge, .most_w = 1024, .most_h = 1024};
    SAC_TRY(read_size(own, preprocessor, err));
    SAC_TRY(sac_json_get_bool(preprocessor, "do_resize", &resizes, err));
    SAC_TRY(sac_json_get_bool(preprocessor, "do_center_crop", &crops, err));
    if (!resizes)
        return sac_fail(err, SAC_UNSUPPORTED, "\"do_resize\" false: pictures are resized to whole patches");
    if (crops) return sac_fail(err, SAC_UNSUPPORTED, "\"do_center_crop\" true: pictures are taken whole");
    SAC_TRY(check_size(own, err));
    sac_status st = expect(model->processor, "patch_size", c->patch_size, err);
    if (st == SAC_OK) st = expect(model->processor, "spatial_merge_size", merge, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "processor_config.json");
}

/* No picture of a square's sides has more pixels than the square. */
sac_status sac_pixtral_limit(sac_processor_config *c, int64_t min_pixels, int64_t max_pixels, sac_error *err) {
    settings *own = c->own;
    const int64_t square = (int64_t)own->square * own->square;
    if (min_pixels)
        return sac_fail(err, SAC_UNSUPPORTED, "min_pixels: this model's pictures are never made larger");
    if (max_pixels < square)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%lld pixels a picture: give %lld or more",
                        (long long)max_pixels, (long long)square);
    const double root = sqrt((double)max_pixels);
    const int side = root < MAX_SIDE ? (int)root / own->square * own->square : MAX_SIDE;
    if (side < own->most_w) own->most_w = side;
    if (side < own->most_h) own->most_h = side;
    return SAC_OK;
}

static const char *const classes[] = {"PixtralImageProcessor", NULL};

const sac_dialect sac_dialect_pixtral = {.name = "pixtral",
                                         .classes = classes,
                                         .read = sac_pixtral_read,
                                         .plan = sac_pixtral_plan,
                                         .text = text,
                                         .largest = sac_pixtral_largest,
                                         SAC_PIXTRAL_PICTURES};
