/* cases_select.c - cases of top_k, top_p, kept_rows, mask_scores and largest. */
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
    *a = (sac_top_k_args){scores, n + gap, n, (int)rows, k, indices, NULL};
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

/* Scores for top_p; NEAR_ONE: each weighs far more than the sum of all is rounded by, but for every fifth,
 * which weighs nothing. */
enum { NEAR_ONE = SELECT_N_VALUES };
static float score_to_weigh(check_case *c, int v, int64_t i, int64_t n) {
    if (v == NEAR_ONE) return i % 5 == 4 ? -60 : -(float)check_rand_unit(c);
    float f = score(c, (select_values)v, i, n);
    if (fabsf(f) < 0x1p-100f) return 0; /* as much as 0 weighs */
    if (v == SELECT_CLOSE) return (f + 1) * 64 - 1; /* further apart than weights are rounded by */
    return f > 1e6f ? -INFINITY : v == SELECT_RISING || v == SELECT_FALLING ? f / 64 : f;
}

/* Sums of exp(score) are not: but they differ far less than one score's share, or, with p so near one that
 * rounding decides whether a sum reaches it, all that weighs anything is kept. */
static bool make_top_p_of_scores(check_case *c, int i) {
    static const double p[] = {0.95, 0.5, 0, 1, 0.85, 0.01, 1.5, -1}, near_one[] = {0.99999999, 1 - 0x1p-40};
    if (i >= N_SIZES * (NEAR_ONE + 1)) return false;
    int v = i / N_SIZES;
    int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1], stride = n + check_rand_int(c, 0, 3);
    float *scores = check_buffer_add(c, false, SAC_DTYPE_F32, rows, n, stride, 4);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) scores[r * stride + j] = score_to_weigh(c, v, j, n);
    float *threshold = check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows, rows, 4);
    int64_t *n_kept = check_buffer_add(c, true, SAC_DTYPE_F32, 1, 2 * rows, 2 * rows, 0);
    c->buffer[c->n_buffers - 1].integers = true;
    c->top_p = (sac_top_p_args){.weights = scores,
                                .stride = stride,
                                .n = n,
                                .n_rows = (int)rows,
                                .p = v == NEAR_ONE ? near_one[i % 2] : p[check_rand_int(c, 0, 7)],
                                .threshold = threshold,
                                .n_kept = n_kept,
                                .scores = true};
    if (check_rand_int(c, 0, 1)) {
        int64_t *counts = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 2 * rows, 2 * rows, 0);
        for (int64_t r = 0; r < rows; r++) counts[r] = check_rand_int(c, 0, n);
        c->top_p.counts = counts;
    }
    c->exact = true;
    snprintf(c->text, sizeof c->text, "p=%.13g of %lldx%lld%s scores, %s", c->top_p.p, (long long)rows,
             (long long)n, c->top_p.counts ? " counts" : "", v == NEAR_ONE ? "near one" : value_names[v]);
    return true;
}

static bool make_top_p(check_case *c, int i) {
    static const double p[] = {0.95, 0.5, 0, 1, 0.999999, 0.01, 1.5, -1};
    if (i >= N_SIZES * SELECT_N_VALUES * 2) return make_top_p_of_scores(c, i - N_SIZES * SELECT_N_VALUES * 2);
    select_values v = (select_values)(i / N_SIZES % SELECT_N_VALUES);
    sac_top_p_args *a = &c->top_p;
    int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1], stride = n + check_rand_int(c, 0, 3);
    float *weights = check_buffer_add(c, false, SAC_DTYPE_F32, rows, n, stride, 4);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t j = 0; j < n; j++) weights[r * stride + j] = weight(c, v, j, n);
    float *threshold = check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows, rows, 4);
    int64_t *n_kept = check_buffer_add(c, true, SAC_DTYPE_F32, 1, 2 * rows, 2 * rows, 0);
    c->buffer[c->n_buffers - 1].integers = true;
    *a = (sac_top_p_args){weights,   NULL,   stride, n, (int)rows, p[check_rand_int(c, 0, 7)],
                          threshold, n_kept, false};
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

