/* cases_scores.c - cases of edit_scores and weigh_scores, what changes a vocabulary's scores and what they weigh. */
#include "check.h"

#include <math.h>

/* Either side of a word of a mask, of 16 lanes, of a stretch of 256, of what a block takes at once, of the masses that fit into a
 * processor's memory; a vocabulary. */
static const int64_t sizes[][2] = {/* rows, n */
                                   {1, 1},    {3, 2},    {2, 15},    {5, 31},    {4, 33},    {3, 255},   {2, 256},    {7, 257},
                                   {3, 4095}, {2, 4097}, {3, 8191},  {2, 8193},  {1, 70001}, {70, 300},  {2, 151936}, {1, 530001}};
#define N_SIZES ((int)SAC_COUNT(sizes))

/* ---------------------------------------------------------------- edit_scores */

/* Of both signs, zeros of both, infinities and numbers that are none. */
static float any_score(check_case *c) {
    static const float f[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f, -3e38f};
    return check_rand_int(c, 0, 9) ? (float)(20 * check_rand_unit(c) - 10) : f[check_rand_int(c, 0, (int64_t)SAC_COUNT(f) - 1)];
}

/* Every third in order, from anywhere, all around: each once. */
static int32_t fill_edits(check_case *c, sac_score_edit *e, int64_t n, int most) {
    static const float biases[] = {0, 1.5f, -3, 1000}, factors[] = {1, 1.3f, 0.7f, 100}, less[] = {0, 0.3f, -2.1f, 131070};
    const int64_t step = n % 3 ? 3 : 1, first = check_rand_int(c, 0, n - 1), n_edits = most < n ? check_rand_int(c, 0, most) : n;
    for (int64_t i = 0; i < n_edits; i++)
        e[i] = (sac_score_edit){(int32_t)((first + step * i) % n), biases[check_rand_int(c, 0, 3)], factors[check_rand_int(c, 0, 3)],
                                less[check_rand_int(c, 0, 3)]};
    return (int32_t)n_edits;
}

static bool make_edits(check_case *c, int i) {
    if (i >= 3 * N_SIZES) return false;
    const int kind = i / N_SIZES; /* edits, masks, both */
    const int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1], stride = n + check_rand_int(c, 0, 3), words = (n + 31) / 32;
    const int most = kind == 1 ? 0 : n < 700 ? (int)n : 700, edit_stride = most + 5;
    float *x = check_buffer_add(c, true, SAC_DTYPE_F32, rows, n, stride, 4);
    sac_score_edit *edits = check_buffer_add(c, false, SAC_DTYPE_F32, rows, 4 * edit_stride, 4 * edit_stride, 0);
    uint32_t *masks = check_buffer_add(c, false, SAC_DTYPE_F32, rows, words, words + 1, 4);
    int32_t *n_edits = check_buffer_add(c, false, SAC_DTYPE_F32, 1, rows, rows, 0),
            *is_masked = check_buffer_add(c, false, SAC_DTYPE_F32, 1, rows, rows, 0);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t j = 0; j < n; j++) x[r * stride + j] = any_score(c);
        n_edits[r] = most ? fill_edits(c, edits + r * edit_stride, n, most) : 0;
        is_masked[r] = r % 3 != 1;
        for (int64_t j = 0; j < words; j++) masks[r * (words + 1) + j] = (uint32_t)check_rand(&c->rng) | (r % 2 ? 0xfffffff0u : 0);
    }
    c->edit_scores = (sac_edit_scores_args){
        x, stride, n, (int)rows, most, n_edits, edits, edit_stride, kind ? is_masked : NULL, masks, words + 1};
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%lldx%lld%s%s", (long long)rows, (long long)n, most ? " edits" : "", kind ? " masks" : "");
    return true;
}

/* ---------------------------------------------------------------- weigh_scores */

/* Spread, few distinct values, all equal, hardly anything but the first ones, some that may not come or are no numbers. */
enum { WEIGH_SPREAD, WEIGH_TIES, WEIGH_EQUAL, WEIGH_FIRST, WEIGH_BANNED, WEIGH_N_VALUES };
static const char *const value_names[] = {"spread", "ties", "equal", "first", "banned"};

static float score_of(check_case *c, int values, int64_t i) {
    const float x = (float)(16 * check_rand_unit(c) - 8);
    switch (values) {
    case WEIGH_SPREAD: return x;
    case WEIGH_TIES: return floorf(x / 4);
    case WEIGH_EQUAL: return 0.5f;
    case WEIGH_FIRST: return i < 3 ? 90 + x : x - 90;
    default: return i % 3 == 1 ? -INFINITY : i % 50 == 5 ? NAN : x;
    }
}

static bool make_weights(check_case *c, int i) {
    static const double temperatures[] = {1, 0.6, 3, 1e-3, 100};
    if (i >= WEIGH_N_VALUES * N_SIZES) return false;
    const int values = i / N_SIZES;
    const int64_t rows = sizes[i % N_SIZES][0], n = sizes[i % N_SIZES][1], stride = n + check_rand_int(c, 0, 3);
    float *x = check_buffer_add(c, false, SAC_DTYPE_F32, rows, n, stride, 4);
    float *best = check_buffer_add(c, false, SAC_DTYPE_F32, 1, rows, rows, 4),
          *scale = check_buffer_add(c, false, SAC_DTYPE_F32, 1, rows, rows, 4);
    double *u = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 2 * rows, 2 * rows, 0);
    for (int64_t r = 0; r < rows; r++) {
        best[r] = -1e30f;
        for (int64_t j = 0; j < n; j++) {
            const float f = x[r * stride + j] = score_of(c, values, j);
            if (f > best[r]) best[r] = f;
        }
        scale[r] = r % 4 == 3 ? 0 : (float)(1 / temperatures[check_rand_int(c, 0, 4)]);
        u[r] = r % 5 == 4 ? -1 : r % 5 == 3 ? 1 - 0x1p-53 : check_rand_unit(c);
    }
    double *total = check_buffer_add(c, true, SAC_DTYPE_F32, 1, 2 * rows, 2 * rows, 0);
    c->buffer[c->n_buffers - 1].integers = true; /* bits */
    int32_t *at = check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows, rows, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    c->weigh_scores = (sac_weigh_scores_args){
        x, stride, n, (int)rows, best, scale, u, total, at, check_buffer_add(c, true, SAC_DTYPE_F32, 1, rows, rows, 8)};
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%lldx%lld %s", (long long)rows, (long long)n, value_names[values]);
    return true;
}

bool check_make_scores(check_case *c, int i, bool quick) {
    if (quick && i % N_SIZES >= N_SIZES - 2 && i / N_SIZES > 0) return true; /* the long ones once */
    c->same_bits = true;
    return c->op == CHECK_edit_scores ? make_edits(c, i) : make_weights(c, i);
}
