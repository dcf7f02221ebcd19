/* score_weight.h - what the scores of a vocabulary weigh in a draw: exp of their distance to the best one, over the temperature. Every
 * operation and its order is said here, so that whoever sums anywhere, on a card too, has the same bits. Nothing is contracted: a
 * product and the sum after it are rounded each. */
#ifndef SAC_BASE_SCORE_WEIGHT_H
#define SAC_BASE_SCORE_WEIGHT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

/* Scores that are summed together; of a stretch, number i goes to lane i % LANES, but for the last n % LANES of it. */
enum { SAC_WEIGHT_STRETCH = 256, SAC_WEIGHT_LANES = 16 };

static inline int64_t sac_score_n_stretches(int64_t n) {
    return (n + SAC_WEIGHT_STRETCH - 1) / SAC_WEIGHT_STRETCH;
}
static inline int sac_score_stretch(int64_t n, int64_t j) { /* numbers of stretch j of n */
    const int64_t left = n - j * SAC_WEIGHT_STRETCH;
    return left < SAC_WEIGHT_STRETCH ? (int)left : SAC_WEIGHT_STRETCH;
}

/* From the difference, so that no temperature overflows. */
typedef struct sac_weighing {
    float best, scale;
} sac_weighing;

static inline float sac_score_scale(double temperature) {
    return (float)fmin(1 / temperature, 1e30);
}

/* exp(x) of -87 <= x <= 0 within a unit of a float's last place, in operations that a compiler makes of
 * several elements at a time. */
static inline float sac_score_exp(float x) {
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

/* The least, which -infinity and NaN have too, is that of -87: a vocabulary of them is nothing. */
static inline float sac_score_exponent(sac_weighing w, float score) {
    const float x = (score - w.best) * w.scale;
    return x > -87 ? x : -87;
}

static inline float sac_score_weight(sac_weighing w, float score) {
    return sac_score_exp(sac_score_exponent(w, score));
}

/* Of n <= SAC_WEIGHT_STRETCH scores: lanes are summed in floats, then one after the other, in doubles. */
double sac_score_of_stretch(sac_weighing w, const float *scores, int n);

/* Of n scores, stretch by stretch. masses: [sac_score_n_stretches(n)] of each, or NULL. */
double sac_score_of_all(sac_weighing w, const float *scores, int64_t n, float *masses);

/* The first token, in the order of ids, in which the sum of weights passes `target`, from `masses` as sac_score_of_all wrote them;
 * n where rounding left the target above the sum. */
int64_t sac_score_draw(sac_weighing w, const float *scores, int64_t n, const float *masses, double target);

#endif
