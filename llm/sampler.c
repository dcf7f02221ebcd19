#include "sampler.h"

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

size_t sac_sampler_bytes(int vocab) {
    size_t n = (size_t)vocab;
    return sac_arena_block_bytes(n) + sac_arena_block_bytes(n * sizeof(uint16_t)) +
           2 * sac_arena_block_bytes(n * sizeof(int32_t)) + 3 * sac_arena_block_bytes(n * sizeof(float)) +
           sac_arena_block_bytes((size_t)n_stretches(vocab) * sizeof(float));
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
    if (!s->keys || !s->seen || !s->counts || !s->scores || !s->left || !s->tops || !s->taken || !s->spare)
        return sac_fail(err, SAC_INTERNAL, "the memory plan leaves no room for the sampler");
    return SAC_OK;
}

static sac_status check_answer_penalty(const char *name, double value, sac_error *err) {
    if (value >= -2 && value <= 2) return SAC_OK;
    return sac_fail(err, SAC_BAD_ARGUMENT, "%s %g: give -2 to 2 (0 = off)", name, value);
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
    return SAC_OK;
}

void sac_sampler_see(sac_sampler *s, int32_t id) {
    if (id >= 0 && id < s->vocab) s->seen[id] = 1;
}

void sac_sampler_history(sac_sampler *s, const int32_t *ids, int64_t n_prompt, int64_t n_most) {
    s->ids = ids;
    s->n_prompt = n_prompt;
    s->n_most = n_most;
}

