/* image_gif.c - the first frame of a GIF (CompuServe GIF89a).
 *
 * Read here rather than by stb_image: its frame blends transparent pixels away where Pillow's convert("RGB")
 * shows the palette's colour, shows what is left of a truncated file, and stops at streams that go on without
 * a clear code once the table is full. */
#include "image_formats.h"

#include "bytes.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LZW_MAX_BITS 12
#define LZW_CODES    (1 << LZW_MAX_BITS)

typedef struct gif {
    const uint8_t *p, *end;
    int64_t screen_w, screen_h;
    int64_t x, y, w, h; /* of the frame */
    bool interlaced;
    int background; /* index where the frame is not */
    uint8_t palette[256][3];
} gif;

/* Colours that are the grey ramp 0, 1, 2... make Pillow read the picture as grey, also beyond the table's
 * end. */
static sac_status read_palette(gif *g, uint8_t flags, sac_error *err) {
    int n = 2 << (flags & 7);
    if (g->end - g->p < n * 3) return sac_fail(err, SAC_BAD_FILE, "truncated in a palette");
    bool ramp = true;
    for (int i = 0; i < 256; i++)
        for (int c = 0; c < 3; c++) {
            g->palette[i][c] = i < n ? g->p[i * 3 + c] : 0;
            if (i < n && g->p[i * 3 + c] != i) ramp = false;
        }
    for (int i = 0; ramp && i < 256; i++) memset(g->palette[i], i, 3);
    g->p += n * 3;
    return SAC_OK;
}

static void skip_blocks(gif *g) {
    while (g->p < g->end && *g->p) {
        size_t n = (size_t)*g->p + 1;
        g->p = (size_t)(g->end - g->p) < n ? g->end : g->p + n;
    }
    if (g->p < g->end) g->p++;
}

static void read_extension(gif *g) { /* after '!' */
    if (g->end - g->p < 2) {
        g->p = g->end;
        return;
    }
    uint8_t label = *g->p++;
    if (label == 0xf9 && g->p[0] >= 4 && g->end - g->p >= 5 && (g->p[1] & 1)) g->background = g->p[4];
    skip_blocks(g);
}

/* Leaves p at the LZW code size. */
static sac_status read_header(gif *g, sac_error *err) {
    if (g->end - g->p < 13) return sac_fail(err, SAC_BAD_FILE, "truncated in its header");
    g->screen_w = sac_le16(g->p + 6);
    g->screen_h = sac_le16(g->p + 8);
    uint8_t flags = g->p[10];
    g->p += 13;
    for (int i = 0; i < 256; i++) memset(g->palette[i], i, 3);
    if (flags & 0x80) SAC_TRY(read_palette(g, flags, err));
    for (;;) {
        if (g->p >= g->end || *g->p == ';') return sac_fail(err, SAC_BAD_FILE, "it has no frame");
        uint8_t tag = *g->p++;
        if (tag == '!') read_extension(g);
        if (tag == ',') break;
    }
    if (g->end - g->p < 10) return sac_fail(err, SAC_BAD_FILE, "truncated in its first frame");
    g->x = sac_le16(g->p);
    g->y = sac_le16(g->p + 2);
    g->w = sac_le16(g->p + 4);
    g->h = sac_le16(g->p + 6);
    flags = g->p[8];
    g->p += 9;
    g->interlaced = flags & 0x40;
    if (flags & 0x80) SAC_TRY(read_palette(g, flags, err));
    if (g->w == 0 || g->h == 0) return sac_fail(err, SAC_BAD_FILE, "an empty first frame");
    if (g->x + g->w > g->screen_w) g->screen_w = g->x + g->w;
    if (g->y + g->h > g->screen_h) g->screen_h = g->y + g->h;
    return SAC_OK;
}

/* Codes out of sub-blocks, least significant bit first. */
typedef struct bit_reader {
    const uint8_t *p, *end;
    unsigned block_bytes; /* left of the current sub-block */
    uint32_t bits;
    int n_bits;
} bit_reader;

static int read_code(bit_reader *r, int n_bits) { /* -1 at the end of the data */
    while (r->n_bits < n_bits) {
        if (r->block_bytes == 0) {
            if (r->p >= r->end || *r->p == 0 || r->end - r->p <= *r->p) return -1; /* sub-blocks are whole */
            r->block_bytes = *r->p++;
        }
        r->bits |= (uint32_t)*r->p++ << r->n_bits;
        r->n_bits += 8;
        r->block_bytes--;
    }
    int code = (int)(r->bits & ((1u << n_bits) - 1));
    r->bits >>= n_bits;
    r->n_bits -= n_bits;
    return code;
}

