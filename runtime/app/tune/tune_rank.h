/* tune_rank.h - which of several settings are worth more questions: successive halving (Jamieson and Talwalkar,
 * arXiv:1502.07943) with two aims, fewer right answers lost and less cost.
 *
 * Few questions tell little by right and wrong: of thirty, a setting that will lose one in a hundred loses none, as do most of
 * those that cost more. So a setting is also judged by how far right answers have moved from dense's (`moved`), which tells those apart. */
#ifndef APP_TUNE_RANK_H
#define APP_TUNE_RANK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a setting did on some questions. */
typedef struct tune_point {
    double cost; /* of dense's; NAN: nothing is known, which is worse than anything */
    double lost; /* of dense's scores, less what was gained: right answers, where each is right or wrong */
    /* Sum over the same questions, of dense's scores: all of it for another answer than dense's; for the same answer, times the square of the share
     * of its margin that is gone (nats between a token and the next likeliest, the least of the answer). What dense had wrong does not count. */
    double moved;
} tune_point;

/* Up to what a setting may be chosen. */
typedef struct tune_limits {
    double lost, moved;
} tune_limits;

/* Neither cost nor answers of b are better, and one is worse. Points that are equal do not beat each other. */
bool tune_beats(const tune_point *a, const tune_point *b);

/* Marks those that no other beats. Of equal points the first. front: [n] */
void tune_front(const tune_point *points, size_t n, bool *front);

/* What a point may lose on other questions, to put settings in order by: `lost` + `moved`. */
double tune_risk(const tune_point *p);

/* As tune_front, by cost and risk. safe: [n] */
void tune_safe_front(const tune_point *points, size_t n, bool *safe);

/* Marks n_keep points, or all where there are no more. Half of them are the best of those that lose at most `tolerated`
 * answers, the cheap ones first among those that no other beats in cost and risk; the other half is spread over the rest of that
 * front, so that what costs least and what is safest go on, too. What costs as much as dense comes last. `chosen` is kept in any case
 * (SIZE_MAX = none), in the place of one of the first half. keep: [n]. False: out of memory. */
bool tune_keep(const tune_point *points, size_t n, size_t n_keep, double tolerated, size_t chosen, bool *keep);

/* The cheapest that is within both limits, of equal ones the one that loses less. Where none is, the limit of `moved` is doubled until
 * one is; that of `lost` holds. SIZE_MAX: nothing that costs less than dense loses so few. used (may be NULL): the limits by which it was found. */
size_t tune_choose(const tune_point *points, size_t n, tune_limits limits, tune_limits *used);

/* All points in the order in which tune_choose would take them, then the rest as they stand. order: [n] */
void tune_order(const tune_point *points, size_t n, tune_limits limits, size_t *order);

/* Rungs: so many settings are asked the first so many questions, then the better half goes on. */
#define TUNE_MAX_RUNGS 16
typedef struct tune_plan {
    size_t n_rungs;
    size_t settings[TUNE_MAX_RUNGS],
        questions[TUNE_MAX_RUNGS]; /* questions: in all, those of the rungs before counted */
    size_t refined;                /* made of the best at most, and asked what the last rung was */
    size_t finalists;              /* that are asked the test questions */
    size_t test_questions;
} tune_plan;

/* What can be asked. */
typedef struct tune_bounds {
    size_t settings, tuning_questions, test_questions;
    size_t fewest; /* questions of the first rung; 1 at least */
    double answers; /* of all settings that there is time for; INFINITY = any number */
} tune_bounds;

/* As many test questions as half of the time allows, all if it can be, and then more settings are asked them; the rest of the
 * time for tuning, a quarter of it for settings near the best. Where there are many settings the first rung asks no more than a quarter of the questions: what is
 * hopeless shows early, and a machine that turns out slower still gets to the end. */
tune_plan tune_make_plan(const tune_bounds *b);

#endif
