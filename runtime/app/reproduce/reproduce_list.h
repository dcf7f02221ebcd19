/* reproduce_list.h - `saccade reproduce --list`: the papers' tables that there are. */
#ifndef APP_REPRODUCE_LIST_H
#define APP_REPRODUCE_LIST_H

#include "settings.h"

/* All tables of samples/reproduce, or of the one file FILE.yaml that is given; a line a table, or a JSON list with --json. */
sac_status reproduce_list(const settings *s, char **words, int n_words, sac_error *err);

#endif
