/* cuda_keys.c - cases of the ops that choose rows, on 16-byte lines: key_scores, attention_sums, kv_gather,
 * top_k, top_p, largest. */
#include "cuda_twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define EPS 0x1p-24

/* ---------------------------------------------------------------- keys */

/* [row][head][d] of uniform numbers; `largest` is the largest |k|. */
static void *make_rows(check_case *c, bool output, sac_dtype t, int64_t rows, int heads, int d,
                       double *largest) {
    int64_t n = rows * heads * d;
    uint8_t *p = check_buffer_add(c, output, t, 1, n, n, 0);
    for (int64_t at = 0; at < n; at += d) {
        double norm = 0;
        for (int i = 0; i < d; i++) {
            float f;
            check_fill(c, &f, 1, CHECK_UNIFORM);
            uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
            memcpy(p + (at + i) * (t == SAC_DTYPE_F32 ? 4 : 2), t == SAC_DTYPE_F32 ? (void *)&f : (void *)&h,
                   t == SAC_DTYPE_F32 ? 4 : 2);
            norm += (double)f * (double)f;
        }
        *largest = fmax(*largest, sqrt(norm));
    }
    return p;
}

static sac_kv_view make_kv(check_case *c, bool output, sac_dtype t, int64_t rows, int heads, int d,
                           double *largest) {
    sac_kv_view kv = {.dtype = t, .n_heads = heads, .head_dim = d, .n_rows = rows, .head_stride = d};
    kv.row_stride = (int64_t)heads * d;
    kv.k = make_rows(c, output, t, rows, heads, d, largest);
    kv.v = make_rows(c, output, t, rows, heads, d, largest);
    return kv;
}

static void make_rotation(check_case *c, int rot_dim, bool interleaved) {
    float *angles = check_mat(c, false, 64, rot_dim, 0, 0, CHECK_UNIFORM).data;
    c->rotation = (sac_rotation){angles, rot_dim, interleaved, 1.25f};
}

static double norm_of(const float *x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return sqrt(sum);
}

/* ---------------------------------------------------------------- scores, sums, gather */

static const struct scores_case {
    int heads, kv_heads, d;
    int64_t n_rows, first;
    int n_lists, every, rot_dim; /* n_lists 0: rows first.. */
    check_values v;
} scores_cases[] = {
    {28, 4, 128, 1003, 0, 0, 0, 0, CHECK_UNIFORM}, {8, 1, 128, 300, 17, 0, 0, 0, CHECK_TINY},
    {4, 4, 64, 130, 0, 0, 0, 0, CHECK_LARGE},      {32, 32, 80, 65, 0, 0, 0, 0, CHECK_UNIFORM},
    {20, 1, 64, 200, 0, 0, 0, 0, CHECK_OUTLIERS},  {14, 2, 128, 900, 0, 1, 2, 0, CHECK_UNIFORM},
    {8, 2, 64, 900, 0, 2, 2, 0, CHECK_UNIFORM},    {8, 2, 64, 900, 0, 8, 2, 0, CHECK_UNIFORM},
    {4, 2, 72, 60, 0, 0, 0, 0, CHECK_UNIFORM},     {8, 2, 128, 60, 0, 0, 0, 128, CHECK_UNIFORM},
    {8, 2, 64, 60, 0, 1, 2, 32, CHECK_UNIFORM},    {7, 1, 128, 1, 0, 0, 0, 0, CHECK_UNIFORM},
    {28, 4, 128, 61, 3, 0, 0, 128, CHECK_UNIFORM}, {16, 8, 64, 63, 0, 0, 0, 64, CHECK_UNIFORM},
    {1, 1, 3584, 70, 0, 0, 0, 0, CHECK_UNIFORM},   {2, 1, 3000, 33, 2, 1, 2, 0, CHECK_UNIFORM},
};

/* Cases without lists go twice: with one query, and with several whose keys end one after the other. Where
 * cases are not aligned only the queries are off their lines, so that keys on lines meet kernels that need no
 * more, as well as Hopper's. */
