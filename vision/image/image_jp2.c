/* image_jp2.c - JPEG 2000 by OpenJPEG, a JP2 file or a bare codestream, with Pillow's choices: samples of more than 8 bits
 * are rounded to 8 (the largest values stay white, where Pillow's wrap), but grey of more than 8 bits becomes 16 and is
 * clipped at 255, as Pillow's "I;16" is. */
#include "image_formats.h"

#ifdef SAC_JPEG2000

#include "cmyk.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openjpeg.h>

enum { COMPONENTS_MAX = 5 };

typedef struct jp2 {
    const sac_decode_args *a;
    size_t at; /* where the library reads */
    opj_codec_t *codec;
    opj_stream_t *stream;
    opj_image_t *image;
    char why[160];
} jp2;

/* ---------------------------------------------------------------- a file in memory */

static OPJ_SIZE_T on_read(void *to, OPJ_SIZE_T n, void *ctx) {
    jp2 *j = ctx;
    size_t left = j->a->n_bytes - j->at, take = n < left ? n : left;
    if (!take) return (OPJ_SIZE_T)-1;
    memcpy(to, j->a->bytes + j->at, take);
    j->at += take;
    return take;
}
static OPJ_OFF_T on_skip(OPJ_OFF_T n, void *ctx) {
    jp2 *j = ctx;
    if (n < 0 || (uint64_t)n > j->a->n_bytes - j->at) return -1;
    j->at += (size_t)n;
    return n;
}
static OPJ_BOOL on_seek(OPJ_OFF_T to, void *ctx) {
    jp2 *j = ctx;
    if (to < 0 || (uint64_t)to > j->a->n_bytes) return OPJ_FALSE;
    j->at = (size_t)to;
    return OPJ_TRUE;
}
static void on_error(const char *text, void *ctx) {
    jp2 *j = ctx;
    if (*j->why) return;
    snprintf(j->why, sizeof j->why, "%s", text);
    for (char *p = j->why; *p; p++)
        if (*p < ' ' || *p > '~') *p = p[1] ? ' ' : 0; /* its texts end with a line feed */
}
static void on_message(const char *text, void *ctx) {
    (void)text, (void)ctx;
}

static sac_status damaged(const jp2 *j) {
    return sac_fail(j->a->err, SAC_BAD_FILE, "damaged or truncated: %s",
                    *j->why ? j->why : "no picture in it");
}

/* ---------------------------------------------------------------- sizes, before the library sees the file */

static const uint8_t codestream_start[] = {0xff, 0x4f, 0xff, 0x51}; /* SOC, SIZ */

