/* repeat.c - against repetition: n-grams, the prompt's tokens, DRY. */
#include "score_processor.h"

#include <math.h>
#include <string.h>

/* The prompt's tokens become likelier: transformers divides by the inverse. */
void sac_process_encoder_repetition(sac_scoring *x) {
    double penalty = x->controls->encoder_repetition_penalty;
    if (!(penalty > 0) || penalty == 1) return;
    float by = (float)(1 / penalty);
    memset(x->spare, 0, (size_t)x->vocab * sizeof *x->spare);
    for (int64_t i = 0; i < x->n_prompt; i++) {
        int32_t id = x->ids[i];
        if (id < 0 || id >= x->vocab || x->spare[id]++) continue;
        x->scores[id] = x->scores[id] < 0 ? x->scores[id] * by : x->scores[id] / by;
    }
}

/* What followed the latest n - 1 ids anywhere in ids[0..n_ids) may not follow again. */
static void ban_ngrams(sac_scoring *x, int64_t n, int64_t n_ids) {
    if (n == 0 || x->n_ids + 1 < n) return;
    const int32_t *last = x->ids + x->n_ids - (n - 1);
    for (int64_t i = 0; i + n <= n_ids; i++) {
        int32_t next = x->ids[i + n - 1];
        if (next < 0 || next >= x->vocab) continue;
        if (!memcmp(x->ids + i, last, (size_t)(n - 1) * sizeof *last)) x->scores[next] = -INFINITY;
    }
}

void sac_process_ngrams(sac_scoring *x) {
    ban_ngrams(x, x->controls->no_repeat_ngram_size, x->n_ids);
    ban_ngrams(x, x->controls->encoder_no_repeat_ngram_size, x->n_prompt);
}

static bool breaks(const sac_controls *c, int32_t id) {
    const int32_t *ids = c->pool + c->dry_breaker_ids.at;
    for (int32_t i = 0; i < c->dry_breaker_ids.n; i++)
        if (ids[i] == id) return true;
    return false;
}

/* DRY as in llama.cpp: a token that would go on with a repetition of n >= allowed ids loses
 * multiplier * base^(n - allowed). Repetitions are compared over 1,024 ids at most. */
void sac_process_dry(sac_scoring *x) {
    enum { LONGEST = 1024 };
    const sac_controls *c = x->controls;
    double base = c->dry_base > 0 ? c->dry_base : 1.75;
    int64_t allowed = c->dry_allowed_length ? c->dry_allowed_length : 2;
    int64_t n =
        c->dry_penalty_last_n > 0 && c->dry_penalty_last_n < x->n_ids ? c->dry_penalty_last_n : x->n_ids;
    if (!(c->dry_multiplier > 0) || n <= allowed) return;
    const int32_t *ids = x->ids + x->n_ids - n;
    int64_t most = 0;
    while (most < n && most < LONGEST && !breaks(c, ids[n - 1 - most])) most++;
    for (int i = 0; i < x->vocab; i++) x->keys[i] = 0;
    for (int64_t next = 1; next < n; next++) {
        int64_t same = 0;
        while (same < next && same < most && ids[next - 1 - same] == ids[n - 1 - same]) same++;
        int32_t id = ids[next];
        if (same >= allowed && id >= 0 && id < x->vocab && (float)same > x->keys[id])
            x->keys[id] = (float)same;
    }
    double exponents = base > 1.000001 ? 88.7228391 / log(base) : LONGEST;
    for (int i = 0; i < x->vocab; i++)
        if (x->keys[i] > 0)
            x->scores[i] -= (float)(c->dry_multiplier *
                                    pow(base, fmin((double)x->keys[i] - (double)allowed, floor(exponents))));
}
