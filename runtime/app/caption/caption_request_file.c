#define _GNU_SOURCE
#include "caption_request.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Larger files are opened in their place when their turn comes. */
#define READ_AHEAD_BYTES ((off_t)64 << 20)

sac_status caption_read_file(int fd, const char *path, size_t n_bytes, uint8_t **bytes, size_t *n,
                             sac_error *err) {
    uint8_t *data = malloc(n_bytes + 1);
    if (!data) return sac_fail_no_memory(err);
    for (*n = 0; *n < n_bytes;) {
        ssize_t got = read(fd, data + *n, n_bytes - *n);
        if (got < 0) sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno));
        if (got < 0) free(data);
        if (got < 0) return err->status;
        if (got == 0) break;
        *n += (size_t)got;
    }
    *bytes = data;
    return SAC_OK;
}

sac_status caption_request_add_file(caption_request *q, const caption_how *how, media_kind kind,
                                    const char *path, sac_error *err) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hold the job up */
    struct stat st;
    if (fd < 0)
        return sac_fail(err, errno == ENOENT ? SAC_NOT_FOUND : SAC_IO, "%s: %s", path, strerror(errno));
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return sac_fail(err, SAC_BAD_FILE, "%s: not a file", path);
    }
    if (kind != MEDIA_IMAGE || st.st_size > READ_AHEAD_BYTES) {
        close(fd);
        return conversation_add_media(&q->c, &(media_item){.kind = kind, .path = (char *)path}, how->s, err);
    }
    uint8_t *bytes = NULL;
    size_t n = 0;
    sac_status s = caption_read_file(fd, path, (size_t)st.st_size, &bytes, &n, err);
    close(fd);
    if (s != SAC_OK) return s;
    q->n_bytes += n;
    return conversation_add_bytes(&q->c, MEDIA_IMAGE, bytes, n, how->s, err);
}
