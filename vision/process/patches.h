/* patches.h - pixels of a picture in the order in which the patch embedding reads them, and back. */
#ifndef SAC_VISION_PATCHES_H
#define SAC_VISION_PATCHES_H

#include "grid.h"

#include <stddef.h>

/* rows [h * w][patch * patch][3] from the rgb of a picture that is row_pixels wide. What the grid does not cover
 * at the right and at the bottom is left out, as a convolution without padding does. */
void sac_patches_cut(uint8_t *rows, const uint8_t *rgb, int row_pixels, int patch, int h, int w);

/* rgb [h * patch][w * patch][3] of what the rows hold. */
void sac_patches_join(uint8_t *rgb, const uint8_t *rows, int patch, int h, int w);

#endif
