#define _GNU_SOURCE
#include "input.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sac_status input_open(FILE **out, const char *path, bool may_be_pipe, sac_error *err) {
    *out = NULL;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | (may_be_pipe ? 0 : O_NONBLOCK));
    if (fd < 0) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    bool is_fit = fstat(fd, &st) == 0 &&
                  (S_ISREG(st.st_mode) || (may_be_pipe && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode))));
    if (is_fit && (*out = fdopen(fd, "rb"))) return SAC_OK;
    close(fd);
    if (is_fit) return sac_fail_no_memory(err);
    return sac_fail(err, SAC_BAD_FILE, "%s: not a regular file%s", path,
                    may_be_pipe ? ", a pipe or a device" : "");
}

sac_status input_read(char **out, const char *path, size_t max_bytes, sac_error *err) {
    FILE *f;
    *out = NULL;
    SAC_TRY(input_open(&f, path, true, err));
    char *text = malloc(max_bytes + 2); /* one more than allowed tells a file that is too large */
    size_t n = text ? fread(text, 1, max_bytes + 1, f) : 0;
    sac_status st = SAC_OK;
    if (!text)
        st = sac_fail_no_memory(err);
    else if (ferror(f))
        st = sac_fail(err, SAC_IO, "%s: %s", path, strerror(errno));
    else if (n > max_bytes)
        st = sac_fail(err, SAC_BAD_FILE, "%s: larger than %zu bytes", path, max_bytes);
    else if (memchr(text, 0, n))
        st = sac_fail(err, SAC_BAD_FILE, "%s: not a text, it holds a zero byte", path);
    fclose(f);
    if (st != SAC_OK) {
        free(text);
        return st;
    }
    text[n] = 0;
    *out = text;
    return SAC_OK;
}

bool input_is_stream(const char *path) {
    struct stat st;
    if (!strcmp(path, "-")) return true;
    return stat(path, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISCHR(st.st_mode) || S_ISSOCK(st.st_mode));
}

/* Everything that is left of f, at most max_bytes. */
static sac_status read_rest(FILE *f, const char *name, size_t max_bytes, char **out, size_t *n_bytes, sac_error *err) {
    size_t room = 1 << 16, n = 0;
    char *bytes = malloc(room);
    while (bytes) {
        n += fread(bytes + n, 1, room - n, f);
        if (n < room || n > max_bytes) break;
        char *more = realloc(bytes, room *= 2);
        if (!more) free(bytes);
        bytes = more;
    }
    if (!bytes) return sac_fail_no_memory(err);
    *out = bytes;
    *n_bytes = n;
    if (ferror(f)) return sac_fail(err, SAC_IO, "%s: %s", name, strerror(errno));
    if (n > max_bytes) return sac_fail(err, SAC_TOO_LONG, "%s: more than %zu bytes", name, max_bytes);
    return n ? SAC_OK : sac_fail(err, SAC_BAD_FILE, "%s: nothing came", name);
}

sac_status input_read_bytes(void **out, size_t *n_bytes, const char *path, size_t max_bytes, sac_error *err) {
    bool is_stdin = !strcmp(path, "-");
    FILE *f = stdin;
    char *bytes = NULL;
    *out = NULL;
    *n_bytes = 0;
    if (!is_stdin) SAC_TRY(input_open(&f, path, true, err));
    sac_status st = read_rest(f, is_stdin ? "standard input" : path, max_bytes, &bytes, n_bytes, err);
    if (!is_stdin) fclose(f);
    if (st == SAC_OK) *out = bytes;
    if (st != SAC_OK) free(bytes);
    return st;
}
