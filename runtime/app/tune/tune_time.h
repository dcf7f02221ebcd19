/* tune_time.h - what a search has used of its time, what for, and how many answers its plan takes. */
#ifndef APP_TUNE_TIME_H
#define APP_TUNE_TIME_H

#include "tune_search.h"

/* Answers that there are, and their seconds; `total` has what the parts leave out, too. */
typedef struct tune_spent {
    int64_t answers;
    double total, media, vision, prefill, decode;
} tune_spent;

tune_spent tune_spent_by(const comparison *c);
double tune_seconds_asked(const comparison *c);

/* A line on a terminal about what will be asked and how long that takes; seconds: of one of dense's answers. */
void tune_say_plan(const tune_search *t, double seconds);

/* Since the search began, and of runs that were killed the time of their answers; INFINITY where any time may be used. */
double tune_seconds_used(const tune_search *t);
double tune_seconds_allowed(const tune_search *t);

/* Of the test, or of tuning. */
double tune_answers(const tune_plan *p, bool test);

/* For comparison_choice.stop; ctx: the search. Tuning leaves the test its share. */
bool tune_tuning_is_over(void *ctx);
bool tune_time_is_up(void *ctx);

#endif
