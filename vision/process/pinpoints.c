/* pinpoints.c - sizes in whole tiles that a picture is fitted into (image_grid_pinpoints): read, chosen from,
 * drawn on. */
#include "dialect.h"
#include "patches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- reading */

static sac_status add_pinpoint(sac_pinpoints *p, int tile_size, int64_t width, int64_t height,
                               sac_error *err) {
    if (p->n == SAC_PINPOINTS_MAX)
        return sac_fail(err, SAC_BAD_FILE, "\"image_grid_pinpoints\" holds more than %d sizes",
                        SAC_PINPOINTS_MAX);
    int64_t s = tile_size;
    if (width < s || height < s || width % s || height % s ||
        width / s * (height / s) > SAC_PROCESSOR_MAX_TILES || width > SAC_RESIZE_MAX_SIDE ||
        height > SAC_RESIZE_MAX_SIDE)
        return sac_fail(
            err, SAC_BAD_FILE,
            "\"image_grid_pinpoints\" has %lld x %lld: sides must be multiples of %d, with at most %d tiles",
            (long long)width, (long long)height, tile_size, SAC_PROCESSOR_MAX_TILES);
    p->size[p->n].width = (int)width;
    p->size[p->n++].height = (int)height;
    return SAC_OK;
}

/* "(2x3)" to {2, 3}; false for anything else. */
static bool read_grid(const char *p, long v[2]) {
    char *end;
    if (!p) return false;
    v[0] = strtol(p + 1, &end, 10);
    if (*end != 'x') return false;
    v[1] = strtol(end + 1, &end, 10);
    return *end == ')' && v[0] >= 1 && v[0] <= 1000 && v[1] >= 1 && v[1] <= 1000;
}

/* "(1x1),...,(6x6)": every grid from the first to the last, in tiles. */
static sac_status read_pinpoint_range(sac_pinpoints *p, int tile_size, const char *text, sac_error *err) {
    long a[2], b[2];
    if (!read_grid(strchr(text, '('), a) || !read_grid(strrchr(text, '('), b) || b[0] < a[0] || b[1] < a[1])
        return sac_fail(err, SAC_BAD_FILE, "\"image_grid_pinpoints\": cannot read \"%.60s\"", text);
    for (long w = a[0]; w <= b[0]; w++)
        for (long h = a[1]; h <= b[1]; h++)
            SAC_TRY(add_pinpoint(p, tile_size, w * tile_size, h * tile_size, err));
    return SAC_OK;
}

/* transformers writes [height, width], LLaVA's own folders (width, height), also as text. */
static sac_status read_pinpoints(sac_pinpoints *p, int tile_size, const json_t *json, bool height_first,
                                 sac_error *err) {
    json_t *parsed = NULL;
    if (json_is_string(json)) {
        const char *text = json_string_value(json);
        if (strchr(text, 'x')) return read_pinpoint_range(p, tile_size, text, err);
        size_t n = strlen(text);
        char *copy = malloc(n + 1); /* a Python literal: tuples become arrays */
        if (!copy) return sac_fail(err, SAC_NO_MEMORY, "no memory to read \"image_grid_pinpoints\"");
        for (size_t i = 0; i <= n; i++)
            copy[i] = (char)(text[i] == '(' ? '[' : text[i] == ')' ? ']' : text[i]);
        sac_status st = sac_json_parse(&parsed, copy, n, err);
        free(copy);
        if (st != SAC_OK) return sac_fail_prefix(err, st, "\"image_grid_pinpoints\"");
        json = parsed;
    }
    sac_status st = SAC_OK;
    if (!json_is_array(json)) st = sac_fail(err, SAC_BAD_FILE, "\"image_grid_pinpoints\" must be a list");
    for (size_t i = 0; st == SAC_OK && i < json_array_size(json); i++) {
        const json_t *pair = json_array_get(json, i);
        const json_t *a = json_array_get(pair, 0), *b = json_array_get(pair, 1);
        if (json_array_size(pair) != 2 || !json_is_integer(a) || !json_is_integer(b))
            st = sac_fail(err, SAC_BAD_FILE, "\"image_grid_pinpoints\" must be a list of pairs of integers");
        else
            st = add_pinpoint(p, tile_size, json_integer_value(height_first ? b : a),
                              json_integer_value(height_first ? a : b), err);
    }
    json_decref(parsed);
    return st;
}

