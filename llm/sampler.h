/* sampler.h - from logits to the next token. */
#ifndef SAC_LLM_SAMPLER_H
#define SAC_LLM_SAMPLER_H

#include "arena.h"
#include "token_told.h"
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
    uint8_t *seen;    /* [vocab] 1: tokens of prompt and answer; 2: listed */
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
    /* Tokens whose scores bias or penalties change, each once: those with a bias first. */
    int32_t *listed;    /* [SAC_MOST_EDITS] */
    float *listed_bias; /* likewise */
    int n_listed;
    bool lists_all;
    int n_told;     /* of a choice from what a device told: s->taken has so many, falling */
    uint32_t *mask; /* [(vocab + 31) / 32] room for one */
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

/* Bits of a mask, (vocab + 31) / 32 words of ones, to `mask`, which clears those of tokens that may not come; their scores become
 * -infinity. Between load and choice. */
void sac_sampler_mask(sac_sampler *s, void (*mask)(void *ctx, uint32_t *bits, int n), void *ctx);

/* The same choice of scores that bias and penalties have changed already. */
int32_t sac_sampler_choose_edited(sac_sampler *s, uint64_t step);

/* What the choice of `step` needs of the logits, and the log probabilities of n_top tokens behind it (-1: none). */
sac_token_wanted sac_sampler_wants(const sac_sampler *s, uint64_t step, int n_top);
/* The changes that bias and penalties make, where they are wanted: at most SAC_MOST_EDITS, no id twice. Returns how many. */
int sac_sampler_edits(const sac_sampler *s, sac_score_edit *edits);
/* Whether what a device told is enough to choose. Not where the tokens that top_p and min_p leave may be more than the best ones
 * that came: then all logits have to come. */
bool sac_sampler_is_told(const sac_sampler *s, const sac_token_wanted *w, const sac_token_told *t);
/* What sac_sampler_choose says, to the bit, from what is told and enough. */
int32_t sac_sampler_choose_told(sac_sampler *s, const sac_token_told *t, uint64_t step);
/* And then sac_sampler_logprobs. */
int sac_sampler_logprobs_told(const sac_sampler *s, const sac_token_told *t, int32_t id, float *logprob, sac_logprob *top, int n_top);

/* After a choice: the logarithm of softmax(scores / temperature) at id, and its n_top largest values, falling
 * (equal ones by rising id). Temperature 0 counts as 1. Returns how many were written: less than n_top in a
 * small vocabulary. */
int sac_sampler_logprobs(const sac_sampler *s, int32_t id, float *logprob, sac_logprob *top, int n_top);

/* Load and choose. */
int32_t sac_sampler_next(sac_sampler *s, const float *logits, uint64_t step);

#endif
