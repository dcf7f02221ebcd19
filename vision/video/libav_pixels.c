#ifdef SAC_VIDEO

#include "libav_pixels.h"

#include "frame_pixels.h"
#include "libav_input.h"
#include "libav_versions.h"
#include "webp.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/opt.h>
#include <libavutil/pixdesc.h>
#include <libswscale/swscale.h>

#define CHROMA_IN_THE_MIDDLE (-513) /* libswscale's value for "not told" */

typedef enum sac_field { WHOLE, UPPER, LOWER } sac_field;

typedef struct setting {
    const char *name;
    int value;
} setting;

typedef struct conversion {
    struct SwsContext *sws;
    int key[6];          /* what it was made for */
    int full_by_default; /* range of frames that do not state one */
} conversion;

struct sac_libav_rgb {
    conversion to_wide, to_rgb;
    AVFrame *wide;  /* see spread_chroma_rows */
    AVFrame *field; /* see convert_fields */
    uint8_t *pixels;
    size_t capacity_bytes;
};

sac_libav_rgb *sac_libav_rgb_create(void) {
    sac_libav_rgb *c = calloc(1, sizeof *c);
    if (c) c->wide = av_frame_alloc();
    if (c) c->field = av_frame_alloc();
    if (c && c->wide && c->field) return c;
    sac_libav_rgb_free(c);
    return NULL;
}

void sac_libav_rgb_free(sac_libav_rgb *c) {
    if (!c) return;
    sws_freeContext(c->to_wide.sws);
    sws_freeContext(c->to_rgb.sws);
    av_frame_free(&c->wide);
    av_frame_free(&c->field);
    av_free(c->pixels);
    free(c);
}

static struct SwsContext *new_sws(const setting *settings, size_t n) {
    struct SwsContext *sws = sws_alloc_context();
    if (!sws) return NULL;
    for (size_t i = 0; i < n; i++) av_opt_set_int(sws, settings[i].name, settings[i].value, 0);
    if (sws_init_context(sws, NULL, NULL) >= 0) return sws;
    sws_freeContext(sws);
    return NULL;
}

/* Where the chroma samples lie, handed over as FFmpeg 8 does by itself; 5.1 decodes it but does not look. The
 * rows of an interlaced picture lie lower in the lower field. */
static void chroma_position(const AVFrame *f, sac_field field, int *x, int *y) {
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    *x = *y = CHROMA_IN_THE_MIDDLE;
    if (f->chroma_location != AVCHROMA_LOC_UNSPECIFIED) sac_libav_chroma_place(x, y, f->chroma_location);
    if (!d->log2_chroma_w) *x = CHROMA_IN_THE_MIDDLE;
    if (!d->log2_chroma_h) *y = CHROMA_IN_THE_MIDDLE;
    if (!d->log2_chroma_h || field == WHOLE) return;
    int whole = *y == CHROMA_IN_THE_MIDDLE ? 128 : *y;
    *y = (field == LOWER ? whole + 256 : whole) / 2;
}

/* libswscale's default path, without the flags for accurate rounding and for interpolated chroma, is what
 * PyAV's to_ndarray and so the reference pipelines use. */
static bool make_conversion(conversion *c, const AVFrame *f, sac_field field, int format) {
    const AVPixFmtDescriptor *from = av_pix_fmt_desc_get(f->format), *to = av_pix_fmt_desc_get(format);
    if (!from || !to) return false;
    int x, y;
    chroma_position(f, field, &x, &y);
    int to_x = to->log2_chroma_w ? x : CHROMA_IN_THE_MIDDLE; /* columns of chroma stay where they are */
    const int key[] = {f->width, f->height, f->format, format, x, y};
    if (c->sws && memcmp(key, c->key, sizeof key) == 0) return true;
    const setting settings[] = {
        {"srcw", f->width},        {"srch", f->height},         {"dstw", f->width},   {"dsth", f->height},
        {"src_format", f->format}, {"dst_format", format},      {"src_h_chr_pos", x}, {"src_v_chr_pos", y},
        {"dst_h_chr_pos", to_x},   {"sws_flags", SWS_BILINEAR},
    };
    sws_freeContext(c->sws);
    c->sws = new_sws(settings, SAC_COUNT(settings));
    memcpy(c->key, key, sizeof key);
    if (!c->sws) return false;
    int *table, ignored;
    c->full_by_default = 0;
    sws_getColorspaceDetails(c->sws, &table, &c->full_by_default, &table, &ignored, &ignored, &ignored,
                             &ignored);
    return true;
}

