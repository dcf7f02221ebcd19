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

/* Where the pixels of `frame` of patch (y, x) begin in the rows. */
static size_t patch_at(const sac_patch_order *o, int frame, int y, int x) {
    const size_t area = (size_t)o->patch * (size_t)o->patch * 3;
    return (patch_row(o, y, x) * (size_t)o->frames + (size_t)frame) * area;
}

/* Lines of n_bytes, each so many bytes behind the one before it. */
static void copy_lines(uint8_t *to, size_t to_stride, const uint8_t *from, size_t from_stride, int n_lines,
                       size_t n_bytes) {
    for (int i = 0; i < n_lines; i++)
        memcpy(to + (size_t)i * to_stride, from + (size_t)i * from_stride, n_bytes);
}

void sac_patches_cut(uint8_t *rows, const sac_patch_order *o, int frame, const uint8_t *rgb, int row_pixels) {
    const size_t line = (size_t)o->patch * 3, row_bytes = (size_t)row_pixels * 3;
    for (int y = 0; y < o->h; y++)
        for (int x = 0; x < o->w; x++)
            copy_lines(rows + patch_at(o, frame, y, x), line,
                       rgb + (size_t)y * (size_t)o->patch * row_bytes + (size_t)x * line, row_bytes, o->patch,
                       line);
}

void sac_patches_join(uint8_t *rgb, const sac_patch_order *o, int frame, const uint8_t *rows) {
    const size_t line = (size_t)o->patch * 3, row_bytes = (size_t)o->w * line;
    for (int y = 0; y < o->h; y++)
        for (int x = 0; x < o->w; x++)
            copy_lines(rgb + (size_t)y * (size_t)o->patch * row_bytes + (size_t)x * line, row_bytes,
                       rows + patch_at(o, frame, y, x), line, o->patch, line);
}
