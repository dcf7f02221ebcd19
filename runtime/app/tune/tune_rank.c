#include "tune_rank.h"

#include <math.h>
#include <stdlib.h>

/* ---------------------------------------------------------------- points */

static double cost_of(const tune_point *p) {
    return isnan(p->cost) ? (double)INFINITY : p->cost;
}

double tune_risk(const tune_point *p) {
    return p->lost + p->moved;
}

bool tune_beats(const tune_point *a, const tune_point *b) {
    double x = cost_of(a), y = cost_of(b);
    return x <= y && a->lost <= b->lost && (x < y || a->lost < b->lost);
}

static bool equal(const tune_point *a, const tune_point *b) {
    return !(cost_of(a) < cost_of(b)) && !(cost_of(a) > cost_of(b)) && !(a->lost < b->lost) &&
           !(a->lost > b->lost);
}

void tune_front(const tune_point *points, size_t n, bool *front) {
    for (size_t i = 0; i < n; i++) {
        front[i] = !isnan(points[i].cost);
        for (size_t k = 0; k < n && front[i]; k++)
            front[i] = !tune_beats(&points[k], &points[i]) && !(k < i && equal(&points[k], &points[i]));
    }
}

/* A point in the order in which it would be kept. */
typedef struct entry {
    size_t at, layer; /* layer 0: the front of cost and risk; 1: the front without these; ... */
    double excess;    /* answers lost beyond what is tolerated */
    double cost;
    double risk;
} entry;

/* Of equal ones the first. */
static bool is_before(const entry *a, const entry *b) {
    if (a->cost > b->cost || a->risk > b->risk) return false;
    return a->cost < b->cost || a->risk < b->risk || a->at < b->at;
}

void tune_safe_front(const tune_point *points, size_t n, bool *safe) {
    for (size_t i = 0; i < n; i++) {
        const entry a = {.at = i, .cost = cost_of(&points[i]), .risk = tune_risk(&points[i])};
        safe[i] = !isnan(points[i].cost);
        for (size_t k = 0; k < n && safe[i]; k++)
            safe[i] = !is_before(&(entry){.at = k, .cost = cost_of(&points[k]), .risk = tune_risk(&points[k])}, &a);
    }
}

/* ---------------------------------------------------------------- choosing */

enum { MOST_DOUBLINGS = 60, NEVER };

/* How often the limit of `moved` has to be doubled for this point. */
static int doublings(const tune_point *p, tune_limits limits) {
    if (!(p->cost < 1) || p->lost > limits.lost) return NEVER;
    int n = 0;
    for (double limit = limits.moved; p->moved > limit && n < MOST_DOUBLINGS; limit *= 2) n++;
    return n;
}

/* Of equal ones the first. */
static bool is_chosen_before(const tune_point *a, const tune_point *b, tune_limits limits) {
    int x = doublings(a, limits), y = doublings(b, limits);
    if (x != y || x == NEVER) return x < y;
    return a->cost < b->cost || (!(a->cost > b->cost) && a->lost < b->lost);
}

size_t tune_choose(const tune_point *points, size_t n, tune_limits limits, tune_limits *used) {
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (is_chosen_before(&points[i], &points[best], limits)) best = i;
    int more = n ? doublings(&points[best], limits) : NEVER;
    if (used) *used = (tune_limits){limits.lost, more == NEVER ? limits.moved : ldexp(limits.moved, more)};
    return more == NEVER ? SIZE_MAX : best;
}

