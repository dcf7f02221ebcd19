#define _GNU_SOURCE
#include "output.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int first_errno; /* of the first failed write, for the message at the end */

void output_start(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF) {
            /* the useless direction: reading from it, or writing to it, still fails as it would have */
            int got = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
            if (got >= 0 && got != fd) close(got);
        }
    signal(SIGPIPE, SIG_IGN); /* a write that fails says so itself */
    signal(SIGXFSZ, SIG_IGN);
}

static bool put(const char *p, size_t n) {
    if (fwrite(p, 1, n, stdout) == n) return true;
    if (!first_errno) first_errno = errno;
    return false;
}

/* C0, DEL and, as two bytes of UTF-8, C1. */
static size_t control_bytes(const char *p, size_t n) {
    unsigned char c = (unsigned char)p[0];
    if (c == 0x7f || (c < 0x20 && c != '\n' && c != '\t')) return 1;
    if (c == 0xc2 && n > 1 && (unsigned char)p[1] < 0xa0) return 2;
    return 0;
}

static bool put_harmless(const char *p, size_t n) {
    size_t start = 0;
    for (size_t i = 0; i < n;) {
        size_t skip = control_bytes(p + i, n - i);
        if (skip) {
            if (!put(p + start, i - start) || !put("?", 1)) return false;
            start = i + skip;
        }
        i += skip ? skip : 1;
    }
    return put(p + start, n - start);
}

bool output_piece(const char *utf8, size_t n_bytes) {
    bool ok = isatty(STDOUT_FILENO) ? put_harmless(utf8, n_bytes) : put(utf8, n_bytes);
    if (ok && fflush(stdout) == 0) return true;
    if (!first_errno) first_errno = errno;
    return false;
}

void output_note(const char *utf8, size_t max_bytes) {
    size_t n = strnlen(utf8, max_bytes + 1);
    bool is_cut = n > max_bytes;
    if (is_cut)
        for (n = max_bytes; n && ((unsigned char)utf8[n] & 0xc0) == 0x80;) n--;
    for (size_t i = 0; i < n;) {
        size_t skip = control_bytes(utf8 + i, n - i);
        fputc(skip ? '?' : utf8[i] == '\n' || utf8[i] == '\t' ? ' ' : utf8[i], stderr);
        i += skip ? skip : 1;
    }
    if (is_cut) fputs("...", stderr);
}

bool output_has_no_reader(void) {
    struct stat st;
    struct pollfd p = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return fstat(STDOUT_FILENO, &st) == 0 && S_ISFIFO(st.st_mode) && poll(&p, 1, 0) == 1 &&
           (p.revents & POLLERR);
}

sac_status output_finish(sac_error *err) {
    if (fflush(stdout) && !first_errno) first_errno = errno;
    if (!first_errno && !ferror(stdout)) return SAC_OK;
    return sac_fail(err, SAC_IO, "standard output: %s", first_errno ? strerror(first_errno) : "write error");
}
