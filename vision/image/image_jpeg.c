/* image_jpeg.c - JPEG by libjpeg-turbo, with the settings and the verdicts of Pillow; by stb_image (a level
 * or two off in some values) in builds without it.
 *
 * Pillow feeds libjpeg through a source that can only run dry, and gives up when that happens before the last
 * row: so a truncated file is refused, while damage inside the data, about which libjpeg merely warns, is
 * shown as decoded. */
#include "image_formats.h"

#include "bytes.h"
#include "exif.h"
#include "image_stb.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Segments in front of the first scan. Of several EXIF segments the first holds the orientation. */
typedef struct jpeg_segments {
    int64_t width, height;
    int n_components;
    const uint8_t *exif, *xmp;
    size_t exif_bytes, xmp_bytes;
} jpeg_segments;

static bool starts_with(const uint8_t *p, size_t n, const char *text, size_t n_text) {
    return n >= n_text && memcmp(p, text, n_text) == 0;
}

static void read_app1(jpeg_segments *s, const uint8_t *p, size_t n) {
    static const char exif[6] = "Exif\0", xmp[29] = "http://ns.adobe.com/xap/1.0/";
    if (starts_with(p, n, exif, sizeof exif) && !s->exif) {
        s->exif = p;
        s->exif_bytes = n;
    } else if (starts_with(p, n, xmp, sizeof xmp)) {
        s->xmp = p + sizeof xmp;
        s->xmp_bytes = n - sizeof xmp;
    }
}

static bool is_frame_header(uint8_t marker) {
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static sac_status read_segments(const sac_decode_args *a, jpeg_segments *s) {
    const uint8_t *p = a->bytes;
    size_t at = 2;
    while (at + 4 <= a->n_bytes) {
        uint8_t marker = p[at + 1];
        if (p[at] != 0xff || marker == 0xff || marker == 0) { /* fill bytes and stray data */
            at++;
            continue;
        }
        if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd8)) { /* markers that stand alone */
            at += 2;
            continue;
        }
        if (marker == 0xd9 || marker == 0xda) break;
        size_t n = sac_be16(p + at + 2);
        if (n < 2 || n > a->n_bytes - at - 2)
            return sac_fail(a->err, SAC_BAD_FILE, "truncated in the segment at byte %zu", at);
        const uint8_t *data = p + at + 4;
        if (marker == 0xe1) read_app1(s, data, n - 2);
        if (is_frame_header(marker) && n >= 8) {
            if (data[0] != 8)
                return sac_fail(a->err, SAC_BAD_FILE, "%d bits a channel, 8 are supported", data[0]);
            s->height = sac_be16(data + 1);
            s->width = sac_be16(data + 3);
            s->n_components = data[5];
        }
        at += 2 + n;
    }
    if (s->n_components == 0) return sac_fail(a->err, SAC_BAD_FILE, "truncated or damaged: no frame header");
    if (s->n_components != 1 && s->n_components != 3 && s->n_components != 4)
        return sac_fail(a->err, SAC_BAD_FILE, "%d colour channels; 1, 3 and 4 are supported",
                        s->n_components);
    return sac_image_check_size(s->width, s->height, a->limits, a->err);
}

#ifdef SAC_TURBOJPEG

#include <setjmp.h>
#include <stdio.h>

#include <jpeglib.h>

/* Each scan of a progressive file passes over the whole picture, so a few bytes a scan can keep a decoder
 * busy for hours; encoders write about ten. */
#define MAX_SCANS 500

typedef struct decoder {
    struct jpeg_decompress_struct jpeg;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    char message[JMSG_LENGTH_MAX];
} decoder;

static void on_error(j_common_ptr jpeg) {
    decoder *d = jpeg->client_data;
    jpeg->err->format_message(jpeg, d->message);
    longjmp(d->escape, 1);
}
static void on_message(j_common_ptr jpeg) {
    (void)jpeg; /* warnings: Pillow ignores them, and nothing is printed by a library */
}
static void on_progress(j_common_ptr jpeg) {
    decoder *d = jpeg->client_data;
    if (d->jpeg.input_scan_number <= MAX_SCANS) return;
    snprintf(d->message, sizeof d->message, "more than %d scans", MAX_SCANS);
    longjmp(d->escape, 1);
}
static void source_idle(j_decompress_ptr jpeg) {
    (void)jpeg;
}
static boolean source_dry(j_decompress_ptr jpeg) {
    (void)jpeg;
    return FALSE;
}
static void source_skip(j_decompress_ptr jpeg, long n_bytes) {
    size_t n = (size_t)n_bytes;
    if (n_bytes <= 0) return;
    if (n > jpeg->src->bytes_in_buffer) n = jpeg->src->bytes_in_buffer;
    jpeg->src->next_input_byte += n;
    jpeg->src->bytes_in_buffer -= n;
}

