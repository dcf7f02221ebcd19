/* tile.c - one square tile of a picture, by the rule of transformers' CLIPImageProcessor. */
#include "dialect.h"
#include "patches.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Size after the CLIP rule's resize. */
static sac_status clip_size(const sac_processor_config *c, int64_t width, int64_t height, int64_t *w,
                            int64_t *h, sac_error *err) {
    if (c->pad_to_square) {
        width = height = width > height ? width : height;
        if (width > SAC_PROCESSOR_MAX_PADDED_SIDE)
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "a picture with a side of %lld pixels cannot be made square: %d at most",
                            (long long)width, SAC_PROCESSOR_MAX_PADDED_SIDE);
    }
    int64_t side = c->resize_shortest;
    if (!c->do_resize) {
        *w = width;
        *h = height;
    } else if (side == 0) {
        *w = c->resize_w;
        *h = c->resize_h;
    } else {
        *w = width <= height ? side : (int64_t)((double)(side * width) / (double)height);
        *h = width <= height ? (int64_t)((double)(side * height) / (double)width) : side;
    }
    if (*w > INT_MAX || *h > INT_MAX || width > SAC_RESIZE_MAX_SIDE || height > SAC_RESIZE_MAX_SIDE)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %lld x %lld pixels is too long to be resized",
                        (long long)width, (long long)height);
    return SAC_OK;
}

/* Where the middle `to` of `from` begins, or, when that is wider, where `from` is put into it: the two
 * backends of transformers round that one differently. */
static void center(const sac_processor_config *c, int64_t from, int to, int *crop_at, int *put_at, int *n) {
    int64_t short_by = to - from, odd = c->arithmetic == SAC_RESIZE_TORCHVISION ? 0 : 1;
    *crop_at = short_by > 0 ? 0 : (int)((from - to) / 2);
    *put_at = short_by > 0 ? (int)((short_by + odd) / 2) : 0;
    *n = short_by > 0 ? (int)from : to;
}

static sac_status draw(const sac_processor_config *c, const sac_image *image, uint8_t *tile, sac_error *err) {
    int64_t w, h;
    SAC_TRY(clip_size(c, image->width, image->height, &w, &h, err));
    sac_resize_args r = {.src = image->rgb,
                         .src_w = image->width,
                         .src_h = image->height,
                         .dst_w = (int)w,
                         .dst_h = (int)h,
                         .filter = c->filter,
                         .arithmetic = c->arithmetic};
    if (c->pad_to_square) {
        int side = image->width > image->height ? image->width : image->height;
        r.border_left = (side - image->width) / 2;
        r.border_top = (side - image->height) / 2;
        r.border_right = side - image->width - r.border_left;
        r.border_bottom = side - image->height - r.border_top;
        memcpy(r.border_rgb, c->pad_rgb, sizeof r.border_rgb);
    }
    int x, y;
    center(c, w, c->tile_size, &r.x, &x, &r.w);
    center(c, h, c->tile_size, &r.y, &y, &r.h);
    r.dst_row_bytes = (size_t)c->tile_size * 3;
    r.dst = tile + (size_t)y * r.dst_row_bytes + (size_t)x * 3;
    if (r.w < c->tile_size || r.h < c->tile_size) memset(tile, 0, (size_t)c->tile_size * r.dst_row_bytes);
    return sac_resize_run(&r, err);
}

void sac_tile_merged(const sac_processor_config *c, int merge, sac_visual_plan *p) {
    const int side = c->tile_size / c->patch_size, tokens = side / merge;
    p->n_tiles = p->tiles_w = p->tiles_h = 1;
    p->tile_w = p->tile_h = c->tile_size;
    p->patch = c->patch_size;
    p->merge = merge;
    p->patches = (sac_grid){1, side, side};
    p->pool = 1;
    p->tokens = (sac_grid){1, tokens, tokens};
    p->tokens_per_tile = tokens * tokens;
    p->n_tokens = p->tokens_per_tile;
}

sac_status sac_tile_plan(const sac_processor_config *c, int pool, sac_visual_plan *p, sac_error *err) {
    int64_t w, h;
    SAC_TRY(clip_size(c, p->width, p->height, &w, &h, err));
    int side = c->tile_size / c->patch_size;
    p->n_tiles = p->tiles_w = p->tiles_h = 1;
    p->tile_w = p->tile_h = c->tile_size;
    p->patch = c->patch_size;
    p->patches = (sac_grid){1, side, side};
    p->pool = pool;
    p->tokens = (sac_grid){1, side / pool, side / pool};
    p->tokens_per_tile = (int)sac_grid_cells(p->tokens) + (c->keep_class_token ? 1 : 0);
    p->n_tokens = p->tokens_per_tile;
    if (p->tokens.w > 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "%d x %d tokens cannot be pooled by %d", side, side, p->pool);
}

void sac_tile_cut(const sac_processor_config *c, const uint8_t *pixels, uint8_t *rows) {
    int side = c->tile_size / c->patch_size;
    const sac_patch_order order = {c->patch_size, side, side, .merge = 1, .frames = 1};
    sac_patches_cut(rows, &order, 0, pixels, c->tile_size);
}

/* The whole picture, whatever its shape. */
static sac_status squeeze(const sac_processor_config *c, const sac_image *image, uint8_t *tile,
                          sac_error *err) {
    return sac_resize(tile, c->tile_size, c->tile_size, image->rgb, image->width, image->height, c->filter,
                      c->arithmetic, err);
}

typedef sac_status (*draw_fn)(const sac_processor_config *c, const sac_image *image, uint8_t *tile,
                              sac_error *err);

static sac_status draw_and_cut(draw_fn fn, const sac_processor_config *c, const sac_image *image,
                               uint8_t *rows, sac_error *err) {
    uint8_t *pixels = malloc((size_t)c->tile_size * (size_t)c->tile_size * 3);
    if (!pixels) return sac_fail(err, SAC_NO_MEMORY, "no memory for a tile of a picture");
    sac_status st = fn(c, image, pixels, err);
    if (st == SAC_OK) sac_tile_cut(c, pixels, rows);
    free(pixels);
    return st;
}

sac_status sac_tile_rows(const sac_processor_config *c, const sac_image *image, uint8_t *rows,
                         sac_error *err) {
    return draw_and_cut(draw, c, image, rows, err);
}

sac_status sac_tile_squeeze(const sac_processor_config *c, const sac_image *image, uint8_t *rows,
                            sac_error *err) {
    return draw_and_cut(squeeze, c, image, rows, err);
}

void sac_tile_layout(const sac_visual_plan *p, int32_t *source) {
    for (int32_t n = 0; n < p->n_tokens; n++) source[n] = n;
}