void sac_sampler_count(sac_sampler *s, int32_t id) {
    sac_sampler_see(s, id);
    s->n_answer++;
    if (id >= 0 && id < s->vocab && s->counts[id] < UINT16_MAX) s->counts[id]++;
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
            if (s->seen[i])
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
static double uniform(uint64_t seed, uint64_t step) {
    uint64_t z = seed * 0xd1342543de82ef95u + (step + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return ((double)(z >> 12) + 0.5) * 0x1p-52;
}

/* exp(x) of -87 <= x <= 0 within a unit of a float's last place, in operations that a compiler makes of
 * several elements at a time. */
static inline float exp_negative(float x) {
    const float shift = 0x1.8p23f, ln2 = 0x1.62e4p-1f, ln2_rest = 0x1.7f7d1cp-20f; /* n * ln2 is exact */
    float k = x * 0x1.715476p0f + shift, n = k - shift;
    float r = (x - n * ln2) - n * ln2_rest, y = 1.0f / 5040;
    y = y * r + 1.0f / 720;
    y = y * r + 1.0f / 120;
    y = y * r + 1.0f / 24;
    y = y * r + 1.0f / 6;
    y = y * r + 1.0f / 2;
    y = y * r + 1;
    y = y * r + 1;
    uint32_t bits, exponent;
    memcpy(&bits, &y, sizeof bits);
    memcpy(&exponent, &k, sizeof exponent);
    bits += exponent << 23;
    memcpy(&y, &bits, sizeof y);
    return y;
}

/* What a score weighs beside the best one, whose weight is 1: from the difference, so that no temperature
 * overflows. The least, which -infinity and NaN have too, is exp(-87): a vocabulary of them is nothing. */
typedef struct weighing {
    float best, scale;
} weighing;

static weighing weigh(float best, double temperature) {
    return (weighing){best, (float)fmin(1 / temperature, 1e30)};
}

static inline float exponent_of(weighing w, float score) {
    float x = (score - w.best) * w.scale;
    return x > -87 ? x : -87;
}

static float weight(weighing w, float score) {
    return exp_negative(exponent_of(w, score));
}

static double weight_of_stretch(weighing w, const float *scores, int n) {
    enum { LANES = 16 };
    float lanes[LANES] = {0}, x[LANES], rest = 0;
    double sum = 0;
    int i = 0;
    for (; i + LANES <= n; i += LANES) {
        for (int j = 0; j < LANES; j++) x[j] = exponent_of(w, scores[i + j]);
        for (int j = 0; j < LANES; j++) lanes[j] += exp_negative(x[j]);
    }
    for (; i < n; i++) rest += weight(w, scores[i]);
    for (int j = 0; j < LANES; j++) sum += lanes[j];
    return sum + rest;
}

/* masses, unless NULL: of each stretch. */
static double weight_of_all(const sac_sampler *s, weighing w, float *masses) {
    double sum = 0;
    for (int j = 0; j < n_stretches(s->vocab); j++) {
        double mass = weight_of_stretch(w, s->scores + j * STRETCH, stretch_at(s, j));
        if (masses) masses[j] = (float)mass;
        sum += mass;
    }
    return sum;
}

/* Of all tokens, in the order of ids: the one in which u of the weight is passed. */
static int32_t draw_any(sac_sampler *s, weighing w, double u, int32_t otherwise) {
    double target = u * weight_of_all(s, w, s->tops), sum = 0;
    for (int j = 0; j < n_stretches(s->vocab); j++) {
        if (sum + (double)s->tops[j] <= target) {
            sum += (double)s->tops[j];
            continue;
        }
        for (int i = j * STRETCH; i < j * STRETCH + stretch_at(s, j); i++) {
            sum += weight(w, s->scores[i]);
            if (sum > target) return i;
        }
    }
    return otherwise; /* rounding left the target just above the sum */
}

static bool limits_k(const sac_sampler *s) {
    return s->config.top_k > 0 && s->config.top_k < s->vocab;
}

/* Likewise of those that top-k, top-p and min-p leave, the best first. With top-k they are taken already. total: what top-p is
 * a share of. */
static int32_t draw_taken(sac_sampler *s, weighing w, double u, double total, int32_t otherwise) {
    const sac_sampler_config *c = &s->config;
    bool has_k = limits_k(s);
    int k = has_k ? c->top_k : s->vocab, n_kept = 0;
    double kept = 0, sum = 0;
    for (; n_kept < k && (n_kept < s->n_taken || (!has_k && take_next(s))); n_kept++) {
        float p = weight(w, s->scores[s->taken[n_kept]]);
        if (n_kept > 0 && (p < c->min_p || kept >= c->top_p * total)) break;
        kept += p;
    }
    for (int i = 0; i < n_kept; i++) {
        sum += weight(w, s->scores[s->taken[i]]);
        if (sum > u * kept) return s->taken[i];
    }
    return otherwise;
}

static int32_t draw_filtered(sac_sampler *s, weighing w, double u, int32_t otherwise) {
    double total = 0;
    begin_taking(s);
    if (!limits_k(s)) total = weight_of_all(s, w, NULL);
    while (limits_k(s) && s->n_taken < s->config.top_k && take_next(s))
        total += weight(w, s->scores[s->taken[s->n_taken - 1]]);
    return draw_taken(s, w, u, total, otherwise);
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
                         .chance = uniform(c->seed ^ 0x787463, step), /* not the number that draws */
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
    double target = uniform(s->config.seed, step) * sum;
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

int32_t sac_sampler_choose(sac_sampler *s, uint64_t step) {
    const sac_sampler_config *c = &s->config;
    if (s->processed) return choose_processed(s, step);
    penalise(s);
    int32_t first = sac_largest_at(s->scores, s->vocab);
    if (!(s->scores[first] > -INFINITY)) return -1;
    if (c->temperature == 0 || s->scores[first] == INFINITY) return first;
    weighing w = weigh(s->scores[first], c->temperature);
    double u = uniform(c->seed, step);
    if (!limits_k(s) && c->top_p >= 1 && c->min_p <= 0) return draw_any(s, w, u, first);
    return draw_filtered(s, w, u, first);
}

int sac_sampler_n_best(const sac_sampler *s) {
    const sac_sampler_config *c = &s->config;
    const bool has_bias = c->n_bias || (c->controls && c->controls->logit_bias.n);
    const bool penalises = c->repetition_penalty != 1 || c->presence_penalty != 0 || c->frequency_penalty != 0;
    if (s->processed || has_bias || penalises) return 0;
    return c->temperature == 0 ? 1 : limits_k(s) ? c->top_k : 0;
}

int32_t sac_sampler_choose_best(sac_sampler *s, const int32_t *ids, const float *values, int n, uint64_t step) {
    int n_left = 0;
    for (int i = 0; i < n; i++) {
        s->scores[ids[i]] = values[i];
        if (values[i] > -INFINITY) s->spare[n_left++] = ids[i];
    }
    sac_order_falling(s->scores, s->spare, s->taken, n_left);
    if (!n_left || s->scores[s->taken[0]] == INFINITY) return n_left ? s->taken[0] : -1;
    s->n_taken = n_left < s->config.top_k ? n_left : s->config.top_k;
    const weighing w = weigh(s->scores[s->taken[0]], s->config.temperature);
    double total = 0;
    for (int i = 0; i < s->n_taken; i++) total += weight(w, s->scores[s->taken[i]]);
    return draw_taken(s, w, uniform(s->config.seed, step), total, s->taken[0]);
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
        if (n == n_top && (n == 0 || !(score > top[n - 1].logprob))) continue;
        int at = n < n_top ? n++ : n - 1;
        for (; at > 0 && score > top[at - 1].logprob; at--) top[at] = top[at - 1];
        top[at] = (sac_logprob){id, score};
    }
    return n;
}

/* Of the best one 0, be it infinite. */
static double below(float score, float best) {
    return score == best ? 0 : (double)score - (double)best;
}

int sac_sampler_logprobs(const sac_sampler *s, int32_t id, float *logprob, sac_logprob *top, int n_top) {
    double temperature = s->config.temperature > 0 ? s->config.temperature : 1;
    float best = s->scores[sac_largest_at(s->scores, s->vocab)];
    double log_sum = best == INFINITY ? 0 : log(weight_of_all(s, weigh(best, temperature), NULL));
    *logprob = (float)(below(s->scores[id], best) / temperature - log_sum);
    int n = find_top(s, top, n_top);
    for (int i = 0; i < n; i++) top[i].logprob = (float)(below(top[i].logprob, best) / temperature - log_sum);
    return n;
}
