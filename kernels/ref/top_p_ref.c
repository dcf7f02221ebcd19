#include "ref.h"

#include <math.h>
#include <string.h>

/* Weights are not negative, so they are in the order of their bits. */
static float from_bits(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static double weight_above(const float *w, int64_t n, float threshold) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (w[i] >= threshold) sum += (double)w[i];
    return sum;
}

/* The largest threshold that keeps enough, bit by bit from the top: it is one of the weights. */
static float find_threshold(const float *w, int64_t n, double p) {
    double target = p * weight_above(w, n, 0);
    uint32_t bits = 0;
    for (int bit = 30; bit >= 0; bit--) {
        float t = from_bits(bits | 1u << bit);
        if (!isnan(t) && weight_above(w, n, t) >= target) bits |= 1u << bit;
    }
    return from_bits(bits);
}

static float largest(const float *w, int64_t n) {
    float max = 0;
    for (int64_t i = 0; i < n; i++) max = w[i] > max ? w[i] : max;
    return max;
}

/* ---------------------------------------------------------------- scores */

/* Numbers in the order of the scores; -infinity and NaN are 0. */
static uint32_t order_of(float s) {
    uint32_t u;
    if (!(s > -INFINITY)) return 0;
    if (s == 0) s = 0; /* both zeros */
    memcpy(&u, &s, sizeof u);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}
static float score_of(uint32_t order) {
    return from_bits(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}

/* In units of the largest score's, `top`. */
static double weight_from(const float *s, int64_t n, uint32_t least, float top) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        if (order_of(s[i]) >= least) sum += exp((double)s[i] - (double)top);
    return sum;
}

/* The same search over the scores' order. */
static float find_score(const float *s, int64_t n, double p, int64_t *n_kept) {
    uint32_t least = UINT32_MAX, most = 0, found = 0;
    for (int64_t i = 0; i < n; i++) {
        uint32_t u = order_of(s[i]);
        most = u > most ? u : most;
        least = u > 0 && u < least ? u : least;
    }
    *n_kept = 0;
    if (most == 0) return INFINITY;
    float top = score_of(most);
    double target = p * weight_from(s, n, least, top);
    for (int bit = 31; bit >= 0 && p < 1; bit--) {
        uint32_t t = found | 1u << bit;
        if (t <= most && weight_from(s, n, t > least ? t : least, top) >= target) found = t;
    }
    found = p <= 0 ? most : found < least ? least : found;
    for (int64_t i = 0; i < n; i++) *n_kept += order_of(s[i]) >= found;
    return score_of(found);
}

sac_status sac_ref_top_p(const sac_stream *s, const sac_top_p_args *a) {
    (void)s;
    assert(a->weights && a->threshold && a->n_kept && !isnan(a->p));
    for (int row = 0; row < a->n_rows; row++) {
        const float *w = a->weights + row * a->stride;
        int64_t n = a->counts ? a->counts[row] : a->n;
        assert(n >= 0 && n <= a->stride);
        if (a->scores) {
            a->threshold[row] = find_score(w, n, a->p, &a->n_kept[row]);
            continue;
        }
        float t = a->p >= 1 ? 0 : find_threshold(w, n, a->p), max = largest(w, n);
        a->threshold[row] = t < max ? t : max; /* the largest class stays, however small p is */
        a->n_kept[row] = 0;
        for (int64_t i = 0; i < n; i++) a->n_kept[row] += w[i] >= a->threshold[row];
    }
    return SAC_OK;
}
