/* image_png.c - PNG: chunks are read and checked here, pixels by stb_image.
 *
 * stb checks no checksums, blends the transparent colour into indices, and looks up indices beyond a short
 * palette in memory that nobody set. So it is handed a file of our making: header, a palette of 256 entries,
 * the image data, the end. Checksums are verified here, of the image data too, where Pillow looks at zlib's
 * instead. */
#include "image_formats.h"

#include "bytes.h"
#include "exif.h"
#include "image_stb.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TEXT_BYTES ((size_t)1 << 20) /* of metadata after inflation */

typedef struct chunk {
    char type[5];
    const uint8_t *data;
    size_t n_bytes; /* of data that is there */
    bool whole;     /* and all of it is, with its checksum */
} chunk;

typedef struct png {
    const uint8_t *header; /* IHDR's 13 bytes */
    int64_t width, height;
    int depth, color;
    const uint8_t *palette; /* PLTE */
    size_t palette_bytes;
    size_t data_at, data_end; /* from the first IDAT's header to behind the last */
    size_t n_data_bytes;      /* in those chunks */
    bool whole;               /* the file goes on to an IEND */
    int exif, raw_exif, xmp;  /* orientations found, by rank */
    uint32_t crc_table[256];
} png;

enum { PNG_GREY = 0, PNG_RGB = 2, PNG_PALETTE = 3, PNG_GREY_ALPHA = 4, PNG_RGBA = 6 };

static void crc_table_fill(uint32_t table[256]) {
    for (uint32_t i = 0; i < 256; i++) {
        table[i] = i;
        for (int bit = 0; bit < 8; bit++) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xedb88320 : 0);
    }
}

/* The chunk at *at; moves *at behind it. False where there is none. */
static bool next_chunk(const sac_decode_args *a, size_t *at, chunk *c) {
    if (a->n_bytes - *at < 8) return false;
    const uint8_t *p = a->bytes + *at;
    size_t n = sac_be32(p), there = a->n_bytes - *at - 8;
    memcpy(c->type, p + 4, 4);
    c->type[4] = 0;
    for (int i = 0; i < 4; i++) {
        bool letter = (p[4 + i] | 32) >= 'a' && (p[4 + i] | 32) <= 'z';
        if (!letter && !(p[4 + i] >= '0' && p[4 + i] <= '9') && p[4 + i] != '_') return false;
    }
    c->data = p + 8;
    c->whole = n <= there && there - n >= 4;
    c->n_bytes = n <= there ? n : there;
    *at = c->whole ? *at + 12 + n : a->n_bytes;
    return true;
}

static bool checksum_ok(const png *g, const chunk *c) {
    if (!c->whole) return false;
    uint32_t crc = 0xffffffff;
    for (const uint8_t *p = c->data - 4; p < c->data + c->n_bytes; p++)
        crc = g->crc_table[(crc ^ *p) & 255] ^ crc >> 8;
    return ~crc == sac_be32(c->data + c->n_bytes);
}

static sac_status read_header(png *g, const chunk *c, sac_error *err) {
    if (c->n_bytes < 13) return sac_fail(err, SAC_BAD_FILE, "a header of %zu bytes", c->n_bytes);
    g->header = c->data;
    g->width = sac_be32(c->data);
    g->height = sac_be32(c->data + 4);
    g->depth = c->data[8];
    g->color = c->data[9];
    bool deep = g->depth == 8 || g->depth == 16, shallow = g->depth == 1 || g->depth == 2 || g->depth == 4;
    bool ok = g->color == PNG_GREY ? deep || shallow
              : g->color == PNG_PALETTE
                  ? g->depth == 8 || shallow
                  : deep && (g->color == PNG_RGB || g->color == PNG_GREY_ALPHA || g->color == PNG_RGBA);
    if (!ok) return sac_fail(err, SAC_BAD_FILE, "depth %d with colour type %d", g->depth, g->color);
    return SAC_OK;
}

/* ImageMagick's "Raw profile type exif": lines of hexadecimal behind three lines of title. */
static int raw_profile_orientation(const uint8_t *text, size_t n) {
    uint8_t *block = malloc(n / 2 + 1);
    if (!block) return 0;
    size_t n_block = 0;
    int n_lines = 0, high = -1;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') n_lines++;
        if (n_lines < 3) continue;
        int digit = text[i] >= '0' && text[i] <= '9'   ? text[i] - '0'
                    : text[i] >= 'a' && text[i] <= 'f' ? text[i] - 'a' + 10
                                                       : -1;
        if (digit < 0) continue;
        if (high < 0) {
            high = digit;
        } else {
            block[n_block++] = (uint8_t)(high << 4 | digit);
            high = -1;
        }
    }
    int orientation = sac_exif_orientation(block, n_block);
    free(block);
    return orientation;
}