/* By the frame's own matrix and range; unknown is BT.601, limited. */
static void set_colours(conversion *c, const AVFrame *f, int format) {
    int *from_matrix, *to_matrix, from_full, to_full, brightness, contrast, saturation;
    if (sws_getColorspaceDetails(c->sws, &from_matrix, &from_full, &to_matrix, &to_full, &brightness,
                                 &contrast, &saturation) < 0)
        return; /* RGB and the like: nothing to set */
    from_full =
        f->color_range == AVCOL_RANGE_UNSPECIFIED ? c->full_by_default : f->color_range == AVCOL_RANGE_JPEG;
    const int *matrix = sws_getCoefficients((int)f->colorspace);
    bool to_rgb = (av_pix_fmt_desc_get(format)->flags & AV_PIX_FMT_FLAG_RGB) != 0;
    sws_setColorspaceDetails(c->sws, matrix, from_full, to_rgb ? to_matrix : matrix,
                             to_rgb ? to_full : from_full, brightness, contrast, saturation);
}

static sac_status scale(conversion *c, const AVFrame *f, sac_field field, int format, uint8_t *const planes[],
                        const int strides[], sac_error *err) {
    if (make_conversion(c, f, field, format)) {
        set_colours(c, f, format);
        const uint8_t *const *from = (const uint8_t *const *)f->data;
        if (sws_scale(c->sws, from, f->linesize, 0, f->height, planes, strides) >= 0) return SAC_OK;
    }
    const char *name = av_get_pix_fmt_name(f->format);
    return sac_fail(err, SAC_BAD_FILE, "frames of pixel format %s cannot be converted to RGB",
                    name ? name : "unknown");
}

static bool is_deep_420(const AVFrame *f) {
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    return d && d->nb_components == 3 && d->log2_chroma_w == 1 && d->log2_chroma_h == 1 &&
           d->comp[0].depth > 8;
}

/* 4:2:0 of more than 8 bits: on the way to RGB, 5.1 takes the nearest row of chroma or the mean of two where
 * FFmpeg 8 weighs them. So the rows are made first, by the path between planar formats, which weighs them
 * too. */
static sac_status spread_chroma_rows(sac_libav_rgb *c, const AVFrame *f, sac_field field, sac_error *err) {
    AVFrame *wide = c->wide;
    if (wide->width != f->width || wide->height != f->height) {
        av_frame_unref(wide);
        wide->width = f->width;
        wide->height = f->height;
        wide->format = AV_PIX_FMT_YUV422P16;
        if (av_frame_get_buffer(wide, 0) < 0) {
            av_frame_unref(wide);
            return sac_libav_no_memory(err);
        }
    }
    wide->colorspace = f->colorspace;
    wide->color_range = f->color_range;
    wide->chroma_location = f->chroma_location;
    return scale(&c->to_wide, f, field, wide->format, wide->data, wide->linesize, err);
}

static sac_status make_room(sac_libav_rgb *c, size_t n_bytes, sac_error *err) {
    if (n_bytes <= c->capacity_bytes) return SAC_OK;
    av_free(c->pixels);
    c->pixels = av_malloc(n_bytes);
    c->capacity_bytes = c->pixels ? n_bytes : 0;
    return c->pixels ? SAC_OK : sac_libav_no_memory(err);
}

static sac_status convert_rows(sac_libav_rgb *c, const AVFrame *f, sac_field field, uint8_t *rgb,
                               size_t stride, sac_error *err) {
    uint8_t *const planes[4] = {rgb};
    const int strides[4] = {(int)stride};
    if (!is_deep_420(f)) return scale(&c->to_rgb, f, field, AV_PIX_FMT_RGB24, planes, strides, err);
    SAC_TRY(spread_chroma_rows(c, f, field, err));
    return scale(&c->to_rgb, c->wide, WHOLE, AV_PIX_FMT_RGB24, planes, strides, err);
}

/* In interlaced 4:2:0 every other row of chroma belongs to the other field; as FFmpeg 8, each field is
 * converted alone. */
static sac_status convert_fields(sac_libav_rgb *c, const AVFrame *f, uint8_t *rgb, size_t stride,
                                 sac_error *err) {
    for (int lower = 0; lower < 2; lower++) {
        av_frame_unref(c->field);
        if (av_frame_ref(c->field, f) < 0) return sac_libav_no_memory(err);
        c->field->height = (f->height + 1 - lower) / 2;
        for (int i = 0; i < 4; i++) {
            if (lower && f->data[i]) c->field->data[i] += f->linesize[i];
            c->field->linesize[i] *= 2;
        }
        sac_status st =
            convert_rows(c, c->field, lower ? LOWER : UPPER, rgb + (size_t)lower * stride, 2 * stride, err);
        av_frame_unref(c->field);
        SAC_TRY(st);
    }
    return SAC_OK;
}

static bool has_fields(const AVFrame *f) {
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(f->format);
    return sac_libav_is_interlaced(f) && d && d->log2_chroma_h > 0 && f->height > 3;
}

/* Rows are converted at a padded stride and moved together afterwards: libswscale leaves the last columns
 * alone when its vectors would run over the end of a row. */
