#include "tower.h"

#include <string.h>

static const sac_tower_kind *const kinds[] = {
#define X(name) &sac_tower_##name,
    SAC_TOWERS(X)
#undef X
};

const sac_tower_kind *sac_tower_find(const char *model_type) {
    for (size_t i = 0; i < SAC_COUNT(kinds); i++)
        if (strcmp(kinds[i]->model_type, model_type) == 0) return kinds[i];
    return NULL;
}

sac_tower_plan sac_tower_plan_square(const sac_tower_config *c) {
    sac_tower_plan p = {0};
    c->kind->plan(c, c->image_size, c->image_size, c->temporal_patch_size > 1 ? c->temporal_patch_size : 1, &p, NULL);
    return p;
}

sac_status sac_tower_state_take(sac_tower_state *s, const sac_tower_config *c, int max_segments,
                                sac_arena *host, sac_error *err) {
    *s = (sac_tower_state){.max_segments = max_segments, .dtype = SAC_DTYPE_F32};
    return c->kind->take(s, c, NULL, host, host, err);
}

sac_status sac_tower_state_take_device(sac_tower_state *s, const sac_tower_config *c, int max_segments,
                                       sac_dtype t, const sac_stream *stream, sac_arena *device,
                                       sac_arena *host, sac_error *err) {
    *s = (sac_tower_state){.max_segments = max_segments, .dtype = t, .on_device = true};
    return c->kind->take(s, c, stream, device, host, err);
}

void sac_grid_segments(sac_grid g, int n, int32_t *segment_start) {
    for (int i = 0; i <= n * g.t; i++) segment_start[i] = i * g.h * g.w;
}
