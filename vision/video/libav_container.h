/* libav_container.h - a container file and its first video stream, by FFmpeg's libraries: which formats are allowed, how bytes
 * come in, and bounds on what a hostile file may ask for. */
#ifndef SAC_LIBAV_CONTAINER_H
#define SAC_LIBAV_CONTAINER_H

#include "status.h"

#include <stdint.h>

struct AVFormatContext;

typedef struct sac_byte_source {
    int fd;               /* -1: bytes in memory */
    const uint8_t *bytes; /* borrowed */
    int64_t n_bytes, position;
} sac_byte_source;

/* Mutes libav's log and bounds its allocations, once for the process. */
void sac_libav_set_up(void);

/* The status for a failed allocation in libav: BAD_FILE when there is memory, but the file asked for more
 * than the bound; else NO_MEMORY. */
sac_status sac_libav_no_memory(sac_error *err);

/* Opens the file from its first byte and finds its first video stream; all others are discarded. *out may be set on failure, too:
 * close it in any case. The source is borrowed until then. No other file is opened, whatever the container names. */
sac_status sac_libav_container_open(struct AVFormatContext **out, int *stream, sac_byte_source *source,
                                    int64_t max_pixels, sac_error *err);
void sac_libav_container_close(struct AVFormatContext **container); /* NULL in it is fine */

/* Decoders count padding in, up to a few hundred pixels on each axis; the limit itself is checked on every
 * frame. */
int64_t sac_libav_padded_limit(int64_t max_pixels);

#endif
