/* importance.h - how many tokens, and which, hold a share of the attention: ZipVL's probes and rule, for
 * prompts (zipvl.c, zipcache.c) and for the answer's tokens in a packed cache (kvquant/mixed.c). */
#ifndef SAC_IMPORTANCE_H
#define SAC_IMPORTANCE_H

#include "policy.h"

/* Probes: the last `recent` of n queries and `random` of those before, ascending, all when there are no more;
 * how many. The random ones are drawn without replacement by the numbers of `stream`, so that no order of
 * work changes them. scratch [n]. */
int64_t sac_draw_probes(uint64_t seed, uint64_t stream, int64_t n, int64_t recent, int64_t random,
                        int32_t *scratch, int32_t *probes);

/* The stream of a layer's probes: a conversation's next prompt draws others. */
static inline uint64_t sac_probe_stream(const sac_layer_attention *a) {
    return (uint64_t)a->n_before << 16 | (uint64_t)a->layer;
}

/* The smallest p such that the p largest of n weights hold tau of their sum (ZipVL, equation 6); at least 1.
 */
sac_status sac_importance_count(const sac_ops *ops, const sac_stream *stream, const float *weights, int64_t n,
                                double tau, int64_t *p);

/* The same from what top_p says: the least weight of that set, and how many weigh no less. */
int64_t sac_importance_count_from(const float *weights, int64_t n, double tau, float least, int64_t n_least);

/* The p best of n scores, ascending. */
sac_status sac_importance_best(const sac_ops *ops, const sac_stream *stream, const float *scores, int64_t n,
                               int64_t p, int32_t *best);

/* Both at once for a few weights that the host has, where asking ops would take longer: the fewest rows that hold tau
 * of the sum, of equal ones the first, to best [n], ascending. How many; at least 1. Sorts w. */
typedef struct sac_weighed {
    float weight; /* not negative; NaN counts as 0 */
    int32_t row;
} sac_weighed;
int64_t sac_importance_choose(sac_weighed *w, int64_t n, double tau, int32_t *best);

/* What tau of n weights is, less what sums in another order may differ by. */
double sac_importance_target(const float *weights, int64_t n, double tau);

#endif
