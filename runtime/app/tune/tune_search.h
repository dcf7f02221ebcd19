/* tune_search.h - the search of `saccade tune`: a set in two parts, settings tried on one, the best judged on the other. */
#ifndef APP_TUNE_SEARCH_H
#define APP_TUNE_SEARCH_H

#include "comparison.h"
#include "tune_cost.h"
#include "tune_log.h"

typedef struct tune_search {
    const settings *s;
    tune_aim aim;
    run r;
    comparison tuning, test; /* of the two parts; row 0 of each is dense */
    tune_log log;
    json_t *header;
    tune_plan plan;
    int64_t prompt_tokens; /* median of the tuning part's first questions */
    bool *alive;           /* [tuning.n_rows], of dense false */
    size_t n_tuned;        /* questions by which the last rung chose */
    size_t n_tried, n_refused;
    char *chosen; /* name of the line that tuning chose; NULL: none of them, dense stays */
    tune_limits limits, used; /* that --lose means on the tuning questions; by which the line was found (tune_choose) */
    double asked_seconds;
    int64_t start_ns;
    bool cut; /* time was up before the plan was done */
} tune_search;

/* All of it: afterwards `test` is counted. On failure, too, tune_search_free frees what there is. */
sac_status tune_search_run(tune_search *t, sac_error *err);
void tune_search_free(tune_search *t);

#endif
