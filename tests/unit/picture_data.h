/* picture_data.h - pictures that tools/make_image_goldens.py draws too, and the checksum of its goldens. */
#ifndef SAC_PICTURE_DATA_H
#define SAC_PICTURE_DATA_H

#include "test.h"

/* [height][width][3]: noise (0), noise of 0 and 255 only (1), slopes (2). */
static inline uint8_t *picture_new(int kind, int width, int height, uint64_t seed) {
    size_t n = (size_t)width * (size_t)height * 3;
    uint8_t *p = malloc(n); /* exact, so that ASan sees a read behind it */
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        uint64_t pixel = i / 3, x = pixel % (uint64_t)width, y = pixel / (uint64_t)width;
        uint64_t v = kind == 2 ? (x * 7 + y * 13 + i % 3 * 29) & 255 : test_rand(&seed) >> 56;
        p[i] = (uint8_t)(kind == 1 ? (v >> 7) * 255 : v);
    }
    return p;
}

/* The CRC-32 of zlib and PNG. */
static inline uint32_t crc32_of(const void *data, size_t n_bytes) {
    const uint8_t *p = data;
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n_bytes; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

#endif
