/* image_stb.h - the only user of stb_image: PNG pixels, zlib text, and JPEG in
 * builds without libjpeg-turbo. */
#ifndef SAC_VISION_IMAGE_STB_H
#define SAC_VISION_IMAGE_STB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [height][width][n_channels] samples of 8 bits (or 16, native order, when wide), to be given to free(); NULL
 * with *reason on failure. No single block above max_block bytes is taken: stb inflates a stream to its end,
 * however small the picture. */
void *sac_stb_decode(const uint8_t *bytes, size_t n_bytes, int n_channels, bool wide, size_t max_block,
                     int *width, int *height, const char **reason);

/* A zlib stream's content, at most max_bytes of it; NULL when it is damaged or longer. free() it. */
uint8_t *sac_stb_inflate(const uint8_t *bytes, size_t n_bytes, size_t max_bytes, size_t *n_out);

#endif
