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
    /* of a file that a later run goes on with (out_resume.h); NULL otherwise */
    char *state;
    const char *of;
    uint64_t n_marked; /* bytes that it would have */
} sac_out_file;

/* Opens a file or folder that is written, by open's flags, and locks it until *fd is closed: no other run has it then, and
 * it bears its name still. IO where another run has it, or it is a symbolic link. Nothing there, and no O_CREAT: OK with
 * -1. */
sac_status sac_out_lock(int *fd, const char *path, int flags, sac_error *err);

/* IO where another run writes it, and where PATH.part is a link or has other names: nothing is lost then. */
sac_status sac_out_open(sac_out_file *f, const char *path, sac_out_progress *progress, sac_error *err);
/* The same, with what is in PATH.part still there. */
sac_status sac_out_take(sac_out_file *f, const char *path, sac_out_progress *progress, sac_error *err);
sac_status sac_out_write(sac_out_file *f, const void *bytes, size_t n_bytes, sac_error *err);
/* Zeros up to a multiple of n. */
sac_status sac_out_align(sac_out_file *f, size_t n, sac_error *err);
/* What a later run goes on with is what there is now: puts that on the disk, where it is some 64 KiB more than at the last time. Nothing for
 * other files. */
enum { SAC_OUT_STATE_BYTES = 64 + 1 + 20 + 1 }; /* "<what it is of> <bytes>\n" */
void sac_out_state_text(char text[SAC_OUT_STATE_BYTES + 1], const char *of, uint64_t n_bytes);
sac_status sac_out_mark(sac_out_file *f, sac_error *err);
/* All rows, a stretch at a time. */
sac_status sac_out_rounded(sac_out_file *f, const sac_rounded *r, sac_pool *pool, sac_error *err);
/* On the disk, and under its name. */
sac_status sac_out_close(sac_out_file *f, sac_error *err);
/* Removes what this sac_out_file has opened, but for what a later run goes on with; nothing after sac_out_close. A zeroed one is fine. */
void sac_out_abandon(sac_out_file *f);

/* Names in a folder last only once the folder is on the disk. */
void sac_sync_folder_of(const char *path);

#endif
