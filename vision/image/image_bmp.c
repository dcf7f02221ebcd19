/* image_bmp.c - Windows and OS/2 bitmaps.
 *
 * Read here rather than by stb_image, whose reader knows no run lengths, scales 5-bit channels otherwise than
 * Pillow (bit replication; Pillow: value * 255 / 31), and looks up indices beyond the palette in memory that
 * nobody set. */
#include "image_formats.h"

#include "bytes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { BMP_RAW = 0, BMP_RLE8 = 1, BMP_RLE4 = 2, BMP_BITFIELDS = 3 };

typedef struct bmp {
    const uint8_t *bytes;
    size_t n_bytes;
    int64_t width, height;
    bool top_down;
    uint32_t bits, compression;
    uint32_t mask[3]; /* of red, green, blue; 16 and 32 bits */
    uint64_t pixels_at;
    uint8_t palette[256][3];
} bmp;

static sac_status read_masks(bmp *b, uint32_t header_bytes, uint64_t *at, sac_error *err) {
    static const uint32_t known_16[][3] = {{0xf800, 0x7e0, 0x1f}, {0x7c00, 0x3e0, 0x1f}};
    static const uint32_t known_32[][3] = {{0xff0000, 0xff00, 0xff},
                                           {0xff000000, 0xff0000, 0xff00},
                                           {0xff000000, 0xff00, 0xff},
                                           {0xff, 0xff00, 0xff0000}};
    memcpy(b->mask, b->bits == 16 ? known_16[1] : known_32[0], sizeof b->mask);
    if (b->compression != BMP_BITFIELDS) return SAC_OK;
    /* Long headers hold the masks; behind a 40-byte one they follow. */
    uint64_t where = header_bytes >= 52 ? 54 : *at;
    if (header_bytes < 52) *at += 12;
    if (where + 12 > b->n_bytes) return sac_fail(err, SAC_BAD_FILE, "truncated in its bit masks");
    uint32_t m[3];
    for (int i = 0; i < 3; i++) m[i] = sac_le32(b->bytes + where + 4 * i);
    if (b->bits == 32 && !m[0] && !m[1] && !m[2]) return SAC_OK;
    size_t n = b->bits == 16   ? SAC_COUNT(known_16)
               : b->bits == 32 ? SAC_COUNT(known_32)
               : b->bits == 24 ? 1
                               : 0;
    for (size_t i = 0; i < n; i++)
        if (memcmp(m, b->bits == 16 ? known_16[i] : known_32[i], sizeof m) == 0) {
            memcpy(b->mask, m, sizeof m);
            return SAC_OK;
        }
    return sac_fail(err, SAC_BAD_FILE, "%u bits with masks %x %x %x", b->bits, m[0], m[1], m[2]);
}