sac_status sac_libav_rgb_convert(sac_libav_rgb *c, const AVFrame *f, int64_t max_pixels, sac_image *lent,
                                 sac_error *err) {
    memset(lent, 0, sizeof *lent);
    if (f->width < 1 || f->height < 1 || f->width > max_pixels / f->height)
        return sac_fail(err, SAC_BAD_FILE, "a frame of %d x %d pixels: the limit is %" PRId64, f->width,
                        f->height, max_pixels);
    size_t row_bytes = (size_t)f->width * 3, stride = (row_bytes + 127) & ~(size_t)63;
    SAC_TRY(make_room(c, stride * (size_t)f->height + 64, err));
    SAC_TRY(has_fields(f) ? convert_fields(c, f, c->pixels, stride, err)
                          : convert_rows(c, f, WHOLE, c->pixels, stride, err));
    for (int y = 1; y < f->height; y++)
        memmove(c->pixels + (size_t)y * row_bytes, c->pixels + (size_t)y * stride, row_bytes);
    *lent = (sac_image){c->pixels, f->width, f->height};
    return SAC_OK;
}

/* ---- still pictures ---- */

static AVPacket *new_webp_packet(const sac_webp *w) {
    AVPacket *p = av_packet_alloc();
    if (p && av_new_packet(p, (int)sac_webp_file_bytes(w)) < 0) av_packet_free(&p);
    if (!p) return NULL;
    sac_webp_write_file(w, p->data);
    p->flags |= AV_PKT_FLAG_KEY;
    return p;
}

static sac_status decode_webp(AVFrame *frame, const sac_webp *w, sac_error *err) {
    const AVCodec *codec = avcodec_find_decoder(AV_CODEC_ID_WEBP);
    if (!codec)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "this FFmpeg has no decoder for WebP: convert the picture to PNG");
    AVCodecContext *decoder = avcodec_alloc_context3(codec);
    AVPacket *packet = new_webp_packet(w);
    int r = AVERROR(ENOMEM);
    if (decoder && packet) {
        decoder->thread_count = 1;
        decoder->max_pixels = ((int64_t)w->width + 64) * w->height; /* it counts rows as aligned */
        r = avcodec_open2(decoder, codec, NULL);
        if (r >= 0) r = avcodec_send_packet(decoder, packet);
        if (r >= 0) r = avcodec_receive_frame(decoder, frame);
    }
    avcodec_free_context(&decoder);
    av_packet_free(&packet);
    if (r == AVERROR(ENOMEM)) return sac_libav_no_memory(err);
    if (r < 0 || frame->width != w->width || frame->height != w->height)
        return sac_fail(err, SAC_BAD_FILE, "the WebP picture is damaged");
    return SAC_OK;
}

static sac_status copy_webp(sac_image *out, const AVFrame *f, sac_error *err) {
    if (f->format == AV_PIX_FMT_YUV420P || f->format == AV_PIX_FMT_YUVA420P) {
        sac_webp_yuv_to_rgb(out->rgb, f->data[0], f->linesize[0], f->data[1], f->data[2], f->linesize[1],
                            f->width, f->height);
        return SAC_OK;
    }
    if (f->format != AV_PIX_FMT_ARGB)
        return sac_fail(err, SAC_INTERNAL, "the WebP decoder gave an unknown pixel format (%d)", f->format);
    uint8_t *to = out->rgb;
    for (int y = 0; y < f->height; y++) {
        const uint8_t *from = f->data[0] + (ptrdiff_t)y * f->linesize[0];
        for (int x = 0; x < f->width; x++, to += 3, from += 4) memcpy(to, from + 1, 3);
    }
    return SAC_OK;
}

sac_status sac_libav_decode_still(sac_image *out, const uint8_t *bytes, size_t n_bytes,
                                  const sac_image_limits *limits, sac_error *err) {
    memset(out, 0, sizeof *out);
    sac_libav_set_up();
    sac_image_limits most = limits ? *limits : sac_image_limits_default();
    if (n_bytes > INT32_MAX / 2 || (int64_t)n_bytes > most.max_bytes)
        return sac_fail(err, SAC_BAD_FILE, "%zu bytes: more than the limit of %" PRId64, n_bytes,
                        most.max_bytes);
    sac_webp w;
    SAC_TRY(sac_webp_find(&w, bytes, n_bytes, err));
    AVFrame *frame = av_frame_alloc();
    if (!frame) return sac_libav_no_memory(err);
    sac_status st = sac_image_alloc(out, w.width, w.height, &most, err);
    if (st == SAC_OK) st = decode_webp(frame, &w, err);
    if (st == SAC_OK) st = copy_webp(out, frame, err);
    if (st != SAC_OK) sac_image_free(out);
    av_frame_free(&frame);
    return st;
}

#else
typedef int sac_libav_pixels_is_absent;
#endif
