#include "ref.h"

#include <math.h>

static float log_sum(const float *scores, int64_t n) {
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) max = (double)scores[j] > max ? (double)scores[j] : max;
    for (int64_t j = 0; j < n && max > -INFINITY; j++) sum += exp((double)scores[j] - max);
    return sum > 0 ? (float)(log(sum) + max) : -INFINITY;
}

sac_status sac_ref_softmax(const sac_stream *s, const sac_softmax_args *a) {
    (void)s;
    if (sac_is_skipped(a->skip)) return SAC_OK;
    assert(a->n_rows >= 0 && a->scores && a->lse);
    for (int row = 0; row < a->n_rows; row++) {
        const float *scores = a->scores + row * a->stride;
        int64_t n = a->counts ? a->counts[row] : a->n;
        assert(n >= 0 && n <= a->stride);
        float lse = a->lse[row] = log_sum(scores, n);
        for (int64_t j = 0; a->weights && j < n; j++)
            a->weights[row * a->stride + j] =
                lse > -INFINITY ? (float)exp((double)scores[j] - (double)lse) : 0.0f;
    }
    return SAC_OK;
}
