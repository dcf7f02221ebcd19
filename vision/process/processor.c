#include "processor.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct extent {
    int w, h;
} extent;

/* The pinpoint that keeps most of the picture's pixels, of equals the one that wastes least. */
static extent best_resolution(const sac_processor_config *c, int width, int height) {
    extent best = {0};
    int64_t most = 0, least_waste = INT64_MAX;
    for (int i = 0; i < c->n_pinpoints; i++) {
        int w = c->pinpoint[i].width, h = c->pinpoint[i].height;
        double scale = fmin((double)w / width, (double)h / height);
        int64_t pixels = (int64_t)(width * scale) * (int64_t)(height * scale), all = (int64_t)width * height;
        int64_t effective = pixels < all ? pixels : all, waste = (int64_t)w * h - effective;
        if (effective > most || (effective == most && waste < least_waste)) {
            most = effective;
            least_waste = waste;
            best = (extent){w, h};
        }
    }
    return best;
}

static extent fit_into(extent box, int width, int height) {
    double scale_w = (double)box.w / width, scale_h = (double)box.h / height;
    if (scale_w < scale_h) return (extent){box.w, (int)fmin(ceil(height * scale_w), box.h)};
    return (extent){(int)fmin(ceil(width * scale_h), box.w), box.h};
}

/* Python's int(round(x, 7)): down, unless the next integer is nearer than half of the seventh decimal. */
static int round_7_floor(double x) {
    double down = floor(x);
    return (int)(down + 1 - x < 0.5e-7 ? down + 1 : down);
}

/* unpad_image: of the token grid, what lies over the picture. */
static void unpad(sac_visual_plan *p) {
    int w = p->tiles_w * p->grid, h = p->tiles_h * p->grid, padding;
    p->keep_w = w;
    p->keep_h = h;
    if ((double)p->width / p->height > (double)w / h) {
        padding = (h - round_7_floor(p->height * ((double)w / p->width))) / 2;
        p->keep_y = padding;
        p->keep_h = h - 2 * padding;
    } else {
        padding = (w - round_7_floor(p->width * ((double)h / p->height))) / 2;
        p->keep_x = padding;
        p->keep_w = w - 2 * padding;
    }
}

static void plan_tiles(const sac_processor_config *c, sac_visual_plan *p) {
    extent box = best_resolution(c, p->width, p->height), fit = fit_into(box, p->width, p->height);
    p->tiles_w = box.w / c->tile_size;
    p->tiles_h = box.h / c->tile_size;
    p->fit_w = fit.w;
    p->fit_h = fit.h;
    p->fit_x = (box.w - fit.w) / 2;
    p->fit_y = (box.h - fit.h) / 2;
    p->n_tiles = p->tiles_w * p->tiles_h + (c->kind == SAC_PROCESSOR_ANYRES);
    if (c->kind == SAC_PROCESSOR_ANYRES) unpad(p);
}

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

