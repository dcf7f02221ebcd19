/* image_alloc.c - sizes that are allowed, and the memory of a picture. */
#include "image.h"

#include "image_formats.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

sac_image_limits sac_image_limits_default(void) {
    return (sac_image_limits){.max_bytes = (int64_t)256 << 20, .max_pixels = 178956970};
}

sac_status sac_image_check_size(int64_t width, int64_t height, const sac_image_limits *limits,
                                sac_error *err) {
    sac_image_limits standard = sac_image_limits_default();
    if (!limits) limits = &standard;
    int64_t n_pixels;
    if (width <= 0 || height <= 0)
        return sac_fail(err, SAC_BAD_FILE, "a picture of %lld x %lld pixels", (long long)width,
                        (long long)height);
    if (width > INT_MAX / 3 || height > INT_MAX / 3 || __builtin_mul_overflow(width, height, &n_pixels) ||
        n_pixels > limits->max_pixels)
        return sac_fail(err, SAC_BAD_FILE, "the header claims %lld x %lld pixels, more than the %lld allowed",
                        (long long)width, (long long)height, (long long)limits->max_pixels);
    return SAC_OK;
}

sac_status sac_image_alloc(sac_image *out, int64_t width, int64_t height, const sac_image_limits *limits,
                           sac_error *err) {
    *out = (sac_image){0};
    SAC_TRY(sac_image_check_size(width, height, limits, err));
    uint8_t *rgb = malloc((size_t)width * (size_t)height * 3);
    if (!rgb)
        return sac_fail(err, SAC_NO_MEMORY, "no memory for a picture of %d x %d pixels", (int)width,
                        (int)height);
    *out = (sac_image){rgb, (int)width, (int)height};
    return SAC_OK;
}

void sac_image_free(sac_image *image) {
    free(image->rgb);
    *image = (sac_image){0};
}

void sac_image_apply_palette(sac_image *image, const uint8_t *indices, uint8_t palette[256][3]) {
    size_t n = (size_t)image->width * (size_t)image->height;
    for (size_t i = 0; i < n; i++) memcpy(image->rgb + i * 3, palette[indices[i]], 3);
}
