/* journal.h - a file of JSON lines that grows while a job runs, and from which the job is resumed.
 *
 * A line is one write at the end of the file, so that a killed job leaves whole lines and at most one torn,
 * which is dropped when the file is opened again. Lines reach the disk (fdatasync) within 5 seconds of the
 * line after them, and all of them at the end. A lock keeps a second job away. */
#ifndef APP_JOURNAL_H
#define APP_JOURNAL_H

#include "saccade/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JOURNAL_LINE_MAX_BYTES ((size_t)256 << 20)

typedef struct journal_file {
    int fd;
    char *path;
    int64_t synced_ns; /* when its lines were last made sure of on the disk (sac_now_ns) */
    int64_t n_bytes;   /* of whole lines */
    size_t n_lines;
} journal_file;

/* A whole line: its text without the line end, where it lies, its number from 1, and what it says. */
typedef struct journal_line {
    const char *text;
    size_t n_bytes;
    int64_t at;
    size_t number;
    json_t *json; /* borrowed */
} journal_line;
typedef sac_status (*journal_line_fn)(void *ctx, const journal_line *line, sac_error *err);

typedef enum journal_mode {
    JOURNAL_WRITE, /* made unless it is there; a torn line is cut off */
    JOURNAL_READ,  /* of a job that has ended; nothing is changed */
} journal_mode;

/* Opens the file, locks it and hands each whole line to on_line; IO when another job has it open. On failure
 * journal_close is still due. */
sac_status journal_open(journal_file *j, const char *path, journal_mode mode, journal_line_fn on_line,
                        void *ctx, sac_error *err);

/* Appends a line. precision: significant digits of numbers; 17 brings each back as it was. Where the line
 * lies goes to *at and *n_bytes, which may be NULL. */
sac_status journal_write(journal_file *j, const json_t *json, size_t precision, int64_t *at, size_t *n_bytes,
                         sac_error *err);

/* A journal to take the place of one that is open for writing: empty, locked, beside it. */
sac_status journal_replacement(const journal_file *j, journal_file *next, sac_error *err);

/* Brings the replacement's lines to the disk and gives it the name; *next becomes *j. On failure *j is as it was, and
 * *next is closed. */
sac_status journal_replace(journal_file *j, journal_file *next, sac_error *err);

/* IO when the last lines did not reach the disk. A journal that was never opened (zeroed) is fine. */
sac_status journal_close(journal_file *j, sac_error *err);

/* Writes into `what` the first thing in which two headers differ: "settings.session.kv is "f16" there and
 * "f32" now". ignored: paths that make no difference, NULL-terminated. */
bool journal_header_differs(const json_t *there, const json_t *now, const char *const *ignored, char *what,
                            size_t n_bytes);

#endif
