/* dialect_smolvlm.c - SmolVLM (Marafioti et al., arXiv:2504.05299) and Idefics3 (arXiv:2408.12637): a large picture is cut
 * into tiles and followed by the whole, each behind a text that says which; frames of a video are a tile each, behind their
 * times. See dialect.h. Rules: transformers' SmolVLMImageProcessor, -VideoProcessor and -Processor. */
#include "dialect.h"

#include "number_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SIDE = 4096 /* that pictures are resized to */, MOST_FPS = 1000 };

typedef struct settings {
    int merge;
    int longest,
        frame_longest; /* side that a picture's, or a frame's, longer one is resized to before it is cut */
    bool resizes, splits;
} settings;

/* ---------------------------------------------------------------- settings */

/* "longest_edge" of an object under key, or what is there already. */
static sac_status read_longest(const json_t *json, const char *key, int *longest, sac_error *err) {
    const json_t *object = NULL;
    int64_t side = *longest;
    SAC_TRY(sac_json_get_object(json, key, &object, err));
    if (!object) return SAC_OK;
    SAC_TRY(sac_json_get_int(object, "longest_edge", 1, INT32_MAX, &side, err));
    *longest = (int)(side < MOST_SIDE ? side : MOST_SIDE);
    if (json_object_get(object, "longest_edge")) return SAC_OK;
    return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" needs \"longest_edge\"", key);
}

static sac_status check_tile(const sac_processor_config *c, const json_t *json, sac_error *err) {
    int side = c->tile_size;
    SAC_TRY(read_longest(json, "max_image_size", &side, err));
    if (side == c->tile_size) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"max_image_size\" is %d, but the vision tower takes %d x %d", side,
                    c->tile_size, c->tile_size);
}

/* {"fps", "max_frames"}: how videos are sampled where nothing is asked. */
static sac_status read_sampling(sac_processor_config *c, const json_t *json, sac_error *err) {
    const json_t *sampling = NULL;
    int64_t most = 64;
    double fps = 1;
    SAC_TRY(sac_json_get_object(json, "video_sampling", &sampling, err));
    if (!sampling && c->sampling.fps > 0) return SAC_OK;
    SAC_TRY(sac_json_get_float(sampling, "fps", &fps, err));
    SAC_TRY(sac_json_get_int(sampling, "max_frames", 1, INT32_MAX, &most, err));
    if (!(fps > 0 && fps <= MOST_FPS))
        return sac_fail(err, SAC_BAD_FILE, "\"video_sampling\": \"fps\" must be above 0, at most %d",
                        MOST_FPS);
    c->sampling = (sac_processor_sampling){.fps = fps, .skip_s = 1, .most_frames = (int)most};
    return SAC_OK;
}

/* Frames are drawn with the picture's settings: video_preprocessor_config.json must say the same. */
static sac_status read_video(sac_processor_config *c, const json_t *video, const json_t *preprocessor,
                             sac_error *err) {
    static const char *const keys[] = {"image_mean", "image_std",  "rescale_factor", "resample",
                                       "do_resize",  "do_rescale", "do_normalize"};
    settings *own = c->own;
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        const json_t *v = json_object_get(video, keys[i]), *p = json_object_get(preprocessor, keys[i]);
        if (v && p && !json_equal(v, p))
            return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" is not that of preprocessor_config.json", keys[i]);
    }
    SAC_TRY(check_tile(c, video, err));
    SAC_TRY(read_sampling(c, video, err));
    return read_longest(video, "size", &own->frame_longest, err);
}

/* Where video_sampling stands beside a "size", transformers 5 takes that for frames too. */
static sac_status read_frame_size(settings *own, const json_t *preprocessor, sac_error *err) {
    const json_t *sampling = NULL;
    own->frame_longest = own->longest;
    SAC_TRY(sac_json_get_object(preprocessor, "video_sampling", &sampling, err));
    if (json_object_get(preprocessor, "size")) return SAC_OK;
    return read_longest(sampling, "video_size", &own->frame_longest, err);
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    settings *own = c->own;
    *own = (settings){.merge = model->merge_size > 1 ? model->merge_size : 1,
                      .longest = 4 * 364,
                      .resizes = true,
                      .splits = true};
    if (!json_object_get(preprocessor, "resample")) c->filter = SAC_FILTER_LANCZOS;
    SAC_TRY(read_longest(preprocessor, "size", &own->longest, err));
    SAC_TRY(check_tile(c, preprocessor, err));
    SAC_TRY(sac_json_get_bool(preprocessor, "do_resize", &own->resizes, err));
    SAC_TRY(sac_json_get_bool(preprocessor, "do_image_splitting", &own->splits, err));
    SAC_TRY(read_frame_size(own, preprocessor, err));
    SAC_TRY(read_sampling(c, preprocessor, err));
    if (!model->video) return SAC_OK;
    sac_status st = read_video(c, model->video, preprocessor, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "video_preprocessor_config.json");
}