static bool make_scores(check_case *c, const struct scores_case *s, sac_dtype t, int n_queries) {
    sac_key_scores_args *a = &c->key_scores;
    double largest = 0;
    *a = (sac_key_scores_args){.n_heads = s->heads,
                               .first = s->first,
                               .n = s->n_rows - s->first,
                               .stride = s->n_rows + 3,
                               .scale = 1 / sqrtf((float)s->d)};
    if (n_queries > 1) {
        if (s->n_lists) return true; /* no buffers: left out */
        a->n_queries = n_queries;
        a->n_more = a->n / n_queries;
        a->n -= (n_queries - 1) * a->n_more;
    }
    a->kv = make_kv(c, false, t, s->n_rows, s->kv_heads, s->d, &largest);
    a->q = check_mat(c, false, n_queries, (int64_t)s->heads * s->d, 0, 4, s->v).data;
    if (s->n_lists) a->lists = check_row_lists(c, s->n_lists, s->n_rows, s->every);
    if (s->rot_dim) make_rotation(c, s->rot_dim, s->n_lists > 0);
    if (s->rot_dim) a->back = &c->rotation;
    int64_t heads = (int64_t)n_queries * s->heads;
    a->scores = check_mat(c, true, heads, a->stride, 0, 0, CHECK_UNIFORM).data;
    if (!s->n_lists && check_rand_int(c, 0, 2) > 0)
        a->lse = check_mat(c, true, 1, heads, 0, 0, CHECK_UNIFORM).data;
    check_allow_scores(c, heads, largest);
    snprintf(c->text, sizeof c->text, "%s queries=%d heads=%d/%d d=%d n=%lld lists=%d rot=%d%s %s",
             sac_dtype_name(t), n_queries, s->heads, s->kv_heads, s->d, (long long)s->n_rows, s->n_lists,
             s->rot_dim, a->lse ? " sums" : "", check_values_name(s->v));
    return true;
}

static const struct sums_case {
    int heads, kv_heads, d;
    int64_t n_q, n_probes, n_kv, first; /* n_probes 0: all of n_q; first -1: the queries are the last keys */
    int n_sums;
    int64_t window, n_diagonals;
} sums_cases[] = {
    {28, 4, 128, 32, 0, 300, -1, 1, 0, 0}, {28, 4, 128, 40, 9, 250, -1, 4, 0, 0},
    {8, 2, 64, 100, 0, 100, 0, 8, 0, 0},   {8, 2, 64, 130, 60, 333, -1, 2, 100, 0},
    {4, 4, 80, 20, 0, 150, -1, 4, 0, 150}, {7, 1, 128, 64, 0, 700, -1, 1, 0, 90},
    {4, 2, 64, 40, 0, 60, -30, 2, 0, 0},   {4, 1, 64, 1, 0, 500, -1, 1, 0, 0},
    {2, 1, 72, 70, 0, 129, -1, 2, 50, 60},
};

static bool make_sums(check_case *c, const struct sums_case *s, sac_dtype t) {
    sac_attention_sums_args *a = &c->attention_sums;
    double largest = 0, q_norm = 0;
    *a = (sac_attention_sums_args){.n_heads = s->heads,
                                   .n_sums = s->n_sums,
                                   .stride = s->n_kv + 5,
                                   .first = s->first == -1 ? s->n_kv - s->n_q : s->first,
                                   .n_kv = s->n_kv,
                                   .scale = 1 / sqrtf((float)s->d),
                                   .window = s->window,
                                   .n_diagonals = s->n_diagonals};
    a->kv = make_kv(c, false, t, s->n_kv, s->kv_heads, s->d, &largest);
    a->q = check_mat(c, false, s->n_q, (int64_t)s->heads * s->d, 8, 0, CHECK_UNIFORM);
    if (s->n_probes) {
        int32_t *probes = check_buffer_add(c, false, SAC_DTYPE_F32, 1, s->n_probes, s->n_probes, 0);
        for (int64_t i = 0; i < s->n_probes; i++) probes[i] = (int32_t)(i * s->n_q / s->n_probes);
        a->probes = probes;
        a->n_probes = s->n_probes;
    }
    a->sums = check_mat(c, true, s->n_sums, s->n_kv, 5, 0, CHECK_UNIFORM).data;
    if (s->n_diagonals)
        a->diagonals = check_mat(c, true, s->n_sums, s->n_diagonals, 0, 0, CHECK_UNIFORM).data;
    for (int64_t r = 0; r < s->n_q; r++)
        for (int h = 0; h < s->heads; h++)
            q_norm = fmax(q_norm, norm_of(sac_mat_row_f32(a->q, r) + h * s->d, s->d));
    int64_t total = s->n_sums * (a->stride + s->n_diagonals);
    double *allowed = check_allow(c, total), score = q_norm * largest * (double)a->scale;
    for (int64_t i = 0; i < total; i++) allowed[i] = 1e-36;
    c->relative = EPS * (24 + (double)(s->n_q * s->heads) / 8 + 2 * (6 + sqrt((double)s->d)) * score);
    snprintf(c->text, sizeof c->text,
             "%s heads=%d/%d d=%d n_q=%lld probes=%lld n_kv=%lld first=%lld sums=%d window=%lld "
             "diagonals=%lld",
             sac_dtype_name(t), s->heads, s->kv_heads, s->d, (long long)s->n_q, (long long)s->n_probes,
             (long long)s->n_kv, (long long)a->first, s->n_sums, (long long)s->window,
             (long long)s->n_diagonals);
    return true;
}

