/* cases_blocks.c - cases of antidiagonal_sums and cover_blocks, which choose blocks of keys for blocks of
 * queries, and of block_attention, which reads them. */
#include "check.h"

#include <math.h>

#define EPS 0x1p-24

static const struct sums_shape {
    int n_heads, n_kv_heads, head_dim;
    int64_t n_q, first, n_more; /* n_more: rows of keys behind the last query */
    int64_t step, block;
    bool slow;
} sums_shapes[] = {
    {1, 1, 64, 1, 0, 0, 16, 128, false},      {4, 1, 64, 128, 0, 0, 16, 128, false},
    {7, 1, 128, 300, 0, 0, 16, 128, true},    {6, 2, 64, 517, 0, 0, 8, 128, true},
    {8, 8, 80, 250, 77, 0, 16, 128, true},    {4, 2, 64, 130, 333, 9, 8, 128, false},
    {3, 1, 20, 100, 5, 1, 4, 32, false},      {2, 1, 256, 70, 128, 0, 16, 64, false},
    {9, 3, 64, 256, 512, 64, 16, 128, true},  {4, 2, 96, 45, 0, 0, 32, 64, false},
    {2, 2, 12, 33, 900, 3, 64, 64, false},    {1, 1, 8, 700, 0, 0, 1, 7, false},
    {28, 4, 128, 200, 100, 0, 16, 128, true}, {2, 1, 128, 129, 2000, 500, 16, 128, true},
    /* whole blocks and a rest behind keys of several tiles; more units than a tile has; blocks of more units */
    {6, 2, 128, 300, 2112, 40, 16, 128, true}, {1, 1, 128, 2176, 8, 0, 8, 128, true},
    {2, 1, 128, 256, 512, 0, 4, 128, true},
};
#define N_SUMS ((int)SAC_COUNT(sums_shapes))

/* As of attention_sums: a weight is wrong by what score and denominator are. What is written to the room for
 * scores is nobody's. */
static void allow_sums(check_case *c, double k_norm, int64_t n_sums, int64_t n_scores) {
    const sac_antidiagonal_sums_args *a = &c->antidiagonal_sums;
    double q_norm = 0, d = (double)(a->kv.head_dim * a->step);
    for (int64_t r = 0; r < a->q.rows; r++)
        for (int h = 0; h < a->n_heads; h++)
            q_norm = fmax(q_norm, check_norm(sac_mat_row_f32(a->q, r) + h * a->kv.head_dim, a->kv.head_dim));
    double *allowed = check_allow(c, n_sums + n_scores);
    for (int64_t i = 0; i < n_sums; i++) allowed[i] = 1e-36;
    for (int64_t i = 0; i < n_scores; i++) allowed[n_sums + i] = INFINITY;
    c->relative = EPS * (40 + 2 * (6 + sqrt(d)) * q_norm * k_norm * (double)a->scale);
}

static bool make_sums(check_case *c, int i, bool quick) {
    if (i >= N_SUMS * 3) return false;
    const struct sums_shape *sh = &sums_shapes[i % N_SUMS];
    sac_antidiagonal_sums_args *a = &c->antidiagonal_sums;
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    sac_dtype t = (sac_dtype)(i / N_SUMS);
    if (sh->slow && quick && t != SAC_DTYPE_BF16) return true;
    if (v == CHECK_OUTLIERS) v = CHECK_UNIFORM; /* weights of nothing but the largest score */
    *a = (sac_antidiagonal_sums_args){.n_heads = sh->n_heads,
                                      .first = sh->first,
                                      .scale = 1 / sqrtf((float)sh->head_dim),
                                      .step = sh->step,
                                      .block = sh->block};
    check_kv_shape kv = {.dtype = t,
                         .n_heads = sh->n_kv_heads,
                         .head_dim = sh->head_dim,
                         .n_rows = sh->first + sh->n_q + sh->n_more,
                         .n_valid = sh->first + sh->n_q + sh->n_more,
                         .k = v == CHECK_LARGE ? CHECK_UNIFORM : v};
    double k_norm;
    a->kv = check_kv(c, &kv, &k_norm, NULL);
    a->kv.n_rows = kv.n_rows;
    int64_t gap = sh->head_dim == 128 ? 8 * check_rand_int(c, 0, 2) : check_rand_int(c, 0, 5);
    a->q = check_mat(c, false, sh->n_q, (int64_t)sh->n_heads * sh->head_dim, gap, 4, v);
    int64_t n_blocks = (sh->n_q + sh->block - 1) / sh->block, n_units = (sh->n_q + sh->step - 1) / sh->step;
    int64_t n = (sh->first + sh->n_q + sh->block - 1) / sh->block, n_keys = sac_antidiagonal_units(a);
    a->stride = n + check_rand_int(c, 0, 3);
    a->sums = check_mat(c, true, n_blocks * sh->n_heads, n, a->stride - n, 4, CHECK_UNIFORM).data;
    a->scores = check_mat(c, true, n_units * sh->n_heads, n_keys, 0, 4, CHECK_UNIFORM).data;
    allow_sums(c, k_norm, n_blocks * sh->n_heads * n, n_units * sh->n_heads * n_keys);
    snprintf(c->text, sizeof c->text, "%s heads=%d/%d d=%d n_q=%lld first=%lld +%lld step=%lld block=%lld %s",
             sac_dtype_name(t), sh->n_heads, sh->n_kv_heads, sh->head_dim, (long long)sh->n_q,
             (long long)sh->first, (long long)sh->n_more, (long long)sh->step, (long long)sh->block,
             check_values_name(v));
    return true;
}

