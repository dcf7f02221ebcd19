/* sampler_told.c - a token and log probabilities from what a device tells of its logits, the same bits as from all of them. */
#include "sampler_draw.h"

#include "controls.h"
#include "order.h"

static bool penalises_answer(const sac_sampler_config *c) {
    return c->presence_penalty != 0 || c->frequency_penalty != 0;
}

static bool edits_any(const sac_sampler *s) {
    const sac_sampler_config *c = &s->config;
    return c->n_bias || (c->controls && c->controls->logit_bias.n) || c->repetition_penalty != 1 || penalises_answer(c);
}

static bool is_filtered(const sac_sampler_config *c) {
    return c->top_p < 1 || c->min_p > 0;
}

sac_token_wanted sac_sampler_wants(const sac_sampler *s, uint64_t step, int n_top) {
    const sac_sampler_config *c = &s->config;
    const bool draws = c->temperature > 0, is_edited = edits_any(s);
    const int few = s->vocab / 4 < SAC_MOST_BEST ? s->vocab / 4 : SAC_MOST_BEST;
    sac_token_wanted w = {.n_best = 1, .n_top = n_top, .is_edited = is_edited, .u = -1, .sampler = s};
    if (s->processed || (is_edited && !s->lists_all)) return (sac_token_wanted){0};
    if (draws && sac_sampler_limits_k(s)) {
        w.n_best = c->top_k;
    } else if (draws) {
        w.scale = sac_score_scale(c->temperature);
        if (is_filtered(c))
            w.n_best = few;
        else
            w.u = sac_sampler_uniform(c->seed, step);
    }
    if (n_top >= 0) w.scale = sac_score_scale(draws ? c->temperature : 1);
    if (n_top > w.n_best) w.n_best = n_top;
    return w.n_best > 0 && w.n_best <= SAC_MOST_BEST && w.n_best <= s->vocab ? w : (sac_token_wanted){0};
}

int sac_sampler_edits(const sac_sampler *s, sac_score_edit *edits) {
    const sac_sampler_config *c = &s->config;
    for (int i = 0; i < s->n_listed; i++) {
        const int32_t id = s->listed[i];
        const bool is_seen = s->seen[id] & 1, is_counted = s->counts[id] && penalises_answer(c);
        edits[i] = (sac_score_edit){
            .id = id,
            .bias = s->listed_bias[i],
            .repetition = is_seen ? (float)c->repetition_penalty : 1,
            .less = is_counted ? (float)(c->presence_penalty + s->counts[id] * c->frequency_penalty) : 0};
    }
    return s->n_listed;
}

/* Whether top_p or min_p ends before the last of the best: sums in any order differ by less than the margin. */
static bool ends_within(const sac_sampler_config *c, sac_weighing w, const sac_token_told *t) {
    double sum = 0;
    float least = 1;
    for (int i = 0; i < t->n_best; i++) {
        const float p = sac_score_weight(w, t->best[i]);
        sum += (double)p;
        if (p < least) least = p;
    }
    return (double)least < c->min_p || sum - (double)least >= c->top_p * t->total * (1 + 1e-9);
}

bool sac_sampler_is_told(const sac_sampler *s, const sac_token_wanted *w, const sac_token_told *t) {
    const sac_sampler_config *c = &s->config;
    int n_numbers = 0;
    if (!(t->largest > -INFINITY)) return true; /* nothing may come */
    for (int i = 0; i < t->n_best; i++) n_numbers += t->best[i] > -INFINITY;
    if (w->n_top > (t->n_best ? n_numbers : 1)) return false;
    if (c->temperature == 0 || sac_sampler_limits_k(s) || !is_filtered(c) || t->largest == INFINITY) return true;
    return n_numbers < t->n_best || ends_within(c, sac_sampler_weigh(t->largest, c->temperature), t);
}

/* The best ones to s->taken, as they are taken from all. */
static void take_told(sac_sampler *s, const sac_token_told *t) {
    int n = 0;
    for (int i = 0; i < t->n_best; i++) {
        s->scores[t->best_at[i]] = t->best[i];
        if (t->best[i] > -INFINITY) s->spare[n++] = t->best_at[i];
    }
    sac_order_falling(s->scores, s->spare, s->taken, n);
    s->n_told = n;
}

int32_t sac_sampler_choose_told(sac_sampler *s, const sac_token_told *t, uint64_t step) {
    const sac_sampler_config *c = &s->config;
    s->n_told = 0;
    if (!(t->largest > -INFINITY)) return -1;
    if (t->n_best) take_told(s, t);
    if (c->temperature == 0 || t->largest == INFINITY) return t->largest_at;
    if (!sac_sampler_limits_k(s) && !is_filtered(c)) return t->drawn_at < s->vocab ? t->drawn_at : t->largest_at;
    const sac_weighing w = sac_sampler_weigh(t->largest, c->temperature);
    double total = 0;
    s->n_taken = sac_sampler_limits_k(s) && c->top_k < s->n_told ? c->top_k : s->n_told;
    if (s->n_taken == 0) return t->largest_at; /* the one that was wanted */
    for (int i = 0; i < s->n_taken && sac_sampler_limits_k(s); i++) total += sac_score_weight(w, s->scores[s->taken[i]]);
    return sac_sampler_draw_taken(s, w, sac_sampler_uniform(c->seed, step), sac_sampler_limits_k(s) ? total : t->total, true, t->largest_at);
}

static float score_told(const sac_sampler *s, const sac_token_told *t, int32_t id) {
    if (id == t->largest_at) return t->largest;
    return id == t->drawn_at && !sac_sampler_limits_k(s) && !is_filtered(&s->config) ? t->drawn : s->scores[id];
}

int sac_sampler_logprobs_told(const sac_sampler *s, const sac_token_told *t, int32_t id, float *logprob, sac_logprob *top, int n_top) {
    const double temperature = s->config.temperature > 0 ? s->config.temperature : 1, log_sum = sac_sampler_log_of(t->largest, t->total);
    *logprob = sac_sampler_logprob_of(score_told(s, t, id), t->largest, temperature, log_sum);
    for (int i = 0; i < n_top; i++) { /* of one alone there is no list */
        const int32_t of = t->n_best ? s->taken[i] : t->largest_at;
        top[i] = (sac_logprob){of, sac_sampler_logprob_of(t->n_best ? s->scores[of] : t->largest, t->largest, temperature, log_sum)};
    }
    return n_top;
}
