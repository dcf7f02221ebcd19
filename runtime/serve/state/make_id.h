/* make_id.h - names for jobs and files that nobody can guess. */
#ifndef SERVE_MAKE_ID_H
#define SERVE_MAKE_ID_H

#include <stddef.h>

/* "prefix" and 24 random hexadecimal digits. */
void serve_make_id(char *out, size_t room, const char *prefix);

#endif
