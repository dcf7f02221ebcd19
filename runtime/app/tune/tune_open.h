/* tune_open.h - what a search begins with: its set in two parts, and all that it depends on. */
#ifndef APP_TUNE_OPEN_H
#define APP_TUNE_OPEN_H

#include "tune_search.h"

/* Reads the set, once, and cuts it into t->tuning and t->test. On failure, too, tune_search_free frees what there is. */
sac_status tune_open_parts(tune_search *t, sac_error *err);

/* Of tune.jsonl; NULL = out of memory. */
json_t *tune_make_header(const tune_search *t);

#endif