static const struct cover_shape {
    int n_heads;
    int64_t first, block, n_blocks, n_rows, n_first, n_local;
} cover_shapes[] = {
    {1, 0, 128, 1, 1, 1, 1},          {4, 0, 128, 9, 1150, 1, 1},
    {7, 77, 128, 3, 400, 0, 1},       {2, 128 * 300, 128, 4, 38900, 1, 2},
    {3, 5000, 16, 20, 5310, 3, 1},    {28, 1000, 128, 2, 1250, 50, 50},
    {2, 8 * 4999, 8, 2, 40003, 0, 1}, {5, 640, 64, 10, 1270, 2, 4},
};
#define N_COVERS ((int)SAC_COUNT(cover_shapes))

/* Shares of a few large blocks and many small ones; of equal ones; or with none, and with what is no number. */
static void fill_sums(check_case *c, float *sums, int64_t n, int kind) {
    for (int64_t j = 0; j < n; j++) {
        double u = check_rand_unit(c);
        sums[j] = kind == 0   ? (float)(u * u * u * u / (double)n)
                  : kind == 1 ? 0.125f * (float)check_rand_int(c, 0, 3)
                  : kind == 2 ? (check_rand_int(c, 0, 9) ? (float)u : (float)NAN)
                              : (float)(check_rand_int(c, 0, 3) ? -u : u * 1e-14);
    }
}

static bool make_cover(check_case *c, int i) {
    static const double covers[] = {0.9, 0, 0.5, 1, 0.99};
    if (i >= 20 * N_COVERS) return false;
    const struct cover_shape *sh = &cover_shapes[i / 20];
    sac_cover_blocks_args *a = &c->cover_blocks;
    int64_t n = (sh->n_rows + sh->block - 1) / sh->block + check_rand_int(c, 0, 2);
    *a = (sac_cover_blocks_args){.stride = n,
                                 .n_heads = sh->n_heads,
                                 .first = sh->first,
                                 .block = sh->block,
                                 .n_blocks = sh->n_blocks,
                                 .n_rows = sh->n_rows,
                                 .n_first = sh->n_first,
                                 .n_local = sh->n_local,
                                 .cover = covers[i % 5]};
    int64_t n_lists = sh->n_blocks * sh->n_heads;
    float *sums = check_mat(c, false, n_lists, n, 0, 4, CHECK_UNIFORM).data;
    fill_sums(c, sums, n_lists * n, i / 5 % 4);
    a->sums = sums;
    a->columns = check_buffer_add(c, true, SAC_DTYPE_F32, n_lists, n, n, 4);
    c->buffer[c->n_buffers - 1].integers = true;
    c->exact = true;
    snprintf(c->text, sizeof c->text, "%lld blocks of %lld from %lld of %lld, heads=%d %g + %lld + %lld",
             (long long)sh->n_blocks, (long long)sh->block, (long long)sh->first, (long long)sh->n_rows,
             sh->n_heads, a->cover, (long long)sh->n_first, (long long)sh->n_local);
    return true;
}

static const struct block_shape {
    int n_heads, n_kv_heads, head_dim;
    int64_t n_q, first, n_more, block; /* n_more: rows of keys behind the last query */
    bool slow;
} block_shapes[] = {
    {1, 1, 64, 1, 0, 0, 128, false},        {4, 2, 20, 40, 13, 3, 16, false},
    {2, 1, 128, 1, 700, 0, 128, false},     {7, 1, 128, 128, 0, 0, 128, false},
    {14, 2, 128, 300, 0, 9, 128, true},     {6, 2, 128, 260, 1000, 50, 128, true},
    {4, 4, 128, 385, 77, 0, 128, true},     {3, 1, 128, 128, 1920, 64, 128, true},
    {2, 1, 128, 130, 127, 1, 128, false},   {2, 2, 96, 70, 64, 0, 64, false},
};
#define N_BLOCK_SHAPES ((int)SAC_COUNT(block_shapes))

