#include "channel_scales.h"

#include <math.h>
#include <stdlib.h>

#define LEAST 1e-3 /* of the mean: a channel that met nothing keeps its weights */

static void scales_of(const double *magnitude, int64_t k, int alpha, float *s) {
    double mean = 0, least = INFINITY, most = 0;
    for (int64_t i = 0; i < k; i++) mean += magnitude[i] / (double)k;
    for (int64_t i = 0; i < k; i++) {
        const double v = fmax(magnitude[i], LEAST * mean);
        least = fmin(least, v), most = fmax(most, v);
    }
    const double unit = sqrt(most * least);
    for (int64_t i = 0; i < k; i++)
        s[i] = alpha && unit > 0 ? (float)pow(fmax(magnitude[i], LEAST * mean) / unit, (double)alpha / SAC_CHANNEL_GRID) : 1;
}

sac_status sac_channel_scales(const sac_gptq *g, const double *magnitude, const float *w, int64_t n, float *s, sac_channel_choice *choice,
                              sac_pool *pool, sac_error *err) {
    const size_t n_bytes = (size_t)(n * g->k) * sizeof(float);
    float *rows = malloc(n_bytes);
    sac_status st = rows ? SAC_OK : sac_fail_no_memory(err);
    sac_gptq with = *g;
    *choice = (sac_channel_choice){0};
    with.s = s;
    for (int alpha = 0; alpha < SAC_CHANNEL_GRID && st == SAC_OK; alpha++) {
        double loss;
        scales_of(magnitude, g->k, alpha, s);
        memcpy(rows, w, n_bytes);
        st = sac_gptq_round(&with, rows, n, NULL, NULL, &loss, pool, err);
        if (alpha == 0) choice->before = choice->after = loss;
        if (loss < choice->after) choice->after = loss, choice->alpha = alpha;
    }
    scales_of(magnitude, g->k, choice->alpha, s);
    free(rows);
    return st;
}
