/* guidance.c - classifier-free guidance (Sanchez et al. 2023, arXiv:2306.17806), as transformers'
 * UnbatchedClassifierFreeGuidanceLogitsProcessor. */
#include "score_processor.h"

#include <math.h>

static double log_sum(const float *x, int n) {
    float best = -INFINITY;
    double sum = 0;
    for (int i = 0; i < n; i++) best = fmaxf(best, x[i]);
    for (int i = 0; i < n; i++) sum += exp((double)x[i] - (double)best);
    return (double)best + log(sum);
}

void sac_guide_scores(float *scores, const float *unguided, int vocab, double scale) {
    double a = log_sum(scores, vocab), b = log_sum(unguided, vocab);
    for (int i = 0; i < vocab; i++) {
        float with = (float)((double)scores[i] - a), without = (float)((double)unguided[i] - b);
        scores[i] = (float)scale * (with - without) + without;
    }
}
