#define _GNU_SOURCE
#include "caption_seen.h"
#include "hash.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { END_BYTES = 1 << 20 };

/* Of up to n bytes from `at`, which a file that became shorter does not have. */
static bool hash_part(int fd, uint64_t *h, uint8_t *buffer, off_t at, size_t n) {
    size_t got = 0;
    while (got < n) {
        ssize_t more = pread(fd, buffer + got, n - got, at + (off_t)got);
        if (more < 0 && errno == EINTR) continue;
        if (more < 0) return false;
        if (!more) break;
        got += (size_t)more;
    }
    *h = sac_hash_quick(*h, buffer, got);
    return true;
}

uint64_t caption_content_hash(const char *path) {
    struct stat info;
    uint8_t *buffer = malloc(END_BYTES);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    bool ok = buffer && fd >= 0 && !fstat(fd, &info) && S_ISREG(info.st_mode);
    uint64_t h = 0;
    if (ok) {
        int64_t n = info.st_size;
        int64_t last =
            n > 2 * END_BYTES ? n - END_BYTES : END_BYTES; /* what the first part has already is left out */
        h = sac_hash_quick(0, &n, sizeof n);
        ok = hash_part(fd, &h, buffer, 0, END_BYTES) &&
             (n <= last || hash_part(fd, &h, buffer, last, (size_t)(n - last)));
    }
    if (fd >= 0) close(fd);
    free(buffer);
    return !ok ? 0 : h ? h : 1;
}

int64_t caption_mtime_ns(const struct stat *info) {
    int64_t ns = (int64_t)info->st_mtim.tv_sec * 1000000000 + info->st_mtim.tv_nsec;
    return ns ? ns : 1;
}

void caption_seen_text(const caption_item *item, uint64_t content, char text[CAPTION_SEEN_BYTES]) {
    int n = snprintf(text, CAPTION_SEEN_BYTES, "%016" PRIx64, item->seen);
    if (item->mtime_ns && content)
        snprintf(text + n, (size_t)(CAPTION_SEEN_BYTES - n), ".%" PRIx64 ".%016" PRIx64,
                 (uint64_t)item->mtime_ns, content);
}

bool caption_looks_the_same(const caption_source *s, const caption_item *item, const json_t *record) {
    char now[CAPTION_SEEN_BYTES], *path = NULL;
    const char *seen = json_string_value(json_object_get(record, CAPTION_SEEN_KEY));
    uint64_t mtime, content;
    caption_seen_text(item, 0, now);
    if (!seen || strncmp(seen, now, 16)) return false;
    if (!item->mtime_ns || sscanf(seen + 16, ".%" SCNx64 ".%" SCNx64, &mtime, &content) != 2 ||
        mtime == (uint64_t)item->mtime_ns)
        return true;
    if (!(path = caption_item_path(s, item))) return false;
    bool same = caption_content_hash(path) == content;
    free(path);
    return same;
}
