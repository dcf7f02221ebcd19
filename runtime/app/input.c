#define _GNU_SOURCE
#include "input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

sac_status input_open(FILE **out, const char *path, sac_error *err) {
    *out = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return app_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    struct stat st;
    bool is_regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
    if (is_regular && (*out = fdopen(fd, "rb"))) return SAC_OK;
    close(fd);
    return is_regular ? app_fail_no_memory(err) : app_fail(err, SAC_BAD_FILE, "%s: not a regular file", path);
}
