/* grid.h - a block of patches or tokens: steps of time, rows, columns, the last running fastest. */
#ifndef SAC_BASE_GRID_H
#define SAC_BASE_GRID_H

#include <stdbool.h>
#include <stdint.h>

typedef struct sac_grid {
    int32_t t, h, w;
} sac_grid;

static inline int64_t sac_grid_cells(sac_grid g) {
    return (int64_t)g.t * g.h * g.w;
}


/* n pictures one behind another, the first with a grid of its own, the others alike; n 0: there are none. */
typedef struct sac_crops {
    int32_t n;
    sac_grid first, rest;
} sac_crops;

static inline sac_grid sac_crop(const sac_crops *c, int i) {
    return i ? c->rest : c->first;
}
/* Cells of those before crop i. */
static inline int64_t sac_crops_before(const sac_crops *c, int64_t i) {
    return i ? sac_grid_cells(c->first) + (i - 1) * sac_grid_cells(c->rest) : 0;
}
static inline bool sac_crops_equal(const sac_crops *a, const sac_crops *b) {
    return a->n == b->n && a->first.h == b->first.h && a->first.w == b->first.w &&
           (a->n < 2 || (a->rest.h == b->rest.h && a->rest.w == b->rest.w));
}

#endif