static const struct gather_case {
    int heads, d;
    int64_t n_rows;
    int n_lists, every, rot_dim;
    bool keys_only;
} gather_cases[] = {{4, 128, 700, 1, 2, 0, false},
                    {8, 64, 300, 8, 3, 0, true},
                    {2, 80, 200, 2, 2, 0, false},
                    {4, 128, 300, 4, 2, 128, false},
                    {2, 64, 100, 1, 1, 32, true}};

static bool make_gather(check_case *c, const struct gather_case *s, sac_dtype t) {
    sac_kv_gather_args *a = &c->kv_gather;
    double largest = 0;
    *a = (sac_kv_gather_args){.keys_only = s->keys_only};
    a->src = make_kv(c, false, t, s->n_rows, s->heads, s->d, &largest);
    a->dst = make_kv(c, true, s->d == 80 ? SAC_DTYPE_F32 : t, s->n_rows, s->heads, s->d, &largest);
    a->lists = check_row_lists(c, s->n_lists, s->n_rows, s->every);
    c->exact = !s->rot_dim;
    if (s->rot_dim) {
        int64_t n = a->lists->start[s->n_lists];
        int32_t *turn = check_buffer_add(c, false, SAC_DTYPE_F32, 1, n, n, 0);
        for (int64_t i = 0; i < n; i++) turn[i] = (int32_t)check_rand_int(c, 0, 63);
        make_rotation(c, s->rot_dim, s->keys_only);
        a->turn_back = turn;
        a->rotation = &c->rotation;
        int64_t total = s->n_rows * s->heads * s->d;
        double *allowed = check_allow(c, 2 * total); /* values come as they are, but for their type */
        double eps = t == SAC_DTYPE_F32 ? EPS : t == SAC_DTYPE_F16 ? 0x1p-11 : 0x1p-8;
        for (int64_t i = 0; i < 2 * total; i++) allowed[i] = i < total ? 3 * (8 * EPS + eps) : 0;
    }
    snprintf(c->text, sizeof c->text, "%s heads=%dx%d rows=%lld lists=%d rot=%d%s", sac_dtype_name(t),
             s->heads, s->d, (long long)s->n_rows, s->n_lists, s->rot_dim, s->keys_only ? " keys only" : "");
    return true;
}

/* ---------------------------------------------------------------- choices */

