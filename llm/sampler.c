#include "sampler_draw.h"

#include "largest.h"
#include "order.h"
#include "score_processor.h"

#include <math.h>
#include <string.h>

/* Tokens that are looked at together. */
enum { STRETCH = 256 };

static int n_stretches(int vocab) {
    return (vocab + STRETCH - 1) / STRETCH;
}

static int n_mask_words(int vocab) {
    return (vocab + 31) / 32;
}

size_t sac_sampler_bytes(int vocab) {
    size_t n = (size_t)vocab;
    return sac_arena_block_bytes(n) + sac_arena_block_bytes(n * sizeof(uint16_t)) +
           2 * sac_arena_block_bytes(n * sizeof(int32_t)) + 3 * sac_arena_block_bytes(n * sizeof(float)) +
           sac_arena_block_bytes((size_t)n_stretches(vocab) * sizeof(float)) +
           sac_arena_block_bytes((size_t)n_mask_words(vocab) * sizeof(uint32_t)) +
           sac_arena_block_bytes(SAC_MOST_EDITS * sizeof(int32_t)) + sac_arena_block_bytes(SAC_MOST_EDITS * sizeof(float));
}

sac_status sac_sampler_init(sac_sampler *s, int vocab, sac_arena *arena, sac_error *err) {
    *s = (sac_sampler){.vocab = vocab};
    s->seen = sac_arena_take(arena, (size_t)vocab);
    s->counts = sac_arena_take(arena, (size_t)vocab * sizeof(uint16_t));
    s->scores = sac_arena_take(arena, (size_t)vocab * sizeof(float));
    s->left = sac_arena_take(arena, (size_t)vocab * sizeof(float));
    s->tops = sac_arena_take(arena, (size_t)n_stretches(vocab) * sizeof(float));
    s->taken = sac_arena_take(arena, (size_t)vocab * sizeof(int32_t));
    s->spare = sac_arena_take(arena, (size_t)vocab * sizeof(int32_t));
    s->keys = sac_arena_take(arena, (size_t)vocab * sizeof(float));
    s->mask = sac_arena_take(arena, (size_t)n_mask_words(vocab) * sizeof *s->mask);
    s->listed = sac_arena_take(arena, SAC_MOST_EDITS * sizeof *s->listed);
    s->listed_bias = sac_arena_take(arena, SAC_MOST_EDITS * sizeof *s->listed_bias);
    if (!s->mask || !s->listed || !s->listed_bias || !s->keys || !s->seen || !s->counts || !s->scores || !s->left || !s->tops || !s->taken || !s->spare)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the sampler");
    return SAC_OK;
}

static sac_status check_answer_penalty(const char *name, double value, sac_error *err) {
    if (value >= -2 && value <= 2) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "%s %g: give -2 to 2 (0 = off)", name, value);
}

/* Where one has two biases or there are more than have room, not all are listed. */
static void list(sac_sampler *s, int32_t id, float bias) {
    const bool is_listed = s->seen[id] & 2;
    if (is_listed && bias == 0) return;
    if (is_listed || s->n_listed == SAC_MOST_EDITS) {
        s->lists_all = false;
        return;
    }
    s->seen[id] |= 2;
    s->listed_bias[s->n_listed] = bias;
    s->listed[s->n_listed++] = id;
}

static void list_biased(sac_sampler *s) {
    const sac_sampler_config *c = &s->config;
    s->n_listed = 0;
    s->lists_all = true;
    for (int32_t i = 0; c->controls && i < c->controls->logit_bias.n; i += 3) { /* {1, bits of the bias, id} */
        const int32_t *one = c->controls->pool + c->controls->logit_bias.at + i;
        float bias;
        memcpy(&bias, &one[1], sizeof bias);
        list(s, one[2], bias);
    }
    for (size_t i = 0; i < c->n_bias; i++) list(s, c->bias[i].id, c->bias[i].bias);
}

