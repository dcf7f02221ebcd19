/* input.h - text files that the command reads: settings, methods, lists. */
#ifndef APP_INPUT_H
#define APP_INPUT_H

#include "saccade/status.h"

#include <stdbool.h>
#include <stdio.h>

/* Opens a regular file; may_be_pipe, for what is read once: or a pipe or a device, as a shell's <(...) and
 * /dev/null are. */
sac_status input_open(FILE **out, const char *path, bool may_be_pipe, sac_error *err);

/* All of a text of at most max_bytes, NUL-terminated; the caller's. */
sac_status input_read(char **out, const char *path, size_t max_bytes, sac_error *err);

/* All bytes of a file, a pipe or a device, "-" being standard input; at most max_bytes. The caller's. */
sac_status input_read_bytes(void **out, size_t *n_bytes, const char *path, size_t max_bytes, sac_error *err);

/* Whether it is standard input ("-"), or a pipe or a device, which are read once only. */
bool input_is_stream(const char *path);

#endif
