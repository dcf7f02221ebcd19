#include "importance.h"

#include <string.h>

/* Sums of n numbers in another order differ by about this much: a share is reached when it is missed by no
 * more, so that equal weights give the count that arithmetic on paper gives. */
#define SLACK 1e-9

/* The beginning of a shuffle; ascending order then comes from marking what was drawn. */
int64_t sac_draw_probes(uint64_t seed, uint64_t stream, int64_t n, int64_t recent, int64_t random,
                        int32_t *scratch, int32_t *probes) {
    if (recent > n) recent = n;
    int64_t before = n - recent, n_probes = 0;
    if (random > before) random = before;
    for (int64_t i = 0; i < before; i++) scratch[i] = (int32_t)i;
    for (int64_t i = 0; i < random; i++) {
        uint64_t u = sac_random_u32(seed, stream, (uint64_t)i);
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
    double target = tau * sum_of(weights, n) * (1 - SLACK), held = 0;
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

/* What the p best hold grows with p, as each set holds the one before: bisection. */
sac_status sac_importance_cover(const sac_ops *ops, const sac_stream *stream, const float *scores,
                                const float *weights, int64_t n, double tau, int32_t *best, int64_t *p) {
    double target = tau * sum_of(weights, n) * (1 - SLACK);
    int64_t low = 1, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        double held = 0;
        SAC_TRY(sac_importance_best(ops, stream, scores, n, middle, best));
        for (int64_t i = 0; i < middle; i++) held += (double)weights[best[i]];
        if (held >= target)
            high = middle;
        else
            low = middle + 1;
    }
    *p = low;
    return sac_importance_best(ops, stream, scores, n, low, best);
}