/* Every block's own blocks of keys, and of those before them one in `every`. */
static int32_t *make_columns(check_case *c, const struct block_shape *sh, int64_t stride, int64_t every) {
    int64_t n_lists = (sh->n_q + sh->block - 1) / sh->block * sh->n_heads;
    int32_t *columns = check_buffer_add(c, false, SAC_DTYPE_F32, n_lists, stride, stride, 4);
    for (int64_t i = 0; i < n_lists; i++) {
        int64_t begin = sh->first + i / sh->n_heads * sh->block, end = sh->first + sh->n_q, at = 0;
        if (begin + sh->block < end) end = begin + sh->block;
        for (int64_t j = 0; j < (end + sh->block - 1) / sh->block; j++)
            if (j >= begin / sh->block || check_rand_int(c, 1, every) == 1)
                columns[i * stride + at++] = (int32_t)j;
        while (at < stride) columns[i * stride + at++] = -1;
    }
    return columns;
}

/* As of attention (cases_attention.c); counts of pairs are exact. */
static void allow_blocks(check_case *c, double k_norm, double v_max, int64_t n_numbers) {
    const sac_block_attention_args *a = &c->block_attention;
    int64_t d = a->kv.head_dim, n = a->q.rows * a->q.cols;
    double *allowed = check_allow(c, n + n_numbers);
    for (int64_t i = 0; i < n; i += d) {
        const float *q = (const float *)a->q.data + i / a->q.cols * a->q.stride + i % a->q.cols;
        double score = check_norm(q, d) * k_norm * (double)a->scale, rows = (double)a->kv.n_rows;
        for (int64_t j = 0; j < d; j++)
            allowed[i + j] = EPS * v_max * (4 + sqrt(rows) + 2 * (4 + sqrt((double)d)) * score) + 1e-40;
    }
    c->relative = 2 * EPS;
}

static bool make_block_attention(check_case *c, int i, bool quick) {
    if (i >= N_BLOCK_SHAPES * 3) return false;
    const struct block_shape *sh = &block_shapes[i % N_BLOCK_SHAPES];
    sac_block_attention_args *a = &c->block_attention;
    check_values v = (check_values)check_rand_int(c, 0, CHECK_N_VALUES - 1);
    sac_dtype t = (sac_dtype)(i / N_BLOCK_SHAPES);
    if (sh->slow && quick && t != SAC_DTYPE_BF16) return true;
    int64_t end = sh->first + sh->n_q, cols = (int64_t)sh->n_heads * sh->head_dim;
    int64_t n_lists = (sh->n_q + sh->block - 1) / sh->block * sh->n_heads;
    *a = (sac_block_attention_args){.stride = (end + sh->block - 1) / sh->block + check_rand_int(c, 0, 2),
                                    .block = sh->block,
                                    .first = sh->first,
                                    .n_heads = sh->n_heads,
                                    .scale = 1 / sqrtf((float)sh->head_dim)};
    check_kv_shape kv = {.dtype = t,
                         .n_heads = sh->n_kv_heads,
                         .head_dim = sh->head_dim,
                         .n_rows = end + sh->n_more,
                         .n_valid = end,
                         .k = v == CHECK_LARGE ? CHECK_UNIFORM : v};
    double k_norm, v_max;
    a->kv = check_kv(c, &kv, &k_norm, &v_max);
    a->columns = make_columns(c, sh, a->stride, check_rand_int(c, 1, 4));
    a->o = a->q = check_mat(c, true, sh->n_q, cols, 8 * check_rand_int(c, 0, 2), 4, v);
    if (check_rand_int(c, 0, 2)) a->q = check_mat(c, false, sh->n_q, cols, 16, 4, v);
    int64_t n_numbers = check_rand_int(c, 0, 3) ? 2 * n_lists : 0; /* pairs, two each */
    if (n_numbers) a->pairs = check_buffer_add(c, true, SAC_DTYPE_F32, 1, n_numbers, n_numbers, 0);
    if (n_numbers) c->buffer[c->n_buffers - 1].integers = true;
    allow_blocks(c, k_norm, v_max, n_numbers);
    snprintf(c->text, sizeof c->text, "%s heads=%d/%d d=%d n_q=%lld first=%lld +%lld block=%lld%s%s %s",
             sac_dtype_name(t), sh->n_heads, sh->n_kv_heads, sh->head_dim, (long long)sh->n_q,
             (long long)sh->first, (long long)sh->n_more, (long long)sh->block, a->pairs ? " pairs" : "",
             a->q.data == a->o.data ? " in place" : "", check_values_name(v));
    return true;
}

bool check_make_blocks(check_case *c, int i, bool quick) {
    c->same_bits = true;
    if (c->op == CHECK_block_attention) return make_block_attention(c, i, quick);
    return c->op == CHECK_cover_blocks ? make_cover(c, i) : make_sums(c, i, quick);
}
