#include "sampler.h"

#include <math.h>
#include <string.h>

size_t sac_sampler_bytes(int vocab) {
    return sac_arena_block_bytes((size_t)vocab) + sac_arena_block_bytes((size_t)vocab * sizeof(uint16_t)) +
           sac_arena_block_bytes((size_t)vocab * sizeof(int32_t)) +
           sac_arena_block_bytes((size_t)vocab * sizeof(float));
}

sac_status sac_sampler_init(sac_sampler *s, int vocab, sac_arena *arena, sac_error *err) {
    *s = (sac_sampler){.vocab = vocab};
    s->seen = sac_arena_take(arena, (size_t)vocab);
    s->counts = sac_arena_take(arena, (size_t)vocab * sizeof(uint16_t));
    s->heap = sac_arena_take(arena, (size_t)vocab * sizeof(int32_t));
    s->scores = sac_arena_take(arena, (size_t)vocab * sizeof(float));
    if (!s->seen || !s->counts || !s->heap || !s->scores)
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
    s->config = *c;
    memset(s->seen, 0, (size_t)s->vocab);
    memset(s->counts, 0, (size_t)s->vocab * sizeof *s->counts);
    return SAC_OK;
}

void sac_sampler_see(sac_sampler *s, int32_t id) {
    if (id >= 0 && id < s->vocab) s->seen[id] = 1;
}

void sac_sampler_count(sac_sampler *s, int32_t id) {
    sac_sampler_see(s, id);
    if (id >= 0 && id < s->vocab && s->counts[id] < UINT16_MAX) s->counts[id]++;
}

void sac_sampler_load(sac_sampler *s, const float *logits) {
    memcpy(s->scores, logits, (size_t)s->vocab * sizeof *logits);
}

static void penalise(const sac_sampler *s) {
    const sac_sampler_config *c = &s->config;
    float repetition = (float)c->repetition_penalty;
    for (size_t i = 0; i < c->n_bias; i++) s->scores[c->bias[i].id] += c->bias[i].bias;
    if (repetition != 1)
        for (int i = 0; i < s->vocab; i++)
            if (s->seen[i])
                s->scores[i] = s->scores[i] < 0 ? s->scores[i] * repetition : s->scores[i] / repetition;
    if (c->presence_penalty == 0 && c->frequency_penalty == 0) return;
    for (int i = 0; i < s->vocab; i++)
        if (s->counts[i]) s->scores[i] -= (float)(c->presence_penalty + s->counts[i] * c->frequency_penalty);
}

/* The largest of n; NaN counts for nothing. Several at a time: a comparison waits for the one before it. */
static float largest(const float *x, int n) {
    float top[16];
    int i = 0;
    for (int j = 0; j < 16; j++) top[j] = -INFINITY;
    for (; i + 16 <= n; i += 16)
        for (int j = 0; j < 16; j++) top[j] = x[i + j] > top[j] ? x[i + j] : top[j];
    for (; i < n; i++) top[0] = x[i] > top[0] ? x[i] : top[0];
    for (int j = 1; j < 16; j++) top[0] = top[j] > top[0] ? top[j] : top[0];
    return top[0];
}

/* The first of the largest; 0 where the first is NaN or nothing is above -infinity. */
static int32_t greedy(const float *logits, int n) {
    enum { STRETCH = 1024 };
    int best = 0;
    float top = -INFINITY;
    if (isnan(logits[0])) return 0;
    for (int i = 0; i < n; i += STRETCH) {
        float here = largest(logits + i, n - i < STRETCH ? n - i : STRETCH);
        if (here > top) top = here, best = i;
    }
    if (top == -INFINITY) return 0;
    while (logits[best] != top) best++;
    return best;
}

/* A heap of ids with the largest logit on top gives candidates in falling order, as many as are needed,
 * without sorting the vocabulary. Equal logits come by rising id, so that the order is one. */