static void read_text_value(png *g, const char *key, const uint8_t *value, size_t n, bool compressed) {
    bool xmp = strcmp(key, "XML:com.adobe.xmp") == 0, raw = strcmp(key, "Raw profile type exif") == 0;
    if (!xmp && !raw) return;
    uint8_t *inflated = compressed ? sac_stb_inflate(value, n, MAX_TEXT_BYTES, &n) : NULL;
    if (compressed && !inflated) return;
    if (inflated) value = inflated;
    if (xmp) g->xmp = sac_xmp_orientation(value, n);
    if (raw) g->raw_exif = raw_profile_orientation(value, n);
    free(inflated);
}

/* tEXt: key 0 value. zTXt: key 0 method value. iTXt: key 0 compressed method language 0 key 0 value. */
static void read_text(png *g, const chunk *c) {
    const uint8_t *zero = c->n_bytes ? memchr(c->data, 0, c->n_bytes) : NULL;
    if (!zero) return;
    const uint8_t *p = zero + 1, *end = c->data + c->n_bytes;
    bool compressed = c->type[0] == 'z';
    if (compressed) {
        if (p == end || *p++ != 0) return;
    } else if (c->type[0] == 'i') {
        if (end - p < 2) return;
        compressed = p[0] != 0;
        p += 2;
        for (int i = 0; i < 2; i++) {
            zero = p < end ? memchr(p, 0, (size_t)(end - p)) : NULL;
            if (!zero) return;
            p = zero + 1;
        }
    }
    read_text_value(g, (const char *)c->data, p, (size_t)(end - p), compressed);
}

static void read_metadata(png *g, const chunk *c) {
    if (strcmp(c->type, "eXIf") == 0)
        g->exif = sac_exif_orientation(c->data, c->n_bytes);
    else if (strcmp(c->type, "tEXt") == 0 || strcmp(c->type, "zTXt") == 0 || strcmp(c->type, "iTXt") == 0)
        read_text(g, c);
}

static sac_status read_until_data(const sac_decode_args *a, png *g, size_t *at) {
    chunk c;
    for (;;) {
        size_t start = *at;
        if (!next_chunk(a, at, &c))
            return sac_fail(a->err, SAC_BAD_FILE, "truncated or damaged before its image data, at byte %zu",
                            start);
        if (strcmp(c.type, "IDAT") == 0) {
            *at = start;
            g->data_at = start;
            break;
        }
        if (strcmp(c.type, "IEND") == 0) return sac_fail(a->err, SAC_BAD_FILE, "it has no image data");
        if (!checksum_ok(g, &c))
            return sac_fail(a->err, SAC_BAD_FILE, "damaged: wrong checksum of chunk %s at byte %zu", c.type,
                            start);
        if (strcmp(c.type, "IHDR") == 0)
            SAC_TRY(read_header(g, &c, a->err));
        else if (strcmp(c.type, "PLTE") == 0) {
            g->palette = c.data;
            g->palette_bytes = c.n_bytes;
        } else
            read_metadata(g, &c);
    }
    if (!g->header) return sac_fail(a->err, SAC_BAD_FILE, "image data before the header");
    if (g->palette_bytes > 768)
        return sac_fail(a->err, SAC_BAD_FILE, "a palette of %zu bytes, more than 768", g->palette_bytes);
    return sac_image_check_size(g->width, g->height, a->limits, a->err);
}

static sac_status read_data_and_rest(const sac_decode_args *a, png *g, size_t at) {
    chunk c;
    size_t start = at;
    while (next_chunk(a, &at, &c) && strcmp(c.type, "IDAT") == 0) {
        if (c.whole && !checksum_ok(g, &c))
            return sac_fail(a->err, SAC_BAD_FILE, "damaged: wrong checksum of the image data at byte %zu",
                            start);
        g->n_data_bytes += c.n_bytes;
        start = at;
    }
    g->data_end = start;
    for (at = start; !g->whole && next_chunk(a, &at, &c);) {
        if (strcmp(c.type, "IEND") == 0)
            g->whole = true;
        else if (c.whole)
            read_metadata(g, &c);
    }
    return SAC_OK;
}

