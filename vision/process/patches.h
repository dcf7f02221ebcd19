/* patches.h - pixels of a picture in the order in which the patch embedding reads them, and back. */
#ifndef SAC_VISION_PATCHES_H
#define SAC_VISION_PATCHES_H

#include "grid.h"

#include <stdbool.h>
#include <stddef.h>

/* How the patches of a picture follow one another. */
typedef struct sac_patch_order {
    int patch; /* pixels a side */
    int h, w;  /* patches */
    int merge; /* patches of a square of merge x merge stand together, row by row, and squares row by row: what a
                   merger joins is then one row behind another (Qwen2-VL); 1: patches row by row */
    int frames; /* pictures that share a patch, whose pixels stand one behind another in its row */
    bool nests; /* in a square, too, patches stand in squares of 2 x 2 (MiniCPM-V) */
} sac_patch_order;

/* Pixels of `frame` into rows [h * w][frames][patch * patch][3] from the rgb of a picture that is row_pixels wide.
 * What the grid does not cover at the right and at the bottom is left out, as a convolution without padding does. */
void sac_patches_cut(uint8_t *rows, const sac_patch_order *order, int frame, const uint8_t *rgb,
                     int row_pixels);

/* rgb [h * patch][w * patch][3] of what the rows hold of `frame`. */
void sac_patches_join(uint8_t *rgb, const sac_patch_order *order, int frame, const uint8_t *rows);

#endif
