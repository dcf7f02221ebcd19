#include "tune_time.h"
#include "clock.h"

#include <math.h>

double tune_seconds_asked(const comparison *c) {
    double sum = 0;
    for (size_t i = 0; i < c->n_rows; i++)
        for (size_t k = 0; k < c->set.n_questions && c->rows[i].records; k++)
            sum += json_number_value(
                json_object_get(json_object_get(c->rows[i].records[k], "seconds"), "total"));
    return sum;
}

/* Since the search began; of runs that were killed, the time of their answers. */
double tune_seconds_used(const tune_search *t) {
    return t->asked_seconds + sac_seconds_since(t->start_ns);
}

double tune_seconds_allowed(const tune_search *t) {
    return t->s->minutes > 0 ? 60 * t->s->minutes : (double)INFINITY;
}

double tune_answers(const tune_plan *p, bool test) {
    if (test) return (double)p->test_questions * (double)(p->finalists + 1);
    double n = 0;
    for (size_t i = 0; i < p->n_rungs; i++)
        n += (double)(p->settings[i] + 1) * (double)(p->questions[i] - (i ? p->questions[i - 1] : 0));
    return n + (double)p->refined * (double)p->questions[p->n_rungs - 1];
}

/* Tuning leaves the test its share. */
bool tune_tuning_is_over(void *ctx) {
    const tune_search *t = ctx;
    double test = tune_answers(&t->plan, true), all = test + tune_answers(&t->plan, false);
    return tune_seconds_used(t) > tune_seconds_allowed(t) * (1 - 0.9 * test / all);
}

bool tune_time_is_up(void *ctx) {
    const tune_search *t = ctx;
    return tune_seconds_used(t) > tune_seconds_allowed(t);
}