sac_status sac_sampler_start(sac_sampler *s, const sac_sampler_config *c, sac_error *err) {
    if (!(c->temperature >= 0 && c->temperature <= 100))
        return sac_fail(err, SAC_BAD_ARGUMENT, "temperature %g: give 0 (greedy) to 100", c->temperature);
    if (c->top_k < 0) return sac_fail(err, SAC_BAD_ARGUMENT, "top_k %d: give 0 (off) or more", c->top_k);
    if (!(c->top_p > 0 && c->top_p <= 1))
        return sac_fail(err, SAC_BAD_ARGUMENT, "top_p %g: give more than 0, up to 1", c->top_p);
    if (!(c->min_p >= 0 && c->min_p <= 1))
        return sac_fail(err, SAC_BAD_ARGUMENT, "min_p %g: give 0 to 1", c->min_p);
    if (!(c->repetition_penalty > 0 && c->repetition_penalty <= 100))
        return sac_fail(err, SAC_BAD_ARGUMENT, "repetition_penalty %g: give more than 0 (1 = off), up to 100",
                        c->repetition_penalty);
    SAC_TRY(check_answer_penalty("presence_penalty", c->presence_penalty, err));
    SAC_TRY(check_answer_penalty("frequency_penalty", c->frequency_penalty, err));
    for (size_t i = 0; i < c->n_bias; i++) {
        if (c->bias[i].id < 0 || c->bias[i].id >= s->vocab)
            return sac_fail(err, SAC_BAD_ARGUMENT, "logit_bias: token id %d is not in the vocabulary of %d",
                            c->bias[i].id, s->vocab);
        if (!(fabsf(c->bias[i].bias) <= 1000))
            return sac_fail(err, SAC_BAD_ARGUMENT, "logit_bias %g of token %d: give -1000 to 1000",
                            (double)c->bias[i].bias, c->bias[i].id);
    }
    if (c->controls) SAC_TRY(sac_controls_check(c->controls, s->vocab, err));
    s->config = *c;
    s->processed = c->controls && sac_processors_on(c->controls);
    s->ids = NULL;
    s->n_prompt = s->n_answer = 0;
    s->n_most = INT64_MAX;
    s->mu = 2 * (c->controls && c->controls->mirostat_tau > 0 ? c->controls->mirostat_tau : 5);
    memset(s->seen, 0, (size_t)s->vocab);
    memset(s->counts, 0, (size_t)s->vocab * sizeof *s->counts);
    list_biased(s);
    return SAC_OK;
}

void sac_sampler_see(sac_sampler *s, int32_t id) {
    if (id < 0 || id >= s->vocab) return;
    if (s->config.repetition_penalty != 1) list(s, id, 0);
    s->seen[id] |= 1;
}

void sac_sampler_history(sac_sampler *s, const int32_t *ids, int64_t n_prompt, int64_t n_most) {
    s->ids = ids;
    s->n_prompt = n_prompt;
    s->n_most = n_most;
}

void sac_sampler_count(sac_sampler *s, int32_t id) {
    sac_sampler_see(s, id);
    s->n_answer++;
    if (id < 0 || id >= s->vocab) return;
    if (s->config.presence_penalty != 0 || s->config.frequency_penalty != 0) list(s, id, 0);
    if (s->counts[id] < UINT16_MAX) s->counts[id]++;
}

void sac_sampler_load(sac_sampler *s, const float *logits) {
    memcpy(s->scores, logits, (size_t)s->vocab * sizeof *logits);
}

static void add_logit_biases(float *scores, const sac_controls *c) {
    const int32_t *at = c->pool + c->logit_bias.at, *end = at + c->logit_bias.n;
    for (; at < end; at += 3) { /* {1, bits of the bias, id} */
        float bias;
        memcpy(&bias, &at[1], sizeof bias);
        scores[at[2]] += bias;
    }
}

static void penalise(const sac_sampler *s) {
    const sac_sampler_config *c = &s->config;
    float repetition = (float)c->repetition_penalty;
    if (c->controls) add_logit_biases(s->scores, c->controls);
    for (size_t i = 0; i < c->n_bias; i++) s->scores[c->bias[i].id] += c->bias[i].bias;
    if (repetition != 1)
        for (int i = 0; i < s->vocab; i++)
            if (s->seen[i] & 1)
                s->scores[i] = s->scores[i] < 0 ? s->scores[i] * repetition : s->scores[i] / repetition;
    if (c->presence_penalty == 0 && c->frequency_penalty == 0) return;
    for (int i = 0; i < s->vocab; i++)
        if (s->counts[i]) s->scores[i] -= (float)(c->presence_penalty + s->counts[i] * c->frequency_penalty);
}

/* ---------------------------------------------------------------- the best first */

/* Candidates come in falling order, equal ones by rising id, as many as are needed. The largest of each
 * stretch of what is left stand side by side, so that the next best one is found by two short looks; where a
 * flat distribution asks for more than a few, the rest is sorted at once. */
enum { FEW = 512 };

static int stretch_at(const sac_sampler *s, int j) {
    return s->vocab - j * STRETCH < STRETCH ? s->vocab - j * STRETCH : STRETCH;
}