static bool before(const float *logits, int32_t a, int32_t b) {
    return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
}

static void sift_down(int32_t *heap, int n, int i, const float *logits) {
    for (;;) {
        int best = i, left = 2 * i + 1;
        if (left < n && before(logits, heap[left], heap[best])) best = left;
        if (left + 1 < n && before(logits, heap[left + 1], heap[best])) best = left + 1;
        if (best == i) return;
        int32_t t = heap[i];
        heap[i] = heap[best];
        heap[best] = t;
        i = best;
    }
}

/* The best of the n left; it moves behind the heap, so the taken ones stand at the end in rising order. */
static int32_t pop(int32_t *heap, int n, const float *logits) {
    int32_t top = heap[0];
    heap[0] = heap[n - 1];
    heap[n - 1] = top;
    sift_down(heap, n - 1, 0, logits);
    return top;
}

/* splitmix64's finaliser over seed and step: a counter-based generator, so draws do not depend on what was
 * drawn before. */
static double uniform(uint64_t seed, uint64_t step) {
    uint64_t z = seed * 0xd1342543de82ef95u + (step + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (double)(z >> 11) * 0x1p-53;
}

/* Weight of a candidate relative to the best: in doubles, and from the difference, so that no temperature
 * overflows. */
static double weight(const sac_sampler *s, int32_t id, float best) {
    return exp(((double)s->scores[id] - best) / s->config.temperature);
}

int32_t sac_sampler_choose(sac_sampler *s, uint64_t step) {
    const sac_sampler_config *c = &s->config;
    int n = s->vocab;
    penalise(s);
    int32_t first = greedy(s->scores, n);
    if (!(s->scores[first] > -INFINITY)) return -1;
    if (c->temperature == 0) return first;

    float best = s->scores[first];
    for (int i = 0; i < n; i++) s->heap[i] = i;
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(s->heap, n, i, s->scores);

    double total = 0; /* what top-p is a share of: everything, or the top k */
    int k = c->top_k > 0 && c->top_k < n ? c->top_k : n, n_left = n;
    if (k < n)
        for (int i = 0; i < k; i++) total += weight(s, pop(s->heap, n_left--, s->scores), best);
    else
        for (int i = 0; i < n; i++) total += weight(s, i, best);

    /* Candidates in falling order: first those that top-k took (at the end of the heap), then, without top-k,
     * more pops. */
    bool limited = k < n || c->top_p < 1 || c->min_p > 0;
    double u = uniform(c->seed, step), kept_mass = 0;
    int n_kept = 0;
    for (; n_kept < k; n_kept++) {
        if (k == n) pop(s->heap, n_left--, s->scores);
        double p = weight(s, s->heap[n - 1 - n_kept], best);
        if (n_kept > 0 && (p < c->min_p || kept_mass >= c->top_p * total)) break;
        kept_mass += p;
        if (!limited && kept_mass > u * total) return s->heap[n - 1 - n_kept];
    }
    double target = u * kept_mass, sum = 0;
    for (int i = 0; i < n_kept; i++) {
        sum += weight(s, s->heap[n - 1 - i], best);
        if (sum > target) return s->heap[n - 1 - i];
    }
    return first; /* rounding left the target just above the sum */
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

int sac_sampler_logprobs(const sac_sampler *s, int32_t id, float *logprob, sac_logprob *top, int n_top) {
    double temperature = s->config.temperature > 0 ? s->config.temperature : 1, sum = 0;
    double best = s->scores[greedy(s->scores, s->vocab)];
    for (int i = 0; i < s->vocab; i++) sum += exp(((double)s->scores[i] - best) / temperature);
    double log_sum = log(sum);
    *logprob = (float)(((double)s->scores[id] - best) / temperature - log_sum);
    int n = find_top(s, top, n_top);
    for (int i = 0; i < n; i++)
        top[i].logprob = (float)(((double)top[i].logprob - best) / temperature - log_sum);
    return n;
}
