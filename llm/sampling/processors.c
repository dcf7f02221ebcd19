/* processors.c - the lists. */
#include "score_processor.h"

#include <math.h>

bool sac_processors_on(const sac_controls *c) {
    return c->min_length || c->min_new_tokens || c->no_repeat_ngram_size || c->encoder_no_repeat_ngram_size ||
           c->encoder_repetition_penalty > 0 || c->typical_p > 0 || c->epsilon_cutoff > 0 ||
           c->eta_cutoff > 0 || c->top_h > 0 || c->decay_factor > 0 || c->remove_invalid_values ||
           c->suppress_tokens.n || c->begin_suppress_tokens.n || c->forced_bos_token_id.n ||
           c->forced_eos_token_id.n || c->bad_words_ids.n || c->sequence_bias.n || c->dry_multiplier > 0 ||
           c->xtc_probability > 0 || c->mirostat;
}

void sac_process_first(sac_scoring *x) {
    sac_process_sequence_bias(x);
    sac_process_encoder_repetition(x);
}

void sac_process_rest(sac_scoring *x) {
    sac_process_ngrams(x);
    sac_process_bad_words(x);
    sac_process_lengths(x);
    sac_process_forced(x);
    sac_process_invalid(x);
    sac_process_decay(x);
    sac_process_suppress(x);
    sac_process_dry(x);
}

void sac_process_draw(sac_scoring *x) {
    for (int i = 0; i < x->vocab; i++) x->scores[i] /= (float)x->temperature;
    if (x->controls->mirostat) {
        sac_process_mirostat(x); /* alone, as llama.cpp does */
        return;
    }
    sac_process_top_h(x);
    sac_process_tops(x);
    sac_process_typical(x);
    sac_process_cutoffs(x);
    sac_process_xtc(x);
}
