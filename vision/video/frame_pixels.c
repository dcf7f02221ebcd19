#include "frame_pixels.h"

#include <stdlib.h>
#include <string.h>

static int64_t size_of(int32_t v) {
    return v < 0 ? -(int64_t)v : v;
}

sac_turn sac_turn_from_matrix(const int32_t m[9]) {
    int32_t a = m[0], b = m[1], c = m[3], d = m[4];
    if (size_of(a) + size_of(d) >= size_of(b) + size_of(c)) {
        if (!a || !d) return (sac_turn){false, false, false};
        return (sac_turn){false, a < 0, d < 0};
    }
    if (!b || !c) return (sac_turn){false, false, false};
    return (sac_turn){true, c < 0, b < 0};
}

int sac_turn_degrees(sac_turn turn, bool *mirrored) {
    *mirrored = (turn.flip_x != turn.flip_y) != turn.transpose;
    if (!turn.transpose) return turn.flip_y ? 180 : 0;
    return turn.flip_x ? 90 : 270;
}

bool sac_turn_is_none(sac_turn turn) {
    return !turn.transpose && !turn.flip_x && !turn.flip_y;
}

void sac_turn_rgb(uint8_t *dst, const uint8_t *src, int width, int height, sac_turn turn) {
    int out_width = turn.transpose ? height : width, out_height = turn.transpose ? width : height;
    for (int y = 0; y < out_height; y++) {
        for (int x = 0; x < out_width; x++) {
            int across = turn.flip_x ? out_width - 1 - x : x, down = turn.flip_y ? out_height - 1 - y : y;
            int64_t from = turn.transpose ? (int64_t)across * width + down : (int64_t)down * width + across;
            memcpy(dst + ((int64_t)y * out_width + x) * 3, src + from * 3, 3);
        }
    }
}

/* Chroma between samples: 9/16 of the nearest, 3/16 of the next on each axis, 1/16 of the one across. At the
 * edges the neighbour is the sample itself. */
static int chroma_at(const uint8_t *near_row, const uint8_t *far_row, int near_x, int far_x) {
    return (9 * near_row[near_x] + 3 * near_row[far_x] + 3 * far_row[near_x] + far_row[far_x] + 8) >> 4;
}

static uint8_t clip(int v) { /* 8 bits above 6 of fraction */
    return (uint8_t)(v < 0 ? 0 : v >= 256 << 6 ? 255 : v >> 6);
}

static int neighbour(int i, int half, int n) { /* the chroma sample on the other side of luma position i */
    int k = (i & 1) ? half + 1 : half - 1;
    return k < 0 ? 0 : k >= n ? n - 1 : k;
}

void sac_webp_yuv_to_rgb(uint8_t *dst, const uint8_t *y, int64_t y_stride, const uint8_t *u, const uint8_t *v,
                         int64_t uv_stride, int width, int height) {
    int half_width = (width + 1) / 2, half_height = (height + 1) / 2;
    for (int row = 0; row < height; row++) {
        int64_t near_row = (int64_t)(row / 2) * uv_stride,
                far_row = neighbour(row, row / 2, half_height) * uv_stride;
        const uint8_t *luma = y + row * y_stride;
        for (int x = 0; x < width; x++, dst += 3) {
            int near_x = x / 2, far_x = neighbour(x, x / 2, half_width);
            int cb = chroma_at(u + near_row, u + far_row, near_x, far_x);
            int cr = chroma_at(v + near_row, v + far_row, near_x, far_x);
            int bright = (luma[x] * 19077) >> 8; /* 255/219 in 14 bits, 6 of them kept */
            dst[0] = clip(bright + ((cr * 26149) >> 8) - 14234);
            dst[1] = clip(bright - ((cb * 6419) >> 8) - ((cr * 13320) >> 8) + 8708);
            dst[2] = clip(bright + ((cb * 33050) >> 8) - 17685);
        }
    }
}
