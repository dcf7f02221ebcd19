/* frame_pixels.h - what is done to decoded pixels besides libswscale: turning a frame upright, and WebP's own
 * conversion to RGB. */
#ifndef SAC_FRAME_PIXELS_H
#define SAC_FRAME_PIXELS_H

#include <stdbool.h>
#include <stdint.h>

/* One of the eight ways to lay a picture: rows and columns swapped first, then either axis reversed. */
typedef struct sac_turn {
    bool transpose;      /* width and height change places */
    bool flip_x, flip_y; /* of the result */
} sac_turn;

/* From a display matrix as MP4 and libavutil store it (16.16 fixed point, [a b u; c d v; x y w], x' = a x + c
 * y, y' = b x + d y). Angles between the right ones go to the nearer; a matrix without area is no turn. */
sac_turn sac_turn_from_matrix(const int32_t matrix[9]);

/* The turn as a mirroring of left and right (when *mirrored) followed by a rotation of 0, 90, 180 or 270
 * degrees clockwise. */
int sac_turn_degrees(sac_turn turn, bool *mirrored);
bool sac_turn_is_none(sac_turn turn);

/* src [height][width][3] -> dst of the same size in bytes, [width][height][3] when transposed. No overlap. */
void sac_turn_rgb(uint8_t *dst, const uint8_t *src, int width, int height, sac_turn turn);

/* 4:2:0 planes to dst [height][width][3] exactly as libwebp does ("fancy" bilinear chroma, BT.601 limited
 * range in its 14-bit arithmetic), which is what Pillow shows. Chroma planes are (width + 1) / 2 by (height +
 * 1) / 2; strides in bytes. */
void sac_webp_yuv_to_rgb(uint8_t *dst, const uint8_t *y, int64_t y_stride, const uint8_t *u, const uint8_t *v,
                         int64_t uv_stride, int width, int height);

#endif
