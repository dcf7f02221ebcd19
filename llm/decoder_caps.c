/* decoder_caps.c - what some models do to their logits last: divide them (Granite), or cap them (Gemma 2). */
#include "decoder_run.h"

#include <math.h>

void sac_decoder_end_logits(const sac_decoder *d, float *logits, int64_t n) {
    const float cap = d->config.logit_softcap, divisor = d->config.logit_divisor;
    for (int64_t i = 0; i < n && divisor > 0; i++) logits[i] /= divisor;
    for (int64_t i = 0; i < n && cap > 0; i++) logits[i] = cap * tanhf(logits[i] / cap);
}
