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

sac_status sac_ref_top_p(const sac_stream *s, const sac_top_p_args *a) {
    (void)s;
    assert(a->weights && a->threshold && a->n_kept && !isnan(a->p));
    for (int row = 0; row < a->n_rows; row++) {
        const float *w = a->weights + row * a->stride;
        int64_t n = a->counts ? a->counts[row] : a->n;
        assert(n >= 0 && n <= a->stride);
        float t = a->p >= 1 ? 0 : find_threshold(w, n, a->p), max = largest(w, n);
        a->threshold[row] = t < max ? t : max; /* the largest class stays, however small p is */
        a->n_kept[row] = 0;
        for (int64_t i = 0; i < n; i++) a->n_kept[row] += w[i] >= a->threshold[row];
    }
    return SAC_OK;
}
