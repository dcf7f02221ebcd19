/* dialect_minicpmv.c - MiniCPM-V 4.6 (the slices of LLaVA-UHD, Xu et al., arXiv:2403.11703, sec. 3.2): the whole picture in its own
 * shape, and behind it, where it is larger than a square of scale_resolution pixels, a grid of slices, all of one other size. See
 * dialect.h. Rules: transformers' MiniCPMV4_6ImageProcessorPil, -VideoProcessor and -Processor. */
#include "dialect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RATIO = 200, MAX_PATCHES = 1 << 20, MAX_SCALE = 4096, USUAL_W = 1280, USUAL_H = 720 };

typedef struct slicing {
    int scale, most; /* pixels a side of a square that pictures are compared with; slices */
    bool slices;
} slicing;

typedef struct settings {
    int side; /* patches a side of a token's square */
    slicing picture, frame;
    int64_t most_patches; /* of a picture or frame with its slices */
    bool is_numbered;
} settings;

/* ---------------------------------------------------------------- sizes */

typedef struct size {
    int w, h;
} size;

static int whole(double length, int unit) { /* halves to even */
    const double n = rint(length / unit) * unit;
    return n > unit ? (int)n : unit;
}

/* Of about the square's area, or no larger than it; sides in whole tokens. */
static size best_size(const sac_processor_config *c, const slicing *s, double w, double h, bool may_grow) {
    const int unit = c->patch_size * ((const settings *)c->own)->side;
    if (h * w > (double)s->scale * s->scale || may_grow) {
        const double aspect = w / h;
        h = (int)(s->scale / sqrt(aspect));
        w = (int)(h * aspect);
    }
    return (size){whole(w, unit), whole(h, unit)};
}

/* Columns and rows of slices, or zeros: of nearly as many as the picture is larger than the square, the grid whose shape is
 * nearest to its own; of equals the one with more rows. */
static size slice_grid(const slicing *s, int w, int h) {
    const double log_ratio = log((double)w / h), area = (double)w * h / ((double)s->scale * s->scale);
    const int multiple = ceil(area) < s->most ? (int)ceil(area) : s->most;
    size best = {1, 1};
    double least = INFINITY;
    if (!s->slices || multiple <= 1) return (size){0, 0};
    for (int n = multiple - 1; n <= multiple + 1; n++)
        for (int rows = 1; n != 1 && n <= s->most && rows <= n; rows++) {
            if (n % rows) continue;
            const double error = fabs(log_ratio - log((double)(n / rows) / rows));
            if (error > least || (error == least && rows <= best.h)) continue;
            best = (size){n / rows, rows};
            least = error;
        }
    return best;
}

/* What a slice of the grid is drawn as. */
static size slice_size(const sac_processor_config *c, const slicing *s, int w, int h, size grid) {
    return best_size(c, s, (double)whole(w, grid.w) / grid.w, (double)whole(h, grid.h) / grid.h, true);
}

static sac_grid patches_of(const sac_processor_config *c, size s) {
    return (sac_grid){1, s.h / c->patch_size, s.w / c->patch_size};
}

/* A tile of so many patches, as a strip of their squares of 2 x 2. */
static void describe(const sac_processor_config *c, int64_t n, sac_visual_plan *p) {
    const settings *own = c->own;
    p->n_tiles = p->tiles_h = 1;
    p->patch = c->patch_size;
    p->frames = p->pool = 1;
    p->merge = 2;
    p->patches = (sac_grid){1, 2, (int)(n / 2)};
    p->tile_w = p->patches.w * c->patch_size;
    p->tile_h = 2 * c->patch_size;
    p->tokens = (sac_grid){1, 1, (int)(n / (own->side * own->side))};
    p->n_tokens = p->tokens_per_tile = p->tokens.w;
    p->crop_side = own->side;
    p->is_numbered = own->is_numbered;
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    const slicing *s = p->is_video_frame ? &own->frame : &own->picture;
    const int w = p->width, h = p->height, longer = w > h ? w : h, shorter = w > h ? h : w;
    if (longer > SAC_RESIZE_MAX_SIDE || longer > (int64_t)MAX_RATIO * shorter)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels: this model takes one side up to %d times the other, and %d pixels",
                        w, h, MAX_RATIO, SAC_RESIZE_MAX_SIDE);
    const size grid = slice_grid(s, w, h);
    p->crops = (sac_crops){.n = 1 + grid.w * grid.h, .first = patches_of(c, best_size(c, s, w, h, grid.w == 0))};
    if (grid.w) p->crops.rest = patches_of(c, slice_size(c, s, w, h, grid));
    const int64_t n = sac_crops_before(&p->crops, p->crops.n);
    if (n > own->most_patches)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels is too narrow for its slices: %lld patches; %lld are supported",
                        w, h, (long long)n, (long long)own->most_patches);
    describe(c, n, p);
    p->tiles_w = grid.w;
    p->n_lines = p->crops.n;
    return SAC_OK;
}

