/* image.c - which format, within which limits, which way up. */
#include "image.h"

#include "exif.h"
#include "file_map.h"
#include "image_formats.h"

#include <string.h>

typedef struct format {
    const char *name;
    const char *magic;
    size_t n_magic, at;
    sac_status (*decode)(const sac_decode_args *a); /* NULL: known by name only, to say what the file is */
} format;

static const format formats[] = {
    {"PNG", "\x89PNG\r\n\x1a\n", 8, 0, sac_decode_png},
    {"JPEG", "\xff\xd8\xff", 3, 0, sac_decode_jpeg},
    {"WebP", "WEBP", 4, 8, sac_decode_webp},
    {"GIF", "GIF87a", 6, 0, sac_decode_gif},
    {"GIF", "GIF89a", 6, 0, sac_decode_gif},
    {"BMP", "BM", 2, 0, sac_decode_bmp},
    {"TIFF", "II*\0", 4, 0, sac_decode_tiff},
    {"TIFF", "MM\0*", 4, 0, sac_decode_tiff},
    {"AVIF", "ftypavif", 8, 4, sac_decode_heif},
    {"AVIF", "ftypavis", 8, 4, sac_decode_heif},
    {"HEIC", "ftypheic", 8, 4, sac_decode_heif},
    {"HEIC", "ftypheix", 8, 4, sac_decode_heif},
    {"HEIF", "ftypmif1", 8, 4, sac_decode_heif},
    {"JPEG XL", "\xff\x0a", 2, 0, sac_decode_jxl},
    {"JPEG XL", "\0\0\0\x0cJXL ", 8, 0, sac_decode_jxl},
    {"JPEG 2000", "\0\0\0\x0cjP  ", 8, 0, sac_decode_jp2},
    {"JPEG 2000", "\xff\x4f\xff\x51", 4, 0, sac_decode_jp2},
    {"Photoshop", "8BPS", 4, 0, NULL},
    {"PDF", "%PDF-", 5, 0, NULL},
    {"MP4 video", "ftyp", 4, 4, NULL},
    {"Matroska or WebM video", "\x1a\x45\xdf\xa3", 4, 0, NULL},
};

static const format *sniff(const uint8_t *bytes, size_t n_bytes) {
    for (size_t i = 0; i < SAC_COUNT(formats); i++) {
        const format *f = &formats[i];
        if (n_bytes >= f->at + f->n_magic && memcmp(bytes + f->at, f->magic, f->n_magic) == 0) return f;
    }
    return NULL;
}

bool sac_image_can_read(const char *name) {
    for (size_t i = 0; i < SAC_COUNT(formats); i++)
        if (formats[i].decode && !strcmp(formats[i].name, name)) return true;
    return false;
}

bool sac_image_prepare(const uint8_t *bytes, size_t n_bytes) {
    (void)bytes, (void)n_bytes;
#ifdef SAC_HEIF
    const format *f = sniff(bytes, n_bytes);
    bool is_heif = f && f->decode == sac_decode_heif;
    if (is_heif) sac_heif_prepare();
    return is_heif;
#else
    return false;
#endif
}

sac_status sac_image_decode(sac_image *out, const uint8_t *bytes, size_t n_bytes,
                            const sac_image_limits *limits, sac_error *err) {
    *out = (sac_image){0};
    sac_image_limits standard = sac_image_limits_default();
    if (!limits) limits = &standard;
    if (n_bytes == 0) return sac_fail(err, SAC_BAD_FILE, "an empty file where a picture was expected");
    if (n_bytes > (uint64_t)limits->max_bytes)
        return sac_fail(err, SAC_BAD_FILE, "a picture file of %zu bytes, more than the %lld allowed", n_bytes,
                        (long long)limits->max_bytes);
    const format *f = sniff(bytes, n_bytes);
    if (!f) return sac_fail(err, SAC_BAD_FILE, "not a picture: none of " SAC_PICTURE_FORMATS);
    if (!f->decode)
        return sac_fail(err, SAC_UNSUPPORTED,
                        strstr(f->name, "video") ? "%s, no picture: give it as a video (--video)"
                                                 : "%s cannot be read as a picture: convert it to PNG, JPEG or WebP",
                        f->name);
    int orientation = 0;
    sac_status st = f->decode(&(sac_decode_args){bytes, n_bytes, limits, out, &orientation, err});
    if (st != SAC_OK)
        st = sac_fail_prefix(err, st, "%s picture", f->name);
    else
        st = sac_image_orient(out, orientation, err);
    if (st != SAC_OK) sac_image_free(out);
    return st;
}

sac_status sac_image_open(sac_image *out, const char *path, const sac_image_limits *limits, sac_error *err) {
    *out = (sac_image){0};
    sac_file_map map;
    SAC_TRY(sac_file_map_open(&map, path, err));
    sac_status st = sac_image_decode(out, map.data, map.n_bytes, limits, err);
    sac_file_unmap(&map);
    return st == SAC_OK ? SAC_OK : sac_fail_prefix(err, st, "%s", path);
}
