/* image_tiff.c - TIFF by libtiff: the first picture of a file, as Pillow reads it.
 *
 * Grey of 16 bits is clipped at 255 as Pillow's "I;16" is, colours of 16 bits keep their upper 8. Alpha is dropped;
 * colours that were multiplied by it (associated) are divided again. CMYK is ink. */
#include "image_formats.h"

#ifdef SAC_TIFF

#include "cmyk.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

typedef struct tiff {
    const sac_decode_args *a;
    size_t at; /* where libtiff reads */
    TIFF *file;
    char why[160]; /* libtiff's first complaint */
    int64_t width, height;
    uint16_t photometric, planar, bits, samples,
        alpha;        /* alpha: EXTRASAMPLE_*, of the first beside the colours */
    int colors;       /* samples that are no alpha */
    uint16_t *map[3]; /* a palette */
} tiff;

/* ---------------------------------------------------------------- a file in memory */

static tmsize_t on_read(thandle_t h, void *to, tmsize_t n) {
    tiff *t = h;
    size_t left = t->a->n_bytes - t->at, take = (size_t)n < left ? (size_t)n : left;
    if (n <= 0) return 0;
    memcpy(to, t->a->bytes + t->at, take);
    t->at += take;
    return (tmsize_t)take;
}
static tmsize_t on_write(thandle_t h, void *from, tmsize_t n) {
    (void)h, (void)from, (void)n;
    return -1;
}
static toff_t on_seek(thandle_t h, toff_t to, int whence) {
    tiff *t = h;
    uint64_t base = whence == SEEK_CUR ? t->at : whence == SEEK_END ? t->a->n_bytes : 0;
    if (to > t->a->n_bytes - base) return (toff_t)-1;
    t->at = (size_t)(base + to);
    return t->at;
}
static int on_close(thandle_t h) {
    (void)h;
    return 0;
}
static toff_t on_size(thandle_t h) {
    return ((tiff *)h)->a->n_bytes;
}
static int on_error(TIFF *file, void *ctx, const char *where, const char *format, va_list args) {
    tiff *t = ctx;
    (void)file;
    if (*t->why) return 1;
    int n = snprintf(t->why, sizeof t->why, "%.60s: ", where ? where : "libtiff");
    vsnprintf(t->why + n, sizeof t->why - (size_t)n, format, args);
    for (char *p = t->why; *p; p++)
        if (*p < ' ' || *p > '~') *p = ' '; /* one line, whatever a file's texts hold */
    return 1;
}
static int on_warning(TIFF *file, void *ctx, const char *where, const char *format, va_list args) {
    (void)file, (void)ctx, (void)where, (void)format, (void)args;
    return 1;
}

static sac_status damaged(const tiff *t) {
    return sac_fail(t->a->err, SAC_BAD_FILE, "damaged or truncated: %s",
                    *t->why ? t->why : "no picture in it");
}

static sac_status open_file(tiff *t) {
    TIFFOpenOptions *o = TIFFOpenOptionsAlloc();
    if (!o) return sac_fail(t->a->err, SAC_NO_MEMORY, "no memory for the decoder");
    /* a strip of all pixels with four samples of 16 bits, and what a table of its strips may take */
    TIFFOpenOptionsSetMaxSingleMemAlloc(o, (tmsize_t)t->a->limits->max_pixels * 8 + (1 << 20));
    TIFFOpenOptionsSetErrorHandlerExtR(o, on_error, t);
    TIFFOpenOptionsSetWarningHandlerExtR(o, on_warning, t);
    t->file =
        TIFFClientOpenExt("picture", "rm", t, on_read, on_write, on_seek, on_close, on_size, NULL, NULL, o);
    TIFFOpenOptionsFree(o);
    return t->file ? SAC_OK : damaged(t);
}

/* ---------------------------------------------------------------- what the samples are */

static sac_status refuse(const tiff *t) {
    return sac_fail(t->a->err, SAC_UNSUPPORTED,
                    "%u samples of %u bits, photometric interpretation %u: convert it to PNG", t->samples,
                    t->bits, t->photometric);
}