/* Patches of a crop whose sides differ by a factor, at most: those grow with it, since sides are rounded to whole tokens. */
static double patches_at(const sac_processor_config *c, const slicing *s, double ratio) {
    const double unit = c->patch_size * ((const settings *)c->own)->side, root = sqrt(ratio);
    const double longer = s->scale * root + unit, shorter = fmax(s->scale / root + unit / 2, unit);
    return longer * shorter / ((double)c->patch_size * c->patch_size);
}

/* Of a picture that is as narrow as any; a slice's own shape is nearer to a square. */
static double patches_with_slices(const sac_processor_config *c, const slicing *s) {
    double most = 0;
    for (int n = 2; s->slices && n <= s->most; n++)
        most = fmax(most, n * patches_at(c, s, fmax(n, (double)MAX_RATIO / n)));
    return patches_at(c, s, MAX_RATIO) + most;
}

static void largest(const sac_processor_config *c, bool is_video_frame, sac_visual_plan *p) {
    const settings *own = c->own;
    *p = (sac_visual_plan){.width = USUAL_W, .height = USUAL_H, .is_video_frame = true, .frames = 1, .merge = 1};
    const bool has_usual = plan(c, p, NULL) == SAC_OK && p->n_tokens <= c->max_tokens;
    if (is_video_frame && has_usual) return;
    *p = (sac_visual_plan){.is_video_frame = is_video_frame};
    describe(c, own->most_patches, p);
}

static int most_tiles(const sac_processor_config *c) {
    (void)c;
    return 1;
}

static sac_status limit(sac_processor_config *c, int64_t min_pixels, int64_t max_pixels, sac_error *err) {
    (void)c, (void)min_pixels, (void)max_pixels;
    return sac_fail(err, SAC_UNSUPPORTED,
                    "bounds on the pixels of a picture: this model's pictures are bounded by scale_resolution and max_slice_nums of its files");
}

/* ---------------------------------------------------------------- pixels */

/* The picture drawn as columns x rows crops, of the grid of crop `first`, and these behind one another. Pictures are resized as the checkpoint's
 * were, with Pillow; for frames of videos there is torchvision alone. */
static sac_status draw(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p, int first, size crops,
                       uint8_t *rows, sac_error *err) {
    const sac_patch_order order = sac_visual_crop_order(p, first);
    const int w = order.w * order.patch, h = order.h * order.patch, all_w = w * crops.w, all_h = h * crops.h;
    const size_t crop_bytes = (size_t)w * (size_t)h * 3;
    uint8_t *pixels = malloc(crop_bytes * (size_t)crops.w * (size_t)crops.h);
    if (!pixels) return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", all_w, all_h);
    sac_status st = sac_resize(pixels, all_w, all_h, image->rgb, image->width, image->height, c->filter,
                               p->is_video_frame ? SAC_RESIZE_TORCHVISION : c->arithmetic, err);
    for (int i = 0; i < crops.w * crops.h && st == SAC_OK; i++) {
        const size_t x = (size_t)(i % crops.w * w), y = (size_t)(i / crops.w * h);
        sac_patches_cut(rows + (size_t)i * crop_bytes, &order, 0, pixels + (y * (size_t)all_w + x) * 3, all_w);
    }
    free(pixels);
    return st;
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p, uint8_t *rows,
                      sac_error *err) {
    const size_t patch_bytes = (size_t)c->patch_size * (size_t)c->patch_size * 3;
    SAC_TRY(draw(c, image, p, 0, (size){1, 1}, rows, err));
    if (p->crops.n == 1) return SAC_OK;
    return draw(c, image, p, 1, (size){p->tiles_w, (p->crops.n - 1) / p->tiles_w},
                rows + (size_t)sac_grid_cells(p->crops.first) * patch_bytes, err);
}

/* ---------------------------------------------------------------- texts */

static int text(const sac_visual_shown *m, int64_t part, char *out, size_t capacity) {
    const sac_visual_plan *p = m->plan;
    const int parts = p->n_lines, crop = (int)(part % parts), before = part ? (int)((part - 1) % parts) : -1;
    const char *end = before < 0 ? "" : before ? "</slice>" : "</image>";
    if (part == m->n_tiles) return snprintf(out, capacity, "%s", end);
    if (part == 0 && p->is_numbered)
        return snprintf(out, capacity, "<image_id>%d</image_id><image>", m->number);
    if (crop == 0) return snprintf(out, capacity, "%s<image>", end);
    return snprintf(out, capacity, "%s%s<slice>", end, crop > 1 && (crop - 1) % p->tiles_w == 0 ? "\n" : "");
}

/* ---------------------------------------------------------------- settings */

static sac_status expect(const json_t *object, const char *key, int64_t want, sac_error *err) {
    int64_t value = want;
    SAC_TRY(sac_json_get_int(object, key, 1, 1 << 16, &value, err));
    if (value == want) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %lld, but the model's is %lld", key, (long long)value, (long long)want);
}