static void begin_taking(sac_sampler *s) {
    memcpy(s->left, s->scores, (size_t)s->vocab * sizeof *s->left);
    for (int j = 0; j < n_stretches(s->vocab); j++)
        s->tops[j] = sac_largest(s->left + j * STRETCH, stretch_at(s, j));
    s->n_taken = s->n_sorted = 0;
}

/* False when nothing is left above -infinity. */
static bool take_best(sac_sampler *s) {
    float top = sac_largest(s->tops, n_stretches(s->vocab));
    if (top == -INFINITY) return false;
    int j = 0, i = 0;
    while (s->tops[j] != top) j++;
    float *stretch = s->left + j * STRETCH;
    while (stretch[i] != top) i++;
    stretch[i] = -INFINITY;
    s->tops[j] = sac_largest(stretch, stretch_at(s, j));
    s->taken[s->n_taken++] = j * STRETCH + i;
    return true;
}

static void sort_rest(sac_sampler *s) {
    int32_t *rest = s->taken + s->n_taken;
    int n = 0;
    for (int i = 0; i < s->vocab; i++)
        if (s->left[i] > -INFINITY) s->spare[n++] = i;
    sac_order_falling(s->left, s->spare, rest, n);
    s->n_sorted = n;
}

/* The next one to s->taken. */
static bool take_next(sac_sampler *s) {
    if (s->n_taken < FEW) return take_best(s);
    if (s->n_taken == FEW) sort_rest(s);
    if (s->n_taken - FEW >= s->n_sorted) return false;
    s->n_taken++;
    return true;
}

/* ---------------------------------------------------------------- a draw */

/* splitmix64's finaliser over seed and step: a counter-based generator, so draws do not depend on what was
 * drawn before. Above 0 and below 1. */
double sac_sampler_uniform(uint64_t seed, uint64_t step) {
    uint64_t z = seed * 0xd1342543de82ef95u + (step + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 12) + 0.5) * 0x1p-52;
}

/* Of all tokens, in the order of ids: the one in which u of the weight is passed. */
static int32_t draw_any(sac_sampler *s, sac_weighing w, double u, int32_t otherwise) {
    const double target = u * sac_score_of_all(w, s->scores, s->vocab, s->tops);
    const int64_t at = sac_score_draw(w, s->scores, s->vocab, s->tops, target);
    return at < s->vocab ? (int32_t)at : otherwise; /* rounding left the target just above the sum */
}

int32_t sac_sampler_draw_taken(sac_sampler *s, sac_weighing w, double u, double total, bool all, int32_t otherwise) {
    const sac_sampler_config *c = &s->config;
    int k = sac_sampler_limits_k(s) ? c->top_k : s->vocab, n_kept = 0;
    double kept = 0, sum = 0;
    for (; n_kept < k && (n_kept < s->n_taken || (!all && take_next(s))); n_kept++) {
        float p = sac_score_weight(w, s->scores[s->taken[n_kept]]);
        if (n_kept > 0 && (p < c->min_p || kept >= c->top_p * total)) break;
        kept += p;
    }
    for (int i = 0; i < n_kept; i++) {
        sum += sac_score_weight(w, s->scores[s->taken[i]]);
        if (sum > u * kept) return s->taken[i];
    }
    return otherwise;
}

static int32_t draw_filtered(sac_sampler *s, sac_weighing w, double u, int32_t otherwise) {
    double total = 0;
    begin_taking(s);
    if (!sac_sampler_limits_k(s)) total = sac_score_of_all(w, s->scores, s->vocab, NULL);
    while (sac_sampler_limits_k(s) && s->n_taken < s->config.top_k && take_next(s))
        total += sac_score_weight(w, s->scores[s->taken[s->n_taken - 1]]);
    return sac_sampler_draw_taken(s, w, u, total, sac_sampler_limits_k(s), otherwise);
}

/* ---------------------------------------------------------------- with processors */

static sac_scoring scoring(sac_sampler *s, uint64_t step) {
    const sac_sampler_config *c = &s->config;
    return (sac_scoring){.controls = c->controls,
                         .scores = s->scores,
                         .vocab = s->vocab,
                         .ids = s->ids,
                         .n_prompt = s->ids ? s->n_prompt : 0,
                         .n_ids = s->ids ? s->n_prompt + s->n_answer : 0,
                         .n_most = s->n_most,
                         .eos = c->eos,
                         .n_eos = c->n_eos,
                         .keys = s->keys,
                         .order = s->taken,
                         .spare = s->spare,
                         .temperature = c->temperature,
                         .top_k = c->top_k,
                         .top_p = c->top_p,
                         .min_p = c->min_p,
                         .chance = sac_sampler_uniform(c->seed ^ 0x787463, step), /* not the number that draws */
                         .mu = s->mu};
}

