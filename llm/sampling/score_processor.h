/* score_processor.h - what changes scores between the model and the choice of a token: one function each, run in
 * the order of transformers' _get_logits_processor (v5). */
#ifndef SAC_LLM_PROCESSOR_H
#define SAC_LLM_PROCESSOR_H

#include "controls.h"

typedef struct sac_scoring {
    const sac_controls *controls;
    float *scores; /* [vocab] */
    int vocab;
    const int32_t *ids; /* [n_ids] prompt and answer; a visual token's may be outside the vocabulary */
    int64_t n_prompt, n_ids;
    int64_t n_most;     /* ids at most: prompt and the longest answer */
    const int32_t *eos; /* [n_eos] the ids that end the answer */
    int n_eos;
    float *keys;            /* [vocab] scratch */
    int32_t *order, *spare; /* [vocab] scratch */
    double temperature, top_p, min_p;
    int top_k;
    double chance; /* above 0 and below 1, of this step */
    double mu;     /* mirostat's */
} sac_scoring;

/* Any of these on: else scores stay as they are, to the bit. */
bool sac_processors_on(const sac_controls *c);

/* Before all else: scores become those of scale * (scores - unguided) + unguided, of logarithms of softmax.
 * Both [vocab]. */
void sac_guide_scores(float *scores, const float *unguided, int vocab, double scale);

/* Before and after repetition, presence and frequency penalties and logit bias. */
void sac_process_first(sac_scoring *x);
void sac_process_rest(sac_scoring *x);
/* Of a draw: temperature, then what cuts the distribution; what may not come is -INFINITY. */
void sac_process_draw(sac_scoring *x);

/* The files' own. */
void sac_process_sequence_bias(sac_scoring *x);
void sac_process_bad_words(sac_scoring *x);
void sac_process_encoder_repetition(sac_scoring *x);
void sac_process_ngrams(sac_scoring *x);
void sac_process_lengths(sac_scoring *x);
void sac_process_forced(sac_scoring *x);
void sac_process_invalid(sac_scoring *x);
void sac_process_decay(sac_scoring *x);
void sac_process_suppress(sac_scoring *x);
void sac_process_dry(sac_scoring *x);
void sac_process_top_h(sac_scoring *x);
void sac_process_tops(sac_scoring *x); /* top-k, top-p, min-p */
void sac_process_typical(sac_scoring *x);
void sac_process_cutoffs(sac_scoring *x); /* epsilon, then eta */
void sac_process_xtc(sac_scoring *x);
void sac_process_mirostat(sac_scoring *x);

#endif
