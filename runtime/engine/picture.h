/* picture.h - a single picture of a conversation, wherever its pixels come from: a file, decoded pixels, or
 * prepared tiles. */
#ifndef SAC_ENGINE_PICTURE_H
#define SAC_ENGINE_PICTURE_H

#include "engine.h"
#include "image.h"

/* One of: path, bytes, prepared, rgb. All borrowed. */
typedef struct sac_picture {
    const char *path;
    const void *bytes;
    size_t n_bytes;
    const sac_prepared *prepared;
    const uint8_t *rgb; /* [height] rows of row_bytes */
    size_t row_bytes;
    int width, height; /* of rgb */
    double time_s;     /* of a frame */
} sac_picture;

/* What a part is beneath: IMAGE, VIDEO or FRAMES for all that is not text. */
sac_part_kind sac_part_content(const sac_part *p);

/* Sizes of PIXELS, before anything of them is read; OK for other parts. */
sac_status sac_part_check(const sac_part *p, sac_error *err);

/* The files or pictures of a part: one, or as many as FRAMES and PIXELS list. A video file counts as one, and
 * sac_part_picture gives its path or bytes. */
size_t sac_part_n_pictures(const sac_part *p);
sac_picture sac_part_picture(const sac_part *p, size_t i);

/* Width and height where no decoding is needed for them. */
bool sac_picture_has_size(const sac_picture *p, int *width, int *height);

/* Pixels of a picture that is not prepared: decoded, or packed rows of the caller's, copied only where there
 * are gaps between rows. Both are let go of by sac_picture_close. */
sac_status sac_picture_open(sac_image *image, const sac_picture *p, sac_error *err);
void sac_picture_close(sac_image *image, const sac_picture *p);

#endif
