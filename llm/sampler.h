/* sampler.h - from logits to the next token. */
#ifndef SAC_LLM_SAMPLER_H
#define SAC_LLM_SAMPLER_H

#include "arena.h"
#include "saccade/saccade.h" /* sac_logit_bias, sac_logprob */

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct sac_sampler_config {
    double temperature;        /* 0 = greedy: the largest logit, the lowest id among equals */
    int top_k;                 /* 0 = off */
    double top_p;              /* 1 = off */
    double min_p;              /* 0 = off */
    double repetition_penalty; /* 1 = off (Keskar et al., arXiv:1909.05858) */
    uint64_t seed;
    double presence_penalty, frequency_penalty; /* 0 = off; OpenAI's, over the tokens of the answer */
    const sac_logit_bias *bias;                 /* [n_bias], must live as long as the answer grows */
    size_t n_bias;
    const sac_controls *controls; /* NULL = all off; must live as long as the answer grows */
    const int32_t *eos;           /* [n_eos] ids that end the answer; likewise */
    int n_eos;
} sac_sampler_config;

typedef struct sac_sampler {
    sac_sampler_config config;
    int vocab;
    uint8_t *seen;    /* [vocab] tokens of prompt and answer */
    uint16_t *counts; /* [vocab] of the answer */
    float *scores;    /* [vocab] logits after bias and penalties */
    float *left;      /* [vocab] of a choice: scores of what is not taken yet, */
    float *tops;      /* the largest of each stretch of them (or what it weighs), */
    int32_t *taken;   /* [vocab] and the best ids, falling */
    int32_t *spare;   /* [vocab] */
    int n_taken, n_sorted;
    float *keys;        /* [vocab] of processors (sampling/score_processor.h) */
    bool processed;     /* any of them is on */
    const int32_t *ids; /* see sac_sampler_history */
    int64_t n_prompt, n_answer, n_most;
    double mu; /* mirostat's */
} sac_sampler;

size_t sac_sampler_bytes(int vocab);
sac_status sac_sampler_init(sac_sampler *s, int vocab, sac_arena *arena, sac_error *err);

/* Refuses values outside their range, by name. */
sac_status sac_sampler_start(sac_sampler *s, const sac_sampler_config *config, sac_error *err);
/* A token of the prompt; a token of the answer. */
void sac_sampler_see(sac_sampler *s, int32_t id);
void sac_sampler_count(sac_sampler *s, int32_t id);

/* Where prompt and answer stand, for processors that look back: ids [n_prompt + n tokens counted] is read at
 * every choice. n_most: ids of prompt and longest answer. After sac_sampler_start. */
void sac_sampler_history(sac_sampler *s, const int32_t *ids, int64_t n_prompt, int64_t n_most);

/* Copies the logits to s->scores, where the caller may change them before it chooses. */
void sac_sampler_load(sac_sampler *s, const float *logits);

/* The next token, or -1 when no score is above -infinity (or they are no numbers). Bias and penalties come
 * first, then transformers' order: temperature, top-k, top-p, min-p. The draw depends on
 * (seed, step) alone. */
int32_t sac_sampler_choose(sac_sampler *s, uint64_t step);

/* How many of the largest logits decide, the first ones among equals, where nothing changes a score before: 1 where it is done
 * greedily, top_k with a temperature; 0: any may. */
int sac_sampler_n_best(const sac_sampler *s);
/* What sac_sampler_choose says then, from what the op `largest` says of the logits: of 1; */
static inline int32_t sac_sampler_choose_largest(int32_t at, float value) {
    return value > -INFINITY ? at : -1;
}
/* and of as many or more, `values` of n `ids`, which rise. Where the op `largest` finds one. The same bits. */
int32_t sac_sampler_choose_best(sac_sampler *s, const int32_t *ids, const float *values, int n, uint64_t step);

/* After a choice: the logarithm of softmax(scores / temperature) at id, and its n_top largest values, falling
 * (equal ones by rising id). Temperature 0 counts as 1. Returns how many were written: less than n_top in a
 * small vocabulary. */
int sac_sampler_logprobs(const sac_sampler *s, int32_t id, float *logprob, sac_logprob *top, int n_top);

/* Load and choose. */
int32_t sac_sampler_next(sac_sampler *s, const float *logits, uint64_t step);

#endif
