/* store_file.h - blocks of rows (store_index.h) as files of a folder that outlives the process: one file a block, named by
 * its key, with a checksum. Several servers may have one folder: a file appears under its name whole, and what is in it is
 * compared with what was asked for. Files are strangers': sizes are checked before anything is read, and the only thing
 * taken from one is the bytes of rows that it has for exactly those identities.
 *
 * The limit is kept by who writes: before it would be passed the files that have not been used for longest are removed.
 * Others' files count; those that they have written since the folder was last looked through do not, which is a sixteenth
 * of the limit a writer at most. */
#ifndef SAC_ENGINE_STORE_FILE_H
#define SAC_ENGINE_STORE_FILE_H

#include "saccade/saccade.h"
#include "store_index.h"

#include <stdatomic.h>

/* Bytes before the data. */
enum { SAC_STORE_HEADER = 128, SAC_STORE_FILE_HEAD = SAC_STORE_HEADER + SAC_STORE_ROWS * (int)sizeof(sac_store_row) };

typedef struct sac_store_dir {
    int fd;
    char *path;
    size_t limit_bytes, unscanned_bytes; /* written since the folder was looked through */
    atomic_size_t used_bytes;
    int64_t stopped_until_ns; /* a write failed */
    bool has_said_full;
    atomic_int n_said; /* lines about damaged files */
    void (*say)(void *ctx, const char *line);
    void *say_ctx;
} sac_store_dir;

/* Makes the folder where there is none (for its owner alone), removes what writers that are no more have left unfinished.
 * IO, NO_MEMORY. */
sac_status sac_store_dir_open(sac_store_dir *d, const sac_store_options *o, sac_error *err);
void sac_store_dir_close(sac_store_dir *d);

/* From any thread. */
bool sac_store_dir_has(const sac_store_dir *d, const sac_store_key *key);

/* Reads the data of the block, of which key, before, rows and n_bytes are filled in, and marks the file as used. False: it is
 * not there, or damaged or of something else, and then removed with one line. From any thread. */
bool sac_store_dir_read(sac_store_dir *d, sac_store_block *b);

/* Writes the block, unless it is there already, and marks it as used. False: it was not written. After a failure nothing is
 * written for a minute; the first one is told in one line. From one thread. */
bool sac_store_dir_write(sac_store_dir *d, const sac_store_block *b);

/* Whether the bytes of a file hold the block: NULL, or what is wrong. data: where its rows begin. */
const char *sac_store_file_check(const uint8_t *bytes, size_t n_bytes, const sac_store_block *b, const uint8_t **data);

/* The bytes before the data, as a file of the block has them. */
void sac_store_file_head(uint8_t head[SAC_STORE_FILE_HEAD], const sac_store_block *b);

#endif
