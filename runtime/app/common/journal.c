#define _GNU_SOURCE
#include "journal.h"
#include "clock.h"
#include "status.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const double seconds_between_syncs = 5;

static sac_status io_failure(const journal_file *j, const char *what, sac_error *err) {
    return sac_fail(err, SAC_IO, "%s: %s: %s", j->path, what, strerror(errno));
}

/* ---------------------------------------------------------------- writing */

static sac_status sync_lines(journal_file *j, sac_error *err) {
    if (fdatasync(j->fd)) return io_failure(j, "cannot be written to the disk", err);
    j->synced_ns = sac_now_ns();
    return SAC_OK;
}

sac_status journal_write(journal_file *j, const json_t *json, size_t precision, int64_t *at, size_t *n_bytes,
                         sac_error *err) {
    char *line = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(precision));
    size_t n = line ? strlen(line) : 0;
    if (!line) return sac_fail_no_memory(err);
    line[n] = '\n'; /* in place of the NUL: the text is written by its length from here on */
    ssize_t written = write(j->fd, line, n + 1);
    free(line);
    if (written < 0) return io_failure(j, "cannot be written", err);
    if ((size_t)written != n + 1) /* a full disk; the torn line is dropped when the job is resumed */
        return sac_fail(err, SAC_IO, "%s: cannot be written: no space left; resume with the same command",
                        j->path);
    if (at) *at = j->n_bytes;
    if (n_bytes) *n_bytes = n;
    j->n_bytes += written;
    j->n_lines++;
    return sac_seconds_since(j->synced_ns) >= seconds_between_syncs ? sync_lines(j, err) : SAC_OK;
}

sac_status journal_close(journal_file *j, sac_error *err) {
    if (!j->path) return SAC_OK;
    bool written = j->fd >= 0 && (fcntl(j->fd, F_GETFL) & O_RDWR);
    sac_status st = written ? sync_lines(j, err) : SAC_OK;
    if (j->fd >= 0) close(j->fd);
    free(j->path);
    *j = (journal_file){.fd = -1};
    return st;
}

/* ---------------------------------------------------------------- reading */

typedef struct reader {
    journal_file *j;
    journal_line_fn on_line;
    void *ctx;
    char *text;            /* bytes of the file, which end at file offset at */
    size_t first, n, room; /* text[first, n) is not read yet */
    int64_t at, file_bytes;
} reader;

/* More of the file behind what is there; *more is false at its end. */
static sac_status fill(reader *r, bool *more, sac_error *err) {
    if (r->first) memmove(r->text, r->text + r->first, r->n - r->first);
    r->n -= r->first;
    r->first = 0;
    if (r->n == r->room) {
        if (r->room > JOURNAL_LINE_MAX_BYTES)
            return sac_fail(err, SAC_BAD_FILE, "%s: a line of more than %zu bytes", r->j->path,
                            JOURNAL_LINE_MAX_BYTES);
        size_t room = r->room ? 2 * r->room : (size_t)1 << 16;
        char *text = realloc(r->text, room);
        if (!text) return sac_fail_no_memory(err);
        r->text = text;
        r->room = room;
    }
    ssize_t got = pread(r->j->fd, r->text + r->n, r->room - r->n, (off_t)r->at);
    if (got < 0) return io_failure(r->j, "cannot be read", err);
    r->n += (size_t)got;
    r->at += got;
    *more = got > 0;
    return SAC_OK;
}

/* *torn: the line is the file's last and no JSON, as a loss of power leaves it. */
static sac_status read_line(reader *r, const char *text, size_t n, bool *torn, sac_error *err) {
    journal_file *j = r->j;
    json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, NULL);
    *torn = !json && j->n_bytes + (int64_t)n + 1 == r->file_bytes;
    if (*torn) return SAC_OK;
    if (!json)
        return sac_fail(err, SAC_BAD_FILE, "%s:%zu: not JSON; give another --out", j->path, j->n_lines + 1);
    journal_line line = {text, n, j->n_bytes, ++j->n_lines, json};
    sac_status st = r->on_line(r->ctx, &line, err);
    json_decref(json);
    j->n_bytes += (int64_t)n + 1;
    return st;
}

static sac_status read_lines(reader *r, sac_error *err) {
    bool more = true, torn = false;
    size_t searched = 0; /* of the line that begins at text[first]: bytes without a line end */
    while (!torn) {
        size_t n = r->n - r->first;
        const char *line = r->text ? r->text + r->first : NULL, *stop = NULL;
        if (n > searched) stop = memchr(line + searched, '\n', n - searched);
        if (!stop) {
            searched = n;
            SAC_TRY(fill(r, &more, err));
            if (!more) return SAC_OK;
            continue;
        }
        n = (size_t)(stop - line);
        SAC_TRY(read_line(r, line, n, &torn, err));
        r->first += n + 1;
        searched = 0;
    }
    return SAC_OK;
}

