/* image_formats.h - the decoders behind image.h, one file each. */
#ifndef SAC_VISION_IMAGE_FORMATS_H
#define SAC_VISION_IMAGE_FORMATS_H

#include "image.h"

/* A format's decoder fills `image` with the picture as stored, and `orientation` with what its metadata asks
 * for (0 when silent). It checks the size that the header claims with sac_image_alloc or sac_image_check_size
 * before it takes memory in proportion to it. The bytes start with the format's signature. */
typedef struct sac_decode_args {
    const uint8_t *bytes;
    size_t n_bytes;
    const sac_image_limits *limits;
    sac_image *image; /* zeroed; what is in it after a failure is freed by the caller */
    int *orientation;
    sac_error *err;
} sac_decode_args;

sac_status sac_decode_png(const sac_decode_args *a);
sac_status sac_decode_jpeg(const sac_decode_args *a);
sac_status sac_decode_gif(const sac_decode_args *a);
sac_status sac_decode_bmp(const sac_decode_args *a);
sac_status sac_decode_webp(const sac_decode_args *a);

/* Those of libraries that a build may be without: NULL in the list of image.c. */
#ifdef SAC_TIFF
sac_status sac_decode_tiff(const sac_decode_args *a);
#else
#define sac_decode_tiff NULL
#endif
#ifdef SAC_HEIF
sac_status sac_decode_heif(const sac_decode_args *a);
void sac_heif_prepare(void); /* all that libheif opens, before a process is locked in */
#else
#define sac_decode_heif NULL
#endif
#ifdef SAC_JPEG2000
sac_status sac_decode_jp2(const sac_decode_args *a);
#else
#define sac_decode_jp2 NULL
#endif
#ifdef SAC_JPEGXL
sac_status sac_decode_jxl(const sac_decode_args *a);
#else
#define sac_decode_jxl NULL
#endif

sac_status sac_image_check_size(int64_t width, int64_t height, const sac_image_limits *limits,
                                sac_error *err);

/* A 256-entry table of colours over [height][width] indices. */
void sac_image_apply_palette(sac_image *image, const uint8_t *indices, uint8_t palette[256][3]);

#endif
