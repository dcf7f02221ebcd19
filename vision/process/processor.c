#include "dialect.h"

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

sac_status sac_processor_plan(const sac_processor_config *c, int width, int height, bool is_video_frame,
                              sac_visual_plan *p, sac_error *err) {
    if (width < 1 || height < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels", width, height);
    *p = (sac_visual_plan){.width = width, .height = height, .is_video_frame = is_video_frame};
    SAC_TRY(c->dialect->plan(c, p, err));
    int64_t n_rows = (int64_t)p->n_tiles * p->tokens_per_tile;
    int64_t max_tokens = c->max_tokens < INT32_MAX ? c->max_tokens : INT32_MAX;
    if (p->n_tokens <= max_tokens && n_rows <= INT32_MAX) return SAC_OK;
    return sac_fail(err, SAC_TOO_LONG,
                    "a picture of %d x %d pixels takes %lld tokens, more than the %lld allowed", width,
                    height, (long long)p->n_tokens, (long long)max_tokens);
}

sac_status sac_processor_cut(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p,
                             uint8_t *rows, sac_error *err) {
    if (image->width != p->width || image->height != p->height)
        return sac_fail(err, SAC_BAD_ARGUMENT, "a picture of %d x %d pixels with a plan for %d x %d",
                        image->width, image->height, p->width, p->height);
    return c->dialect->cut(c, image, p, rows, err);
}

void sac_processor_layout(const sac_processor_config *c, const sac_visual_plan *p, int32_t *source) {
    c->dialect->layout(p, source);
}

int sac_processor_most_tiles(const sac_processor_config *c) {
    int most = c->dialect->most_tiles(c);
    return most < SAC_PROCESSOR_MAX_TILES ? most : SAC_PROCESSOR_MAX_TILES;
}
