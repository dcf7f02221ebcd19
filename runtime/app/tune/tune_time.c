#include "tune_time.h"
#include "clock.h"

#include <math.h>
#include <stdio.h>

static double seconds_in(const json_t *seconds, const char *part) {
    return json_number_value(json_object_get(seconds, part));
}

tune_spent tune_spent_by(const comparison *c) {
    tune_spent sum = {0};
    for (size_t i = 0; i < c->n_rows; i++)
        for (size_t k = 0; k < c->set.n_questions && c->rows[i].records; k++) {
            const json_t *s = json_object_get(c->rows[i].records[k], "seconds");
            if (!s) continue;
            sum.answers++;
            sum.total += seconds_in(s, "total");
            sum.media += seconds_in(s, "media");
            sum.vision += seconds_in(s, "vision");
            sum.prefill += seconds_in(s, "prefill");
            sum.decode += seconds_in(s, "decode");
        }
    return sum;
}

double tune_seconds_asked(const comparison *c) {
    return tune_spent_by(c).total;
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

void tune_say_plan(const tune_search *t, double seconds) {
    const tune_plan *p = &t->plan;
    if (!t->tuning.line.on) return;
    double need = seconds * (tune_answers(p, false) + tune_answers(p, true)), allowed = tune_seconds_allowed(t);
    char text[32];
    progress_duration(text, sizeof text, fmax(0, fmin(need, allowed) - tune_seconds_used(t)));
    fprintf(stderr, "saccade: %zu settings on up to %zu questions, %zu of them on %zu others: about %s\n", p->settings[0],
            p->questions[p->n_rungs - 1], p->finalists, p->test_questions, text);
}
