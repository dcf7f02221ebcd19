/* processor_config.c - preprocessor_config.json and its kin, with the defaults of transformers'
 * CLIPImageProcessor. */
#include "dialect.h"

#include "file_map.h"

#include <stdlib.h>
#include <string.h>

#define MAX_TILE_SIZE 4096

static const sac_colors clip_colors = {{0.48145466, 0.4578275, 0.40821073},
                                       {0.26862954, 0.26130258, 0.27577711}},
                        half_colors = {{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}};

sac_status sac_processor_find(json_t **out, const char *folder, sac_error *err) {
    char path[4096];
    *out = NULL;
    SAC_TRY(sac_path_join(path, sizeof path, folder, "processor_config.json", err));
    if (sac_file_exists(path)) {
        json_t *outer;
        SAC_TRY(sac_json_parse_file(&outer, path, err));
        json_t *inner = json_object_get(outer, "image_processor");
        if (json_is_object(inner)) *out = json_incref(inner);
        json_decref(outer);
        if (*out) return SAC_OK;
    }
    SAC_TRY(sac_path_join(path, sizeof path, folder, "preprocessor_config.json", err));
    return sac_file_exists(path) ? sac_json_parse_file(out, path, err) : SAC_OK;
}

/* What an image processor's class says without a key. */
typedef struct processor_class {
    const char *name;
    const sac_dialect *dialect; /* NULL: any of those without classes of their own */
    bool pads;                  /* do_pad makes the picture square */
    int squeeze; /* "size" is so many pixels both ways, and nothing is cropped; 0: CLIP's defaults */
    bool half;   /* mean and deviation are 0.5 */
} processor_class;

static const processor_class classes[] = {
    {.name = "CLIPImageProcessor"},
    {.name = "CLIPFeatureExtractor"},
    {.name = "LlavaImageProcessor", .pads = true},
    {.name = "LlavaNextImageProcessor"},
    {.name = "LlavaOnevisionImageProcessor", .dialect = &sac_dialect_onevision, .squeeze = 384},
    {.name = "SiglipImageProcessor", .squeeze = 224, .half = true},
    {.name = "SmolVLMImageProcessor", .dialect = &sac_dialect_smolvlm, .half = true},
    {.name = "Gemma3ImageProcessor", .dialect = &sac_dialect_gemma3, .half = true},
};

/* "...Fast" and "...Pil" are the same class. */
static bool is_class(const char *type, const char *name) {
    size_t n = strlen(name);
    if (strncmp(type, name, n) != 0) return false;
    return !type[n] || strcmp(type + n, "Fast") == 0 || strcmp(type + n, "Pil") == 0;
}

static sac_status read_class(processor_class *out, const sac_dialect *d, const json_t *json, sac_error *err) {
    const char *type = NULL;
    SAC_TRY(sac_json_get_string(json, "feature_extractor_type", &type, err));
    SAC_TRY(sac_json_get_string(json, "image_processor_type", &type, err));
    *out = classes[0];
    for (size_t i = 0; i < SAC_COUNT(classes); i++)
        if (classes[i].dialect == d) *out = classes[i];
    if (!type) return SAC_OK;
    for (size_t i = 0; d->classes && d->classes[i]; i++)
        if (is_class(type, d->classes[i])) return SAC_OK;
    for (size_t i = 0; !d->classes && i < SAC_COUNT(classes); i++) {
        if (!is_class(type, classes[i].name) || (classes[i].dialect && classes[i].dialect != d)) continue;
        *out = classes[i];
        return SAC_OK;
    }
    return sac_fail(err, SAC_UNSUPPORTED,
                    "\"image_processor_type\" is \"%.60s\"; known here are %s and its kin", type,
                    d->classes ? d->classes[0] : classes[0].name);
}

/* Three numbers under key, or what is there already. */
static sac_status read_rgb(const json_t *json, const char *key, double v[3], sac_error *err) {
    const json_t *list;
    SAC_TRY(sac_json_get_array(json, key, &list, err));
    if (!list) return SAC_OK;
    if (json_array_size(list) != 3) return sac_fail(err, SAC_BAD_FILE, "\"%s\" must hold three numbers", key);
    for (size_t c = 0; c < 3; c++) {
        const json_t *n = json_array_get(list, c);
        if (!json_is_number(n)) return sac_fail(err, SAC_BAD_FILE, "\"%s\" must hold three numbers", key);
        v[c] = json_number_value(n);
    }
    return SAC_OK;
}