static sac_status read_header(tiff *t) {
    uint32_t width = 0, height = 0;
    uint16_t n_extra = 0, *extra = NULL, orientation = 1, format = SAMPLEFORMAT_UINT, compression = 1;
    TIFFGetField(t->file, TIFFTAG_IMAGEWIDTH, &width);
    TIFFGetField(t->file, TIFFTAG_IMAGELENGTH, &height);
    t->width = width, t->height = height;
    SAC_TRY(sac_image_check_size(t->width, t->height, t->a->limits, t->a->err));
    TIFFGetFieldDefaulted(t->file, TIFFTAG_BITSPERSAMPLE, &t->bits);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_SAMPLESPERPIXEL, &t->samples);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_PLANARCONFIG, &t->planar);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_SAMPLEFORMAT, &format);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_EXTRASAMPLES, &n_extra, &extra);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_ORIENTATION, &orientation);
    TIFFGetFieldDefaulted(t->file, TIFFTAG_COMPRESSION, &compression);
    if (!TIFFGetField(t->file, TIFFTAG_PHOTOMETRIC, &t->photometric)) t->photometric = PHOTOMETRIC_MINISWHITE;
    *t->a->orientation = orientation <= 8 ? orientation : 0;
    if (t->photometric == PHOTOMETRIC_YCBCR && compression == COMPRESSION_JPEG &&
        TIFFSetField(t->file, TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB))
        t->photometric = PHOTOMETRIC_RGB;
    t->colors = t->photometric == PHOTOMETRIC_RGB ? 3 : t->photometric == PHOTOMETRIC_SEPARATED ? 4 : 1;
    t->alpha = n_extra && extra ? extra[0] : EXTRASAMPLE_UNSPECIFIED;
    if (t->photometric == PHOTOMETRIC_YCBCR) return SAC_OK;
    bool grey = t->photometric == PHOTOMETRIC_MINISWHITE || t->photometric == PHOTOMETRIC_MINISBLACK;
    bool palette = t->photometric == PHOTOMETRIC_PALETTE;
    bool deep = t->bits == 8 || (t->bits == 16 && !palette),
         shallow = t->bits == 1 || t->bits == 2 || t->bits == 4;
    bool known = grey || palette || t->colors > 1;
    if (!known || format != SAMPLEFORMAT_UINT || t->samples < t->colors || t->samples > 16 ||
        !(deep || (shallow && t->samples == 1)))
        return refuse(t);
    if (t->planar == PLANARCONFIG_SEPARATE && (t->colors == 4 || t->alpha == EXTRASAMPLE_ASSOCALPHA))
        return refuse(t);
    if (palette && !TIFFGetField(t->file, TIFFTAG_COLORMAP, &t->map[0], &t->map[1], &t->map[2]))
        return damaged(t);
    return SAC_OK;
}

/* ---------------------------------------------------------------- pixels */

static unsigned sample_at(const tiff *t, const uint8_t *row, size_t i) {
    uint16_t wide;
    switch (t->bits) {
    case 8: return row[i];
    case 16: memcpy(&wide, row + 2 * i, 2); return wide;
    default: return ((unsigned)row[i * t->bits / 8] >> (8 - t->bits - i * t->bits % 8)) & ((1u << t->bits) - 1);
    }
}

static uint8_t upper(const tiff *t, unsigned v) {
    return (uint8_t)(t->bits == 16 ? v >> 8 : v);
}

static uint8_t grey_of(const tiff *t, unsigned v) {
    if (t->bits == 16) return (uint8_t)(v > 255 ? 255 : v);
    unsigned level = v * (255 / ((1u << t->bits) - 1));
    return (uint8_t)(t->photometric == PHOTOMETRIC_MINISWHITE ? 255 - level : level);
}

/* As Pillow divides by alpha. */
static uint8_t divide(unsigned v, unsigned alpha) {
    if (alpha == 255 || alpha == 0) return (uint8_t)v;
    unsigned c = 255 * v / alpha;
    return (uint8_t)(c > 255 ? 255 : c);
}

/* One pixel whose samples lie together, the first of them the i-th of the row. */
static void put_pixel(const tiff *t, const uint8_t *row, size_t i, uint8_t *rgb) {
    unsigned v[4] = {0};
    for (int c = 0; c < t->colors; c++) v[c] = sample_at(t, row, i + (size_t)c);
    if (t->photometric == PHOTOMETRIC_PALETTE) {
        for (int c = 0; c < 3; c++) rgb[c] = (uint8_t)(t->map[c][v[0]] >> 8);
    } else if (t->colors == 1) {
        memset(rgb, grey_of(t, v[0]), 3);
    } else if (t->colors == 4) {
        sac_cmyk_to_rgb(rgb, upper(t, v[0]), upper(t, v[1]), upper(t, v[2]), upper(t, v[3]));
    } else {
        for (int c = 0; c < 3; c++) rgb[c] = upper(t, v[c]);
        if (t->samples > 3 && t->alpha == EXTRASAMPLE_ASSOCALPHA) {
            unsigned alpha = upper(t, sample_at(t, row, i + 3));
            for (int c = 0; c < 3; c++) rgb[c] = divide(rgb[c], alpha);
        }
    }
}

/* A strip or tile: rows [y, y + h) and columns [x, x + w) of it, of all samples, or of plane `plane`. */
static void put_block(const tiff *t, const uint8_t *block, size_t row_bytes, int64_t x, int64_t y, int64_t w,
                      int64_t h, int plane) {
    if (w > t->width - x) w = t->width - x;
    if (h > t->height - y) h = t->height - y;
    for (int64_t r = 0; r < h; r++) {
        const uint8_t *row = block + (size_t)r * row_bytes;
        uint8_t *rgb = t->a->image->rgb + ((size_t)(y + r) * (size_t)t->width + (size_t)x) * 3;
        for (int64_t i = 0; i < w; i++, rgb += 3) {
            if (plane < 0)
                put_pixel(t, row, (size_t)i * t->samples, rgb);
            else if (t->colors == 3)
                rgb[plane] = upper(t, sample_at(t, row, (size_t)i));
            else
                put_pixel(t, row, (size_t)i, rgb);
        }
    }
}

