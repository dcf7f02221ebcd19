#include "score_weight.h"

#include <stddef.h>

double sac_score_of_stretch(sac_weighing w, const float *scores, int n) {
    enum { LANES = SAC_WEIGHT_LANES };
    float lanes[LANES] = {0}, x[LANES], rest = 0;
    double sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) x[j] = sac_score_exponent(w, scores[i + j]);
        for (int j = 0; j < LANES; j++) lanes[j] += sac_score_exp(x[j]);
    }
    for (; i < n; i++) rest += sac_score_weight(w, scores[i]);
    for (int j = 0; j < LANES; j++) sum += lanes[j];
    return sum + rest;
}

double sac_score_of_all(sac_weighing w, const float *scores, int64_t n, float *masses) {
    double sum = 0;
    for (int64_t j = 0; j < sac_score_n_stretches(n); j++) {
        const double mass = sac_score_of_stretch(w, scores + j * SAC_WEIGHT_STRETCH, sac_score_stretch(n, j));
        if (masses) masses[j] = (float)mass;
        sum += mass;
    }
    return sum;
}

int64_t sac_score_draw(sac_weighing w, const float *scores, int64_t n, const float *masses, double target) {
    double sum = 0;
    for (int64_t j = 0; j < sac_score_n_stretches(n); j++) {
        const int64_t first = j * SAC_WEIGHT_STRETCH;
        if (sum + (double)masses[j] <= target) {
            sum += (double)masses[j];
            continue;
        }
        for (int64_t i = first; i < first + sac_score_stretch(n, j); i++) {
            sum += sac_score_weight(w, scores[i]);
            if (sum > target) return i;
        }
    }
    return n;
}