void tune_order(const tune_point *points, size_t n, tune_limits limits, size_t *order) {
    for (size_t i = 0, at; i < n; i++) {
        for (at = i; at > 0 && is_chosen_before(&points[i], &points[order[at - 1]], limits); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* ---------------------------------------------------------------- keeping */

static int sign(double a, double b) {
    return (a > b) - (a < b);
}

static int by_excess(const void *a, const void *b) {
    const entry *x = a, *y = b;
    int order = sign(x->excess, y->excess);
    if (!order) order = (x->layer > y->layer) - (x->layer < y->layer);
    if (!order) order = sign(x->cost, y->cost);
    if (!order) order = sign(x->risk, y->risk);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static int by_layer(const void *a, const void *b) {
    const entry *x = a, *y = b;
    int order = (x->layer > y->layer) - (x->layer < y->layer);
    if (!order) order = sign(x->cost, y->cost);
    return order ? order : (x->at > y->at) - (x->at < y->at);
}

static void find_layers(entry *e, size_t n) {
    for (size_t layer = 0, left = n; left; layer++) {
        size_t found = 0;
        for (size_t i = 0; i < n; i++) {
            if (e[i].layer < layer) continue;
            bool beaten = false;
            for (size_t k = 0; k < n && !beaten; k++)
                beaten = e[k].layer >= layer && is_before(&e[k], &e[i]);
            e[i].layer = beaten ? layer + 1 : layer;
            found += !beaten;
        }
        left -= found;
    }
}

/* Keeps `want` of n points, evenly from the first to the last. */
static void spread(const entry *e, size_t n, size_t want, bool *keep) {
    for (size_t k = 0; k < want; k++) keep[e[want > 1 ? k * (n - 1) / (want - 1) : 0].at] = true;
}

/* Those that are not kept yet, to the front of the list. */
static size_t drop_kept(entry *e, size_t n, const bool *keep) {
    size_t left = 0;
    for (size_t i = 0; i < n; i++)
        if (!keep[e[i].at]) e[left++] = e[i];
    return left;
}

bool tune_keep(const tune_point *points, size_t n, size_t n_keep, double tolerated, size_t chosen, bool *keep) {
    for (size_t i = 0; i < n; i++) keep[i] = n <= n_keep;
    if (n <= n_keep) return true;
    entry *e = calloc(n, sizeof *e);
    if (!e) return false;
    for (size_t i = 0; i < n; i++)
        e[i] = (entry){.at = i,
                       .excess = fmax(0, points[i].lost - tolerated),
                       .cost = cost_of(&points[i]),
                       .risk = tune_risk(&points[i])};
    find_layers(e, n);
    for (size_t i = 0; i < n; i++)
        if (e[i].cost >= 1) e[i] = (entry){i, n, (double)INFINITY, e[i].cost, e[i].risk}; /* dense is there already */
    qsort(e, n, sizeof *e, by_excess);
    size_t taken = chosen < n;
    if (taken) keep[chosen] = true;
    for (size_t i = 0; taken < (n_keep + 1) / 2; i++) {
        taken += !keep[e[i].at];
        keep[e[i].at] = true;
    }
    n = drop_kept(e, n, keep);
    qsort(e, n, sizeof *e, by_layer);
    for (size_t from = 0, to; from < n && taken < n_keep; from = to) {
        for (to = from; to < n && e[to].layer == e[from].layer; to++) {
        }
        size_t want = to - from < n_keep - taken ? to - from : n_keep - taken;
        spread(e + from, to - from, want, keep);
        taken += want;
    }
    free(e);
    return true;
}

/* ---------------------------------------------------------------- the plan */

enum { FINALISTS = 8, MORE_FINALISTS = 12, MOST_REFINED = 16 };

static size_t at_most(double v, size_t limit) {
    return v >= (double)limit ? limit : v > 0 ? (size_t)v : 0;
}

/* n settings, of whom half goes on each time, from q questions on. Returns the answers that this takes. */
static double lay_rungs(tune_plan *p, size_t n, size_t q, size_t most_questions) {
    double answers = 0;
    size_t before = 0;
    for (p->n_rungs = 0; p->n_rungs < TUNE_MAX_RUNGS; p->n_rungs++) {
        bool last = n <= p->finalists || q >= most_questions;
        if (q > most_questions) q = most_questions;
        p->settings[p->n_rungs] = n;
        p->questions[p->n_rungs] = q;
        answers += (double)n * (double)(q - before);
        before = q;
        if (last) break;
        n = n / 2 > p->finalists ? n / 2 : p->finalists;
        q *= 2;
    }
    p->n_rungs += p->n_rungs < TUNE_MAX_RUNGS;
    return answers;
}

tune_plan tune_make_plan(const tune_bounds *b) {
    bool many = b->answers / 2 >= (MORE_FINALISTS + 1) * (double)b->test_questions;
    size_t finalists = many ? MORE_FINALISTS : FINALISTS;
    tune_plan p = {.finalists = finalists < b->settings ? finalists : b->settings};
    double per_question = (double)p.finalists + 1; /* dense's, too */
    p.test_questions = at_most(b->answers / 2 / per_question, b->test_questions);
    if (p.test_questions == 0) p.test_questions = 1;
    double rest = b->answers - per_question * (double)p.test_questions;
    size_t n = b->settings, most = b->tuning_questions;
    size_t q = b->fewest < most ? b->fewest : most;
    double climb = 0.75 * rest;
    while (n > 1 && lay_rungs(&p, n, q, most) > climb) n--;
    size_t more = q, first = 3 * n > 4 * p.finalists && most / 4 > q ? most / 4 : most;
    while (more < first && lay_rungs(&p, n, more + 1, most) <= climb) more++;
    rest -= lay_rungs(&p, n, more, most);
    size_t *asked = &p.questions[p.n_rungs - 1], last = p.settings[p.n_rungs - 1];
    bool ends = rest < (double)INFINITY; /* time does */
    size_t extra = ends ? at_most((rest - 0.25 * climb) / (double)last, most - *asked) : most - *asked;
    size_t refined = (n + 1) / 2 < MOST_REFINED ? (n + 1) / 2 : MOST_REFINED;
    *asked += extra;
    p.refined = at_most((rest - (double)(extra * last)) / (double)*asked, refined);
    if (p.finalists > n) p.finalists = n;
    return p;
}
