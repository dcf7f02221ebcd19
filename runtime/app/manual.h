/* manual.h - manual pages, from the tables that --help is made of. */
#ifndef APP_MANUAL_H
#define APP_MANUAL_H

#include "options.h"

/* saccade-COMMAND(1), or with NULL saccade(1), for man(7), to stdout. */
void manual_print(const command *c);

#endif
