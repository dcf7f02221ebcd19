#include "eval_resample.h"
#include "status.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { DRAWS = 2000, CUT = DRAWS / 40, PATTERNS = 9999, EXACT_UP_TO = 16 }; /* CUT: 2.5 % of the draws */

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t next_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static size_t next_below(uint64_t *state, size_t n) {
    return (size_t)((next_random(state) >> 32) * (uint64_t)n >> 32);
}

/* ---------------------------------------------------------------- groups */

/* Scores group by group. */
typedef struct groups {
    double *score; /* [n] */
    size_t *first; /* [n_groups + 1] */
    size_t n;
} groups;

static void free_groups(groups *g) {
    free(g->score);
    free(g->first);
}

static sac_status sort_groups(const eval_sample *s, groups *g, sac_error *err) {
    g->n = s->group ? s->n_groups : 1;
    g->score = malloc((s->n + 1) * sizeof *g->score);
    g->first = calloc(g->n + 2, sizeof *g->first);
    if (!g->score || !g->first) {
        free_groups(g);
        return sac_fail_no_memory(err);
    }
    size_t *at = g->first + 1; /* of group k its beginning while it is filled, then that of k + 1 */
    for (size_t i = 0; i < s->n; i++) at[(s->group ? s->group[i] : 0) + 1]++;
    for (size_t k = 1; k <= g->n; k++) at[k] += at[k - 1];
    for (size_t i = 0; i < s->n; i++) g->score[at[s->group ? s->group[i] : 0]++] = s->score[i];
    return SAC_OK;
}

static double figure_of(const groups *g) {
    double sum = 0;
    for (size_t k = 0; k < g->n; k++) {
        double in_group = 0;
        for (size_t i = g->first[k]; i < g->first[k + 1]; i++) in_group += g->score[i];
        sum += in_group / (double)(g->first[k + 1] - g->first[k]);
    }
    return sum / (double)g->n;
}

/* ---------------------------------------------------------------- the interval */

/* A mean over several groups must not be drawn to the middle by two made-up questions in each: they stand about the group's own mean,
 * and so near it that all of them together are as wide as two are in one group (`apart`: 1 where they are as near already). What few
 * questions vary too little among themselves is made good for. */
static double draw(const groups *g, const double made_up[2], double apart, uint64_t *random) {
    double sum = 0, middle = (made_up[0] + made_up[1]) / 2;
    for (size_t k = 0; k < g->n; k++) {
        const double *score = g->score + g->first[k];
        size_t n = g->first[k + 1] - g->first[k];
        double in_group = 0, made[2] = {made_up[0], made_up[1]}, mean = 0;
        for (size_t i = 0; i < n; i++) mean += score[i] / (double)n;
        for (int i = 0; i < 2 && g->n > 1; i++) made[i] = mean + apart * (made_up[i] - middle);
        for (size_t i = 0; i < n + 2; i++) {
            size_t at = next_below(random, n + 2);
            in_group += at < n ? score[at] : made[at - n];
        }
        in_group /= (double)(n + 2);
        if (g->n > 1)
            in_group = mean + (in_group - mean) * (double)(n + 2) / sqrt((double)(n * (n > 1 ? n - 1 : 1)));
        sum += in_group;
    }
    return sum / (double)g->n;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static sac_status bootstrap(const eval_sample *s, double low, double high, bool is_pairs, eval_estimate *out,
                            sac_error *err) {
    groups g;
    double draws[DRAWS];
    uint64_t random = 1;
    *out = (eval_estimate){0};
    if (!s->n) return SAC_OK;
    SAC_TRY(sort_groups(s, &g, err));
    double apart = is_pairs ? 1 : 1 / sqrt((double)g.n);
    for (size_t i = 0; i < DRAWS; i++) {
        draws[i] = draw(&g, (const double[]){low, high}, apart, &random);
        if (!is_pairs) draws[i] = fmin(fmax(draws[i], low), high);
    }
    qsort(draws, DRAWS, sizeof *draws, by_value);
    *out = (eval_estimate){figure_of(&g), draws[CUT - 1], draws[DRAWS - CUT]};
    free_groups(&g);
    return SAC_OK;
}

sac_status eval_bootstrap(const eval_sample *s, double low, double high, eval_estimate *out, sac_error *err) {
    return bootstrap(s, low, high, false, out, err);
}

sac_status eval_bootstrap_pairs(const eval_sample *s, eval_estimate *out, sac_error *err) {
    double step = sqrt(0.5 / (double)(s->group && s->n_groups ? s->n_groups : 1));
    return bootstrap(s, -step, step, true, out, err);
}

/* ---------------------------------------------------------------- the test */

/* What question i adds to the figure: only those that add something. Returns how many. */
static size_t shares_of(const groups *g, double *share) {
    size_t n = 0;
    for (size_t k = 0; k < g->n; k++)
        for (size_t i = g->first[k]; i < g->first[k + 1]; i++) {
            double v = g->score[i] / ((double)(g->first[k + 1] - g->first[k]) * (double)g->n);
            if (v < 0 || v > 0) share[n++] = v;
        }
    return n;
}

/* Bit i of the words: question i the other way round. */
static double with_signs(const double *share, size_t n, uint64_t *random, uint64_t pattern) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) {
        if (random && i % 64 == 0) pattern = next_random(random);
        sum += pattern >> i % 64 & 1 ? -share[i] : share[i];
    }
    return sum;
}

sac_status eval_sign_flip(const eval_sample *s, double *p, sac_error *err) {
    groups g;
    *p = 1;
    if (!s->n) return SAC_OK;
    SAC_TRY(sort_groups(s, &g, err));
    double *share = malloc(s->n * sizeof *share);
    if (!share) {
        free_groups(&g);
        return sac_fail_no_memory(err);
    }
    size_t n = shares_of(&g, share);
    bool exact = n <= EXACT_UP_TO;
    uint64_t random = 2, n_patterns = exact ? 1ull << n : PATTERNS, as_far = exact ? 0 : 1;
    double size = 0;
    for (size_t i = 0; i < n; i++) size += fabs(share[i]);
    double found =
        fabs(with_signs(share, n, NULL, 0)) - 1e-9 * size; /* sums in another order round otherwise */
    for (uint64_t k = 0; k < n_patterns; k++)
        as_far += fabs(with_signs(share, n, exact ? NULL : &random, k)) >= found;
    *p = (double)as_far / (double)(n_patterns + (exact ? 0 : 1));
    free(share);
    free_groups(&g);
    return SAC_OK;
}
