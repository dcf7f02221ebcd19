#include "image_stb.h"

#include <limits.h>
#include <stdlib.h>

/* The limit of the call in progress on this thread: stb's hooks carry no context. */
static _Thread_local size_t max_block_bytes;

static void *stb_alloc(size_t n_bytes) {
    return n_bytes <= max_block_bytes ? malloc(n_bytes) : NULL;
}
static void *stb_realloc(void *p, size_t n_bytes) {
    return n_bytes <= max_block_bytes ? realloc(p, n_bytes) : NULL;
}

#define STBI_MALLOC(n)     stb_alloc(n)
#define STBI_REALLOC(p, n) stb_realloc(p, n)
#define STBI_FREE(p)       free(p)
#define STB_IMAGE_IMPLEMENTATION
#define STB_IMAGE_STATIC
#define STBI_ONLY_PNG
#ifndef SAC_TURBOJPEG
#define STBI_ONLY_JPEG
#endif
#define STBI_NO_STDIO
#define STBI_NO_LINEAR
#define STBI_NO_HDR
#define STBI_ASSERT(x) ((void)0)
#pragma GCC diagnostic ignored "-Wunused-function" /* most of stb_image, static here */
#include <stb/stb_image.h>

void *sac_stb_decode(const uint8_t *bytes, size_t n_bytes, int n_channels, bool wide, size_t max_block,
                     int *width, int *height, const char **reason) {
    *reason = "too long";
    if (n_bytes > INT_MAX) return NULL;
    max_block_bytes = max_block;
    int stored_channels;
    void *out = wide ? (void *)stbi_load_16_from_memory(bytes, (int)n_bytes, width, height, &stored_channels,
                                                        n_channels)
                     : (void *)stbi_load_from_memory(bytes, (int)n_bytes, width, height, &stored_channels,
                                                     n_channels);
    if (!out) *reason = stbi_failure_reason();
    return out;
}

uint8_t *sac_stb_inflate(const uint8_t *bytes, size_t n_bytes, size_t max_bytes, size_t *n_out) {
    if (n_bytes > INT_MAX) return NULL;
    max_block_bytes = max_bytes;
    int n = 0;
    size_t guess = max_bytes < 16384 ? max_bytes : 16384;
    char *out = stbi_zlib_decode_malloc_guesssize((const char *)bytes, (int)n_bytes, (int)guess, &n);
    *n_out = (size_t)n;
    return (uint8_t *)out;
}