/* ---------------------------------------------------------------- lists of what passes */

static const struct kept_shape {
    int n_rows, n_lists, n_from; /* n_from 0: places are rows */
    int64_t n;
    bool last, sums;
} kept_shapes[] = {
    {1, 1, 0, 1, false, true},      {4, 2, 0, 100, false, false}, {28, 4, 0, 3000, false, true},
    {28, 28, 0, 1025, true, true},  {7, 1, 0, 70000, true, true}, {6, 3, 0, 0, true, true},
    {28, 4, 4, 2049, false, true},  {28, 28, 4, 900, true, true}, {8, 2, 1, 1024, false, true},
    {28, 4, 1, 2688, true, false},  {8, 8, 8, 33, false, true},   {32, 8, 0, 5000, false, true},
    {28, 4, 0, 20480, false, true}, {3, 3, 1, 31, true, true},    {2, 2, 0, 530000, true, true}};
#define N_KEPT ((int)SAC_COUNT(kept_shapes))

/* Few pass, about half, all, none of some rows. */
static bool make_kept(check_case *c, int i) {
    if (i >= 3 * N_KEPT) return false;
    const struct kept_shape *sh = &kept_shapes[i % N_KEPT];
    sac_kept_rows_args *a = &c->kept_rows;
    int64_t n = sh->n, stride = n + check_rand_int(c, 0, 3), room = n * sh->n_lists,
            n_start = 2 * sh->n_lists + 2;
    float *values = check_buffer_add(c, false, SAC_DTYPE_F32, sh->n_rows, n, stride, 4);
    float *threshold = check_buffer_add(c, false, SAC_DTYPE_F32, 1, sh->n_rows, sh->n_rows, 4);
    *a = (sac_kept_rows_args){.values = values, .stride = stride, .n = n, .threshold = threshold};
    a->n_rows = sh->n_rows, a->n_lists = sh->n_lists, a->last = sh->last, a->n_from = sh->n_from;
    for (int r = 0; r < sh->n_rows; r++) {
        for (int64_t j = 0; j < n; j++)
            values[r * stride + j] = check_rand_int(c, 0, 99) ? (float)check_rand_unit(c) : special(c);
        threshold[r] = i / N_KEPT == 0 ? 0.99f : i / N_KEPT == 1 ? 0.5f : r % 3 ? INFINITY : -1;
    }
    if (sh->n_from) {
        int64_t all = n * sh->n_from;
        int32_t *from = check_buffer_add(c, false, SAC_DTYPE_F32, 1, all, all, 4);
        for (int64_t j = 0; j < all; j++) from[j] = (int32_t)(3 * (j % n) + check_rand_int(c, 0, 2));
        a->from = from;
    }
    a->rows = check_buffer_add(c, true, SAC_DTYPE_F32, 1, room, room, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    a->start = check_buffer_add(c, true, SAC_DTYPE_F32, 1, n_start, n_start, 0);
    c->buffer[c->n_buffers - 1].integers = true;
    if (sh->sums) {
        a->sums = check_buffer_add(c, true, SAC_DTYPE_F32, 1, 4, 4, 0);
        c->buffer[c->n_buffers - 1].integers = true;
        a->sums[0] = 7, a->sums[1] = 1 << 20;
    }
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%d x %lld to %d lists, from %d%s", sh->n_rows, (long long)n,
             sh->n_lists, sh->n_from, sh->last ? ", last" : "");
    return true;
}

/* ---------------------------------------------------------------- scores of what is listed */

static const struct mask_shape {
    int n_rows, n_lists;
    int64_t n;
    int every; /* about one place in so many is listed */
} mask_shapes[] = {{1, 1, 1, 1}, {4, 2, 100, 3},    {28, 4, 3000, 2}, {28, 28, 1025, 9}, {7, 1, 70000, 50},
                   {6, 3, 0, 1}, {8, 8, 257, 1000}, {6, 2, 256, 1},   {12, 12, 4097, 4}};

