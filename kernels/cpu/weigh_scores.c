#include "cpu.h"
#include "score_weight.h"

/* The masses of a row are not kept: those of a draw are made again. */
static int64_t draw(sac_weighing w, const float *x, int64_t n, double target) {
    double sum = 0;
    for (int64_t j = 0; j < sac_score_n_stretches(n); j++) {
        const float *of = x + j * SAC_WEIGHT_STRETCH;
        const int few = sac_score_stretch(n, j);
        const float mass = (float)sac_score_of_stretch(w, of, few);
        if (sum + (double)mass <= target) {
            sum += (double)mass;
            continue;
        }
        for (int i = 0; i < few; i++) {
            sum += (double)sac_score_weight(w, of[i]);
            if (sum > target) return j * SAC_WEIGHT_STRETCH + i;
        }
    }
    return n;
}

static void weigh_rows(const void *args, int64_t first, int64_t end) {
    const sac_weigh_scores_args *a = args;
    for (int64_t row = first; row < end; row++) {
        const float *x = a->x + row * a->stride;
        const sac_weighing w = {a->best[row], a->scale[row]};
        if (a->scale[row] == 0) continue;
        const double total = sac_score_of_all(w, x, a->n, NULL);
        const int64_t at = a->u[row] >= 0 ? draw(w, x, a->n, a->u[row] * total) : -1;
        a->total[row] = total;
        a->at[row] = (int32_t)at;
        a->value[row] = at >= 0 && at < a->n ? x[at] : 0;
    }
}

sac_status sac_cpu_weigh_scores(const sac_stream *s, const sac_weigh_scores_args *a) {
    sac_for_rows(s, a->n_rows, 8 * a->n, weigh_rows, a);
    return SAC_OK;
}