static sac_status read_all(journal_file *j, journal_line_fn on_line, void *ctx, sac_error *err) {
    struct stat st;
    if (fstat(j->fd, &st)) return io_failure(j, "cannot be read", err);
    if (!S_ISREG(st.st_mode)) return sac_fail(err, SAC_BAD_FILE, "%s: not a file", j->path);
    reader r = {.j = j, .on_line = on_line, .ctx = ctx, .file_bytes = st.st_size};
    sac_status s = read_lines(&r, err);
    free(r.text);
    return s;
}

/* A file that another run has put in the place of this one since it was opened is not the journal any more. */
static bool has_its_name(const journal_file *j) {
    struct stat here, there;
    return !fstat(j->fd, &here) && !stat(j->path, &there) && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

static sac_status lock(const journal_file *j, bool write, sac_error *err) {
    bool held = !flock(j->fd, (write ? LOCK_EX : LOCK_SH) | LOCK_NB);
    if (!held && errno != EWOULDBLOCK) return io_failure(j, "cannot be locked", err);
    if (!held || !has_its_name(j)) return sac_fail(err, SAC_IO, "%s: another run is writing it", j->path);
    return SAC_OK;
}

sac_status journal_open(journal_file *j, const char *path, journal_mode mode, journal_line_fn on_line,
                        void *ctx, sac_error *err) {
    bool write = mode == JOURNAL_WRITE;
    *j = (journal_file){.fd = -1, .path = strdup(path)};
    if (!j->path) return sac_fail_no_memory(err);
    j->fd = open(path, write ? O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC : O_RDONLY | O_CLOEXEC, 0666);
    if (j->fd < 0 && !write) return sac_fail(err, SAC_NOT_FOUND, "%s: %s", path, strerror(errno));
    if (j->fd < 0) return io_failure(j, "cannot be written", err);
    SAC_TRY(lock(j, write, err));
    SAC_TRY(read_all(j, on_line, ctx, err));
    if (write && ftruncate(j->fd, (off_t)j->n_bytes)) return io_failure(j, "cannot be cut", err);
    return SAC_OK;
}

/* ---------------------------------------------------------------- a journal in the place of another */

sac_status journal_replacement(const journal_file *j, journal_file *next, sac_error *err) {
    *next = (journal_file){.fd = -1};
    if (asprintf(&next->path, "%s.new", j->path) < 0) {
        next->path = NULL;
        return sac_fail_no_memory(err);
    }
    next->fd = open(next->path, O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666);
    if (next->fd < 0) return io_failure(next, "cannot be written", err);
    next->synced_ns = sac_now_ns();
    return lock(next, true, err);
}

sac_status journal_replace(journal_file *j, journal_file *next, sac_error *err) {
    sac_error at_close;
    sac_status st = sync_lines(next, err);
    if (st == SAC_OK && rename(next->path, j->path)) st = io_failure(next, "cannot be renamed", err);
    if (st != SAC_OK) {
        journal_close(next, &at_close);
        return st;
    }
    close(j->fd);
    free(next->path);
    next->path = j->path;
    *j = *next;
    *next = (journal_file){.fd = -1};
    return SAC_OK;
}

/* ---------------------------------------------------------------- headers */

typedef struct comparison {
    const char *const *ignored;
    char path[200];
    char *what;
    size_t n_bytes;
} comparison;

static void print_difference(comparison *c, const json_t *there, const json_t *now) {
    char *a = there ? json_dumps(there, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    char *b = now ? json_dumps(now, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9)) : NULL;
    snprintf(c->what, c->n_bytes, "%s is %.60s there and %.60s now", c->path, a ? a : "not given",
             b ? b : "not given");
    free(a);
    free(b);
}

static bool makes_no_difference(const comparison *c) {
    for (const char *const *path = c->ignored; *path; path++)
        if (!strcmp(*path, c->path)) return true;
    return false;
}

static bool differs(comparison *c, const json_t *there, const json_t *now);

/* Keys of one that the other has not, or has otherwise. */
static bool keys_differ(comparison *c, const json_t *there, const json_t *now, const json_t *keys) {
    const char *key;
    json_t *value;
    size_t n = strlen(c->path);
    json_object_foreach((json_t *)keys, key, value) {
        snprintf(c->path + n, sizeof c->path - n, "%s%s", n ? "." : "", key);
        if (differs(c, json_object_get(there, key), json_object_get(now, key))) return true;
        c->path[n] = 0;
    }
    return false;
}

static bool differs(comparison *c, const json_t *there, const json_t *now) {
    if (makes_no_difference(c)) return false;
    if (json_is_object(there) && json_is_object(now))
        return keys_differ(c, there, now, now) || keys_differ(c, there, now, there);
    if (there && now && json_equal(there, now)) return false;
    print_difference(c, there, now);
    return true;
}

bool journal_header_differs(const json_t *there, const json_t *now, const char *const *ignored, char *what,
                            size_t n_bytes) {
    comparison c = {.ignored = ignored, .what = what, .n_bytes = n_bytes};
    return differs(&c, there, now);
}