/* How far a token's surprise, in bits, is from the target. */
static void follow_mirostat(sac_sampler *s, double share) {
    const sac_controls *c = s->config.controls;
    double tau = c->mirostat_tau > 0 ? c->mirostat_tau : 5, eta = c->mirostat_eta > 0 ? c->mirostat_eta : 0.1;
    if (c->mirostat && share > 0) s->mu -= eta * (-log2(share) - tau);
}

/* From s->left, which the draw's processors have cut. */
static int32_t draw_processed(sac_sampler *s, uint64_t step, int32_t otherwise) {
    double sum = 0, passed = 0;
    float best = sac_largest(s->left, s->vocab);
    for (int i = 0; i < s->vocab; i++)
        if (s->left[i] > -INFINITY) sum += exp((double)s->left[i] - (double)best);
    double target = sac_sampler_uniform(s->config.seed, step) * sum;
    for (int i = 0; i < s->vocab; i++) {
        if (!(s->left[i] > -INFINITY)) continue;
        double w = exp((double)s->left[i] - (double)best);
        passed += w;
        if (passed <= target) continue;
        follow_mirostat(s, w / sum);
        return i;
    }
    return otherwise;
}

static int32_t choose_processed(sac_sampler *s, uint64_t step) {
    sac_scoring x = scoring(s, step);
    sac_process_first(&x);
    penalise(s);
    sac_process_rest(&x);
    int32_t first = sac_largest_at(s->scores, s->vocab);
    if (!(s->scores[first] > -INFINITY)) return -1;
    if (s->config.temperature == 0 || s->scores[first] == INFINITY) return first;
    memcpy(s->left, s->scores, (size_t)s->vocab * sizeof *s->left);
    x.scores = s->left;
    sac_process_draw(&x);
    return draw_processed(s, step, first);
}

int32_t sac_sampler_choose_edited(sac_sampler *s, uint64_t step) {
    const sac_sampler_config *c = &s->config;
    int32_t first = sac_largest_at(s->scores, s->vocab);
    if (!(s->scores[first] > -INFINITY)) return -1;
    if (c->temperature == 0 || s->scores[first] == INFINITY) return first;
    sac_weighing w = sac_sampler_weigh(s->scores[first], c->temperature);
    double u = sac_sampler_uniform(c->seed, step);
    if (!sac_sampler_limits_k(s) && c->top_p >= 1 && c->min_p <= 0) return draw_any(s, w, u, first);
    return draw_filtered(s, w, u, first);
}

int32_t sac_sampler_choose(sac_sampler *s, uint64_t step) {
    if (s->processed) return choose_processed(s, step);
    penalise(s);
    return sac_sampler_choose_edited(s, step);
}

void sac_sampler_mask(sac_sampler *s, void (*mask)(void *ctx, uint32_t *bits, int n), void *ctx) {
    memset(s->mask, 0xff, (size_t)(s->vocab + 31) / 32 * sizeof *s->mask);
    mask(ctx, s->mask, s->vocab);
    for (int i = 0; i < s->vocab; i++)
        if (!(s->mask[i / 32] >> (i % 32) & 1)) s->scores[i] = -INFINITY;
}

int32_t sac_sampler_next(sac_sampler *s, const float *logits, uint64_t step) {
    sac_sampler_load(s, logits);
    return sac_sampler_choose(s, step);
}

/* ---------------------------------------------------------------- log probabilities */

/* The n_top best scores by insertion: n_top is small. */
static int find_top(const sac_sampler *s, sac_logprob *top, int n_top) {
    int n = 0;
    for (int32_t id = 0; id < s->vocab; id++) {
        float score = s->scores[id];
        if (isnan(score) || (n == n_top && (n == 0 || !(score > top[n - 1].logprob)))) continue;
        int at = n < n_top ? n++ : n - 1;
        for (; at > 0 && score > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (sac_logprob){id, score};
    }
    return n;
}

int sac_sampler_logprobs(const sac_sampler *s, int32_t id, float *logprob, sac_logprob *top, int n_top) {
    double temperature = s->config.temperature > 0 ? s->config.temperature : 1;
    float best = s->scores[sac_largest_at(s->scores, s->vocab)];
    double log_sum = sac_sampler_log_of(best, sac_score_of_all(sac_sampler_weigh(best, temperature), s->scores, s->vocab, NULL));
    *logprob = sac_sampler_logprob_of(s->scores[id], best, temperature, log_sum);
    int n = find_top(s, top, n_top);
    for (int i = 0; i < n; i++) top[i].logprob = sac_sampler_logprob_of(top[i].logprob, best, temperature, log_sum);
    return n;
}
