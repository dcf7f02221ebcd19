/* dialect_internvl_chat.c - InternVL in the original code's layout: internvl's tiles, whose settings stand in config.json.
 * See dialect.h. Rules: load_image and load_video of the published model cards (tiles by Pillow's bicubic resize, a frame is
 * one tile by the same, ImageNet's mean and deviation), with the numbers of tiles of the folder. */
#include "dialect.h"

#include <string.h>

enum { MOST_PATCHES = SAC_PROCESSOR_MAX_TILES - 1 }; /* the whole picture is one more */

typedef struct settings {
    int min_tiles, max_tiles, merge;
    bool has_thumbnail; /* the whole picture behind several tiles */
} settings;

/* A number, or an object of numbers: all are the tower's. */
static sac_status check_size(const sac_processor_config *c, const json_t *object, const char *key, sac_error *err) {
    const json_t *size = json_object_get(object, key), *v;
    const char *side;
    bool fits = !size || json_is_null(size) || json_integer_value(size) == c->tile_size;
    if (json_is_object(size)) {
        fits = json_object_size(size) > 0;
        json_object_foreach((json_t *)(uintptr_t)size, side, v) fits &= json_integer_value(v) == c->tile_size;
    }
    if (fits) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "\"%s\" is not the %d of the vision tower", key, c->tile_size);
}

static sac_status read(sac_processor_config *c, const sac_processor_model *model, const json_t *preprocessor,
                       sac_error *err) {
    settings *own = c->own;
    int64_t min_tiles = 1, max_tiles = 6; /* InternVLChatConfig's */
    bool tiles = false, resize = true;
    SAC_TRY(sac_json_get_bool(preprocessor, "do_resize", &resize, err));
    if (!resize) return sac_fail(err, SAC_UNSUPPORTED, "\"do_resize\" false: pictures are resized to tiles");
    SAC_TRY(check_size(c, preprocessor, "size", err));
    SAC_TRY(check_size(c, preprocessor, "crop_size", err));
    SAC_TRY(sac_json_get_int(model->config, "min_dynamic_patch", 1, MOST_PATCHES, &min_tiles, err));
    SAC_TRY(sac_json_get_int(model->config, "max_dynamic_patch", 1, MOST_PATCHES, &max_tiles, err));
    SAC_TRY(sac_json_get_bool(model->config, "dynamic_image_size", &tiles, err));
    SAC_TRY(sac_json_get_bool(model->config, "use_thumbnail", &own->has_thumbnail, err));
    own->min_tiles = tiles ? (int)min_tiles : 1;
    own->max_tiles = tiles ? (int)max_tiles : 1;
    own->merge = model->merge_size;
    if (own->merge >= 1 && c->tile_size / c->patch_size % own->merge == 0) return SAC_OK;
    return sac_fail(err, SAC_BAD_FILE, "tiles of %d patches a side in squares of %d", c->tile_size / c->patch_size,
                    own->merge);
}

static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const settings *own = c->own;
    if (p->width > SAC_RESIZE_MAX_SIDE || p->height > SAC_RESIZE_MAX_SIDE)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels is too long to be resized", p->width,
                        p->height);
    sac_tile_merged(c, own->merge, p);
    if (!p->is_video_frame) sac_tile_grid_choose(c, own->min_tiles, own->max_tiles, p);
    const int n = p->tiles_w * p->tiles_h;
    p->n_tiles = n > 1 && own->has_thumbnail ? n + 1 : n;
    p->n_tokens = (int64_t)p->n_tiles * p->tokens_per_tile;
    return SAC_OK;
}

static int most_tiles(const sac_processor_config *c) {
    const settings *own = c->own;
    if (own->min_tiles > own->max_tiles) return 1;
    return own->max_tiles + (own->max_tiles > 1 && own->has_thumbnail);
}

static sac_status cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p, uint8_t *rows,
                      sac_error *err) {
    const int n = p->tiles_w * p->tiles_h;
    SAC_TRY(sac_tile_grid_draw(c, image, p, p->tiles_w, p->tiles_h, c->arithmetic, rows, err));
    if (p->n_tiles == n) return SAC_OK;
    return sac_tile_grid_draw(c, image, p, 1, 1, c->arithmetic, rows + sac_visual_bytes(p, n), err);
}

static const char *const classes[] = {"CLIPImageProcessor", "CLIPFeatureExtractor", NULL};

static const sac_colors imagenet = {{0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}};

const sac_dialect sac_dialect_internvl_chat = {.name = "internvl_chat",
                                               .classes = classes,
                                               .colors = &imagenet,
                                               .own_bytes = sizeof(settings),
                                               .read = read,
                                               .plan = plan,
                                               .cut = cut,
                                               .layout = sac_tile_layout,
                                               .most_tiles = most_tiles};