static sac_status read_header(bmp *b, sac_error *err) {
    if (b->n_bytes < 26) return sac_fail(err, SAC_BAD_FILE, "truncated in its header");
    const uint8_t *p = b->bytes;
    uint32_t header_bytes = sac_le32(p + 14), entry_bytes = 4;
    uint64_t n_colors = 0;
    if (header_bytes != 12 && header_bytes != 40 && header_bytes != 52 && header_bytes != 56 &&
        header_bytes != 64 && header_bytes != 108 && header_bytes != 124)
        return sac_fail(err, SAC_BAD_FILE, "a header of %u bytes", header_bytes);
    if (b->n_bytes < 14 + header_bytes) return sac_fail(err, SAC_BAD_FILE, "truncated in its header");
    if (header_bytes == 12) {
        b->width = sac_le16(p + 18);
        b->height = sac_le16(p + 20);
        b->bits = sac_le16(p + 24);
        entry_bytes = 3;
    } else {
        b->width = sac_le32(p + 18);
        b->height = sac_le32(p + 22);
        b->top_down = p[25] == 0xff; /* a negative height */
        if (b->top_down) b->height = ((int64_t)1 << 32) - b->height;
        b->bits = sac_le16(p + 28);
        b->compression = sac_le32(p + 30);
        n_colors = sac_le32(p + 46);
    }
    if (b->bits != 1 && b->bits != 4 && b->bits != 8 && b->bits != 16 && b->bits != 24 && b->bits != 32)
        return sac_fail(err, SAC_BAD_FILE, "%u bits a pixel", b->bits);
    bool run_lengths = b->compression == BMP_RLE8 || b->compression == BMP_RLE4;
    if (b->compression > BMP_BITFIELDS || (run_lengths && b->bits > 8) ||
        (b->compression == BMP_BITFIELDS && b->bits < 16))
        return sac_fail(err, SAC_BAD_FILE, "compression %u with %u bits a pixel", b->compression, b->bits);
    uint64_t at = 14 + header_bytes;
    SAC_TRY(read_masks(b, header_bytes, &at, err));
    if (b->bits <= 8) {
        if (n_colors == 0) n_colors = (uint64_t)1 << b->bits;
        if (n_colors > 65536)
            return sac_fail(err, SAC_BAD_FILE, "a palette of %llu colours", (unsigned long long)n_colors);
        for (uint64_t i = 0; i < n_colors && i < 256; i++) {
            uint64_t e = at + i * entry_bytes;
            if (e + 3 > b->n_bytes) break; /* entries that nobody may use: some writers claim too many */
            for (int c = 0; c < 3; c++) b->palette[i][c] = p[e + 2 - (uint64_t)c];
        }
        at += n_colors * entry_bytes;
    }
    b->pixels_at = sac_le32(p + 10);
    /* Some writers leave the palette out of the offset. */
    if (b->pixels_at == 0 || (b->bits <= 8 && b->pixels_at == 14 + header_bytes)) b->pixels_at = at;
    return SAC_OK;
}

static unsigned shift_of(uint32_t mask) {
    return (unsigned)__builtin_ctz(mask);
}

static void unpack_row(const bmp *b, uint8_t *rgb, const uint8_t *p) {
    for (int64_t x = 0; x < b->width; x++, rgb += 3) {
        if (b->bits <= 8) {
            uint32_t per_byte = 8 / b->bits, place = (uint32_t)(x % per_byte);
            uint32_t index = (uint32_t)p[x / per_byte] >> (8 - b->bits * (place + 1)) & ((1u << b->bits) - 1);
            memcpy(rgb, b->palette[index], 3);
        } else if (b->bits == 24) {
            for (int c = 0; c < 3; c++) rgb[c] = p[x * 3 + 2 - c];
        } else {
            uint32_t v = b->bits == 16 ? sac_le16(p + x * 2) : sac_le32(p + x * 4);
            for (int c = 0; c < 3; c++) {
                uint32_t channel = (v & b->mask[c]) >> shift_of(b->mask[c]);
                uint32_t max = b->mask[c] >> shift_of(b->mask[c]);
                rgb[c] = (uint8_t)(channel * 255 / max);
            }
        }
    }
}

/* Row y of the file is row y or height - 1 - y of the picture. */
static uint8_t *picture_row(const bmp *b, sac_image *image, int64_t y) {
    int64_t row = b->top_down ? y : b->height - 1 - y;
    return image->rgb + (size_t)row * (size_t)b->width * 3;
}

static sac_status read_rows(const bmp *b, sac_image *image, sac_error *err) {
    uint64_t row_bits = (uint64_t)b->width * b->bits;
    uint64_t used_bytes = (row_bits + 7) / 8, stride = (row_bits + 31) / 32 * 4;
    uint64_t last_end;
    if (__builtin_mul_overflow(stride, (uint64_t)(b->height - 1), &last_end) ||
        __builtin_add_overflow(last_end, b->pixels_at + used_bytes, &last_end) || last_end > b->n_bytes)
        return sac_fail(err, SAC_BAD_FILE, "truncated: %zu bytes, its pixels end at %llu", b->n_bytes,
                        (unsigned long long)last_end);
    for (int64_t y = 0; y < b->height; y++)
        unpack_row(b, picture_row(b, image, y), b->bytes + b->pixels_at + (uint64_t)y * stride);
    return SAC_OK;
}

