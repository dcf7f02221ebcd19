/* reproduce_find.h - the file that a table's name stands for. */
#ifndef APP_REPRODUCE_FIND_H
#define APP_REPRODUCE_FIND_H

#include "saccade/status.h"

#include <stddef.h>

/* The paper of a word of n bytes: "FILE.yaml" is that file; "zipvl" is zipvl.yaml of what is installed with the command
 * (share/saccade/reproduce), or of the tree that it was built from. NOT_FOUND: no such paper, and which there are. */
sac_status reproduce_find(char *path, size_t room, const char *word, size_t n, sac_error *err);

#endif
