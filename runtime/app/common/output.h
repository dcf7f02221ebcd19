/* output.h - standard output of which a failure is noticed: a closed pipe or a full disk must not look like
 * success. */
#ifndef APP_OUTPUT_H
#define APP_OUTPUT_H

#include "saccade/status.h"

#include <stdbool.h>
#include <stddef.h>

/* Once, before any file is opened: standard descriptors that the caller closed are opened on /dev/null (a
 * file opened later must not become descriptor 1), and a closed pipe becomes an error instead of a signal. */
void output_start(void);

/* Writes a piece of an answer at once; false after a failure. On a terminal control characters other than
 * line ends and tabs become '?': the text was written by a model about a picture of anybody's. */
bool output_piece(const char *utf8, size_t n_bytes);

/* Writes a name or a text of anybody's to standard error on one line: line ends and tabs become blanks, other control
 * characters '?'. At most max_bytes of it, whole characters; "..." tells that there is more. */
void output_note(const char *utf8, size_t max_bytes);

/* Whether standard output is a pipe that nobody reads any more. */
bool output_has_no_reader(void);

/* Everything printed so far has arrived, or SAC_IO. */
sac_status output_finish(sac_error *err);

#endif
