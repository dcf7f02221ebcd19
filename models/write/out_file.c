#define _GNU_SOURCE
#include "out_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STRETCH_BYTES ((size_t)4 << 20)
#define SYNC_BYTES    ((uint64_t)256 << 20) /* so that the disk is busy while rows are rounded */
#define MARK_BYTES    ((uint64_t)64 << 10)

static sac_status failed(const sac_out_file *f, const char *what, int why, sac_error *err) {
    return sac_fail(err, SAC_IO, "%.250s: %s: %s", f->part, what, strerror(why));
}

sac_status sac_out_lock(int *fd, const char *path, int flags, sac_error *err) {
    for (int tries = 0; tries < 100; tries++) {
        struct stat held, named;
        *fd = open(path, flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
        if (*fd < 0 && errno == ENOENT && !(flags & O_CREAT)) return SAC_OK;
        if (*fd < 0) return sac_fail(err, SAC_IO, "%.250s: cannot be opened for writing: %s", path, strerror(errno));
        /* some network disks have no locks: there the user has to see to it */
        const bool is_taken = flock(*fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK;
        if (!is_taken && fstat(*fd, &held) == 0 && lstat(path, &named) == 0 && held.st_dev == named.st_dev &&
            held.st_ino == named.st_ino)
            return SAC_OK;
        close(*fd); /* renamed by a run that has just finished, where it is not taken */
        *fd = -1;
        if (is_taken) break;
    }
    return sac_fail(err, SAC_IO, "another run writes %.250s", path);
}

sac_status sac_out_take(sac_out_file *f, const char *path, sac_out_progress *progress, sac_error *err) {
    *f = (sac_out_file){.fd = -1, .path = strdup(path), .progress = progress};
    if (!f->path || asprintf(&f->part, "%s.part", path) < 0) {
        f->part = NULL;
        return sac_fail_no_memory(err);
    }
    struct stat st;
    SAC_TRY(sac_out_lock(&f->fd, f->part, O_WRONLY | O_CREAT, err));
    if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_nlink <= 1) return SAC_OK;
    close(f->fd);
    f->fd = -1;
    return sac_fail(err, SAC_IO, "%.250s: no file, or one with other names too; remove it", f->part);
}

sac_status sac_out_open(sac_out_file *f, const char *path, sac_out_progress *progress, sac_error *err) {
    SAC_TRY(sac_out_take(f, path, progress, err));
    return ftruncate(f->fd, 0) ? failed(f, "cannot be written", errno, err) : SAC_OK;
}

sac_status sac_out_write(sac_out_file *f, const void *bytes, size_t n_bytes, sac_error *err) {
    const uint8_t *at = bytes;
    for (size_t left = n_bytes; left;) {
        ssize_t n = write(f->fd, at, left);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return failed(f, "cannot be written", n < 0 ? errno : ENOSPC, err);
        at += n;
        left -= (size_t)n;
    }
    if (f->n_bytes / SYNC_BYTES != (f->n_bytes + n_bytes) / SYNC_BYTES && fdatasync(f->fd))
        return failed(f, "cannot be written", errno, err);
    f->n_bytes += n_bytes;
    if (!f->progress) return SAC_OK;
    f->progress->done += n_bytes;
    if (f->progress->fn)
        f->progress->fn(f->progress->ctx, "quantize", (int64_t)f->progress->done, (int64_t)f->progress->total);
    return SAC_OK;
}

void sac_out_state_text(char text[SAC_OUT_STATE_BYTES + 1], const char *of, uint64_t n_bytes) {
    snprintf(text, SAC_OUT_STATE_BYTES + 1, "%.64s %020llu\n", of, (unsigned long long)n_bytes);
}

/* The bytes first: a record that is older than the file is true all the same. */
sac_status sac_out_mark(sac_out_file *f, sac_error *err) {
    char text[SAC_OUT_STATE_BYTES + 1];
    if (!f->state || f->n_bytes - f->n_marked < MARK_BYTES) return SAC_OK;
    if (fdatasync(f->fd)) return failed(f, "cannot be written", errno, err);
    sac_out_state_text(text, f->of, f->n_bytes);
    const int fd = open(f->state, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    const bool is_written = fd >= 0 && pwrite(fd, text, SAC_OUT_STATE_BYTES, 0) == SAC_OUT_STATE_BYTES;
    const int why = errno;
    if (fd >= 0) close(fd);
    if (!is_written) return sac_fail(err, SAC_IO, "%.250s: cannot be written: %s", f->state, strerror(why));
    f->n_marked = f->n_bytes;
    return SAC_OK;
}

sac_status sac_out_align(sac_out_file *f, size_t n, sac_error *err) {
    static const uint8_t zeros[64];
    const size_t over = (size_t)(f->n_bytes % n);
    return over ? sac_out_write(f, zeros, n - over, err) : SAC_OK;
}

sac_status sac_out_rounded(sac_out_file *f, const sac_rounded *r, sac_pool *pool, sac_error *err) {
    if (r->rows <= 0 || r->cols <= 0) return SAC_OK;
    const size_t row_bytes = sac_rounded_row_bytes(r), wide = (size_t)r->cols * 4;
    int64_t stretch = (int64_t)(STRETCH_BYTES / (wide > row_bytes ? wide : row_bytes) + 1);
    if (stretch > r->rows) stretch = r->rows;
    uint8_t *rows = malloc((size_t)stretch * row_bytes + 1);
    if (!rows) return sac_fail_no_memory(err);
    sac_status st = SAC_OK;
    for (int64_t at = 0; at < r->rows && st == SAC_OK; at += stretch) {
        const int64_t n = r->rows - at < stretch ? r->rows - at : stretch;
        st = sac_round_rows(r, at, n, rows, pool, err);
        if (st == SAC_OK) st = sac_out_write(f, rows, (size_t)n * row_bytes, err);
        const size_t from_row = sac_dtype_row_bytes((sac_dtype)r->from->dtype, r->cols);
        if (!r->heads) sac_let_go(r->from, (size_t)at * from_row, (size_t)(at + n) * from_row);
    }
    sac_let_go(r->from, 0, r->from->n_bytes);
    free(rows);
    return st;
}

void sac_sync_folder_of(const char *path) {
    char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash) slash[slash == copy] = 0;
    int fd = open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        (void)fsync(fd);
        close(fd);
    }
    free(copy);
}

sac_status sac_out_close(sac_out_file *f, sac_error *err) {
    if (fsync(f->fd)) return failed(f, "cannot be written", errno, err);
    if (f->state) unlink(f->state); /* first: no state is left behind a whole file */
    if (rename(f->part, f->path)) return failed(f, "cannot be renamed", errno, err);
    sac_sync_folder_of(f->path);
    close(f->fd); /* and with it the lock, so not before the rename */
    free(f->path);
    free(f->part);
    free(f->state);
    *f = (sac_out_file){.fd = -1};
    return SAC_OK;
}

void sac_out_abandon(sac_out_file *f) {
    if (!f->path) return;
    if (f->fd >= 0) {
        if (!f->n_marked) unlink(f->part);
        if (f->state && !f->n_marked) unlink(f->state);
        close(f->fd);
    }
    free(f->path);
    free(f->part);
    free(f->state);
    *f = (sac_out_file){.fd = -1};
}
