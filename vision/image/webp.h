/* webp.h - finds the picture in a WebP file (RIFF chunks; no decoding). */
#ifndef SAC_WEBP_H
#define SAC_WEBP_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sac_webp {
    const uint8_t *chunk; /* the VP8 or VP8L chunk with its head, in the caller's bytes */
    size_t chunk_bytes;
    int width, height;
} sac_webp;

/* Of an animation, the first frame. Alpha and metadata are passed over. BAD_FILE for what is no whole WebP
 * file; UNSUPPORTED when the picture covers a part of its canvas only. */
sac_status sac_webp_find(sac_webp *w, const uint8_t *bytes, size_t n_bytes, sac_error *err);

/* The chunk as a file of its own: with nothing else in it, less can go wrong in a decoder. */
size_t sac_webp_file_bytes(const sac_webp *w);
void sac_webp_write_file(const sac_webp *w, uint8_t *file);

#endif