static void set_up(decoder *d, const sac_decode_args *a) {
    d->jpeg.err = jpeg_std_error(&d->errors);
    d->errors.error_exit = on_error;
    d->errors.output_message = on_message;
    d->jpeg.client_data = d;
    jpeg_create_decompress(&d->jpeg);
    d->source = (struct jpeg_source_mgr){.next_input_byte = a->bytes,
                                         .bytes_in_buffer = a->n_bytes,
                                         .init_source = source_idle,
                                         .fill_input_buffer = source_dry,
                                         .skip_input_data = source_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_idle};
    d->jpeg.src = &d->source;
    d->progress.progress_monitor = on_progress;
    d->jpeg.progress = &d->progress;
}

/* Pillow reads four channels as inverted ink (Adobe's habit), then r = w - c * w / 255 with w = 255 - k,
 * rounded. */
static void cmyk_to_rgb(uint8_t *rgb, const uint8_t *cmyk, int width) {
    for (int x = 0; x < width; x++, rgb += 3, cmyk += 4) {
        int white = cmyk[3];
        for (int c = 0; c < 3; c++) {
            int t = (255 - cmyk[c]) * white + 128;
            int v = white - (((t >> 8) + t) >> 8);
            rgb[c] = (uint8_t)(v < 0 ? 0 : v);
        }
    }
}

/* False when the data ran dry. *row is scratch for one row of CMYK. */
static bool decode_rows(decoder *d, const sac_decode_args *a, uint8_t **row) {
    struct jpeg_decompress_struct *j = &d->jpeg;
    if (jpeg_read_header(j, TRUE) != JPEG_HEADER_OK) return false;
    if (j->image_width != (JDIMENSION)a->image->width || j->image_height != (JDIMENSION)a->image->height) {
        snprintf(d->message, sizeof d->message, "two frame headers of different size");
        longjmp(d->escape, 1);
    }
    bool cmyk = j->num_components == 4;
    j->out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    if (!jpeg_start_decompress(j)) return false;
    if (cmyk && !(*row = malloc((size_t)a->image->width * 4))) {
        snprintf(d->message, sizeof d->message, "no memory for a row");
        longjmp(d->escape, 1);
    }
    while (j->output_scanline < j->output_height) {
        uint8_t *rgb = a->image->rgb + (size_t)j->output_scanline * (size_t)a->image->width * 3;
        uint8_t *target = cmyk ? *row : rgb;
        if (jpeg_read_scanlines(j, &target, 1) != 1) return false;
        if (cmyk) cmyk_to_rgb(rgb, *row, a->image->width);
    }
    jpeg_finish_decompress(j); /* for the errors on the way to the end marker; that one may be missing */
    return true;
}

static sac_status decode_pixels(const sac_decode_args *a, const jpeg_segments *s) {
    SAC_TRY(sac_image_alloc(a->image, s->width, s->height, a->limits, a->err));
    decoder *d = calloc(1, sizeof *d);
    uint8_t **row = calloc(1, sizeof *row); /* on the heap: locals may be lost by longjmp */
    volatile sac_status st = SAC_OK;
    if (!d || !row) {
        st = sac_fail(a->err, SAC_NO_MEMORY, "no memory for the decoder");
    } else if (setjmp(d->escape) == 0) {
        set_up(d, a);
        if (!decode_rows(d, a, row)) st = sac_fail(a->err, SAC_BAD_FILE, "truncated: %zu bytes", a->n_bytes);
    } else {
        st = sac_fail(a->err, SAC_BAD_FILE, "damaged: %s", d->message);
    }
    if (d) jpeg_destroy_decompress(&d->jpeg);
    if (row) free(*row);
    free(row);
    free(d);
    return st;
}

#else

static sac_status decode_pixels(const sac_decode_args *a, const jpeg_segments *s) {
    bool ended = false; /* stb makes up what is missing at the end */
    for (size_t i = a->n_bytes - 1; i > 0 && !ended; i--)
        ended = a->bytes[i - 1] == 0xff && a->bytes[i] == 0xd9;
    if (!ended) return sac_fail(a->err, SAC_BAD_FILE, "truncated: no end marker");
    size_t max_block = ((size_t)s->width + 64) * ((size_t)s->height + 64) * 12 + ((size_t)1 << 20);
    const char *reason;
    int w, h;
    uint8_t *rgb = sac_stb_decode(a->bytes, a->n_bytes, 3, false, max_block, &w, &h, &reason);
    if (!rgb) return sac_fail(a->err, SAC_BAD_FILE, "damaged: %s", reason);
    *a->image = (sac_image){rgb, w, h};
    return SAC_OK;
}

#endif

sac_status sac_decode_jpeg(const sac_decode_args *a) {
    jpeg_segments s = {0};
    SAC_TRY(read_segments(a, &s));
    SAC_TRY(decode_pixels(a, &s));
    if (s.exif) *a->orientation = sac_exif_orientation(s.exif, s.exif_bytes);
    if (*a->orientation == 0 && s.xmp) *a->orientation = sac_xmp_orientation(s.xmp, s.xmp_bytes);
    return SAC_OK;
}
