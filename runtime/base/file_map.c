#define _GNU_SOURCE
#include "file_map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static sac_status open_regular(int *fd, size_t *n_bytes, const char *path, sac_error *err) {
    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* NONBLOCK: opening a FIFO must not hang */
    if (*fd < 0) {
        int e = errno;
        return sac_fail(err, e == ENOENT || e == ENOTDIR ? SAC_NOT_FOUND : SAC_IO, "%s: %s", path,
                        strerror(e));
    }
    struct stat st;
    if (fstat(*fd, &st) != 0 || !S_ISREG(st.st_mode)) {
        close(*fd);
        return sac_fail(err, SAC_BAD_FILE, "%s: not a regular file", path);
    }
    *n_bytes = (size_t)st.st_size;
    return SAC_OK;
}

sac_status sac_file_map_open(sac_file_map *m, const char *path, sac_error *err) {
    memset(m, 0, sizeof *m);
    int fd;
    size_t n;
    SAC_TRY(open_regular(&fd, &n, path, err));
    if (n > 0) {
        void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED) {
            int e = errno;
            close(fd);
            return sac_fail(err, SAC_IO, "%s: cannot map %zu bytes: %s", path, n, strerror(e));
        }
        m->data = p;
        m->n_bytes = n;
    }
    close(fd);
    return SAC_OK;
}

void sac_file_unmap(sac_file_map *m) {
    if (m->data) munmap((void *)(uintptr_t)m->data, m->n_bytes);
    memset(m, 0, sizeof *m);
}

sac_status sac_file_read(char **out, size_t *n_bytes, const char *path, size_t max_bytes, sac_error *err) {
    *out = NULL;
    int fd;
    size_t n, got = 0;
    SAC_TRY(open_regular(&fd, &n, path, err));
    if (n > max_bytes) {
        close(fd);
        return sac_fail(err, SAC_BAD_FILE, "%s: %zu bytes, more than the %zu expected of such a file", path,
                        n, max_bytes);
    }
    char *buf = malloc(n + 1);
    if (!buf) {
        close(fd);
        return sac_fail(err, SAC_NO_MEMORY, "%s: no memory for %zu bytes", path, n);
    }
    while (got < n) {
        ssize_t r = read(fd, buf + got, n - got);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) break;
        got += (size_t)r;
    }
    close(fd);
    if (got < n) {
        free(buf);
        return sac_fail(err, SAC_IO, "%s: read ended at byte %zu of %zu", path, got, n);
    }
    buf[n] = 0;
    *out = buf;
    if (n_bytes) *n_bytes = n;
    return SAC_OK;
}

int sac_file_is_lfs_pointer(const sac_file_map *m) {
    static const char first[] = "version https://git-lfs";
    return m->n_bytes >= sizeof first - 1 && memcmp(m->data, first, sizeof first - 1) == 0;
}

int sac_file_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

int sac_folder_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

sac_status sac_path_join(char *buf, size_t buf_bytes, const char *folder, const char *name, sac_error *err) {
    int n = snprintf(buf, buf_bytes, "%s/%s", folder, name);
    if (n < 0 || (size_t)n >= buf_bytes)
        return sac_fail(err, SAC_BAD_ARGUMENT, "%.60s/...: path longer than %zu bytes", folder,
                        buf_bytes - 1);
    return SAC_OK;
}
