#include "importance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of n numbers in another order differ by about this much: a share is reached when it is missed by no
 * more, so that equal weights give the count that arithmetic on paper gives. */
#define SLACK 1e-9

/* Random number i of a stream that seed, layer and request name: counter-based, so order of use is
 * immaterial. */
static uint32_t random_u32(uint64_t seed, uint64_t stream, uint64_t i) {
    uint64_t x = seed * 0x9e3779b97f4a7c15u + stream * 0xd1342543de82ef95u + i;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u; /* Stafford's mix 13 of splitmix64, twice */
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((x ^ (x >> 31)) >> 32);
}

/* The beginning of a shuffle; ascending order then comes from marking what was drawn. */
int64_t sac_draw_probes(uint64_t seed, uint64_t stream, int64_t n, int64_t recent, int64_t random,
                        int32_t *scratch, int32_t *probes) {
    if (recent > n) recent = n;
    int64_t before = n - recent, n_probes = 0;
    if (random > before) random = before;
    for (int64_t i = 0; i < before; i++) scratch[i] = (int32_t)i;
    for (int64_t i = 0; i < random; i++) {
        uint64_t u = random_u32(seed, stream, (uint64_t)i);
        int64_t j = i + (int64_t)(u * (uint64_t)(before - i) >> 32);
        probes[i] = scratch[j];
        scratch[j] = scratch[i];
    }
    memset(scratch, 0, (size_t)before * sizeof *scratch);
    for (int64_t i = 0; i < random; i++) scratch[probes[i]] = 1;
    for (int64_t i = 0; i < before; i++)
        if (scratch[i]) probes[n_probes++] = (int32_t)i;
    for (int64_t i = 0; i < recent; i++) probes[n_probes++] = (int32_t)(before + i);
    return n_probes;
}

static double sum_of(const float *w, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)w[i];
    return sum;
}

double sac_importance_target(const float *weights, int64_t n, double tau) {
    return tau * sum_of(weights, n) * (1 - SLACK);
}

sac_status sac_importance_count(const sac_ops *ops, const sac_stream *stream, const float *weights, int64_t n,
                                double tau, int64_t *p) {
    float least;
    int64_t n_least;
    *p = n;
    if (tau >= 1) return SAC_OK;
    SAC_TRY(ops->top_p(stream, &(sac_top_p_args){.weights = weights,
                                                 .stride = n,
                                                 .n = n,
                                                 .n_rows = 1,
                                                 .p = tau,
                                                 .threshold = &least,
                                                 .n_kept = &n_least}));
    *p = sac_importance_count_from(weights, n, tau, least, n_least);
    return SAC_OK;
}

int64_t sac_importance_count_from(const float *weights, int64_t n, double tau, float least, int64_t n_least) {
    double target = sac_importance_target(weights, n, tau), held = 0;
    int64_t count = 0; /* all above the threshold, then as many of its own class as are needed */
    for (int64_t i = 0; i < n; i++)
        if (weights[i] > least) {
            held += (double)weights[i];
            count++;
        }
    while (count < n_least && (held < target || count == 0)) {
        held += (double)least;
        count++;
    }
    return count;
}

sac_status sac_importance_best(const sac_ops *ops, const sac_stream *stream, const float *scores, int64_t n,
                               int64_t p, int32_t *best) {
    return ops->top_k(
        stream,
        &(sac_top_k_args){.scores = scores, .stride = n, .n = n, .n_rows = 1, .k = p, .indices = best});
}

static int heaviest_first(const void *a, const void *b) {
    const sac_weighed *x = a, *y = b;
    if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
    return x->row < y->row ? -1 : 1;
}
static int in_order(const void *a, const void *b) {
    return *(const int32_t *)a < *(const int32_t *)b ? -1 : 1;
}

int64_t sac_importance_choose(sac_weighed *w, int64_t n, double tau, int32_t *best) {
    double sum = 0, held = 0;
    int64_t n_best = 0;
    for (int64_t i = 0; i < n; i++) {
        if (isnan(w[i].weight)) w[i].weight = 0;
        sum += (double)w[i].weight;
    }
    qsort(w, (size_t)n, sizeof *w, heaviest_first);
    while (n_best < n && (n_best == 0 || tau >= 1 || held < tau * sum * (1 - SLACK))) {
        held += (double)w[n_best].weight;
        best[n_best] = w[n_best].row;
        n_best++;
    }
    qsort(best, (size_t)n_best, sizeof *best, in_order);
    return n_best;
}