static const struct choice_case {
    int rows;
    int64_t n, k; /* k of 1000 is p for top_p */
    int values;   /* 0 random, 1 few distinct, 2 equal, 3 with NaN, infinities and zeros, 4 close, 5 the best
                   * beside each other, 6 -infinity but for every 100th, 7 each about n / 1000 times,
                   * 8 the first ones infinite */
} choice_cases[] = {{1, 1, 1, 0},         {3, 100, 7, 1},       {2, 1000, 999, 0},     {28, 3000, 300, 0},
                    {1, 8193, 2048, 4},   {1, 131072, 2048, 0}, {2, 70000, 33333, 1},  {1, 40000, 20000, 2},
                    {4, 5000, 700, 3},    {1, 200000, 1, 0},    {2, 16384, 950, 4},    {1, 50, 50, 0},
                    {1, 131071, 2048, 5}, {1, 300001, 2048, 5}, {1, 1000000, 1024, 0}, {28, 32768, 2048, 0},
                    {3, 65537, 2048, 3},  {1, 131072, 2048, 1}, {9, 4097, 600, 5},     {1, 131072, 2048, 6},
                    {2, 65536, 300, 6},   {2, 131072, 2048, 7}, {40, 20000, 512, 7},   {800, 270, 54, 8},
                    {400, 2000, 256, 8},  {200, 4000, 600, 8}};

static float choice(check_case *c, int values, int64_t i, int64_t n) {
    static const float special[] = {NAN, INFINITY, -INFINITY, 0.0f, -0.0f, 1e-40f, -1e-40f, 3e38f, 1.0f};
    switch (values) {
    case 0: return (float)(8 * check_rand_unit(c) - 4);
    case 1: return (float)check_rand_int(c, 0, 4);
    case 2: return 0.5f;
    case 3: return special[check_rand_int(c, 0, (int64_t)SAC_COUNT(special) - 1)];
    case 5: return (float)check_rand_unit(c) + (i / (n / 32 + 1) == 17 ? 1 : 0);
    case 6: return i % 100 == 7 ? (float)check_rand_unit(c) : -INFINITY;
    case 7: return (float)check_rand_int(c, 0, 999);
    case 8: return i < n / 9 ? INFINITY : (float)check_rand_unit(c);
    default: return 1 + (float)check_rand_int(c, 0, 30) * 0x1p-23f;
    }
}

static bool make_top_k(check_case *c, const struct choice_case *s) {
    float *scores = check_mat(c, false, s->rows, s->n, 3, 4, CHECK_UNIFORM).data;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) scores[r * (s->n + 3) + i] = choice(c, s->values, i, s->n);
    int64_t k = s->k < s->n ? s->k : s->n;
    int32_t *indices = check_buffer_add(c, true, SAC_DTYPE_F32, 1, s->rows * k, s->rows * k, 0);
    c->top_k = (sac_top_k_args){scores, s->n + 3, s->n, s->rows, s->k, indices, NULL};
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%lld of %dx%lld, values %d", (long long)s->k, s->rows, (long long)s->n,
             s->values);
    return true;
}

/* Some rows have nothing above -infinity, or zeros of both signs alone, or begin with NaN; the largest is the last one in every seventh. */
static bool make_largest(check_case *c, const struct choice_case *s) {
    float *x = check_mat(c, false, s->rows, s->n, 3, 4, CHECK_UNIFORM).data;
    for (int64_t r = 0; r < s->rows; r++) {
        float *row = x + r * (s->n + 3);
        for (int64_t i = 0; i < s->n; i++) row[i] = s->values == 6 && r % 5 == 1 ? -INFINITY : choice(c, s->values, i, s->n);
        for (int64_t i = 0; i < s->n && s->values == 3 && r % 3 == 1; i++) row[i] = i % 2 ? 0.0f : -0.0f;
        if (s->values == 3 && r % 3 == 2) row[0] = NAN;
        if (s->values == 0 && r % 7 == 2) row[s->n - 1] = 9;
    }
    int32_t *at = check_buffer_add(c, true, SAC_DTYPE_F32, 1, s->rows, s->rows, 0);
    c->buffer[c->n_buffers - 1].integers = true;
    float *value = check_buffer_add(c, true, SAC_DTYPE_F32, 1, s->rows, s->rows, 0);
    c->largest = (sac_largest_args){x, s->n + 3, s->n, s->rows, at, value};
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%dx%lld, values %d", s->rows, (long long)s->n, s->values);
    return true;
}

