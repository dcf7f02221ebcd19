/* completion.h - what a shell completes on its command line, from the tables that --help is made of. */
#ifndef APP_COMPLETION_H
#define APP_COMPLETION_H

#include "saccade/status.h"

/* The script for "bash", "zsh" or "fish", to stdout. Commands, options, the names that options take, and files and
 * folders where they take such. */
sac_status completion_print(const char *shell, sac_error *err);

#endif
