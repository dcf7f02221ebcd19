/* sampler_draw.h - parts of a choice that sampler.c and sampler_told.c share. Of the sampler alone. */
#ifndef SAC_LLM_SAMPLER_DRAW_H
#define SAC_LLM_SAMPLER_DRAW_H

#include "sampler.h"
#include "score_weight.h"

/* Above 0 and below 1. */
double sac_sampler_uniform(uint64_t seed, uint64_t step);

static inline bool sac_sampler_limits_k(const sac_sampler *s) {
    return s->config.top_k > 0 && s->config.top_k < s->vocab;
}

static inline sac_weighing sac_sampler_weigh(float best, double temperature) {
    return (sac_weighing){best, sac_score_scale(temperature)};
}

/* Of those that top-k, top-p and min-p leave, the best first, the one in which u of their weight is passed. s->taken has n_taken of
 * them, and where these are not `all` more are taken. total: what top-p is a share of. */
int32_t sac_sampler_draw_taken(sac_sampler *s, sac_weighing w, double u, double total, bool all, int32_t otherwise);

/* Of what weighs `total`, beside the best one; of the best one 0, be it infinite. */
static inline double sac_sampler_log_of(float best, double total) {
    return best == INFINITY ? 0 : log(total);
}
static inline float sac_sampler_logprob_of(float score, float best, double temperature, double log_sum) {
    const double below = score == best ? 0 : (double)score - (double)best;
    return (float)(below / temperature - log_sum);
}

#endif
