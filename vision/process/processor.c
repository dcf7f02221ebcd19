#include "dialect.h"

#include <stdlib.h>
#include <string.h>

static const sac_dialect *const dialects[] = {
#define X(name) &sac_dialect_##name,
    SAC_DIALECTS(X)
#undef X
};

const sac_dialect *sac_dialect_find(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(dialects); i++)
        if (strcmp(dialects[i]->name, name) == 0) return dialects[i];
    return NULL;
}

/* p: what the caller says of the picture. */
static sac_status plan(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    const int width = p->width, height = p->height;
    if (width < 1 || height < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels", width, height);
    p->frames = p->merge = 1;
    SAC_TRY(c->dialect->plan(c, p, err));
    int64_t n_rows = (int64_t)p->n_tiles * p->tokens_per_tile;
    int64_t max_tokens = c->max_tokens < INT32_MAX ? c->max_tokens : INT32_MAX;
    if (p->n_tokens <= max_tokens && n_rows <= INT32_MAX) return SAC_OK;
    return sac_fail(err, SAC_TOO_LONG,
                    "a picture of %d x %d pixels takes %lld tokens, more than the %lld allowed", width,
                    height, (long long)p->n_tokens, (long long)max_tokens);
}

sac_status sac_processor_plan(const sac_processor_config *c, int width, int height, bool is_among,
                              sac_visual_plan *p, sac_error *err) {
    *p = (sac_visual_plan){.width = width, .height = height, .is_among = is_among && c->dialect->tells_among};
    return plan(c, p, err);
}

sac_status sac_processor_plan_frame(const sac_processor_config *c, int width, int height, int64_t n_frames,
                                    sac_visual_plan *p, sac_error *err) {
    *p = (sac_visual_plan){.width = width, .height = height, .is_video_frame = true, .n_frames = n_frames};
    return plan(c, p, err);
}

sac_status sac_processor_cut_frame(const sac_processor_config *c, const sac_image *image,
                                   const sac_visual_plan *p, uint8_t *rows, sac_error *err) {
    sac_visual_plan alone = *p;
    alone.frames = 1;
    if (image->width != p->width || image->height != p->height)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels with a plan for %d x %d",
                        image->width, image->height, p->width, p->height);
    return c->dialect->cut(c, image, &alone, rows, err);
}

void sac_processor_place_frame(const sac_visual_plan *p, int k, const uint8_t *frame, uint8_t *rows) {
    const size_t area = (size_t)p->patch * (size_t)p->patch * 3, stride = area * (size_t)p->frames;
    for (int64_t i = 0, n = p->n_tiles * sac_grid_cells(p->patches); i < n; i++)
        memcpy(rows + (size_t)i * stride + (size_t)k * area, frame + (size_t)i * area, area);
}

sac_status sac_processor_cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                             uint8_t *rows, sac_error *err) {
    if (p->frames == 1) return sac_processor_cut_frame(c, image, p, rows, err);
    uint8_t *frame = malloc(sac_visual_bytes(p, p->n_tiles) / (size_t)p->frames);
    if (!frame)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", p->width, p->height);
    sac_status st = sac_processor_cut_frame(c, image, p, frame, err);
    for (int k = 0; k < p->frames && st == SAC_OK; k++) sac_processor_place_frame(p, k, frame, rows);
    free(frame);
    return st;
}

bool sac_processor_has_texts(const sac_processor_config *c) {
    return c->dialect && c->dialect->text;
}

size_t sac_processor_text(const sac_processor_config *c, const sac_visual_shown *shown, int64_t tile,
                          char out[SAC_VISUAL_TEXT_BYTES]) {
    int n = c->dialect->text(shown, tile, out, SAC_VISUAL_TEXT_BYTES);
    return n < SAC_VISUAL_TEXT_BYTES ? (size_t)n : SAC_VISUAL_TEXT_BYTES - 1;
}

void sac_processor_layout(const sac_processor_config *c, const sac_visual_plan *p, int32_t *source) {
    c->dialect->layout(p, source);
}

void sac_processor_blend(const sac_processor_config *c, const sac_visual_plan *p, int32_t *source,
                         float *weight) {
    c->dialect->blend(p, source, weight);
}

sac_status sac_processor_limit(sac_processor_config *c, int64_t min_pixels, int64_t max_pixels,
                               sac_error *err) {
    if (min_pixels == 0 && max_pixels == 0) return SAC_OK;
    if (c->dialect && c->dialect->limit) return c->dialect->limit(c, min_pixels, max_pixels, err);
    return sac_fail(err, SAC_UNSUPPORTED, "bounds on the pixels of a picture: this model %s",
                    c->dialect ? "takes all pictures in one size" : "reads text only");
}

sac_status sac_processor_largest(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    if (!c->dialect->largest) return sac_processor_plan_frame(c, c->tile_size, c->tile_size, 0, p, err);
    *p = (sac_visual_plan){0};
    c->dialect->largest(c, false, p);
    return SAC_OK;
}

sac_status sac_processor_usual_frame(const sac_processor_config *c, sac_visual_plan *p, sac_error *err) {
    if (!c->dialect->largest) return sac_processor_plan_frame(c, c->tile_size, c->tile_size, 0, p, err);
    *p = (sac_visual_plan){.is_video_frame = true};
    c->dialect->largest(c, true, p);
    return SAC_OK;
}

int sac_processor_most_tiles(const sac_processor_config *c) {
    int most = c->dialect->most_tiles(c);
    return most < SAC_PROCESSOR_MAX_TILES ? most : SAC_PROCESSOR_MAX_TILES;
}
