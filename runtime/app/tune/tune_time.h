/* tune_time.h - what a search has used of its time, and how many answers its plan takes. */
#ifndef APP_TUNE_TIME_H
#define APP_TUNE_TIME_H

#include "tune_search.h"

/* Of all answers that there are. */
double tune_seconds_asked(const comparison *c);

/* Since the search began, and of runs that were killed the time of their answers; INFINITY where any time may be used. */
double tune_seconds_used(const tune_search *t);
double tune_seconds_allowed(const tune_search *t);

/* Of the test, or of tuning. */
double tune_answers(const tune_plan *p, bool test);

/* For comparison_choice.stop; ctx: the search. Tuning leaves the test its share. */
bool tune_tuning_is_over(void *ctx);
bool tune_time_is_up(void *ctx);

#endif
