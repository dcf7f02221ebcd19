/* eval_resample.h - intervals and a test for scores that may be fractions (an answer half right), or that are averaged by
 * groups of questions: there the closed forms for right and wrong answers (eval_score.h) do not hold.
 *
 * The figure is the mean over groups of the mean within a group; with one group the mean over questions. The generator of
 * random numbers begins the same with every call: the same scores give the same bits. */
#ifndef APP_EVAL_RESAMPLE_H
#define APP_EVAL_RESAMPLE_H

#include "saccade/status.h"

#include <stddef.h>

typedef struct eval_estimate {
    double value, low, high; /* a figure and its 95 % interval */
} eval_estimate;

/* Scores of questions. group: which of n_groups each is in, every one of which has a question; NULL = one group. */
typedef struct eval_sample {
    const double *score; /* [n] */
    const size_t *group; /* [n] or NULL */
    size_t n, n_groups;
} eval_sample;

/* The figure and the interval of the percentile bootstrap (Efron 1979): questions are drawn anew within their groups, 2,000
 * times. Each group has two more to draw from, which score `low` and `high`: as in Wilson's and in Agresti and Min's
 * intervals these made-up ones leave a width where all questions agree; of several groups they stand about each group's own mean, nearer
 * by the root of how many groups there are. No end is beyond `low` and `high`. All zero when n is 0. */
sac_status eval_bootstrap(const eval_sample *s, double low, double high, eval_estimate *out, sac_error *err);

/* Difference of two lines of answers, of which s has the differences question by question: the interval above, with made-up
 * questions that differ by so much that their squares add up to 1 over all groups (Agresti and Min's half questions do). */
sac_status eval_bootstrap_pairs(const eval_sample *s, eval_estimate *out, sac_error *err);

/* Two-sided p of the randomisation test (Fisher 1935): how likely the figure is at least as far from 0 if each question's
 * difference might as well have the other sign. Exact with up to 16 questions that differ, of 9,999 random patterns of signs
 * (and the one that was found) with more. For differences of -1, 0 and 1 in one group it is McNemar's exact test. */
sac_status eval_sign_flip(const eval_sample *s, double *p, sac_error *err);

#endif
