/* tile_grid.c - InternVL's tiles: the grid that a picture is squeezed into, and its patch rows. */
#include "dialect.h"

#include <math.h>
#include <stdlib.h>

void sac_tile_grid_choose(const sac_processor_config *c, int min_tiles, int max_tiles, sac_visual_plan *p) {
    const double shape = (double)p->width / p->height, area = (double)p->width * p->height,
                 half = 0.5 * c->tile_size * c->tile_size;
    double least = INFINITY;
    p->tiles_w = p->tiles_h = 1; /* where no grid is allowed */
    for (int n = min_tiles; n <= max_tiles; n++)
        for (int w = 1; w <= n; w++) {
            if (n % w) continue;
            int h = n / w;
            double difference = fabs(shape - (double)w / h);
            if (difference > least || (difference == least && !(area > half * n))) continue;
            least = difference;
            p->tiles_w = w;
            p->tiles_h = h;
        }
}

sac_status sac_tile_grid_draw(const sac_processor_config *c, const sac_image *image, const sac_visual_plan *p, int w,
                              int h, sac_resize_arithmetic arithmetic, uint8_t *rows, sac_error *err) {
    const sac_patch_order order = sac_visual_order(p);
    const int size = c->tile_size, width = w * size;
    uint8_t *pixels = malloc((size_t)width * (size_t)(h * size) * 3);
    if (!pixels) return sac_fail(err, SAC_NO_MEMORY, "no memory for %d tiles", w * h);
    sac_status st = sac_resize(pixels, width, h * size, image->rgb, image->width, image->height, c->filter,
                               arithmetic, err);
    for (int i = 0; i < w * h && st == SAC_OK; i++) {
        const size_t x = (size_t)(i % w * size), y = (size_t)(i / w * size);
        sac_patches_cut(rows + sac_visual_bytes(p, i), &order, 0, pixels + (y * (size_t)width + x) * 3,
                        width);
    }
    free(pixels);
    return st;
}
