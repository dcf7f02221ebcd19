/* input.h - text files that the command reads: settings, methods, lists. */
#ifndef APP_INPUT_H
#define APP_INPUT_H

#include "failure.h"

#include <stdio.h>

/* Opens a regular file; nothing else, because a FIFO could hold the command up for ever. */
sac_status input_open(FILE **out, const char *path, sac_error *err);

#endif
