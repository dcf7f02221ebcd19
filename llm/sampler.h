/* sampler.h - from logits to the next token. */
#ifndef SAC_LLM_SAMPLER_H
#define SAC_LLM_SAMPLER_H

#include "arena.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct sac_sampler_config {
    double temperature;        /* 0 = greedy: the largest logit, the lowest id among equals */
    int top_k;                 /* 0 = off */
    double top_p;              /* 1 = off */
    double min_p;              /* 0 = off */
    double repetition_penalty; /* 1 = off (Keskar et al., arXiv:1909.05858) */
    uint64_t seed;
} sac_sampler_config;

typedef struct sac_sampler {
    sac_sampler_config config;
    int vocab;
    uint8_t *seen; /* [vocab] tokens of prompt and answer */
    int32_t *heap; /* [vocab] */
    float *scores; /* [vocab] logits after the repetition penalty */
} sac_sampler;

size_t sac_sampler_bytes(int vocab);
sac_status sac_sampler_init(sac_sampler *s, int vocab, sac_arena *arena, sac_error *err);

/* Refuses values outside their range, by name. */
sac_status sac_sampler_start(sac_sampler *s, const sac_sampler_config *config, sac_error *err);
void sac_sampler_see(sac_sampler *s, int32_t id);

/* Filters apply in transformers' order: repetition penalty, temperature, top-k, top-p, min-p. The draw
 * depends on (seed, step) alone. */
int32_t sac_sampler_next(sac_sampler *s, const float *logits, uint64_t step);

#endif
