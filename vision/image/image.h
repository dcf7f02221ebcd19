/* image.h - pictures from bytes of unknown origin to 8-bit RGB.
 *
 * The result is what Pillow gives for ImageOps.exif_transpose(Image.open(f)).convert("RGB"), which is what
 * transformers feeds its image processors: alpha is dropped, palettes are looked up, grey is repeated, 16
 * bits keep what Pillow keeps, CMYK is converted by Pillow's formula. */
#ifndef SAC_IMAGE_H
#define SAC_IMAGE_H

#include "status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* [height][width][3], rows packed. A zeroed sac_image is empty and may be freed. */
typedef struct sac_image {
    uint8_t *rgb;
    int width, height;
} sac_image;

/* Refusals made before anything is allocated for the pixels. */
typedef struct sac_image_limits {
    int64_t max_bytes;  /* of the encoded file */
    int64_t max_pixels; /* width times height */
} sac_image_limits;

/* 256 MiB, and 178,956,970 pixels: Pillow's limit, twice its warning. */
sac_image_limits sac_image_limits_default(void);

/* Decodes by content; a name never matters. limits may be NULL (the default). BAD_FILE for what is not a
 * whole picture of a known format, UNSUPPORTED for a format that this build leaves out. On failure *out is
 * empty. */
sac_status sac_image_decode(sac_image *out, const uint8_t *bytes, size_t n_bytes,
                            const sac_image_limits *limits, sac_error *err);

/* The same for a file; the error names it. */
sac_status sac_image_open(sac_image *out, const char *path, const sac_image_limits *limits, sac_error *err);

/* Does this build read "TIFF", "HEIC", "AVIF", "JPEG 2000", "JPEG XL"...? */
bool sac_image_can_read(const char *name);

/* For a process that is about to give up its rights: what the library of this file's format opens is opened now. True where
 * decoding starts a thread (libde265 of HEIC has one, whatever it is told). Nothing of the file but its signature is read. */
bool sac_image_prepare(const uint8_t *bytes, size_t n_bytes);

/* Memory for width x height pixels (not cleared) after the check against limits; for decoders. */
sac_status sac_image_alloc(sac_image *out, int64_t width, int64_t height, const sac_image_limits *limits,
                           sac_error *err);

void sac_image_free(sac_image *image);

#endif
