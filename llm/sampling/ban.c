/* ban.c - tokens that may not come, or must: bad words, sequence biases, suppressed and forced tokens. */
#include "score_processor.h"

#include <math.h>
#include <string.h>

/* Where the ids before the last of a sequence are the latest ones, the bias goes to the last one. */
static void add_biases(sac_scoring *x, sac_id_span span, bool keep_eos) {
    const int32_t *at = x->controls->pool + span.at, *end = at + span.n;
    for (; at < end; at += 2 + at[0]) {
        const int32_t *ids = at + 2;
        int64_t n = at[0] - 1;
        float bias;
        memcpy(&bias, &at[1], sizeof bias);
        bool is_eos = false;
        for (int i = 0; keep_eos && n == 0 && i < x->n_eos; i++) is_eos |= ids[0] == x->eos[i];
        if (is_eos || n > x->n_ids) continue;
        if (n > 0 && memcmp(x->ids + x->n_ids - n, ids, (size_t)n * sizeof *ids)) continue;
        x->scores[ids[n]] += bias;
    }
}

void sac_process_sequence_bias(sac_scoring *x) {
    add_biases(x, x->controls->sequence_bias, false);
}

void sac_process_bad_words(sac_scoring *x) {
    add_biases(x, x->controls->bad_words_ids, true);
}

static void ban(sac_scoring *x, sac_id_span span) {
    const int32_t *ids = x->controls->pool + span.at;
    for (int32_t i = 0; i < span.n; i++)
        if (ids[i] < x->vocab) x->scores[ids[i]] = -INFINITY;
}

void sac_process_suppress(sac_scoring *x) {
    const sac_controls *c = x->controls;
    int64_t begin = x->n_prompt > 1 || !c->forced_bos_token_id.n ? x->n_prompt : x->n_prompt + 1;
    ban(x, c->suppress_tokens);
    if (x->n_ids == begin) ban(x, c->begin_suppress_tokens);
}

static void force(sac_scoring *x, sac_id_span span) {
    const int32_t *ids = x->controls->pool + span.at;
    for (int i = 0; i < x->vocab; i++) x->scores[i] = -INFINITY;
    for (int32_t i = 0; i < span.n; i++) x->scores[ids[i]] = 0;
}

void sac_process_forced(sac_scoring *x) {
    const sac_controls *c = x->controls;
    if (c->forced_bos_token_id.n && x->n_ids == 1) force(x, c->forced_bos_token_id);
    if (c->forced_eos_token_id.n && x->n_ids == x->n_most - 1) force(x, c->forced_eos_token_id);
}