static uint8_t *put_chunk(uint8_t *p, const char *type, const uint8_t *data, size_t n) {
    uint8_t size[4] = {(uint8_t)(n >> 24), (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    memcpy(p, size, 4);
    memcpy(p + 4, type, 4);
    if (n) memcpy(p + 8, data, n);
    memset(p + 8 + n, 0, 4); /* stb does not look at checksums */
    return p + 12 + n;
}

/* The file for stb. The data ends in n_tail bytes of value `tail`. */
static uint8_t *rebuild(const sac_decode_args *a, const png *g, size_t n_tail, int tail, size_t *n_out) {
    size_t n_data = g->n_data_bytes + n_tail;
    uint8_t *file = malloc(8 + 25 + 12 + 768 + 12 + n_data + 12);
    if (!file) return NULL;
    memcpy(file, a->bytes, 8);
    uint8_t *p = put_chunk(file + 8, "IHDR", g->header, 13);
    p[-5] = p[-5] != 0; /* interlaced: Pillow takes any value but 0 for yes */
    if (g->color == PNG_PALETTE) {
        uint8_t palette[768] = {0};
        if (g->palette_bytes) memcpy(palette, g->palette, g->palette_bytes);
        p = put_chunk(p, "PLTE", palette, sizeof palette);
    }
    uint8_t *data_chunk = p;
    p = put_chunk(p, "IDAT", NULL, 0) - 4;
    chunk c;
    for (size_t at = g->data_at; at < g->data_end && next_chunk(a, &at, &c); p += c.n_bytes)
        memcpy(p, c.data, c.n_bytes);
    memset(p, tail, n_tail);
    memset(p + n_tail, 0, 4);
    p += n_tail + 4;
    uint8_t size[4] = {(uint8_t)(n_data >> 24), (uint8_t)(n_data >> 16), (uint8_t)(n_data >> 8),
                       (uint8_t)n_data};
    memcpy(data_chunk, size, 4);
    p = put_chunk(p, "IEND", NULL, 0);
    *n_out = (size_t)(p - file);
    return file;
}

static void *decode_once(const sac_decode_args *a, const png *g, size_t n_tail, int tail,
                         const char **reason) {
    bool wide = g->color == PNG_GREY && g->depth == 16;
    size_t max_block = ((size_t)g->width * 8 + 8) * (size_t)g->height * 2 + ((size_t)1 << 20), n;
    uint8_t *file = rebuild(a, g, n_tail, tail, &n);
    *reason = "no memory";
    if (!file) return NULL;
    int w, h;
    void *out = sac_stb_decode(file, n, wide ? 1 : 3, wide, max_block, &w, &h, reason);
    free(file);
    return out;
}

/* A file that ends early may still hold every pixel. stb reads on past the end of the data, so such a file is
 * decoded twice, with different bytes appended: what depends on them was not in the file. */
static void *decode_truncated(const sac_decode_args *a, const png *g, const char **reason) {
    void *one = decode_once(a, g, 8, 0x00, reason), *two = one ? decode_once(a, g, 8, 0xff, reason) : NULL;
    size_t n = (size_t)g->width * (size_t)g->height * (g->color == PNG_GREY && g->depth == 16 ? 2 : 3);
    bool same = one && two && memcmp(one, two, n) == 0;
    free(two);
    if (same) return one;
    free(one);
    *reason = "truncated";
    return NULL;
}

sac_status sac_decode_png(const sac_decode_args *a) {
    png g = {0};
    size_t at = 8;
    crc_table_fill(g.crc_table);
    SAC_TRY(read_until_data(a, &g, &at));
    SAC_TRY(read_data_and_rest(a, &g, at));
    const char *reason;
    void *samples = g.whole ? decode_once(a, &g, 0, 0, &reason) : decode_truncated(a, &g, &reason);
    if (!samples) return sac_fail(a->err, SAC_BAD_FILE, "damaged image data: %s", reason);
    if (g.color == PNG_GREY && g.depth == 16) {
        sac_status st = sac_image_alloc(a->image, g.width, g.height, a->limits, a->err);
        const uint16_t *grey = samples;
        size_t n = (size_t)g.width * (size_t)g.height;
        for (size_t i = 0; i < n && st == SAC_OK; i++) /* Pillow clips such values, it does not scale them */
            memset(a->image->rgb + i * 3, grey[i] > 255 ? 255 : grey[i], 3);
        free(samples);
        if (st != SAC_OK) return st;
    } else {
        *a->image = (sac_image){samples, (int)g.width, (int)g.height};
    }
    *a->orientation = g.exif ? g.exif : g.raw_exif ? g.raw_exif : g.xmp;
    return SAC_OK;
}