typedef struct rle {
    const uint8_t *p, *end, *start;
    uint8_t *out;
    size_t n, n_max; /* indices written, wanted */
    size_t width, x;
} rle;

static void rle_put(rle *r, uint8_t index) {
    if (r->n < r->n_max) r->out[r->n++] = index;
}

static void rle_run(rle *r, bool nibbles, unsigned count, uint8_t value) {
    if (r->x + count > r->width) count = r->x > r->width ? 0 : (unsigned)(r->width - r->x);
    for (unsigned i = 0; i < count; i++)
        rle_put(r, nibbles ? (uint8_t)(i % 2 ? value & 15 : value >> 4) : value);
    r->x += count;
}

static bool rle_literal(rle *r, bool nibbles, unsigned count) {
    size_t n_bytes = nibbles ? (count + 1) / 2 : count;
    if ((size_t)(r->end - r->p) < n_bytes) return false;
    for (unsigned i = 0; i < count; i++) {
        uint8_t v = nibbles ? r->p[i / 2] : r->p[i];
        rle_put(r, nibbles ? (uint8_t)(i % 2 ? v & 15 : v >> 4) : v);
    }
    r->x += count;
    r->p += n_bytes;
    if ((r->p - r->start) % 2) r->p++; /* literals end on 16 bits of the file */
    return r->p <= r->end;
}

static void rle_decode(rle *r, bool nibbles) {
    while (r->n < r->n_max && r->end - r->p >= 2) {
        unsigned count = r->p[0];
        uint8_t value = r->p[1];
        r->p += 2;
        if (count) {
            rle_run(r, nibbles, count, value);
        } else if (value == 0) { /* end of line */
            while (r->n % r->width) rle_put(r, 0);
            r->x = 0;
        } else if (value == 1) { /* end of picture */
            return;
        } else if (value == 2) { /* skip right and up */
            if (r->end - r->p < 2) return;
            size_t skip = r->p[0] + r->p[1] * r->width;
            r->p += 2;
            while (skip-- && r->n < r->n_max) rle_put(r, 0);
            r->x = r->n % r->width;
        } else if (!rle_literal(r, nibbles, value)) {
            return;
        }
    }
}

static sac_status read_run_lengths(bmp *b, sac_image *image, sac_error *err) {
    size_t n = (size_t)b->width * (size_t)b->height;
    if (b->pixels_at > b->n_bytes) return sac_fail(err, SAC_BAD_FILE, "truncated before its pixels");
    uint8_t *indices = malloc(n);
    if (!indices) return sac_fail(err, SAC_NO_MEMORY, "no memory for %zu palette indices", n);
    rle r = {.p = b->bytes + b->pixels_at,
             .end = b->bytes + b->n_bytes,
             .start = b->bytes,
             .out = indices,
             .n_max = n,
             .width = (size_t)b->width};
    rle_decode(&r, b->compression == BMP_RLE4);
    for (int64_t y = 0; y < b->height && r.n == n; y++)
        for (int64_t x = 0; x < b->width; x++)
            memcpy(picture_row(b, image, y) + x * 3, b->palette[indices[y * b->width + x]], 3);
    free(indices);
    if (r.n < n) return sac_fail(err, SAC_BAD_FILE, "truncated: its runs fill %zu of %zu pixels", r.n, n);
    return SAC_OK;
}

sac_status sac_decode_bmp(const sac_decode_args *a) {
    bmp b = {.bytes = a->bytes, .n_bytes = a->n_bytes};
    SAC_TRY(read_header(&b, a->err));
    SAC_TRY(sac_image_alloc(a->image, b.width, b.height, a->limits, a->err));
    return b.compression == BMP_RLE8 || b.compression == BMP_RLE4 ? read_run_lengths(&b, a->image, a->err)
                                                                  : read_rows(&b, a->image, a->err);
}