/* ---------------------------------------------------------------- sizes */

typedef struct size {
    int w, h;
} size;

/* The longer side becomes `longest`, the other keeps the shape, made even. */
static size longest_to(size s, int longest) {
    const double aspect = (double)s.w / s.h;
    const bool is_wide = s.w >= s.h;
    int other = (int)(is_wide ? longest / aspect : longest * aspect);
    other += other % 2;
    if (other < 1) other = 1;
    return is_wide ? (size){longest, other} : (size){other, longest};
}

static int whole_tiles(int side, int tile) {
    return (side + tile - 1) / tile * tile;
}

/* Sides in whole tiles: the longer one rounded up, then the other in its shape. */
static size in_tiles(size s, int tile) {
    const double aspect = (double)s.w / s.h;
    if (s.w >= s.h) {
        int w = whole_tiles(s.w, tile);
        return (size){w, whole_tiles((int)(w / aspect), tile)};
    }
    int h = whole_tiles(s.h, tile);
    return (size){whole_tiles((int)(h * aspect), tile), h};
}

/* What a picture is drawn as before it is cut; a frame before it is squeezed. */
static size first_size(const sac_processor_config *c, const sac_visual_plan *p) {
    const settings *own = c->own;
    const size s = {p->width, p->height};
    if (p->is_video_frame) return longest_to(s, own->frame_longest);
    return own->resizes ? longest_to(s, own->longest) : s;
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    if (p->width > SAC_RESIZE_MAX_SIDE || p->height > SAC_RESIZE_MAX_SIDE)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels is too long to be resized",
                        p->width, p->height);
    if (p->is_video_frame && !own->resizes)
        return sac_fail(err, SAC_UNSUPPORTED, "frames of videos with \"do_resize\" false");
    sac_tile_merged(c, own->merge, p);
    if (own->splits && !p->is_video_frame) {
        size drawn = in_tiles(first_size(c, p), c->tile_size);
        p->tiles_w = drawn.w / c->tile_size;
        p->tiles_h = drawn.h / c->tile_size;
        int64_t n = (int64_t)p->tiles_w * p->tiles_h;
        if (n < 1 || n >= SAC_PROCESSOR_MAX_TILES)
            return sac_fail(
                err, SAC_BAD_ARGUMENT,
                "a picture of %d x %d pixels would be %d x %d tiles; at most %d in all are supported",
                p->width, p->height, p->tiles_w, p->tiles_h, SAC_PROCESSOR_MAX_TILES - 1);
        p->n_tiles = n > 1 ? (int)n + 1 : 1; /* the whole picture comes last */
    }
    p->n_tokens = (int64_t)p->n_tiles * p->tokens_per_tile;
    return SAC_OK;
}

static int most_tiles(const sac_processor_config *c) {
    const settings *own = c->own;
    if (!own->splits) return 1;
    if (!own->resizes) return SAC_PROCESSOR_MAX_TILES;
    int side =
        whole_tiles(own->longest + 1, c->tile_size) / c->tile_size; /* one more where the other is odd */
    return side < 16 ? side * side + 1 : SAC_PROCESSOR_MAX_TILES;
}

/* ---------------------------------------------------------------- pixels */

typedef struct canvas {
    uint8_t *rgb;
    size size;
} canvas;

/* `from` drawn at another size; the caller frees to->rgb. */
static sac_status draw(const sac_processor_config *c, const canvas *from, size to_size, bool is_frame,
                       canvas *to, sac_error *err) {
    /* Pictures are resized as the checkpoint's were, with Pillow; for frames of videos there is torchvision alone. */
    const sac_resize_arithmetic arithmetic = is_frame ? SAC_RESIZE_TORCHVISION : c->arithmetic;
    *to = (canvas){malloc((size_t)to_size.w * (size_t)to_size.h * 3), to_size};
    if (!to->rgb)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", to_size.w,
                        to_size.h);
    return sac_resize(to->rgb, to_size.w, to_size.h, from->rgb, from->size.w, from->size.h, c->filter,
                      arithmetic, err);
}