/* Multiples of 2^-20: sums are exact, so that any order of summing agrees on the threshold. */
static bool make_top_p(check_case *c, const struct choice_case *s) {
    float *weights = check_mat(c, false, s->rows, s->n, 1, 0, CHECK_UNIFORM).data;
    for (int64_t r = 0; r < s->rows; r++)
        for (int64_t i = 0; i < s->n; i++) {
            float f = fabsf(choice(c, s->values == 3 || s->values > 5 ? 1 : s->values, i, s->n));
            weights[r * (s->n + 1) + i] = rintf(f * 0x1p20f) * 0x1p-20f;
        }
    float *threshold = check_buffer_add(c, true, SAC_DTYPE_F32, 1, s->rows, s->rows, 0);
    int64_t *n_kept = check_buffer_add(c, true, SAC_DTYPE_F32, 1, 2 * s->rows, 2 * s->rows, 0);
    double p = s->k == 1 ? 1 : (double)(s->k % 1000) / 1000;
    c->top_p = (sac_top_p_args){weights, NULL, s->n + 1, s->n, s->rows, p, threshold, n_kept, false};
    if (s->values == 1) {
        int64_t *counts = check_buffer_add(c, false, SAC_DTYPE_F32, 1, 2 * s->rows, 2 * s->rows, 0);
        for (int r = 0; r < s->rows; r++) counts[r] = check_rand_int(c, 0, s->n);
        c->top_p.counts = counts;
    }
    c->exact = true;
    snprintf(c->text, sizeof c->text, "p=%g of %dx%lld, values %d", p, s->rows, (long long)s->n, s->values);
    return true;
}

/* ---------------------------------------------------------------- all */

/* Tokens, n and k of a gate's wide products: three tiles at a time and several passes, as of real models. */
static const int64_t gate_cases[][3] = {{8, 33967, 456}, {3, 50950, 72},  {9, 1000, 3584}, {16, 129, 1096},
                                       {17, 4000, 520}, {32, 20001, 72}, {12, 5000, 4104},
                                       {24, 5000, 4104}};

/* The same in blocks, with each type of them. */
static const int64_t block_gates[][3] = {{1, 16, 256}, {1, 75, 1536}, {1, 24, 5376}, {3, 40, 512},
                                         {8, 33, 768}, {13, 50, 512}, {32, 64, 256}};
enum { N_GATES = (int)SAC_COUNT(gate_cases), N_BLOCK_GATES = (int)SAC_COUNT(block_gates) };

static bool make_gates(check_case *c, int i, sac_dtype t) {
    const int n = CHECK_STEP_SHAPES + CHECK_FEW_STEPS;
    if (i < n) return check_make_step_of(c, i, t);
    if (t == SAC_DTYPE_F32) return true; /* no buffers: left out */
    const bool in_blocks = i >= n + N_GATES;
    const int b = i - n - N_GATES;
    const int64_t *shape = in_blocks ? block_gates[b % N_BLOCK_GATES] : gate_cases[i - n];
    check_make_gates(c, shape[0], shape[1], shape[2],
                     in_blocks ? (sac_dtype)(SAC_DTYPE_Q8_0 + b / N_BLOCK_GATES) : t);
    return true;
}

/* In the type of activations, then in those blocks that the fused step takes: of q and k, and of v. */
static const sac_dtype qkv_blocks[][2] = {{SAC_DTYPE_Q8_0, SAC_DTYPE_Q8_0},
                                          {SAC_DTYPE_Q4_K, SAC_DTYPE_Q4_K},
                                          {SAC_DTYPE_Q6_K, SAC_DTYPE_Q6_K},
                                          {SAC_DTYPE_Q4_K, SAC_DTYPE_Q6_K}};
static const int qkv_shapes[] = {1, 2, 2, 9}; /* of cases_step.c: whole blocks a row, the widest last */
enum { N_QKV_KINDS = (int)SAC_COUNT(qkv_blocks), N_QKV_BLOCKS = 3 * N_QKV_KINDS + 1, FIRST_INTERLEAVED = 2 * N_QKV_KINDS };

