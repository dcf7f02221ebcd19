/* caption_tar.h - members of a WebDataset shard, by their number, in one pass forward (libarchive). */
#ifndef APP_CAPTION_TAR_H
#define APP_CAPTION_TAR_H

#include "saccade/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CAPTION_MEMBER_MAX_BYTES  ((int64_t)2 << 30)
#define CAPTION_TAR_MEMBERS_MAX   ((int64_t)1 << 28)
#define CAPTION_MEMBER_NAME_BYTES 4096

typedef struct caption_tar caption_tar;

/* Plain, or packed with gzip or zstd. On failure *out is NULL. */
sac_status caption_tar_open(caption_tar **out, const char *path, sac_error *err);
void caption_tar_close(caption_tar *t); /* NULL is fine */

typedef struct caption_member {
    const char *name; /* until the next member is read; any bytes */
    int64_t number;   /* from 0, of all members */
    int64_t n_bytes;
    bool is_file; /* no folder, link or device */
} caption_member;

/* The next member; *more is false behind the last. BAD_FILE where the tar is broken: nothing can be read
 * after that. */
sac_status caption_tar_next(caption_tar *t, caption_member *m, bool *more, sac_error *err);

/* All bytes of the member that was read last, in *bytes (to free). */
sac_status caption_tar_read(caption_tar *t, uint8_t **bytes, size_t *n_bytes, sac_error *err);

/* The part of a name up to the first dot behind its last slash: *n_key bytes; returns what comes after the
 * dot, or NULL. */
const char *caption_tar_key(const char *name, size_t *n_key);

#endif
