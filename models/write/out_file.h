/* out_file.h - a file that is written from beginning to end, under the name PATH.part until all of it is on the disk. */
#ifndef SAC_MODELS_OUT_FILE_H
#define SAC_MODELS_OUT_FILE_H

#include "round_rows.h"

typedef struct sac_out_progress {
    void (*fn)(void *ctx, const char *stage, int64_t done, int64_t total); /* or NULL */
    void *ctx;
    uint64_t done, total;
} sac_out_progress;

typedef struct sac_out_file {
    int fd;
    char *path, *part;
    uint64_t n_bytes;
    sac_out_progress *progress; /* or NULL */
} sac_out_file;

sac_status sac_out_open(sac_out_file *f, const char *path, sac_out_progress *progress, sac_error *err);
sac_status sac_out_write(sac_out_file *f, const void *bytes, size_t n_bytes, sac_error *err);
/* Zeros up to a multiple of n. */
sac_status sac_out_align(sac_out_file *f, size_t n, sac_error *err);
/* All rows, a stretch at a time. */
sac_status sac_out_rounded(sac_out_file *f, const sac_rounded *r, sac_pool *pool, sac_error *err);
/* On the disk, and under its name. */
sac_status sac_out_close(sac_out_file *f, sac_error *err);
/* Removes what there is of it; nothing after sac_out_close. A zeroed one is fine. */
void sac_out_abandon(sac_out_file *f);

/* Names in a folder last only once the folder is on the disk. */
void sac_sync_folder_of(const char *path);

#endif
