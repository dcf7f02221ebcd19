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

#endif