/* What pictures in tiles ask of the keys that all dialects share. */
static sac_status check_tiles(const sac_processor_config *c, sac_error *err) {
    if (c->keep_class_token)
        return sac_fail(err, SAC_UNSUPPORTED, "pictures in tiles with the class token kept");
    int square = c->resize_w == c->resize_h ? c->resize_w : 0;
    if ((c->resize_shortest ? c->resize_shortest : square) == c->tile_size) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"size\" must be the vision tower's %d for pictures in tiles",
                    c->tile_size);
}

static bool has_all(const sac_pinpoints *p, const sac_pinpoints *of) {
    int n = 0;
    for (int i = 0; i < of->n; i++)
        for (int k = 0; k < p->n; k++)
            if (p->size[k].width == of->size[i].width && p->size[k].height == of->size[i].height) {
                n++;
                break;
            }
    return n == of->n;
}

/* A list in the place of one that is not there, whose sizes need not be of these tiles. */
static sac_status read_usual(sac_pinpoints *p, const sac_processor_config *c, const json_t *usual, const char *file, sac_error *err) {
    sac_status st = read_pinpoints(p, c->tile_size, usual, true, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "%s lists no sizes of pictures, so those of its class are used", file);
}

/* transformers cuts tiles by the preprocessor's sizes and joins their tokens by the model's: the two must be the same ones. */
static sac_status check_same(const sac_pinpoints *p, const sac_processor_config *c, const json_t *json, const json_t *usual, bool is_told,
                             sac_error *err) {
    sac_pinpoints other = {0};
    const char *told = is_told ? "" : ", which lists none, so those of its class are used";
    if (!json) {
        SAC_TRY(read_usual(&other, c, usual, "preprocessor_config.json", err));
        if (has_all(p, &other) && has_all(&other, p)) return SAC_OK;
        return sac_fail(err, SAC_BAD_FILE, "\"image_grid_pinpoints\" is missing: the %d sizes of its class are not the %d of config.json", other.n, p->n);
    }
    SAC_TRY(read_pinpoints(&other, c->tile_size, json, true, err));
    if (has_all(p, &other) && has_all(&other, p)) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"image_grid_pinpoints\" has %d sizes that are not the %d of config.json%s", other.n, p->n, told);
}

static const json_t *list_of(const json_t *object) {
    const json_t *list = json_object_get(object, "image_grid_pinpoints");
    return json_is_null(list) ? NULL : list;
}

sac_status sac_pinpoints_read(sac_pinpoints *p, const sac_processor_config *c, const json_t *preprocessor, const json_t *config,
                              const json_t *usual, bool height_first, sac_error *err) {
    static const int grids[][2] = {{2, 1}, {1, 2}, {2, 2}, {1, 3}, {3, 1}}; /* width x height */
    SAC_TRY(check_tiles(c, err));
    if (usual && json_is_null(json_object_get(preprocessor, "image_grid_pinpoints")))
        return sac_fail(err, SAC_BAD_FILE, "\"image_grid_pinpoints\" is null, with which transformers takes no picture; without the key its class's sizes count");
    const json_t *own = list_of(config), *others = list_of(preprocessor), *pinpoints = own || usual ? own : others;
    if (pinpoints)
        SAC_TRY(read_pinpoints(p, c->tile_size, pinpoints, height_first, err));
    else if (usual)
        SAC_TRY(read_usual(p, c, usual, "config.json", err));
    else
        for (size_t i = 0; i < SAC_COUNT(grids); i++)
            SAC_TRY(add_pinpoint(p, c->tile_size, grids[i][0] * (int64_t)c->tile_size,
                                 grids[i][1] * (int64_t)c->tile_size, err));
    if (p->n == 0) return sac_fail(err, SAC_BAD_FILE, "\"image_grid_pinpoints\" is empty");
    const bool is_told = others && others != pinpoints, is_left_out = usual && preprocessor && own && !others;
    return height_first && (is_told || is_left_out) ? check_same(p, c, others, usual, own != NULL, err) : SAC_OK;
}

/* ---------------------------------------------------------------- choosing */

typedef struct extent {
    int w, h;
} extent;