static bool make_mask(check_case *c, int i) {
    if (i >= (int)SAC_COUNT(mask_shapes)) return false;
    const struct mask_shape *sh = &mask_shapes[i];
    int64_t n = sh->n, stride = n + check_rand_int(c, 0, 3), most = n * sh->n_lists, at = 0;
    float *scores = check_buffer_add(c, true, SAC_DTYPE_F32, sh->n_rows, n, stride, 4);
    int32_t *rows = check_buffer_add(c, false, SAC_DTYPE_F32, 1, most, most, 4);
    int64_t *start =
        check_buffer_add(c, false, SAC_DTYPE_F32, 1, 2 * sh->n_lists + 2, 2 * sh->n_lists + 2, 0);
    for (int64_t j = 0; j < sh->n_rows * n; j++) scores[j / n * stride + j % n] = (float)check_rand_unit(c);
    for (int l = 0; l < sh->n_lists; l++) {
        start[l] = at;
        for (int64_t j = 0; j < n; j++)
            if (check_rand_int(c, 1, sh->every) == 1) rows[at++] = (int32_t)j;
    }
    start[sh->n_lists] = at;
    c->mask_scores = (sac_mask_scores_args){scores, stride, n, sh->n_rows, {rows, start, sh->n_lists}};
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%d x %lld, %d lists of one in %d", sh->n_rows, (long long)n,
             sh->n_lists, sh->every);
    return true;
}

/* ---------------------------------------------------------------- the largest of a row */

static const int64_t largest_sizes[][2] = {/* rows, n */
                                           {1, 1},     {3, 2},     {5, 17},    {4, 255},   {2, 256},   {7, 257},
                                           {3, 4095},  {2, 4096},  {9, 4097},  {1, 8191},  {2, 65537}, {70, 300},
                                           {1, 151936}};

/* Some rows have nothing above -infinity, or zeros of both signs alone, or begin with NaN. */
static bool make_largest(check_case *c, int i) {
    const int n_sizes = (int)SAC_COUNT(largest_sizes);
    if (i >= n_sizes * SELECT_N_VALUES) return false;
    const select_values v = (select_values)(i / n_sizes);
    const int64_t rows = largest_sizes[i % n_sizes][0], n = largest_sizes[i % n_sizes][1], stride = n + check_rand_int(c, 0, 3);
    float *x = check_buffer_add(c, false, SAC_DTYPE_F32, rows, n, stride, 4);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < n; j++) x[r * stride + j] = score(c, v, j, n);
        if (v != SELECT_SPECIAL) continue;
        for (int64_t j = 0; j < n && r % 5 == 1; j++) x[r * stride + j] = -INFINITY;
        for (int64_t j = 0; j < n && r % 5 == 3; j++) x[r * stride + j] = j % 2 ? 0.0f : -0.0f;
        if (r % 5 == 2) x[r * stride] = NAN;
    }
    int32_t *at = check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows, rows, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    c->largest = (sac_largest_args){x, stride, n, (int)rows, at, check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows, rows, 8)};
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%lldx%lld %s", (long long)rows, (long long)n, value_names[v]);
    return true;
}

bool check_make_select(check_case *c, int i, bool quick) {
    if (c->op == CHECK_mask_scores) return c->same_bits = true, make_mask(c, i);
    if (quick && c->op != CHECK_kept_rows && c->op != CHECK_largest && i % N_SIZES == 9 && i / N_SIZES > 2) return true; /* of 200000 */
    c->same_bits = true;
    if (c->op == CHECK_kept_rows) return make_kept(c, i);
    if (c->op == CHECK_top_p) return make_top_p(c, i);
    if (c->op == CHECK_largest) return make_largest(c, i);
    if (!make_top_k(c, i)) return false;
    c->top_k.skip = check_skip(c, i);
    return true;
}