sac_status sac_processor_plan(const sac_processor_config *c, int width, int height, bool is_video_frame,
                              sac_visual_plan *p, sac_error *err) {
    int64_t w, h;
    if (width < 1 || height < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels", width, height);
    SAC_TRY(clip_size(c, width, height, &w, &h, err));
    *p = (sac_visual_plan){.width = width,
                           .height = height,
                           .is_video_frame = is_video_frame,
                           .n_tiles = 1,
                           .tile_size = c->tile_size,
                           .tiles_w = 1,
                           .tiles_h = 1,
                           .pool = is_video_frame ? c->pool_video : c->pool_image};
    p->grid = c->tile_size / c->patch_size / p->pool;
    p->tokens_per_tile = p->grid * p->grid + (c->keep_class_token ? 1 : 0);
    if (p->grid == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%d x %d tokens cannot be pooled by %d",
                        c->tile_size / c->patch_size, c->tile_size / c->patch_size, p->pool);
    bool tiled = c->kind != SAC_PROCESSOR_CLIP && !is_video_frame;
    if (tiled) plan_tiles(c, p);
    int64_t n_rows = (int64_t)p->n_tiles * p->tokens_per_tile;
    p->n_tokens = n_rows;
    if (tiled && c->kind == SAC_PROCESSOR_ANYRES)
        p->n_tokens = p->tokens_per_tile + (int64_t)p->keep_h * (p->keep_w + 1);
    int64_t max_tokens = c->max_tokens < INT32_MAX ? c->max_tokens : INT32_MAX;
    if (p->n_tokens > max_tokens || n_rows > INT32_MAX)
        return sac_fail(err, SAC_TOO_LONG,
                        "a picture of %d x %d pixels takes %lld tokens, more than the %lld allowed", width,
                        height, (long long)p->n_tokens, (long long)max_tokens);
    return SAC_OK;
}

void sac_processor_layout(const sac_visual_plan *p, sac_processor_kind kind, int32_t *source) {
    int32_t n = 0;
    if (kind != SAC_PROCESSOR_ANYRES || p->is_video_frame) {
        for (; n < p->n_tokens; n++) source[n] = n;
        return;
    }
    for (; n < p->tokens_per_tile; n++) source[n] = n; /* the picture as a whole */
    for (int y = p->keep_y; y < p->keep_y + p->keep_h; y++) {
        for (int x = p->keep_x; x < p->keep_x + p->keep_w; x++) {
            int tile = 1 + y / p->grid * p->tiles_w + x / p->grid;
            source[n++] = tile * p->tokens_per_tile + y % p->grid * p->grid + x % p->grid;
        }
        source[n++] = SAC_SOURCE_NEWLINE;
    }
}

/* Where the middle `to` of `from` begins, or, when that is wider, where `from` is put into it: the two
 * backends of transformers round that one differently. */
static void center(const sac_processor_config *c, int64_t from, int to, int *crop_at, int *put_at, int *n) {
    int64_t short_by = to - from, odd = c->arithmetic == SAC_RESIZE_TORCHVISION ? 0 : 1;
    *crop_at = short_by > 0 ? 0 : (int)((from - to) / 2);
    *put_at = short_by > 0 ? (int)((short_by + odd) / 2) : 0;
    *n = short_by > 0 ? (int)from : to;
}

static sac_status run_clip(const sac_processor_config *c, const sac_image *image, uint8_t *tile,
                           sac_error *err) {
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

/* One row of the fitted picture into the tiles that it crosses. */
static void scatter_row(const sac_visual_plan *p, uint8_t *tiles, const uint8_t *row, int y) {
    size_t s = (size_t)p->tile_size, tile_bytes = s * s * 3;
    for (int x = p->fit_x, end = p->fit_x + p->fit_w; x < end;) {
        int column = x / p->tile_size, n = (column + 1) * p->tile_size - x;
        if (n > end - x) n = end - x;
        uint8_t *tile = tiles + (size_t)(y / p->tile_size * p->tiles_w + column) * tile_bytes;
        memcpy(tile + ((size_t)(y % p->tile_size) * s + (size_t)(x % p->tile_size)) * 3, row, (size_t)n * 3);
        row += (size_t)n * 3;
        x += n;
    }
}

static sac_status run_tiles(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                            sac_filter filter, uint8_t *tiles, sac_error *err) {
    size_t row_bytes = (size_t)p->fit_w * 3, n_tiles = (size_t)p->tiles_w * (size_t)p->tiles_h;
    uint8_t *fitted = malloc(row_bytes * (size_t)p->fit_h);
    if (!fitted)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", p->fit_w, p->fit_h);
    sac_status st = sac_resize(fitted, p->fit_w, p->fit_h, image->rgb, image->width, image->height, filter,
                               c->arithmetic, err);
    memset(tiles, 0, n_tiles * (size_t)p->tile_size * (size_t)p->tile_size * 3);
    for (int y = 0; y < p->fit_h && st == SAC_OK; y++)
        scatter_row(p, tiles, fitted + (size_t)y * row_bytes, p->fit_y + y);
    free(fitted);
    return st;
}

sac_status sac_processor_run(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                             uint8_t *tiles, sac_error *err) {
    if (image->width != p->width || image->height != p->height)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels with a plan for %d x %d",
                        image->width, image->height, p->width, p->height);
    if (c->kind == SAC_PROCESSOR_CLIP || p->is_video_frame) return run_clip(c, image, tiles, err);
    if (c->kind == SAC_PROCESSOR_UNIRES) return run_tiles(c, image, p, SAC_FILTER_BICUBIC, tiles, err);
    SAC_TRY(sac_resize(tiles, c->tile_size, c->tile_size, image->rgb, image->width, image->height, c->filter,
                       c->arithmetic, err));
    return run_tiles(c, image, p, c->filter, tiles + (size_t)c->tile_size * (size_t)c->tile_size * 3, err);
}
