#include "patches.h"

#include <string.h>

void sac_patches_cut(uint8_t *rows, const uint8_t *rgb, int row_pixels, int patch, int h, int w) {
    const size_t line = (size_t)patch * 3;
    for (int y = 0; y < h * patch; y++)
        for (int x = 0; x < w; x++) {
            size_t row = (size_t)(y / patch) * (size_t)w + (size_t)x;
            memcpy(rows + (row * (size_t)patch + (size_t)(y % patch)) * line,
                   rgb + (size_t)y * (size_t)row_pixels * 3 + (size_t)x * line, line);
        }
}

void sac_patches_join(uint8_t *rgb, const uint8_t *rows, int patch, int h, int w) {
    const size_t line = (size_t)patch * 3;
    for (int y = 0; y < h * patch; y++)
        for (int x = 0; x < w; x++) {
            size_t row = (size_t)(y / patch) * (size_t)w + (size_t)x;
            memcpy(rgb + ((size_t)y * (size_t)w + (size_t)x) * line,
                   rows + (row * (size_t)patch + (size_t)(y % patch)) * line, line);
        }
}
