/* cases_softmax.c - cases of softmax and soft_vote. */
#include "check.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* Rows of scores: near each other, far apart, with some or all of them -infinity. */
typedef enum softmax_values { CLOSE, SPREAD, FAR, MASKED, SOFTMAX_N_VALUES } softmax_values;
static const char *const value_names[] = {"close", "spread", "far", "masked"};

static const int64_t sizes[][2] = {/* rows, n */
                                   {1, 1},      {3, 5},     {2, 16},    {5, 17},  {9, 1023},  {4, 1024},
                                   {7, 1025},   {28, 3000}, {1, 70001}, {2, 0},   {56, 1000}, {70, 260},
                                   {56, 40001}, {2, 9000},  {25, 700},  {31, 300}};
#define N_SIZES ((int)SAC_COUNT(sizes))

static float score(check_case *c, softmax_values v, int64_t row) {
    float x = (float)(2 * check_rand_unit(c) - 1);
    if (v == MASKED) return row == 1 || check_rand_int(c, 0, 3) == 0 ? -INFINITY : 5 * x;
    return v == CLOSE ? x : v == SPREAD ? 30 * x : 2000 * x;
}

static float *make_scores(check_case *c, int i, int64_t stride, float *largest) {
    softmax_values v = (softmax_values)(i / N_SIZES);
    int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1];
    float *scores = check_buffer_add(c, false, SAC_DTYPE_F32, rows, n, stride, 4);
    *largest = 0;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) {
            float x = scores[r * stride + j] = score(c, v, r);
            *largest = isfinite(x) ? fmaxf(*largest, fabsf(x)) : *largest;
        }
    snprintf(c->text, sizeof c->text, "%lldx%lld %s", (long long)rows, (long long)n, value_names[v]);
    return scores;
}

/* A logarithm is off by its rounding and that of the differences; a weight by that many times itself. */
static void make_softmax(check_case *c, int i) {
    int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1], stride = n + check_rand_int(c, 0, 3);
    float largest, *scores = make_scores(c, i, stride, &largest);
    float *lse = check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows, rows, 4);
    float *weights = check_buffer_add(c, true, SAC_DTYPE_F32, rows, n, stride, 8);
    double *allowed = check_allow(c, rows + rows * n), eps = FLT_EPSILON * (16 + 2 * (double)largest);
    for (int64_t r = 0; r < rows; r++) allowed[r] = eps;
    for (int64_t j = 0; j < rows * n; j++) allowed[rows + j] = FLT_MIN;
    c->relative = eps;
    c->softmax = (sac_softmax_args){scores, stride, n, NULL, (int)rows, lse, weights, NULL};
    if (check_rand_int(c, 0, 1)) {
        int64_t *counts = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 2 * rows, 2 * rows, 0);
        for (int64_t r = 0; r < rows; r++) counts[r] = check_rand_int(c, 0, n);
        c->softmax.counts = counts;
        strncat(c->text, " counts", sizeof c->text - strlen(c->text) - 1);
    }
    if (check_rand_int(c, 0, 3) == 0) c->softmax.weights = NULL;
}

static void make_soft_vote(check_case *c, int i) {
    int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1];
    int64_t stride = i % 2 ? n + check_rand_int(c, 0, 3) : (n + 3) / 4 * 4;
    float largest, *scores = make_scores(c, i, stride, &largest);
    float *lse = check_buffer_add(c, false, SAC_DTYPE_F32, 1, rows, rows, 4);
    int64_t groups = rows % 2 == 0 ? 2 : rows % 7 == 0 ? 7 : 1;
    float *votes = check_buffer_add(c, true, SAC_DTYPE_F32, groups, n, stride, 4);
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t j = 0; j < n; j++) sum += exp((double)scores[r * stride + j] - (double)largest);
        lse[r] = sum > 0 ? (float)(log(sum) + (double)largest) : -INFINITY;
    }
    double *allowed = check_allow(c, groups * n);
    for (int64_t j = 0; j < groups * n; j++) allowed[j] = FLT_EPSILON * (16 + 4 * (double)largest);
    c->soft_vote =
        (sac_soft_vote_args){scores, stride, n, (int)(rows / groups), lse, votes, (int)groups, NULL};
}

bool check_make_softmax(check_case *c, int i, bool quick) {
    (void)quick;
    if (i >= N_SIZES * SOFTMAX_N_VALUES) return false;
    c->same_bits = true;
    if (c->op == CHECK_softmax)
        make_softmax(c, i), c->softmax.skip = check_skip(c, i);
    else
        make_soft_vote(c, i), c->soft_vote.skip = check_skip(c, i);
    return true;
}
