/* jpeg_write.h - pixels to JPEG, for drawings that carry pictures. */
#ifndef APP_JPEG_WRITE_H
#define APP_JPEG_WRITE_H

#include <stdbool.h>
#include <stdint.h>

/* rgb [height][width][3]; `put` gets the bytes in pieces; quality 1 to 100. */
bool jpeg_write(void (*put)(void *ctx, void *bytes, int n), void *ctx, int width, int height,
                const uint8_t *rgb, int quality);

#endif
