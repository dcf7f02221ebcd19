/* Built without UBSan's check of shifts: stb's bit buffer shifts bits out of an int on purpose
 * (CMakeLists.txt). */
#include "jpeg_write.h"

#define STB_IMAGE_WRITE_IMPLEMENTATION
#define STB_IMAGE_WRITE_STATIC
#define STBI_WRITE_NO_STDIO
#pragma GCC diagnostic ignored "-Wunused-function" /* it writes other formats too */
#include <stb/stb_image_write.h>

bool jpeg_write(void (*put)(void *ctx, void *bytes, int n), void *ctx, int width, int height,
                const uint8_t *rgb, int quality) {
    return stbi_write_jpg_to_func(put, ctx, width, height, 3, rgb, quality) != 0;
}
