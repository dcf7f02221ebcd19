#define _GNU_SOURCE
#include "input.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
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
