/* caption_bytes.h - pictures and videos as they are in the input. */
#ifndef APP_CAPTION_BYTES_H
#define APP_CAPTION_BYTES_H

#include "caption_request.h"

/* An item's picture or video as it is in the input; data: to free, NULL where the item is another number of files than
 * one. ending: without its dot. */
typedef struct caption_bytes {
    uint8_t *data;
    size_t n_bytes;
    char ending[32];
} caption_bytes;
sac_status caption_read_media(caption_reader *r, size_t source, size_t index, caption_bytes *out,
                              sac_error *err);

#endif
