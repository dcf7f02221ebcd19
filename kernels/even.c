#include "even.h"

#include <assert.h>
#include <math.h>
#include <string.h>

enum { ROUNDS = 16 };
static const float LEAST_LOG = -8, MOST_LOG = 10;

void sac_even_turn(float *x, int64_t n) {
    const float scale = 1 / sqrtf((float)n);
    assert(n > 0 && (n & (n - 1)) == 0);
    for (int64_t half = 1; half < n; half *= 2)
        for (int64_t first = 0; first < n; first += 2 * half)
            for (int64_t i = first; i < first + half; i++) {
                float u = x[i], v = x[i + half];
                x[i] = u + v;
                x[i + half] = u - v;
            }
    for (int64_t i = 0; i < n; i++) x[i] *= scale;
}

/* One direction of the matrix: what it is divided by, as logarithms and as 1 over it. */
typedef struct even_side {
    const float *x; /* [n_across][n] the matrix so that this side's lines are columns */
    int64_t n, n_across;
    float log[SAC_EVEN_MAX], inverse[SAC_EVEN_MAX], deviation[SAC_EVEN_MAX];
} even_side;

static void open_side(even_side *s, const float *x, int64_t n, int64_t n_across) {
    *s = (even_side){.x = x, .n = n, .n_across = n_across};
    for (int64_t i = 0; i < n; i++) s->inverse[i] = 1;
}

/* Deviations of the side's lines, divided by both sides' factors. */
static void measure(even_side *s, const even_side *other) {
    float sum[SAC_EVEN_MAX] = {0}, squares[SAC_EVEN_MAX] = {0};
    for (int64_t r = 0; r < s->n_across; r++) {
        const float *x = s->x + r * s->n, by = other->inverse[r];
        for (int64_t i = 0; i < s->n; i++) {
            float y = x[i] * by;
            sum[i] += y;
            squares[i] += y * y;
        }
    }
    for (int64_t i = 0; i < s->n; i++) {
        float n = (float)s->n_across, variance = (squares[i] - sum[i] * sum[i] / n) / (n - 1);
        s->deviation[i] = fminf(1e3f, fmaxf(1e-3f, sqrtf(fmaxf(variance, 0)) * s->inverse[i]));
    }
}

/* The deviations go into the factors; they are what is left of them afterwards. */
static void divide(even_side *s) {
    for (int64_t i = 0; i < s->n; i++) {
        float old = s->log[i];
        s->log[i] = fminf(MOST_LOG, fmaxf(LEAST_LOG, old + logf(s->deviation[i])));
        s->inverse[i] = expf(-s->log[i]);
        s->deviation[i] *= expf(old - s->log[i]);
    }
}

static float spread(const even_side *s) {
    float least = INFINITY, most = 0;
    for (int64_t i = 0; i < s->n; i++) {
        least = fminf(least, s->deviation[i]);
        most = fmaxf(most, s->deviation[i]);
    }
    return most / least;
}

void sac_even_factors(const float *x, int64_t n, int64_t m, bool of_rows, float *turned, float *factor) {
    even_side side[2]; /* of columns, of rows; of_rows: of rows, of columns */
    float best = INFINITY;
    assert(n > 1 && m > 1 && n <= SAC_EVEN_MAX && m <= SAC_EVEN_MAX);
    for (int64_t r = 0; r < n; r++)
        for (int64_t i = 0; i < m; i++) turned[i * n + r] = x[r * m + i];
    open_side(&side[of_rows], x, m, n);
    open_side(&side[!of_rows], turned, n, m);
    measure(&side[0], &side[1]);
    measure(&side[1], &side[0]);
    for (int round = 0; round <= ROUNDS; round++) {
        float now = spread(&side[0]) + spread(&side[1]);
        if (now <= best) {
            best = now;
            for (int64_t i = 0; i < side[0].n; i++) factor[i] = expf(side[0].log[i]);
        }
        if (round == ROUNDS) break;
        divide(&side[0]);
        measure(&side[1], &side[0]);
        divide(&side[1]);
        measure(&side[0], &side[1]);
    }
}
