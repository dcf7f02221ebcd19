#include "webp.h"

#include <stdbool.h>
#include <string.h>

static uint32_t le32(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}
static int le24(const uint8_t *p) {
    return p[0] | p[1] << 8 | p[2] << 16;
}
static int le14(const uint8_t *p) {
    return (p[0] | p[1] << 8) & 0x3fff;
}

static sac_status damaged(sac_error *err) {
    return sac_fail(err, SAC_BAD_FILE, "the WebP picture is damaged or cut short");
}

/* From the first bytes of the bit stream. */
static sac_status read_size(sac_webp *w, sac_error *err) {
    const uint8_t *p = w->chunk + 8;
    size_t n = w->chunk_bytes - 8;
    if (memcmp(w->chunk, "VP8L", 4) == 0) {
        if (n < 5 || p[0] != 0x2f) return damaged(err);
        uint32_t bits = le32(p + 1);
        w->width = (int)(bits & 0x3fff) + 1;
        w->height = (int)(bits >> 14 & 0x3fff) + 1;
        return SAC_OK;
    }
    bool key_frame = n >= 10 && !(p[0] & 1) && memcmp(p + 3, "\x9d\x01\x2a", 3) == 0;
    if (!key_frame) return damaged(err);
    w->width = le14(p + 6);
    w->height = le14(p + 8);
    return w->width && w->height ? SAC_OK : damaged(err);
}

typedef struct walk {
    const uint8_t *at, *end;
    int canvas_width, canvas_height; /* 0 = none stated */
} walk;

/* Walks the chunks down to the first picture, into the first frame of an animation. */
static sac_status walk_chunks(sac_webp *w, walk *k, sac_error *err) {
    bool in_frame = false;
    while (k->end - k->at >= 8) {
        const uint8_t *chunk = k->at, *body = chunk + 8;
        size_t n = le32(chunk + 4), left = (size_t)(k->end - body);
        if (n > left) return damaged(err);
        if (memcmp(chunk, "VP8 ", 4) == 0 || memcmp(chunk, "VP8L", 4) == 0) {
            w->chunk = chunk;
            w->chunk_bytes = n + 8;
            return read_size(w, err);
        }
        k->at = body + n + (n < left ? n & 1 : 0);
        if (memcmp(chunk, "VP8X", 4) == 0 && n >= 10) {
            k->canvas_width = le24(body + 4) + 1;
            k->canvas_height = le24(body + 7) + 1;
        } else if (memcmp(chunk, "ANMF", 4) == 0 && !in_frame) {
            if (n < 16) return damaged(err);
            in_frame = true; /* x, y, width, height, duration and flags, then the frame's own chunks */
            k->at = body + 16;
            k->end = body + n;
        }
    }
    return damaged(err);
}

sac_status sac_webp_find(sac_webp *w, const uint8_t *bytes, size_t n_bytes, sac_error *err) {
    memset(w, 0, sizeof *w);
    if (n_bytes < 12 || memcmp(bytes, "RIFF", 4) != 0 || memcmp(bytes + 8, "WEBP", 4) != 0)
        return sac_fail(err, SAC_BAD_FILE, "not a WebP picture");
    walk k = {bytes + 12, bytes + n_bytes, 0, 0};
    SAC_TRY(walk_chunks(w, &k, err));
    if (k.canvas_width && (k.canvas_width != w->width || k.canvas_height != w->height))
        return sac_fail(
            err, SAC_UNSUPPORTED,
            "the WebP picture of %d x %d covers a part of its canvas of %d x %d: convert it to PNG", w->width,
            w->height, k.canvas_width, k.canvas_height);
    return SAC_OK;
}

size_t sac_webp_file_bytes(const sac_webp *w) {
    return w->chunk_bytes + 12 + (w->chunk_bytes & 1);
}

void sac_webp_write_file(const sac_webp *w, uint8_t *file) {
    uint32_t n = (uint32_t)(w->chunk_bytes + 4 + (w->chunk_bytes & 1));
    memcpy(file, "RIFF....WEBP", 12);
    for (int i = 0; i < 4; i++) file[4 + i] = (uint8_t)(n >> (8 * i));
    memcpy(file + 12, w->chunk, w->chunk_bytes);
    if (w->chunk_bytes & 1)
        file[12 + w->chunk_bytes] = 0; /* libavcodec passes over an odd chunk that is not padded */
}
