/* installed.h - the files that come with the command. */
#ifndef APP_INSTALLED_H
#define APP_INSTALLED_H

#include <stddef.h>

/* What is installed as share/saccade/NAME: beside the folder of the running command ("<prefix>/bin"), otherwise `source`, where
 * it is in the tree that the command was built from. Returns `path` (`room` bytes) or `source`; NULL: it is in neither place. */
const char *installed_find(char *path, size_t room, const char *name, const char *source);

#endif
