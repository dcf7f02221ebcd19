/* cases_select.c - cases of top_k and top_p. */
#include "check.h"

#include <math.h>

/* What the numbers look like: random, few distinct values, almost all equal, with NaN and infinities and
 * both zeros, rising, falling, differing in their last bits only. */
typedef enum select_values {
    SELECT_RANDOM,
    SELECT_TIES,
    SELECT_EQUAL,
    SELECT_SPECIAL,
    SELECT_RISING,
    SELECT_FALLING,
    SELECT_CLOSE,
    SELECT_N_VALUES
} select_values;
static const char *const value_names[] = {"random", "ties", "equal", "special", "rising", "falling", "close"};

static float special(check_case *c) {
    static const float f[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f, -3e38f, 1.0f};
    return f[check_rand_int(c, 0, (int64_t)SAC_COUNT(f) - 1)];
}

static float score(check_case *c, select_values v, int64_t i, int64_t n) {
    switch (v) {
    case SELECT_RANDOM: return (float)(8 * (2 * check_rand_unit(c) - 1));
    case SELECT_TIES: return (float)check_rand_int(c, -2, 2);
    case SELECT_EQUAL: return check_rand_int(c, 0, 99) ? 0.5f : 0.25f;
    case SELECT_SPECIAL: return special(c);
    case SELECT_RISING: return (float)i - (float)n / 2;
    case SELECT_FALLING: return (float)n / 2 - (float)i;
    default: return -1 - (float)check_rand_int(c, 0, 30) * 0x1p-23f;
    }
}

static const int64_t sizes[][3] = {/* rows, n, k */
                                   {1, 1, 1},       {1, 5, 9},          {3, 17, 4},     {2, 100, 100},
                                   {2, 100, 99},    {4, 1024, 1},       {3, 1025, 512}, {2, 3000, 64},
                                   {28, 1500, 300}, {1, 200000, 16384}, {1, 10, 0},     {2, 0, 3}};
#define N_SIZES ((int)SAC_COUNT(sizes))

static bool make_top_k(check_case *c, int i) {
    if (i >= N_SIZES * SELECT_N_VALUES) return false;
    select_values v = (select_values)(i / N_SIZES);
    sac_top_k_args *a = &c->top_k;
    int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1], k = sizes[i % N_SIZES][2];
    int64_t gap = check_rand_int(c, 0, 3), found = k < n ? k : n;
    float *scores = check_buffer_add(c, false, SAC_DTYPE_F32, rows, n, n + gap, 4);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) scores[r * (n + gap) + j] = score(c, v, j, n);
    int32_t *indices = check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows * found, rows * found, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    *a = (sac_top_k_args){scores, n + gap, n, (int)rows, k, indices};
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%lld of %lldx%lld %s", (long long)k, (long long)rows, (long long)n,
             value_names[v]);
    return true;
}

/* Sums of weights must be exact for sums in any order to agree on a threshold: multiples of 2^-20. */
static float weight(check_case *c, select_values v, int64_t i, int64_t n) {
    switch (v) {
    case SELECT_RANDOM: return (float)check_rand_int(c, 0, 1 << 20) * 0x1p-20f;
    case SELECT_TIES: return (float)check_rand_int(c, 0, 4) * 0.25f;
    case SELECT_EQUAL: return check_rand_int(c, 0, 99) ? 0.5f : 0.25f;
    case SELECT_SPECIAL: {
        static const float f[] = {0.0f, -0.0f, 0x1p-140f, 0x1p-149f, NAN, 0x1p-126f};
        return f[check_rand_int(c, 0, 5)];
    }
    case SELECT_RISING: return (float)i * 0x1p-10f;
    case SELECT_FALLING: return (float)(n - i) * 0x1p-10f;
    default: return 1 + (float)check_rand_int(c, 0, 30) * 0x1p-23f;
    }
}

static bool make_top_p(check_case *c, int i) {
    static const double p[] = {0.95, 0.5, 0, 1, 0.999999, 0.01, 1.5, -1};
    if (i >= N_SIZES * SELECT_N_VALUES * 2) return false;
    select_values v = (select_values)(i / N_SIZES % SELECT_N_VALUES);
    sac_top_p_args *a = &c->top_p;
    int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1], stride = n + check_rand_int(c, 0, 3);
    float *weights = check_buffer_add(c, false, SAC_DTYPE_F32, rows, n, stride, 4);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) weights[r * stride + j] = weight(c, v, j, n);
    float *threshold = check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows, rows, 4);
    int64_t *n_kept = check_buffer_add(c, true, SAC_DTYPE_F32, 1, 2 * rows, 2 * rows, 0);
    c->buffer[c->n_buffers - 1].integers = true;
    *a = (sac_top_p_args){weights, NULL, stride, n, (int)rows, p[check_rand_int(c, 0, 7)], threshold, n_kept};
    if (check_rand_int(c, 0, 1)) {
        int64_t *counts = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 2 * rows, 2 * rows, 0);
        for (int64_t r = 0; r < rows; r++) counts[r] = check_rand_int(c, 0, n);
        a->counts = counts;
    }
    c->exact = true;
    snprintf(c->text, sizeof c->text, "p=%g of %lldx%lld%s %s", a->p, (long long)rows, (long long)n,
             a->counts ? " counts" : "", value_names[v]);
    return true;
}

bool check_make_select(check_case *c, int i, bool quick) {
    if (quick && i % N_SIZES == 9 && i / N_SIZES > 2) return true; /* of 200000 */
    c->same_bits = true;
    return c->op == CHECK_top_k ? make_top_k(c, i) : make_top_p(c, i);
}