/* Of `n_samples` samples a pixel. */
static size_t row_bytes_of(const tiff *t, int64_t width, int n_samples) {
    return ((size_t)width * (size_t)n_samples * t->bits + 7) / 8;
}

static sac_status read_plane(tiff *t, int plane, int n_planes) {
    bool tiled = TIFFIsTiled(t->file);
    uint32_t w = (uint32_t)t->width, h = (uint32_t)t->height;
    if (tiled &&
        (!TIFFGetField(t->file, TIFFTAG_TILEWIDTH, &w) || !TIFFGetField(t->file, TIFFTAG_TILELENGTH, &h)))
        return damaged(t);
    if (!tiled) TIFFGetFieldDefaulted(t->file, TIFFTAG_ROWSPERSTRIP, &h);
    if (!tiled && h > t->height) h = (uint32_t)t->height;
    SAC_TRY(sac_image_check_size(w, h, t->a->limits, t->a->err)); /* a tile may be larger than the picture */
    int64_t n_blocks = ((t->width + w - 1) / w) * ((t->height + h - 1) / h);
    if (n_blocks > 4 &&
        n_blocks > 4 * t->a->limits->max_pixels / ((int64_t)w * h)) /* narrow, of wide tiles */
        return sac_fail(t->a->err, SAC_BAD_FILE, "its tiles are many times larger than the picture");
    size_t row_bytes = row_bytes_of(t, w, n_planes > 1 ? 1 : t->samples), n = row_bytes * h;
    if (n > (size_t)t->a->limits->max_pixels * 8)
        return sac_fail(t->a->err, SAC_BAD_FILE, "a strip of %zu bytes, more than are allowed", n);
    tmsize_t theirs = tiled ? TIFFTileSize(t->file) : TIFFStripSize(t->file);
    if (theirs <= 0 || (size_t)theirs != n) return damaged(t);
    uint8_t *block = malloc(n);
    if (!block) return sac_fail(t->a->err, SAC_NO_MEMORY, "no memory for a strip of %zu bytes", n);
    bool ok = true;
    for (int64_t y = 0; y < t->height && ok; y += h)
        for (int64_t x = 0; x < t->width && ok; x += w) {
            uint16_t s = (uint16_t)(plane < 0 ? 0 : plane);
            size_t rows = tiled || t->height - y > h ? h : (size_t)(t->height - y);
            tmsize_t want = (tmsize_t)(rows * row_bytes), got;
            got = tiled
                      ? TIFFReadEncodedTile(t->file, TIFFComputeTile(t->file, (uint32_t)x, (uint32_t)y, 0, s),
                                            block, want)
                      : TIFFReadEncodedStrip(t->file, TIFFComputeStrip(t->file, (uint32_t)y, s), block, want);
            ok = got == want;
            if (ok) put_block(t, block, row_bytes, x, y, w, (int64_t)rows, plane);
        }
    free(block);
    return ok ? SAC_OK : damaged(t);
}

/* Luma and chroma that are not JPEG's: libtiff converts them. */
static sac_status read_ycbcr(tiff *t) {
    TIFFRGBAImage view;
    char why[1024] = "";
    size_t n = (size_t)t->width * (size_t)t->height;
    uint32_t *rgba = malloc(n * 4);
    if (!rgba) return sac_fail(t->a->err, SAC_NO_MEMORY, "no memory for %zu pixels", n);
    bool ok = TIFFRGBAImageBegin(&view, t->file, 1, why);
    if (ok) {
        view.orientation = view.req_orientation = ORIENTATION_TOPLEFT;
        ok = TIFFRGBAImageGet(&view, rgba, (uint32_t)t->width, (uint32_t)t->height);
        TIFFRGBAImageEnd(&view);
    }
    for (size_t i = 0; i < n && ok; i++) {
        t->a->image->rgb[3 * i] = (uint8_t)TIFFGetR(rgba[i]);
        t->a->image->rgb[3 * i + 1] = (uint8_t)TIFFGetG(rgba[i]);
        t->a->image->rgb[3 * i + 2] = (uint8_t)TIFFGetB(rgba[i]);
    }
    free(rgba);
    if (!ok && !*t->why) snprintf(t->why, sizeof t->why, "%.150s", why); /* what it told nobody else */
    return ok ? SAC_OK : damaged(t);
}

static sac_status read_pixels(tiff *t) {
    SAC_TRY(sac_image_alloc(t->a->image, t->width, t->height, t->a->limits, t->a->err));
    if (t->photometric == PHOTOMETRIC_YCBCR) return read_ycbcr(t);
    if (t->planar != PLANARCONFIG_SEPARATE || t->samples == 1) return read_plane(t, -1, 1);
    for (int plane = 0; plane < t->colors; plane++) SAC_TRY(read_plane(t, plane, t->samples));
    return SAC_OK;
}

sac_status sac_decode_tiff(const sac_decode_args *a) {
    tiff t = {.a = a};
    SAC_TRY(open_file(&t));
    sac_status st = read_header(&t);
    if (st == SAC_OK) st = read_pixels(&t);
    TIFFClose(t.file);
    return st;
}

#endif