/* Tile t of a canvas of whole tiles. */
static void cut_tile(const sac_visual_plan *p, const canvas *from, int t, uint8_t *rows) {
    const sac_patch_order order = sac_visual_order(p);
    const int columns = from->size.w / p->tile_w, x = t % columns * p->tile_w, y = t / columns * p->tile_h;
    const uint8_t *first = from->rgb + ((size_t)y * (size_t)from->size.w + (size_t)x) * 3;
    sac_patches_cut(rows + sac_visual_bytes(p, t), &order, 0, first, from->size.w);
}

/* The picture at its first size, in tiles and, behind them, as one. */
static sac_status cut_drawn(const sac_processor_config *c, const canvas *first, const sac_visual_plan *p,
                            uint8_t *rows, sac_error *err) {
    const size tile = {p->tile_w, p->tile_h};
    canvas large = {0}, whole = {0};
    if (p->n_tiles == 1) {
        sac_status st = draw(c, first, tile, p->is_video_frame, &whole, err);
        if (st == SAC_OK) cut_tile(p, &whole, 0, rows);
        free(whole.rgb);
        return st;
    }
    sac_status st =
        draw(c, first, (size){p->tiles_w * p->tile_w, p->tiles_h * p->tile_h}, false, &large, err);
    for (int t = 0; st == SAC_OK && t < p->n_tiles - 1; t++) cut_tile(p, &large, t, rows);
    if (st == SAC_OK) st = draw(c, &large, tile, false, &whole, err);
    if (st == SAC_OK) cut_tile(p, &whole, 0, rows + sac_visual_bytes(p, p->n_tiles - 1));
    free(large.rgb);
    free(whole.rgb);
    return st;
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    canvas first;
    const canvas own = {image->rgb, {image->width, image->height}};
    sac_status st = draw(c, &own, first_size(c, p), p->is_video_frame, &first, err);
    if (st == SAC_OK) st = cut_drawn(c, &first, p, rows, err);
    free(first.rgb);
    return st;
}

/* ---------------------------------------------------------------- texts */

#define AROUND "<fake_token_around_image>"
#define WHOLE  AROUND "<global-img>"

/* Whole seconds as "1:02:03", or "2 days, 1:02:03". */
static void write_duration(char out[64], int64_t seconds) {
    const int64_t days = seconds / 86400, hours = seconds / 3600 % 24;
    const int used = days ? snprintf(out, 64, "%lld day%s, ", (long long)days, days == 1 ? "" : "s") : 0;
    snprintf(out + used, 64 - (size_t)used, "%d:%02d:%02d", (int)hours, (int)(seconds / 60 % 60),
             (int)(seconds % 60));
}

/* "You are provided ...", once, then before each frame its time. */
static int frame_text(const sac_visual_shown *m, int64_t tile, char *out, size_t capacity) {
    char words[SAC_NUMBER_WORDS_BYTES], duration[64], begin[320] = AROUND;
    if (tile == m->n_tiles) return snprintf(out, capacity, AROUND "\n\n");
    if (tile == 0) {
        write_duration(duration, (int64_t)(m->duration_s > 0 ? m->duration_s : m->time_s[m->n_tiles - 1]));
        snprintf(begin, sizeof begin,
                 "You are provided the following series of %s frames from a %s [H:MM:SS] video.\n",
                 sac_number_words(words, m->n_tiles), duration);
    }
    const int64_t second = (int64_t)m->time_s[tile];
    return snprintf(out, capacity, "%s\nFrame from %02lld:%02lld:" WHOLE, begin, (long long)(second / 60),
                    (long long)(second % 60));
}

static int text(const sac_visual_shown *m, int64_t tile, char *out, size_t capacity) {
    const sac_visual_plan *p = m->plan;
    const int row = (int)tile / p->tiles_w, column = (int)tile % p->tiles_w;
    if (p->is_video_frame) return frame_text(m, tile, out, capacity);
    if (tile == p->n_tiles) return snprintf(out, capacity, AROUND);
    if (tile == p->n_tiles - 1) return snprintf(out, capacity, "%s" WHOLE, p->n_tiles > 1 ? "\n\n" : "");
    return snprintf(out, capacity, "%s" AROUND "<row_%d_col_%d>", row > 0 && column == 0 ? "\n" : "", row + 1,
                    column + 1);
}

static const char *const classes[] = {"SmolVLMImageProcessor", "Idefics3ImageProcessor", NULL};

const sac_dialect sac_dialect_smolvlm = {.name = "smolvlm",
                                         .classes = classes,
                                         .own_bytes = sizeof(settings),
                                         .read = read,
                                         .plan = plan,
                                         .cut = cut,
                                         .layout = sac_tile_layout,
                                         .text = text,
                                         .most_tiles = most_tiles};
