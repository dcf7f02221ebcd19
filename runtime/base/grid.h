/* grid.h - a block of patches or tokens: steps of time, rows, columns, the last running fastest. */
#ifndef SAC_BASE_GRID_H
#define SAC_BASE_GRID_H

#include <stdint.h>

typedef struct sac_grid {
    int32_t t, h, w;
} sac_grid;

static inline int64_t sac_grid_cells(sac_grid g) {
    return (int64_t)g.t * g.h * g.w;
}

#endif
