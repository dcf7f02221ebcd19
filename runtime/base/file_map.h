/* file_map.h - a file's bytes, mapped read-only. */
#ifndef SAC_BASE_FILE_MAP_H
#define SAC_BASE_FILE_MAP_H

#include "status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sac_file_map {
    const uint8_t *data; /* NULL for an empty file */
    size_t n_bytes;
} sac_file_map;

/* Regular files only (a FIFO or device would block or never end). The mapping lives until sac_file_unmap. A
 * file that another process truncates while mapped raises SIGBUS on access: model folders must not be
 * rewritten in place while in use. */
sac_status sac_file_map_open(sac_file_map *m, const char *path, sac_error *err);
void sac_file_unmap(sac_file_map *m); /* a zeroed map is fine */

/* Whole file as a fresh NUL-terminated heap buffer, refused above max_bytes; free() it. For small files
 * (configs). */
sac_status sac_file_read(char **out, size_t *n_bytes, const char *path, size_t max_bytes, sac_error *err);

/* What git leaves in the place of a large file that was not fetched. */
int sac_file_is_lfs_pointer(const sac_file_map *m);

/* True when `path` names an existing regular file / folder. */
int sac_file_exists(const char *path);
int sac_folder_exists(const char *path);

/* "folder/name" into buf; BAD_ARGUMENT when it does not fit. */
sac_status sac_path_join(char *buf, size_t buf_bytes, const char *folder, const char *name, sac_error *err);

#endif
