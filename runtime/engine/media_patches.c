#include "media.h"

#include <string.h>

sac_patch_rows sac_media_patch_rows(const sac_session *s, const sac_media *m, const uint8_t *pixels, int n) {
    const sac_processor_config *p = &s->model->loaded.processor;
    sac_patch_rows rows = {.pixels = pixels,
                           .segment_start = s->vision.segment_start,
                           .n_segments = n * m->tower.n_segments,
                           .grid = {1, m->plan.patches.h, m->plan.patches.w},
                           .crops = m->plan.crops};
    sac_grid_segments(m->plan.patches, n, s->vision.segment_start);
    memcpy(rows.mean, p->mean, sizeof rows.mean);
    memcpy(rows.std, p->std, sizeof rows.std);
    return rows;
}