/* "size" or "crop_size": a number, {"shortest_edge"} or {"height", "width"}. 0 for what is not said. */
static sac_status read_size(const json_t *json, const char *key, int64_t *shortest, int64_t *width,
                            int64_t *height, sac_error *err) {
    const json_t *v = json_object_get(json, key), *object;
    if (!v || json_is_null(v)) return SAC_OK;
    *shortest = *width = *height = 0;
    if (json_is_number(v)) return sac_json_get_int(json, key, 1, MAX_TILE_SIZE, shortest, err);
    SAC_TRY(sac_json_get_object(json, key, &object, err));
    if (json_object_get(object, "longest_edge") || json_object_get(object, "max_height"))
        return sac_fail(err, SAC_UNSUPPORTED, "\"%s\" with a longest edge or a greatest height", key);
    SAC_TRY(sac_json_get_int(object, "shortest_edge", 1, MAX_TILE_SIZE, shortest, err));
    SAC_TRY(sac_json_get_int(object, "width", 1, MAX_TILE_SIZE, width, err));
    SAC_TRY(sac_json_get_int(object, "height", 1, MAX_TILE_SIZE, height, err));
    if (!*shortest && (!*width || !*height))
        return sac_fail(err, SAC_BAD_FILE, "\"%s\" needs \"shortest_edge\", or \"height\" and \"width\"",
                        key);
    return SAC_OK;
}

/* "resample" by Pillow's numbers. */
static sac_status read_filter(sac_processor_config *c, const json_t *json, sac_error *err) {
    int64_t filter = SAC_FILTER_BICUBIC;
    SAC_TRY(sac_json_get_int(json, "resample", 0, 5, &filter, err));
    if (filter == 0) return sac_fail(err, SAC_UNSUPPORTED, "\"resample\": 0, nearest neighbour");
    c->filter = (sac_filter)filter;
    return SAC_OK;
}

static sac_status read_geometry(sac_processor_config *c, const json_t *json, int64_t default_size,
                                const processor_class *k, sac_error *err) {
    int64_t shortest = k->squeeze ? 0 : default_size, w = k->squeeze, h = k->squeeze;
    int64_t crop = 0, crop_w = default_size, crop_h = default_size;
    bool pad = false;
    c->do_resize = true;
    c->do_center_crop = !k->squeeze;
    SAC_TRY(sac_json_get_bool(json, "do_resize", &c->do_resize, err));
    SAC_TRY(sac_json_get_bool(json, "do_center_crop", &c->do_center_crop, err));
    SAC_TRY(sac_json_get_bool(json, "do_pad", &pad, err));
    if (k->pads && pad) c->pad_to_square = true;
    SAC_TRY(read_size(json, "size", &shortest, &w, &h, err));
    SAC_TRY(read_size(json, "crop_size", &crop, &crop_w, &crop_h, err));
    if (crop) crop_w = crop_h = crop;
    c->resize_shortest = (int)shortest;
    c->resize_w = (int)w;
    c->resize_h = (int)h;
    if (c->do_center_crop && (crop_w != c->tile_size || crop_h != c->tile_size))
        return sac_fail(err, SAC_BAD_FILE, "\"crop_size\" is %lld x %lld, but the vision tower takes %d x %d",
                        (long long)crop_w, (long long)crop_h, c->tile_size, c->tile_size);
    bool square = c->do_resize && (shortest ? c->pad_to_square && shortest == c->tile_size
                                            : w == c->tile_size && h == c->tile_size);
    if (!c->do_center_crop && !square)
        return sac_fail(err, SAC_BAD_FILE,
                        "without \"do_center_crop\", \"size\" must be the vision tower's %d x %d",
                        c->tile_size, c->tile_size);
    return SAC_OK;
}