static bool make_qkv(check_case *c, int i, sac_dtype t) {
    if (i < CHECK_STEP_SHAPES) return check_make_step_of(c, i, t);
    if (t == SAC_DTYPE_F32) return true; /* no buffers: left out */
    i -= CHECK_STEP_SHAPES;
    const bool is_wide = i == N_QKV_BLOCKS - 1;
    const sac_dtype *type = qkv_blocks[is_wide ? N_QKV_KINDS - 1 : i % N_QKV_KINDS];
    if (is_wide && t == SAC_DTYPE_F16) return true; /* the host takes seconds */
    if (!check_make_step_of(c, qkv_shapes[i / N_QKV_KINDS], t)) return false;
    sac_qkv_step_args *a = &c->qkv_step;
    const int64_t k = a->x.cols, n_kv = a->wk.tensor.dim[0];
    a->rotation.interleaved = i >= FIRST_INTERLEAVED;
    a->wq = check_weights(c, type[0], a->q.cols, k, 0, CHECK_UNIFORM);
    a->wk = check_weights(c, type[0], n_kv, k, 0, CHECK_UNIFORM);
    a->wv = check_weights(c, type[1], n_kv, k, 0, CHECK_UNIFORM);
    cuda_allow_qkv(c, t == SAC_DTYPE_F16 ? 0x1p-9 : 0x1p-6); /* the normalised row is rounded to t */
    const size_t length = strlen(c->text);
    snprintf(c->text + length, sizeof c->text - length, " %s %s%s", sac_dtype_name(type[0]),
             sac_dtype_name(type[1]), a->rotation.interleaved ? " interleaved" : "");
    return true;
}

/* In the type of activations, then in blocks. */
static bool make_group(check_case *c, int i, sac_dtype t) {
    const int n = check_n_linear_groups();
    c->exact_x = i >= n;
    if (!c->exact_x) return check_make_linear_group(c, i, t);
    if (t == SAC_DTYPE_F32) return true; /* no buffers: left out */
    return check_make_linear_group(c, i % n, (sac_dtype)(SAC_DTYPE_Q8_0 + i / n - 1));
}

int cuda_n_key_cases(check_op op) {
    switch ((int)op) {
    case CHECK_key_scores: return 2 * (int)SAC_COUNT(scores_cases);
    case CHECK_attention_sums: return (int)SAC_COUNT(sums_cases);
    case CHECK_kv_gather: return (int)SAC_COUNT(gather_cases);
    case CHECK_top_k:
    case CHECK_largest:
    case CHECK_top_p: return (int)SAC_COUNT(choice_cases);
    case CHECK_qkv_step: return CHECK_STEP_SHAPES + N_QKV_BLOCKS;
    case CHECK_gate_up_step:
        return CHECK_STEP_SHAPES + CHECK_FEW_STEPS + N_GATES + N_BLOCK_GATES * CHECK_BLOCK_TYPES;
    case CHECK_linear_group: return (1 + CHECK_BLOCK_TYPES) * check_n_linear_groups();
    case CHECK_expert_linear: return check_n_expert_products();
    case CHECK_even_step: return check_n_even_steps();
    case CHECK_packed_step: return check_n_packed_steps();
    case CHECK_packed_step_many: return check_n_packed_many();
    default: return 0;
    }
}

bool cuda_make_key_case(check_case *c, int i, sac_dtype t) {
    c->same_bits = true;
    switch ((int)c->op) {
    case CHECK_key_scores: {
        int n = (int)SAC_COUNT(scores_cases);
        return make_scores(c, &scores_cases[i % n], t, i < n ? 1 : i == n ? 19 : 5);
    }
    case CHECK_attention_sums: return make_sums(c, &sums_cases[i], t);
    case CHECK_kv_gather: return make_gather(c, &gather_cases[i], t);
    case CHECK_qkv_step: return make_qkv(c, i, t);
    case CHECK_gate_up_step: return make_gates(c, i, t);
    case CHECK_linear_group: return make_group(c, i, t);
    case CHECK_expert_linear: return check_make_expert_product(c, i, t);
    case CHECK_even_step: return check_make_even_step(c, i, t);
    case CHECK_packed_step: return check_make_packed_step(c, i, t);
    case CHECK_packed_step_many: return check_make_packed_many(c, i, t);
    default: /* f32 whatever the type: once is enough, and no buffers mean that a case is left out */
        if (t != SAC_DTYPE_F32) return true;
        if (c->op == CHECK_largest) return make_largest(c, &choice_cases[i]);
        return c->op == CHECK_top_k ? make_top_k(c, &choice_cases[i]) : make_top_p(c, &choice_cases[i]);
    }
}
