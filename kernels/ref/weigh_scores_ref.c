#include "ref.h"

#include "score_weight.h"

/* Of numbers [first, end) of a row, end - first <= SAC_WEIGHT_STRETCH. */
static double mass_of(sac_weighing w, const float *x, int64_t first, int64_t end) {
    const int64_t whole = first + (end - first) / SAC_WEIGHT_LANES * SAC_WEIGHT_LANES;
    double sum = 0;
    for (int lane = 0; lane < SAC_WEIGHT_LANES; lane++) {
        float of_lane = 0;
        for (int64_t i = first + lane; i < whole; i += SAC_WEIGHT_LANES) of_lane += sac_score_weight(w, x[i]);
        sum += (double)of_lane;
    }
    float rest = 0;
    for (int64_t i = whole; i < end; i++) rest += sac_score_weight(w, x[i]);
    return sum + (double)rest;
}

static int64_t stretch_end(int64_t first, int64_t n) {
    return first + SAC_WEIGHT_STRETCH < n ? first + SAC_WEIGHT_STRETCH : n;
}

static int64_t draw(sac_weighing w, const float *x, int64_t n, double target) {
    double sum = 0;
    for (int64_t first = 0; first < n; first += SAC_WEIGHT_STRETCH) {
        const int64_t end = stretch_end(first, n);
        const float mass = (float)mass_of(w, x, first, end); /* as it is kept */
        if (sum + (double)mass <= target) {
            sum += (double)mass;
            continue;
        }
        for (int64_t i = first; i < end; i++) {
            sum += (double)sac_score_weight(w, x[i]);
            if (sum > target) return i;
        }
    }
    return n;
}

sac_status sac_ref_weigh_scores(const sac_stream *s, const sac_weigh_scores_args *a) {
    (void)s;
    assert(a->n_rows >= 0 && a->n >= 1 && a->n <= INT32_MAX && a->stride >= a->n);
    for (int row = 0; row < a->n_rows; row++) {
        const float *x = a->x + row * a->stride;
        const sac_weighing w = {a->best[row], a->scale[row]};
        if (a->scale[row] == 0) continue;
        double total = 0;
        for (int64_t first = 0; first < a->n; first += SAC_WEIGHT_STRETCH) total += mass_of(w, x, first, stretch_end(first, a->n));
        const int64_t at = a->u[row] >= 0 ? draw(w, x, a->n, a->u[row] * total) : -1;
        a->total[row] = total;
        a->at[row] = (int32_t)at;
        a->value[row] = at >= 0 && at < a->n ? x[at] : 0;
    }
    return SAC_OK;
}