/* The pinpoint that keeps most of the picture's pixels, of equals the one that wastes least. */
static extent best_resolution(const sac_pinpoints *p, int width, int height) {
    extent best = {0};
    int64_t most = 0, least_waste = INT64_MAX;
    for (int i = 0; i < p->n; i++) {
        int w = p->size[i].width, h = p->size[i].height;
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

void sac_pinpoints_plan(const sac_pinpoints *s, int tile_size, sac_visual_plan *p) {
    extent box = best_resolution(s, p->width, p->height), fit = fit_into(box, p->width, p->height);
    p->tiles_w = box.w / tile_size;
    p->tiles_h = box.h / tile_size;
    p->fit_w = fit.w;
    p->fit_h = fit.h;
    p->fit_x = (box.w - fit.w) / 2;
    p->fit_y = (box.h - fit.h) / 2;
    p->n_tiles = p->tiles_w * p->tiles_h;
    p->n_tokens = (int64_t)p->n_tiles * p->tokens_per_tile;
}

/* Python's int(round(x, 7)): down, unless the next integer is nearer than half of the seventh decimal. */
static int round_7_floor(double x) {
    double down = floor(x);
    return (int)(down + 1 - x < 0.5e-7 ? down + 1 : down);
}

void sac_pinpoints_unpad(sac_visual_plan *p) {
    int w = p->tiles_w * p->tokens.w, h = p->tiles_h * p->tokens.h, padding;
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

int32_t sac_pinpoints_row(const sac_visual_plan *p, int first, int x, int y) {
    int w = p->tokens.w, h = p->tokens.h, tile = first + y / h * p->tiles_w + x / w;
    return tile * p->tokens_per_tile + y % h * w + x % w;
}

int sac_pinpoints_most_tiles(const sac_pinpoints *p, int tile_size) {
    int most = 1;
    for (int i = 0; i < p->n; i++) {
        int n = (p->size[i].width / tile_size) * (p->size[i].height / tile_size);
        if (n > most) most = n;
    }
    return most;
}

/* ---------------------------------------------------------------- drawing */

/* One row of the fitted picture into the tiles that it crosses. */
static void scatter_row(const sac_visual_plan *p, int side, uint8_t *tiles, const uint8_t *row, int y) {
    size_t s = (size_t)side, tile_bytes = s * s * 3;
    for (int x = p->fit_x, end = p->fit_x + p->fit_w; x < end;) {
        int column = x / side, n = (column + 1) * side - x;
        if (n > end - x) n = end - x;
        uint8_t *tile = tiles + (size_t)(y / side * p->tiles_w + column) * tile_bytes;
        memcpy(tile + ((size_t)(y % side) * s + (size_t)(x % side)) * 3, row, (size_t)n * 3);
        row += (size_t)n * 3;
        x += n;
    }
}

/* tiles [tiles_h * tiles_w][S][S][3]: the fitted picture on black. */
static sac_status draw_tiles(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                             sac_filter filter, uint8_t *tiles, sac_error *err) {
    size_t row_bytes = (size_t)p->fit_w * 3, n_tiles = (size_t)p->tiles_w * (size_t)p->tiles_h;
    uint8_t *fitted = malloc(row_bytes * (size_t)p->fit_h);
    if (!fitted)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", p->fit_w, p->fit_h);
    sac_status st = sac_resize(fitted, p->fit_w, p->fit_h, image->rgb, image->width, image->height, filter,
                               c->arithmetic, err);
    memset(tiles, 0, n_tiles * (size_t)c->tile_size * (size_t)c->tile_size * 3);
    for (int y = 0; y < p->fit_h && st == SAC_OK; y++)
        scatter_row(p, c->tile_size, tiles, fitted + (size_t)y * row_bytes, p->fit_y + y);
    free(fitted);
    return st;
}

sac_status sac_pinpoints_cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                             sac_filter filter, uint8_t *rows, sac_error *err) {
    size_t tile_bytes = (size_t)c->tile_size * (size_t)c->tile_size * 3;
    size_t n_tiles = (size_t)p->tiles_w * (size_t)p->tiles_h;
    uint8_t *tiles = malloc(n_tiles * tile_bytes);
    if (!tiles) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu tiles", n_tiles);
    sac_status st = draw_tiles(c, image, p, filter, tiles, err);
    for (size_t i = 0; i < n_tiles && st == SAC_OK; i++)
        sac_tile_cut(c, tiles + i * tile_bytes, rows + sac_visual_bytes(p, (int64_t)i));
    free(tiles);
    return st;
}