static uint32_t u32(const uint8_t *p) {
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* Where the codestream begins in the boxes of a JP2 file; n_bytes where none is found, which OpenJPEG then says. */
static size_t find_codestream(const sac_decode_args *a) {
    for (size_t at = 0, length; a->n_bytes - at >= 16; at += length) {
        const uint8_t *box = a->bytes + at;
        size_t head = u32(box) == 1 ? 16 : 8;
        length = u32(box) == 1 ? u32(box + 12) : u32(box); /* OpenJPEG reads none of more than 32 bits */
        if (!memcmp(box + 4, "jp2c", 4)) return at + head;
        if (length < head || length > a->n_bytes - at) break;
    }
    return a->n_bytes;
}

/* OpenJPEG takes memory for every component of every tile, 7 kB, as it reads the header. */
static sac_status check_size_marker(const sac_decode_args *a, bool is_bare) {
    enum { HEAD_BYTES = 42, FEW_TILES = 64, TILE_PIXELS_MIN = 32 * 32 };
    size_t at = is_bare ? 0 : find_codestream(a);
    const uint8_t *p = a->bytes + at;
    if (at == a->n_bytes) return SAC_OK;
    if (a->n_bytes - at < HEAD_BYTES || memcmp(p, codestream_start, sizeof codestream_start))
        return sac_fail(a->err, SAC_BAD_FILE,
                        "damaged or truncated: its codestream does not begin with its size");
    int64_t x1 = u32(p + 8), y1 = u32(p + 12), x0 = u32(p + 16), y0 = u32(p + 20);
    int64_t tile_w = u32(p + 24), tile_h = u32(p + 28), tile_x = u32(p + 32), tile_y = u32(p + 36);
    unsigned n_components = (unsigned)p[40] << 8 | p[41];
    SAC_TRY(sac_image_check_size(x1 - x0, y1 - y0, a->limits, a->err));
    if (!n_components || n_components > COMPONENTS_MAX)
        return sac_fail(a->err, SAC_UNSUPPORTED, "%u components; 1 to %d are read", n_components,
                        COMPONENTS_MAX);
    if (!tile_w || !tile_h || tile_x > x0 || tile_y > y0)
        return sac_fail(a->err, SAC_BAD_FILE, "damaged or truncated: tiles that cannot be");
    int64_t n_tiles = ((x1 - tile_x + tile_w - 1) / tile_w) * ((y1 - tile_y + tile_h - 1) / tile_h);
    if (n_tiles <= FEW_TILES || n_tiles <= (x1 - x0) * (y1 - y0) / TILE_PIXELS_MIN) return SAC_OK;
    return sac_fail(a->err, SAC_UNSUPPORTED, "%lld tiles, too many for a picture of its size",
                    (long long)n_tiles);
}

static sac_status open_file(jp2 *j) {
    bool is_bare = !memcmp(j->a->bytes, codestream_start, sizeof codestream_start);
    SAC_TRY(check_size_marker(j->a, is_bare));
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    j->codec = opj_create_decompress(is_bare ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    j->stream = opj_stream_create(OPJ_J2K_STREAM_CHUNK_SIZE, OPJ_TRUE);
    if (!j->codec || !j->stream) return sac_fail(j->a->err, SAC_NO_MEMORY, "no memory for the decoder");
    opj_set_error_handler(j->codec, on_error, j);
    opj_set_warning_handler(j->codec, on_message, NULL);
    opj_set_info_handler(j->codec, on_message, NULL);
    opj_stream_set_user_data(j->stream, j, NULL);
    opj_stream_set_user_data_length(j->stream, j->a->n_bytes);
    opj_stream_set_read_function(j->stream, on_read);
    opj_stream_set_skip_function(j->stream, on_skip);
    opj_stream_set_seek_function(j->stream, on_seek);
    return opj_setup_decoder(j->codec, &parameters) ? SAC_OK : damaged(j);
}

/* Every component costs memory of its own: sizes and their number are checked before anything is decoded. */
static sac_status check_header(jp2 *j) {
    if (!opj_read_header(j->stream, j->codec, &j->image)) return damaged(j);
    const opj_image_t *i = j->image;
    if (!i->numcomps || i->numcomps > COMPONENTS_MAX)
        return sac_fail(j->a->err, SAC_UNSUPPORTED, "%u components; 1 to %d are read", i->numcomps,
                        COMPONENTS_MAX);
    for (unsigned c = 0; c < i->numcomps; c++)
        if (i->comps[c].prec < 1 || i->comps[c].prec > 24 || !i->comps[c].dx || !i->comps[c].dy)
            return sac_fail(j->a->err, SAC_UNSUPPORTED, "a component of %u bits; 1 to 24 are read",
                            i->comps[c].prec);
    return sac_image_check_size((int64_t)i->x1 - i->x0, (int64_t)i->y1 - i->y0, j->a->limits, j->a->err);
}

/* ---------------------------------------------------------------- pixels */

/* Component c at a pixel, brought to n bits. */
static int sample(const opj_image_comp_t *c, unsigned x, unsigned y, int n) {
    unsigned cx = x / c->dx, cy = y / c->dy;
    int v = c->data[(size_t)(cy < c->h ? cy : c->h - 1) * c->w + (cx < c->w ? cx : c->w - 1)];
    int shift = (int)c->prec - n, most = (1 << n) - 1;
    if (c->sgnd) v += 1 << (c->prec - 1);
    v = shift > 0 ? (v + (1 << (shift - 1))) >> shift : v * (1 << -shift);
    return v < 0 ? 0 : v > most ? most : v;
}

static uint8_t clip(double v) {
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + .5);
}

static void put_pixel(const opj_image_t *i, unsigned x, unsigned y, uint8_t *rgb) {
    const opj_image_comp_t *c = i->comps;
    if (i->numcomps < 3) {
        bool wide = i->numcomps == 1 && c->prec > 8;
        int v = sample(c, x, y, wide ? 16 : 8);
        memset(rgb, v > 255 ? 255 : v, 3);
        return;
    }
    int v[3];
    for (int k = 0; k < 3; k++) v[k] = sample(&c[k], x, y, 8);
    if (i->color_space == OPJ_CLRSPC_CMYK && i->numcomps > 3) {
        sac_cmyk_to_rgb(rgb, v[0], v[1], v[2], sample(&c[3], x, y, 8));
    } else if (i->color_space == OPJ_CLRSPC_SYCC) { /* BT.601, as JPEG has it */
        double cb = v[1] - 128, cr = v[2] - 128;
        rgb[0] = clip(v[0] + 1.402 * cr);
        rgb[1] = clip(v[0] - 0.34414 * cb - 0.71414 * cr);
        rgb[2] = clip(v[0] + 1.772 * cb);
    } else {
        for (int k = 0; k < 3; k++) rgb[k] = (uint8_t)v[k];
    }
}

static sac_status decode(jp2 *j) {
    if (!opj_decode(j->codec, j->stream, j->image) || *j->why) return damaged(j);
    const opj_image_t *i = j->image;
    for (unsigned c = 0; c < i->numcomps; c++)
        if (!i->comps[c].data || !i->comps[c].w || !i->comps[c].h || !i->comps[c].prec ||
            i->comps[c].prec > 24)
            return damaged(j);
    unsigned w = i->x1 - i->x0, h = i->y1 - i->y0;
    SAC_TRY(sac_image_alloc(j->a->image, w, h, j->a->limits, j->a->err));
    for (unsigned y = 0; y < h; y++)
        for (unsigned x = 0; x < w; x++) put_pixel(i, x, y, j->a->image->rgb + ((size_t)y * w + x) * 3);
    return SAC_OK;
}

sac_status sac_decode_jp2(const sac_decode_args *a) {
    jp2 j = {.a = a};
    sac_status st = open_file(&j);
    if (st == SAC_OK) st = check_header(&j);
    if (st == SAC_OK) st = decode(&j);
    opj_image_destroy(j.image);
    if (j.stream) opj_stream_destroy(j.stream);
    if (j.codec) opj_destroy_codec(j.codec);
    return st;
}

#endif
