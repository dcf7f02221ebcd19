/* dialect_internvl.c - InternVL (arXiv:2404.16821, sec. 3.1, "dynamic high resolution"): tiles of the whole picture in the
 * grid nearest to its shape, then the picture in one tile. See dialect.h. Rules: transformers' GotOcr2ImageProcessor as
 * InternVLProcessor calls it, and InternVLVideoProcessor. */
#include "dialect.h"

enum { MOST_PATCHES = SAC_PROCESSOR_MAX_TILES - 1 }; /* the whole picture is one more */

typedef struct settings {
    int min_tiles, max_tiles, merge;
} settings;

/* ---------------------------------------------------------------- settings */

/* "size" {height, width}, or one number: the tower's, both. */
static sac_status check_size(const sac_processor_config *c, const json_t *object, const char *key,
                             int64_t usual, sac_error *err) {
    const json_t *size = json_object_get(object, key);
    int64_t w = usual, h = usual;
    if (json_is_integer(size)) {
        SAC_TRY(sac_json_get_int(object, key, 1, INT32_MAX, &w, err));
        h = w;
    } else if (size && !json_is_null(size)) {
        w = h = 0;
        SAC_TRY(sac_json_get_object(object, key, &size, err));
        SAC_TRY(sac_json_get_int(size, "width", 1, INT32_MAX, &w, err));
        SAC_TRY(sac_json_get_int(size, "height", 1, INT32_MAX, &h, err));
        if (!w || !h) return sac_fail(err, SAC_BAD_FILE, "\"%s\" needs \"height\" and \"width\"", key);
    }
    if (w == c->tile_size && h == c->tile_size) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" is %lld x %lld, but the vision tower takes %d x %d", key,
                    (long long)w, (long long)h, c->tile_size, c->tile_size);
}

/* Of the file that frames are drawn by. */
static sac_status check_frames(const sac_processor_config *c, const json_t *object, sac_error *err) {
    bool resize = true, crop = false;
    SAC_TRY(sac_json_get_bool(object, "do_resize", &resize, err));
    SAC_TRY(sac_json_get_bool(object, "do_center_crop", &crop, err));
    if (!resize) return sac_fail(err, SAC_UNSUPPORTED, "\"do_resize\" false: frames are resized to a tile");
    SAC_TRY(check_size(c, object, "size", 384, err)); /* the class's own */
    return crop ? check_size(c, object, "crop_size", 0, err) : SAC_OK;
}

/* Frames are drawn with the picture's settings: where video_preprocessor_config.json says another, it is refused. */
static sac_status check_video(const sac_processor_config *c, const json_t *video, const json_t *preprocessor,
                              sac_error *err) {
    static const struct {
        const char *key, *usual;
    } keys[] = {{"image_mean", NULL}, {"image_std", NULL},    {"rescale_factor", "0.00392156862745098"},
                {"resample", "3"},    {"do_rescale", "true"}, {"do_normalize", "true"}};
    for (size_t i = 0; i < SAC_COUNT(keys); i++) {
        json_t *usual = keys[i].usual ? json_loads(keys[i].usual, JSON_DECODE_ANY, NULL) : json_null();
        const json_t *v = json_object_get(video, keys[i].key),
                     *p = json_object_get(preprocessor, keys[i].key);
        const bool same = json_equal(v && !json_is_null(v) ? v : usual, p && !json_is_null(p) ? p : usual);
        json_decref(usual);
        if (!same)
            return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" is not that of the pictures' processor",
                            keys[i].key);
    }
    return check_frames(c, video, err);
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    settings *own = c->own;
    int64_t min_tiles = 1, max_tiles = 12;
    SAC_TRY(check_size(c, preprocessor, "size", 384, err));
    SAC_TRY(sac_json_get_int(preprocessor, "min_patches", 1, MOST_PATCHES, &min_tiles, err));
    SAC_TRY(sac_json_get_int(preprocessor, "max_patches", 1, MOST_PATCHES, &max_tiles, err));
    *own = (settings){(int)min_tiles, (int)max_tiles, model->merge_size};
    if (own->merge < 1 || c->tile_size / c->patch_size % own->merge)
        return sac_fail(err, SAC_BAD_FILE, "tiles of %d patches a side in squares of %d",
                        c->tile_size / c->patch_size, own->merge);
    if (!model->video) return check_frames(c, preprocessor, err); /* as transformers does without that file */
    sac_status st = check_video(c, model->video, preprocessor, err);
    return st == SAC_OK ? st : sac_fail_prefix(err, st, "video_preprocessor_config.json");
}

/* ---------------------------------------------------------------- sizes */

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    if (p->width > SAC_RESIZE_MAX_SIDE || p->height > SAC_RESIZE_MAX_SIDE)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels is too long to be resized",
                        p->width, p->height);
    sac_tile_merged(c, own->merge, p);
    if (!p->is_video_frame) sac_tile_grid_choose(c, own->min_tiles, own->max_tiles, p);
    const int n = p->tiles_w * p->tiles_h;
    p->n_tiles = n > 1 ? n + 1 : 1;
    p->n_tokens = (int64_t)p->n_tiles * p->tokens_per_tile;
    return SAC_OK;
}

static int most_tiles(const sac_processor_config *c) {
    const settings *own = c->own;
    return own->max_tiles > 1 && own->min_tiles <= own->max_tiles ? own->max_tiles + 1 : 1;
}

/* ---------------------------------------------------------------- pixels */

/* Pictures are resized as the checkpoint's were, with Pillow; for frames of videos there is torchvision alone. */
static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                      uint8_t *rows, sac_error *err) {
    if (p->is_video_frame) return sac_tile_grid_draw(c, image, p, 1, 1, SAC_RESIZE_TORCHVISION, rows, err);
    SAC_TRY(sac_tile_grid_draw(c, image, p, p->tiles_w, p->tiles_h, c->arithmetic, rows, err));
    if (p->n_tiles == 1) return SAC_OK;
    return sac_tile_grid_draw(c, image, p, 1, 1, c->arithmetic, rows + sac_visual_bytes(p, p->n_tiles - 1), err);
}

static const char *const classes[] = {"GotOcr2ImageProcessor", NULL};

const sac_dialect sac_dialect_internvl = {.name = "internvl",
                                          .classes = classes,
                                          .own_bytes = sizeof(settings),
                                          .read = read,
                                          .plan = plan,
                                          .cut = cut,
                                          .layout = sac_tile_layout,
                                          .most_tiles = most_tiles};
