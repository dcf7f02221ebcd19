/* draft.h - a file that is there whole or not at all: written beside its place and renamed over it. A link
 * stays, and the file behind it is replaced; what is no regular file (a device, a pipe) is written straight.
 */
#ifndef APP_DRAFT_H
#define APP_DRAFT_H

#include "saccade/status.h"

#include <stdio.h>

typedef struct draft {
    FILE *f;
    char *path, *part; /* part: NULL = written straight */
} draft;

sac_status draft_open(draft *d, const char *path, sac_error *err);

/* Fails where draft_open would, before the work whose result goes there; leaves nothing. What is no regular file is not tried. */
sac_status draft_check(const char *path, sac_error *err);

/* Gives the file its name, or removes it when a write failed. A zeroed draft is fine. */
sac_status draft_close(draft *d, sac_error *err);

/* Removes the unfinished file; nothing after draft_close. */
void draft_abandon(draft *d);

#endif
