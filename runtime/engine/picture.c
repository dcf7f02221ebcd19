#include "picture.h"

#include "prepared.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- parts */

static size_t n_pixel_frames(const sac_pixels *p) {
    return p->n_frames ? p->n_frames : 1;
}

static size_t row_bytes_of(const sac_pixels *p) {
    return p->row_bytes ? p->row_bytes : (size_t)p->width * 3;
}

sac_part_kind sac_part_content(const sac_part *p) {
    if (p->kind != SAC_PART_PIXELS) return p->kind;
    return p->pixels.n_frames > 1 || p->pixels.time_s ? SAC_PART_FRAMES : SAC_PART_IMAGE;
}

sac_status sac_part_check(const sac_part *part, sac_error *err) {
    const sac_pixels *p = &part->pixels;
    size_t n_bytes;
    if (part->kind != SAC_PART_PIXELS) return SAC_OK;
    if (!p->rgb) return sac_fail(err, SAC_BAD_ARGUMENT, "a part of pixels has none");
    if (p->width < 1 || p->height < 1 || p->width > INT_MAX / 3 || p->height > INT_MAX / 3 ||
        (int64_t)p->width * p->height > sac_image_limits_default().max_pixels)
        return sac_fail(err, SAC_BAD_ARGUMENT, "pixels of a picture of %d x %d", p->width, p->height);
    if (row_bytes_of(p) < (size_t)p->width * 3)
        return sac_fail(err, SAC_BAD_ARGUMENT, "rows of %zu bytes for a picture %d pixels wide", p->row_bytes,
                        p->width);
    if (__builtin_mul_overflow(row_bytes_of(p), (size_t)p->height, &n_bytes) ||
        __builtin_mul_overflow(n_bytes, n_pixel_frames(p), &n_bytes) || n_bytes > PTRDIFF_MAX)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "%zu frames of %d rows of %zu bytes are more than there can be", n_pixel_frames(p),
                        p->height, row_bytes_of(p));
    return SAC_OK;
}

size_t sac_part_n_pictures(const sac_part *p) {
    if (p->kind == SAC_PART_PIXELS) return n_pixel_frames(&p->pixels);
    return p->kind == SAC_PART_FRAMES ? p->n_frames : 1;
}

static sac_picture picture_of_pixels(const sac_pixels *p, size_t i) {
    return (sac_picture){.rgb = p->rgb + i * (size_t)p->height * row_bytes_of(p),
                         .row_bytes = row_bytes_of(p),
                         .width = p->width,
                         .height = p->height,
                         .time_s = p->time_s ? p->time_s[i] : (double)i};
}

/* A frame that is not cut yet: its pixels. */
static sac_picture picture_of_prepared(const sac_frame *f) {
    const sac_visual_plan *plan = &f->prepared->plan;
    return (sac_picture){.prepared = f->prepared,
                         .rgb = f->prepared->patches,
                         .row_bytes = (size_t)plan->width * 3,
                         .width = plan->width,
                         .height = plan->height,
                         .time_s = f->time_s};
}

sac_picture sac_part_picture(const sac_part *p, size_t i) {
    if (p->kind == SAC_PART_PIXELS) return picture_of_pixels(&p->pixels, i);
    if (p->kind != SAC_PART_FRAMES)
        return (sac_picture){
            .path = p->path, .bytes = p->bytes, .n_bytes = p->n_bytes, .prepared = p->prepared};
    const sac_frame *f = &p->frames[i];
    if (f->prepared && !f->prepared->is_cut) return picture_of_prepared(f);
    return (sac_picture){.path = f->path,
                         .bytes = f->bytes,
                         .n_bytes = f->n_bytes,
                         .prepared = f->prepared,
                         .time_s = f->time_s};
}

/* ---------------------------------------------------------------- pictures */

bool sac_picture_has_size(const sac_picture *p, int *width, int *height) {
    if (!p->prepared && !p->rgb) return false;
    *width = p->prepared ? p->prepared->plan.width : p->width;
    *height = p->prepared ? p->prepared->plan.height : p->height;
    return true;
}

/* Rows without the gaps between them. */
static sac_status pack(sac_image *image, const sac_picture *p, sac_error *err) {
    size_t row_bytes = (size_t)p->width * 3;
    SAC_TRY(sac_image_alloc(image, p->width, p->height, NULL, err));
    for (int y = 0; y < p->height; y++)
        memcpy(image->rgb + (size_t)y * row_bytes, p->rgb + (size_t)y * p->row_bytes, row_bytes);
    return SAC_OK;
}

sac_status sac_picture_open(sac_image *image, const sac_picture *p, sac_error *err) {
    *image = (sac_image){0};
    if (p->rgb && p->row_bytes > (size_t)p->width * 3) return pack(image, p, err);
    if (p->rgb) {
        *image = (sac_image){(uint8_t *)(uintptr_t)p->rgb, p->width, p->height};
        return SAC_OK;
    }
    if (p->path) return sac_image_open(image, p->path, NULL, err);
    if (!p->bytes) return sac_fail(err, SAC_BAD_ARGUMENT, "a picture needs a path or bytes");
    return sac_image_decode(image, p->bytes, p->n_bytes, NULL, err);
}

void sac_picture_close(sac_image *image, const sac_picture *p) {
    if (image->rgb != p->rgb) sac_image_free(image);
}
