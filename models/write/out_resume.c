#define _GNU_SOURCE
#include "out_resume.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* As sac_out_mark writes it, and only so: no blanks, signs or fewer digits. */
static bool read_state(const char *path, char of[SAC_OUT_OF_BYTES], uint64_t *n_bytes) {
    char text[SAC_OUT_STATE_BYTES + 1] = "", again[SAC_OUT_STATE_BYTES + 1];
    const int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) return false;
    const ssize_t n = read(fd, text, SAC_OUT_STATE_BYTES);
    close(fd);
    unsigned long long done;
    if (n != SAC_OUT_STATE_BYTES || sscanf(text, "%64[0-9a-f] %20llu", of, &done) != 2) return false;
    sac_out_state_text(again, of, done);
    if (memcmp(text, again, SAC_OUT_STATE_BYTES) != 0) return false;
    *n_bytes = done;
    return true;
}

sac_status sac_out_is_of_another(const char *part, sac_error *err) {
    return sac_fail(err, SAC_BAD_ARGUMENT,
                    "%.200s is left of a run with another format, source or list of prompts, or of another version of saccade; remove "
                    "it, or give another name",
                    part);
}

sac_status sac_out_resume_find(const char *path, const char of[SAC_OUT_OF_BYTES], uint64_t *n_bytes, sac_error *err) {
    char *part = NULL, *state = NULL, was[SAC_OUT_OF_BYTES];
    struct stat st;
    sac_status result = SAC_OK;
    *n_bytes = 0;
    if (asprintf(&part, "%s.part", path) < 0 || asprintf(&state, "%s.part.state", path) < 0)
        result = sac_fail_no_memory(err);
    else if (lstat(part, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0 && read_state(state, was, n_bytes)) {
        if (strcmp(was, of) != 0)
            result = sac_out_is_of_another(part, err);
        if ((uint64_t)st.st_size < *n_bytes) *n_bytes = 0; /* another file of that name */
    }
    free(part);
    free(state);
    return result;
}

sac_status sac_out_resume(sac_out_file *f, const char *path, const char of[SAC_OUT_OF_BYTES], sac_out_progress *progress, sac_error *err) {
    uint64_t n_bytes;
    SAC_TRY(sac_out_take(f, path, progress, err));
    const sac_status st = sac_out_resume_find(path, of, &n_bytes, err); /* now that no other run has it */
    if (st != SAC_OK) {                                                 /* what is there stays */
        close(f->fd);
        f->fd = -1;
        return st;
    }
    if (asprintf(&f->state, "%s.state", f->part) < 0) {
        f->state = NULL;
        return sac_fail_no_memory(err);
    }
    f->of = of;
    f->n_bytes = f->n_marked = n_bytes;
    if (!n_bytes) unlink(f->state); /* of a file that is gone */
    if (ftruncate(f->fd, (off_t)n_bytes) || lseek(f->fd, (off_t)n_bytes, SEEK_SET) < 0)
        return sac_fail(err, SAC_IO, "%.250s: cannot be written: %s", f->part, strerror(errno));
    return SAC_OK;
}
