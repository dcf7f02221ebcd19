#include "patches.h"

#include <string.h>

/* Place of patch (y, x) among all. */
static size_t patch_row(const sac_patch_order *o, int y, int x) {
    int m = o->merge;
    int square = y / m * (o->w / m) + x / m;
    if (o->nests) {
        const int inside = (y % m / 2 * (m / 2) + x % m / 2) * 4 + y % 2 * 2 + x % 2;
        return (size_t)square * (size_t)(m * m) + (size_t)inside;
    }
    return ((size_t)square * (size_t)m + (size_t)(y % m)) * (size_t)m + (size_t)(x % m);
}

/* Where line y of patch column x stands in the rows. */
static size_t line_at(const sac_patch_order *o, int frame, int y, int x) {
    size_t patch = (size_t)o->patch, in_patch = (size_t)frame * patch + (size_t)(y % o->patch);
    return (patch_row(o, y / o->patch, x) * (size_t)o->frames * patch + in_patch) * patch * 3;
}

void sac_patches_cut(uint8_t *rows, const sac_patch_order *o, int frame, const uint8_t *rgb, int row_pixels) {
    const size_t line = (size_t)o->patch * 3;
    for (int y = 0; y < o->h * o->patch; y++)
        for (int x = 0; x < o->w; x++)
            memcpy(rows + line_at(o, frame, y, x),
                   rgb + (size_t)y * (size_t)row_pixels * 3 + (size_t)x * line, line);
}

void sac_patches_join(uint8_t *rgb, const sac_patch_order *o, int frame, const uint8_t *rows) {
    const size_t line = (size_t)o->patch * 3;
    for (int y = 0; y < o->h * o->patch; y++)
        for (int x = 0; x < o->w; x++)
            memcpy(rgb + ((size_t)y * (size_t)o->w + (size_t)x) * line, rows + line_at(o, frame, y, x), line);
}