/* pixel * factor, normalised or not, as (pixel / 255 - mean) / std. */
sac_status sac_processor_read_colors(sac_processor_config *c, const json_t *json, bool half, sac_error *err) {
    sac_colors colors = half ? half_colors : c->dialect->colors ? *c->dialect->colors : clip_colors;
    const double *mean = colors.mean, *std = colors.std;
    double factor = 1.0 / 255;
    bool rescale = true, normalize = true;
    SAC_TRY(read_rgb(json, "image_mean", colors.mean, err));
    SAC_TRY(read_rgb(json, "image_std", colors.std, err));
    SAC_TRY(sac_json_get_float(json, "rescale_factor", &factor, err));
    SAC_TRY(sac_json_get_bool(json, "do_rescale", &rescale, err));
    SAC_TRY(sac_json_get_bool(json, "do_normalize", &normalize, err));
    if (!rescale) factor = 1.0;
    if (!(factor > 0 && factor <= 1))
        return sac_fail(err, SAC_BAD_FILE, "\"rescale_factor\" must be above 0, at most 1");
    double scale = factor == 1.0 / 255 ? 1.0 : factor * 255;
    for (int i = 0; i < 3; i++) {
        if (!(mean[i] >= -1e6 && mean[i] <= 1e6) || !(std[i] >= 1e-6 && std[i] <= 1e6))
            return sac_fail(err, SAC_BAD_FILE, "\"image_mean\" or \"image_std\" out of range");
        double ink = mean[i] * 255;
        c->pad_rgb[i] = (uint8_t)(ink < 0 ? 0 : ink > 255 ? 255 : ink);
        c->mean[i] = (float)(normalize ? mean[i] / scale : 0);
        c->std[i] = (float)((normalize ? std[i] : 1) / scale);
    }
    return SAC_OK;
}

static sac_status read_own(sac_processor_config *c, const sac_processor_model *model,
                           const json_t *preprocessor, sac_error *err) {
    size_t n_bytes = c->dialect->own_bytes;
    if (n_bytes) c->own = calloc(1, n_bytes);
    if (n_bytes && !c->own) return sac_fail(err, SAC_NO_MEMORY, "no memory for an image processor");
    sac_status st = c->dialect->read(c, model, preprocessor, err);
    if (st != SAC_OK) sac_processor_free(c);
    return st;
}

/* The dialect itself, or the one of its kin whose classes have the image processor's. */
static const sac_dialect *spoken(const sac_dialect *d, const json_t *json) {
    const char *type = json_string_value(json_object_get(json, "image_processor_type"));
    for (const sac_dialect *k = d; type && k; k = k->kin)
        for (size_t i = 0; k->classes && k->classes[i]; i++)
            if (is_class(type, k->classes[i])) return k;
    return d;
}

sac_status sac_processor_read(sac_processor_config *c, const json_t *preprocessor,
                              const sac_processor_model *model, sac_error *err) {
    *c = (sac_processor_config){.dialect = spoken(model->dialect, preprocessor),
                                .arithmetic = SAC_RESIZE_PILLOW,
                                .tile_size = model->image_size,
                                .patch_size = model->patch_size,
                                .max_tokens = INT32_MAX};
    if (model->patch_size < 1 || model->image_size < model->patch_size || model->image_size > MAX_TILE_SIZE)
        return sac_fail(err, SAC_BAD_FILE, "a vision tower for pictures of %d x %d in patches of %d",
                        model->image_size, model->image_size, model->patch_size);
    if (preprocessor && !json_is_object(preprocessor))
        return sac_fail(err, SAC_BAD_FILE, "the image processor's configuration must be an object");
    processor_class k;
    SAC_TRY(read_class(&k, c->dialect, preprocessor, err));
    if (!preprocessor && k.squeeze) { /* the original's files have none: it takes SigLIP's */
        k.squeeze = model->image_size;
        k.half = true;
    }
    c->keep_class_token = model->keep_class;
    SAC_TRY(read_filter(c, preprocessor, err));
    if (!c->dialect->classes)
        SAC_TRY(read_geometry(c, preprocessor, preprocessor ? 224 : model->image_size, &k, err));
    SAC_TRY(sac_processor_read_colors(c, preprocessor, k.half, err));
    return read_own(c, model, preprocessor, err);
}

void sac_processor_free(sac_processor_config *c) {
    free(c->own);
    c->own = NULL;
}
