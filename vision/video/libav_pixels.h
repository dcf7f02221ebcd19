/* libav_pixels.h - decoded frames of any pixel format to RGB, with libswscale. */
#ifndef SAC_LIBAV_PIXELS_H
#define SAC_LIBAV_PIXELS_H

#include "image.h"
#include "status.h"

#include <stdint.h>

struct AVFrame;
typedef struct sac_libav_rgb sac_libav_rgb; /* keeps tables and memory between frames */

sac_libav_rgb *sac_libav_rgb_create(void); /* NULL: no memory */
void sac_libav_rgb_free(sac_libav_rgb *c); /* NULL is fine */

/* f to 8-bit RGB at its own size. *lent is valid until the next call or the free. BAD_FILE above max_pixels
 * and for formats that libswscale cannot convert. */
sac_status sac_libav_rgb_convert(sac_libav_rgb *c, const struct AVFrame *f, int64_t max_pixels,
                                 sac_image *lent, sac_error *err);

#endif
