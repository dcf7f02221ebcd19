/* length.c - how soon an answer may and should end; scores that are no numbers. */
#include "score_processor.h"

#include <float.h>
#include <math.h>

void sac_process_lengths(sac_scoring *x) {
    const sac_controls *c = x->controls;
    if (x->n_ids >= c->min_length && x->n_ids - x->n_prompt >= c->min_new_tokens) return;
    for (int i = 0; i < x->n_eos; i++) x->scores[x->eos[i]] = -INFINITY;
}

void sac_process_invalid(sac_scoring *x) {
    if (!x->controls->remove_invalid_values) return;
    for (int i = 0; i < x->vocab; i++) {
        float s = x->scores[i];
        x->scores[i] = isnan(s) ? 0 : s == INFINITY ? FLT_MAX : s == -INFINITY ? -FLT_MAX : s;
    }
}

/* Past the start the end's score rises by |score| * (factor^n - 1). */
void sac_process_decay(sac_scoring *x) {
    const sac_controls *c = x->controls;
    int64_t n = x->n_ids - x->n_prompt - c->decay_start;
    if (!(c->decay_factor > 0) || n <= 0) return;
    float rise = (float)(pow(c->decay_factor, (double)n) - 1);
    for (int i = 0; i < x->n_eos; i++) {
        float *s = &x->scores[x->eos[i]];
        if (isfinite(*s)) *s += fabsf(*s) * rise;
    }
}