typedef struct lzw {
    uint16_t prefix[LZW_CODES];
    uint8_t suffix[LZW_CODES];
    uint8_t stack[LZW_CODES + 1];
} lzw;

/* Writes n indices in stored order; returns how many the stream gave, -1 for a code that cannot be. */
static int64_t lzw_decode(lzw *t, bit_reader *r, int root_bits, uint8_t *out, int64_t n) {
    const int clear = 1 << root_bits, stop = clear + 1;
    int next = clear + 2, n_bits = root_bits + 1, last = -1;
    uint8_t first = 0;
    int64_t done = 0;
    while (done < n) {
        int code = read_code(r, n_bits);
        if (code < 0 || code == stop) return done;
        if (code == clear) {
            next = clear + 2;
            n_bits = root_bits + 1;
            last = -1;
            continue;
        }
        if (last < 0 ? code > clear : code > next) return -1;
        int depth = 0, c = code;
        if (last >= 0 && code == next) { /* the entry about to be made: last string and its own first index */
            t->stack[depth++] = first;
            c = last;
        }
        for (; c >= clear; c = t->prefix[c]) {
            if (c >= LZW_CODES || depth >= LZW_CODES) return -1;
            t->stack[depth++] = t->suffix[c];
        }
        first = (uint8_t)c;
        t->stack[depth++] = first;
        if (last >= 0 && next < LZW_CODES) {
            t->prefix[next] = (uint16_t)last;
            t->suffix[next] = first;
            if (next == (1 << n_bits) - 1 && n_bits < LZW_MAX_BITS) n_bits++;
            next++;
        }
        last = code;
        while (depth && done < n) out[done++] = t->stack[--depth];
    }
    return done;
}

/* Stored row -> row of the frame: every 8th from 0, every 8th from 4, every 4th from 2, every 2nd from 1. */
static int64_t frame_row(const gif *g, int64_t stored) {
    static const int start[4] = {0, 4, 2, 1}, step[4] = {8, 8, 4, 2};
    if (!g->interlaced) return stored;
    for (int pass = 0; pass < 4; pass++) {
        int64_t n = g->h > start[pass] ? (g->h - start[pass] + step[pass] - 1) / step[pass] : 0;
        if (stored < n) return start[pass] + stored * step[pass];
        stored -= n;
    }
    return g->h - 1;
}

static void place(const gif *g, sac_image *image, const uint8_t *indices) {
    size_t n_screen = (size_t)image->width * (size_t)image->height;
    if (g->w != g->screen_w || g->h != g->screen_h)
        for (size_t i = 0; i < n_screen; i++) memcpy(image->rgb + i * 3, g->palette[g->background], 3);
    for (int64_t y = 0; y < g->h; y++) {
        uint8_t *row = image->rgb + ((g->y + frame_row(g, y)) * g->screen_w + g->x) * 3;
        for (int64_t x = 0; x < g->w; x++) memcpy(row + x * 3, g->palette[indices[y * g->w + x]], 3);
    }
}

sac_status sac_decode_gif(const sac_decode_args *a) {
    gif g = {.p = a->bytes, .end = a->bytes + a->n_bytes};
    SAC_TRY(read_header(&g, a->err));
    SAC_TRY(sac_image_check_size(g.screen_w, g.screen_h, a->limits, a->err));
    if (g.p >= g.end || *g.p > LZW_MAX_BITS) return sac_fail(a->err, SAC_BAD_FILE, "a bad LZW code size");
    int root_bits = *g.p++;
    int64_t n = g.w * g.h, done = 0;
    SAC_TRY(sac_image_alloc(a->image, g.screen_w, g.screen_h, a->limits, a->err));
    uint8_t *indices = malloc((size_t)n);
    lzw *table = malloc(sizeof *table);
    if (indices && table) {
        done = lzw_decode(table, &(bit_reader){.p = g.p, .end = g.end}, root_bits, indices, n);
        if (done == n) place(&g, a->image, indices);
    }
    bool no_memory = !indices || !table;
    free(indices);
    free(table);
    if (no_memory) return sac_fail(a->err, SAC_NO_MEMORY, "no memory for %lld palette indices", (long long)n);
    if (done < 0) return sac_fail(a->err, SAC_BAD_FILE, "damaged: an LZW code that cannot be");
    if (done < n)
        return sac_fail(a->err, SAC_BAD_FILE, "truncated: %lld of %lld pixels", (long long)done,
                        (long long)n);
    return SAC_OK;
}
