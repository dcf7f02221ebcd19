/* controls.h - settings of generation by name, as generation_config.json writes them, and DRY, XTC and
 * mirostat as llama.cpp does. A setting is one row of the table in controls.c. */
#ifndef SAC_LLM_CONTROLS_H
#define SAC_LLM_CONTROLS_H

#include "json.h"
#include "saccade/saccade.h" /* sac_controls */

#define SAC_MAX_STOP_STRING 1024 /* bytes of one */

/* At most this many ids, lengths and biases in all: lists come from strangers' files. */
enum { SAC_MAX_CONTROL_IDS = 1 << 16 };

/* A part of sac_controls.pool. */
typedef struct sac_id_span {
    int32_t at, n;
} sac_id_span;

/* All zero = everything off. Of lists of sequences the pool holds {n, bits of the bias, n ids} each. */
struct sac_controls {
    int64_t max_length, min_length, min_new_tokens;
    int64_t no_repeat_ngram_size, encoder_no_repeat_ngram_size;
    double encoder_repetition_penalty;
    double typical_p, epsilon_cutoff, eta_cutoff, top_h, max_time;
    int64_t decay_start;
    double decay_factor; /* 0 = off */
    bool remove_invalid_values;
    sac_id_span suppress_tokens, begin_suppress_tokens, forced_bos_token_id, forced_eos_token_id;
    sac_id_span stop_token_ids, bad_words_ids, sequence_bias, logit_bias;
    double presence_penalty, frequency_penalty;
    sac_id_span stop_strings; /* {bytes, the text in whole words} each */
    bool has_guidance;        /* a scale is given; 1 asks for nothing */
    double guidance_scale;
    sac_id_span negative_prompt_ids;
    double dry_multiplier, dry_base;                /* base 0 = llama.cpp's 1.75 */
    int64_t dry_allowed_length, dry_penalty_last_n; /* 0 = 2; 0 = everything */
    sac_id_span dry_breaker_ids;
    double xtc_probability, xtc_threshold; /* threshold 0 = 0.1 */
    int64_t mirostat;
    double mirostat_tau, mirostat_eta; /* 0 = 5 and 0.1 */
    int32_t *pool;
    int32_t n_pool;
};

/* Guidance asks for a second sequence beside the first. */
static inline bool sac_controls_guide(const sac_controls *c) {
    return c->has_guidance && c->guidance_scale != 1;
}

/* The text that stands at pool[at], not NUL-terminated; *next is the place of the one behind it. */
const char *sac_controls_text(const sac_controls *c, int32_t at, size_t *n_bytes, int32_t *next);

/* Copies *from, the pool too, which sac_controls_clear frees. */
sac_status sac_controls_copy(sac_controls *to, const sac_controls *from, sac_error *err);
void sac_controls_clear(sac_controls *c);

bool sac_controls_knows(const char *name);
/* null turns the setting off. The error names it. */
sac_status sac_controls_set_value(sac_controls *c, const char *name, const json_t *value, sac_error *err);
/* Every id must be below vocab. */
sac_status sac_controls_check(const sac_controls *c, int vocab, sac_error *err);

#endif