static sac_status check_mode(const settings *own, const json_t *object, sac_error *err) {
    const char *want = own->side == 2 ? "4x" : "16x", *mode = "16x";
    SAC_TRY(sac_json_get_string(object, "downsample_mode", &mode, err));
    if (strcmp(mode, want) == 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"downsample_mode\" is \"%.20s\", but config.json's is %s", mode, want);
}

static sac_status read_slicing(const sac_processor_config *c, const json_t *object, slicing *s, sac_error *err) {
    int64_t scale = 448, most = 9;
    bool resizes = true;
    SAC_TRY(sac_json_get_int(object, "scale_resolution", 1, MAX_SCALE, &scale, err));
    SAC_TRY(sac_json_get_int(object, "max_slice_nums", 1, SAC_PROCESSOR_MAX_TILES - 1, &most, err));
    *s = (slicing){(int)scale, (int)most, true};
    SAC_TRY(sac_json_get_bool(object, "slice_mode", &s->slices, err));
    SAC_TRY(sac_json_get_bool(object, "do_resize", &resizes, err));
    if (!resizes) return sac_fail(err, SAC_UNSUPPORTED, "\"do_resize\" false: pictures are resized to whole patches");
    SAC_TRY(expect(object, "patch_size", c->patch_size, err));
    SAC_TRY(check_mode(c->own, object, err));
    if (patches_with_slices(c, s) <= MAX_PATCHES) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE,
                    "\"scale_resolution\" %d with \"max_slice_nums\" %d: a picture could have %.0f patches; %d at most are supported", s->scale,
                    s->most, patches_with_slices(c, s), MAX_PATCHES);
}

/* Frames are drawn with the picture's settings: video_preprocessor_config.json must say the same of colours and filters. */
static sac_status check_colors(const json_t *video, const json_t *preprocessor, sac_error *err) {
    static const struct {
        const char *key, *usual;
    } keys[] = {{"image_mean", "[0.5, 0.5, 0.5]"}, {"image_std", "[0.5, 0.5, 0.5]"}, {"rescale_factor", "0.00392156862745098"},
                {"resample", "3"},                 {"do_rescale", "true"},           {"do_normalize", "true"}};
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        json_t *usual = json_loads(keys[i].usual, JSON_DECODE_ANY, NULL);
        const json_t *v = json_object_get(video, keys[i].key), *p = json_object_get(preprocessor, keys[i].key);
        const bool same = json_equal(v && !json_is_null(v) ? v : usual, p && !json_is_null(p) ? p : usual);
        json_decref(usual);
        if (!same) return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" is not that of the pictures' processor", keys[i].key);
    }
    return SAC_OK;
}

static sac_status read_frames(sac_processor_config *c, const json_t *video, const json_t *preprocessor, sac_error *err) {
    settings *own = c->own;
    int64_t most = 128, stack = 1;
    SAC_TRY(check_colors(video, preprocessor, err));
    SAC_TRY(read_slicing(c, video, &own->frame, err));
    SAC_TRY(sac_json_get_int(video, "max_num_frames", 1, INT32_MAX, &most, err));
    SAC_TRY(sac_json_get_int(video, "stack_frames", 0, INT32_MAX, &stack, err));
    if (stack > 1)
        return sac_fail(err, SAC_UNSUPPORTED, "\"stack_frames\" %lld: frames between seconds are not put into one picture here; 1 is supported",
                        (long long)stack);
    c->sampling = (sac_processor_sampling){.fps = 1, .most_frames = (int)most};
    return SAC_OK;
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor, sac_error *err) {
    settings *own = c->own;
    const char *mode = json_string_value(json_object_get(model->config, "downsample_mode"));
    *own = (settings){.side = mode && strcmp(mode, "4x") == 0 ? 2 : 4, .is_numbered = true};
    SAC_TRY(sac_json_get_bool(preprocessor, "use_image_id", &own->is_numbered, err));
    SAC_TRY(read_slicing(c, preprocessor, &own->picture, err));
    sac_status st = read_frames(c, model->video ? model->video : preprocessor, preprocessor, err);
    if (st != SAC_OK && model->video) return sac_fail_prefix(err, st, "video_preprocessor_config.json");
    SAC_TRY(st);
    const int64_t square = (int64_t)own->side * own->side;
    const double most = fmax(patches_with_slices(c, &own->picture), patches_with_slices(c, &own->frame));
    own->most_patches = ((int64_t)most / square + 1) * square;
    return SAC_OK;
}

static const sac_colors half = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};
static const char *const classes[] = {"MiniCPMV4_6ImageProcessor", NULL};

const sac_dialect sac_dialect_minicpmv = {.name = "minicpmv",
                                          .classes = classes,
                                          .colors = &half,
                                          .own_bytes = sizeof(settings),
                                          .read = read,
                                          .plan = plan,
                                          .cut = cut,
                                          .layout = sac_tile_layout,
                                          .text = text,
                                          .most_tiles = most_tiles,
                                          .limit = limit,
                                          .largest = largest};
