#define _GNU_SOURCE
#include "eval_journal.h"
#include "eval_header.h"
#include "output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static const double seconds_between_syncs = 5;
static const size_t journal_max_bytes = (size_t)1 << 30;

static sac_status io_failure(const eval_journal *j, const char *what, sac_error *err) {
    return app_fail(err, SAC_IO, "%s: %s: %s", j->path, what, strerror(errno));
}

/* ---------------------------------------------------------------- writing */

static sac_status sync_lines(eval_journal *j, sac_error *err) {
    if (fdatasync(j->fd)) return io_failure(j, "cannot be written to the disk", err);
    j->t_synced = clock_seconds();
    return SAC_OK;
}

/* precision: significant digits of numbers; 17 brings each back as it was. */
static sac_status write_line(eval_journal *j, const json_t *json, size_t precision, sac_error *err) {
    char *line = json_dumps(json, JSON_COMPACT | JSON_REAL_PRECISION(precision));
    size_t n = line ? strlen(line) : 0;
    if (!line) return app_fail_no_memory(err);
    line[n] = '\n'; /* in place of the NUL: the text is written by its length from here on */
    ssize_t written = write(j->fd, line, n + 1);
    free(line);
    if (written < 0) return io_failure(j, "cannot be written", err);
    if ((size_t)written != n + 1) /* a full disk; the torn line is dropped when the run is resumed */
        return app_fail(err, SAC_IO, "%s: cannot be written: no space left; resume with the same command",
                        j->path);
    return clock_seconds() - j->t_synced >= seconds_between_syncs ? sync_lines(j, err) : SAC_OK;
}

sac_status eval_journal_write(eval_journal *j, const json_t *record, sac_error *err) {
    return write_line(j, record, 9, err);
}

sac_status eval_journal_close(eval_journal *j, sac_error *err) {
    if (!j->path) return SAC_OK;
    sac_status st = j->fd >= 0 ? sync_lines(j, err) : SAC_OK;
    if (j->fd >= 0) close(j->fd);
    free(j->path);
    *j = (eval_journal){.fd = -1};
    return st;
}

/* ---------------------------------------------------------------- resuming */

typedef struct reader {
    eval_journal *j;
    json_t *header;
    const eval_set *set;
    bool retry;
    json_t **records;
    sac_error *err;
} reader;

static sac_status read_whole(const eval_journal *j, char **text, size_t *n_bytes, sac_error *err) {
    struct stat st;
    *text = NULL;
    if (fstat(j->fd, &st)) return io_failure(j, "cannot be read", err);
    if (!S_ISREG(st.st_mode)) return app_fail(err, SAC_BAD_FILE, "%s: not a file", j->path);
    if ((uint64_t)st.st_size > journal_max_bytes)
        return app_fail(err, SAC_BAD_FILE, "%s: more than %zu bytes", j->path, journal_max_bytes);
    size_t n = (size_t)st.st_size;
    if (!(*text = malloc(n + 1))) return app_fail_no_memory(err);
    for (*n_bytes = 0; *n_bytes < n;) {
        ssize_t got = pread(j->fd, *text + *n_bytes, n - *n_bytes, (off_t)*n_bytes);
        if (got < 0) return io_failure(j, "cannot be read", err);
        if (got == 0) break;
        *n_bytes += (size_t)got;
    }
    return SAC_OK;
}

static sac_status check_header(reader *r, const json_t *line) {
    char what[200];
    if (json_integer_value(json_object_get(line, "saccade_eval")) != EVAL_FORMAT)
        return app_fail(r->err, SAC_BAD_FILE,
                        "%s:1: not the header of a run of this version; give another --out", r->j->path);
    if (!eval_header_differs(line, r->header, what, sizeof what)) {
        json_t *started = json_object_get(line, "started");
        return started && json_object_set(r->header, "started", started) ? app_fail_no_memory(r->err)
                                                                         : SAC_OK;
    }
    return app_fail(r->err, SAC_BAD_CONFIG, "%s: begun with other settings: %s; give these, or another --out",
                    r->j->path, what);
}

static sac_status keep_record(reader *r, size_t number, json_t *line) {
    const char *id = json_string_value(json_object_get(line, "question_id"));
    size_t at = id ? eval_set_find(r->set, id) : SIZE_MAX;
    bool is_error = json_is_object(json_object_get(line, "error"));
    if (at == SIZE_MAX || (!is_error && !json_is_string(json_object_get(line, "response"))))
        return app_fail(r->err, SAC_BAD_FILE,
                        "%s:%zu: no answer to a question of this set; give another --out", r->j->path,
                        number);
    json_decref(
        r->records[at]); /* a later line about the same question counts: an error that was asked again */
    r->records[at] = is_error && r->retry ? NULL : json_incref(line);
    return SAC_OK;
}

/* Whole lines of the text, up to *end, where the first line to be dropped begins. */
static sac_status read_lines(reader *r, const char *text, size_t n, size_t *end) {
    size_t number = 0;
    *end = 0;
    for (const char *at = text, *stop; (stop = memchr(at, '\n', (size_t)(text + n - at))); at = stop + 1) {
        json_t *line = json_loadb(at, (size_t)(stop - at), JSON_REJECT_DUPLICATES, NULL);
        number++;
        if (!line && stop + 1 == text + n) return SAC_OK; /* the last: torn by a loss of power */
        if (!line)
            return app_fail(r->err, SAC_BAD_FILE, "%s:%zu: not JSON; give another --out", r->j->path, number);
        sac_status st = number == 1 ? check_header(r, line) : keep_record(r, number, line);
        json_decref(line);
        if (st != SAC_OK) return st;
        *end = (size_t)(stop + 1 - text);
    }
    return SAC_OK;
}

static sac_status resume(reader *r) {
    char *text;
    size_t n = 0, end = 0;
    sac_status st = read_whole(r->j, &text, &n, r->err);
    if (st == SAC_OK) st = read_lines(r, text, n, &end);
    free(text);
    if (st != SAC_OK) return st;
    if (end < n && ftruncate(r->j->fd, (off_t)end)) return io_failure(r->j, "cannot be cut", r->err);
    for (size_t i = 0; i < r->set->n_questions; i++) r->j->n_resumed += r->records[i] != NULL;
    return end ? SAC_OK : write_line(r->j, r->header, 17, r->err);
}

sac_status eval_journal_open(eval_journal *j, const char *path, json_t *header, const eval_set *set,
                             bool retry, json_t **records, sac_error *err) {
    *j = (eval_journal){.fd = -1, .path = strdup(path)};
    if (!j->path) return app_fail_no_memory(err);
    j->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (j->fd < 0) return io_failure(j, "cannot be written", err);
    if (flock(j->fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK) return app_fail(err, SAC_IO, "%s: another run is writing it", path);
        return io_failure(j, "cannot be locked", err);
    }
    reader r = {.j = j, .header = header, .set = set, .retry = retry, .records = records, .err = err};
    return resume(&r);
}
