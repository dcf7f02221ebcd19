/* dialect_paddleocr_vl.c - PaddleOCR-VL (arXiv:2510.14528): pictures as Qwen2-VL's (squares.h), but those that are narrower than a square
 * of patches are made as wide first. Frames are pictures. See dialect.h. Rules: transformers' PaddleOCRVLImageProcessor. */
#include "squares.h"

#include <math.h>

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor, sac_error *err) {
    sac_processor_model pictures = *model;
    const int side = c->patch_size * model->merge_size;
    const sac_square_bounds usual = {384 * 384, 1536 * 1536};
    pictures.video = NULL;
    *(sac_squares *)c->own = (sac_squares){
        .square = side, .frames = 1, .merge = model->merge_size, .picture = usual, .frame = usual, .old_bounds = true};
    return sac_squares_read(c, &pictures, preprocessor, err);
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const sac_squares *own = c->own;
    const int width = p->width, height = p->height;
    const double f = own->square;
    double w = width, h = height;
    if (h < f) w = rint(w * f / h), h = f; /* halves to even */
    if (w < f) h = rint(h * f / w), w = f;
    if (w <= INT32_MAX && h <= INT32_MAX) p->width = (int)w, p->height = (int)h; /* else refused for its shape */
    const sac_status st = sac_squares_plan(c, p, err);
    p->width = width;
    p->height = height;
    if (st != SAC_BAD_ARGUMENT) return st;
    return sac_fail(err, st, "a picture of %d x %d pixels: this model takes one side up to 200 times the other", width, height);
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p, uint8_t *rows, sac_error *err) {
    sac_visual_plan picture = *p;
    picture.is_video_frame = false;
    return sac_squares_cut(c, image, &picture, rows, err);
}

static const char *const classes[] = {"PaddleOCRVLImageProcessor", NULL};

const sac_dialect sac_dialect_paddleocr_vl = {.name = "paddleocr_vl",
                                              .classes = classes,
                                              .own_bytes = sizeof(sac_squares),
                                              .read = read,
                                              .plan = plan,
                                              .cut = cut,
                                              .layout = sac_tile_layout,
                                              .most_tiles = sac_squares_most_tiles,
                                              .limit = sac_squares_limit,
                                              .largest = sac_squares_largest};
