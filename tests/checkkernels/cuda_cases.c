/* cuda_cases.c - shapes of real models on 16-byte lines, where the fast kernels are; either side of their
 * tiles (16, 64 rows; 16, 64 keys), groups of 1, 4, 7 and 8, heads of 64, 72, 80 and 128, lists, windows,
 * lse. */
#include "cuda_twin.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The last eleven, a few rows: fewer rows of w than processors, tiles that are not full, several
 * passes, k within a step, warps that share k in several passes. */
static const int64_t linear_shapes[][3] = {
    {1, 4608, 512},  {1, 512, 3584},  {2, 1000, 1024}, {8, 640, 4096},  {5, 48, 18944},   {4, 33, 40},
    {9, 256, 1024},  {64, 384, 1152}, {577, 256, 588}, {130, 264, 640}, {257, 128, 4304}, {16, 17, 64},
    {1024, 512, 64}, {1, 3583, 264},  {1, 40, 18944},  {1, 9, 82000},   {1, 20001, 64},   {12, 3584, 1088},
    {2, 131, 96},    {4, 4608, 3584}, {8, 3584, 640},  {3, 2200, 1000}, {7, 9600, 72},    {5, 700, 8},
    {8, 13, 2048},   {6, 40003, 264}, {2, 690001, 8},  {7, 1345678, 8}, {3, 33967, 968},
};

/* Of weights in blocks: tiles of 16 outputs and of 8, 16 and 32 rows that are not full, rows of x beyond those, and
 * columns either side of a stretch of 256 and of what four warps take at once. (cuda_codes.c has weights that are
 * unpacked in two goes.) */
static const int64_t block_shapes[][3] = {
    {1, 4608, 512},  {1, 33, 64},    {1, 17, 352},    {1, 1001, 1024}, {1, 15, 18944},
    {1, 1, 256},     {2, 100, 1280}, {3, 20, 192},    {5, 4097, 256},  {8, 48, 4096},
    {9, 40, 1536},   {13, 31, 896},  {16, 31, 2048},  {17, 65, 512},   {24, 7, 544},
    {32, 24, 14336}, {33, 300, 800}, {64, 130, 3072}, {200, 264, 256}, {40, 1280, 1024},
};

typedef struct attention_case {
    check_attention_shape shape;
    check_attention_extra extra;
} attention_case;

/* Lengths of a tower's problems: windows that the picture's edge cuts, and pictures of several sizes. */
static const int windows[] = {64, 64, 48, 64, 64, 48, 32, 32, 24, -1},
                 pictures[] = {577, 577, 196, 1, 577, -1};

/* Pictures of a prompt: one that begins before its queries, one within. */
static const sac_row_span picture_spans[] = {{37, 128}, {200, 128}};

static const attention_case attention_cases[] = {
    /* decode: one query, then a few */
    {{1, 1, 4097, -1, 28, 4, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 1000, -1, 32, 32, 128, true, false, 0, 0}, {.wide = true}},
    {{1, 1, 3000, -1, 16, 4, 64, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 2500, -1, 8, 1, 128, true, false, 0, 0}, {.wide = true}},
    {{1, 1, 15, -1, 14, 2, 128, true, false, 0, 0}, {.wide = true}},
    {{1, 1, 1, -1, 8, 8, 64, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 2, 1500, -1, 28, 4, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 5, 900, -1, 14, 2, 128, true, false, 0, 0}, {.wide = true}},
    {{1, 1, 700, -1, 16, 16, 80, true, false, 0, 0}, {.wide = true}},
    {{1, 1, 800, -1, 4, 2, 72, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 333, -1, 4, 4, 96, true, false, 0, 0}, {.wide = true}},
    {{1, 3, 444, -1, 4, 2, 88, true, false, 0, 0}, {.wide = true}},
    {{1, 1, 2000, -1, 28, 4, 128, true, false, 600, 0}, {.wide = true, .lse = true}},
    {{1, 1, 3000, -1, 28, 4, 128, true, false, 0, 5}, {.wide = true, .lse = true}},
    {{1, 1, 3000, -1, 28, 4, 128, true, false, 0, 3}, {.n_lists = 4, .wide = true, .lse = true}},
    {{1, 1, 1800, -1, 8, 2, 64, true, false, 0, 4}, {.n_lists = 8, .wide = true, .lse = true}},
    {{1, 2, 1800, -1, 8, 2, 64, true, false, 700, 2}, {.n_lists = 2, .wide = true, .lse = true}},
    {{1, 1, 5000, -1, 28, 4, 128, true, false, 0, 1},
     {.n_lists = 4, .wide = true, .lse = true, .uneven = true}},
    {{1, 1, 9000, -1, 14, 2, 128, false, false, 0, 9},
     {.n_lists = 14, .wide = true, .lse = true, .uneven = true}},
    {{1, 1, 40, -1, 32, 32, 64, false, false, 0, 30}, {.n_lists = 32, .wide = true, .uneven = true}},
    {{1, 1, 900, -1, 8, 2, 96, true, false, 0, 2}, {.n_lists = 2, .wide = true, .uneven = true}},
    {{1, 3, 2000, -1, 14, 2, 80, true, false, 0, 3},
     {.n_lists = 2, .wide = true, .lse = true, .uneven = true}},
    {{1, 1, 300, -8, 8, 2, 64, true, false, 0, 0}, {.wide = true, .lse = true}}, /* sees nothing */
    {{1, 1, 300, -1, 14, 2, 128, true, false, 0, 0}, {.wide = true, .lse = true, .far = (int64_t)1 << 23}},
    /* all keys for one cluster of blocks, of 16 or of 8, or just too many; two turns of every warp */
    {{1, 1, 2048, -1, 28, 4, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 2049, -1, 28, 4, 128, true, false, 0, 0}, {.wide = true}},
    {{1, 1, 4096, -1, 28, 4, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 5376, -1, 28, 4, 128, true, false, 0, 2}, {.wide = true, .lse = true}},
    {{1, 1, 1030, -1, 28, 4, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 1700, -1, 4, 2, 80, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 2000, -1, 4, 1, 96, true, false, 0, 0}, {.wide = true}},
    {{1, 3, 1900, -1, 8, 2, 64, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 4090, -1, 28, 4, 128, true, false, 0, 2}, {.wide = true, .lse = true}},
    {{1, 1, 8200, -1, 7, 1, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    /* prefill */
    {{1, 64, 64, 0, 7, 1, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 200, 200, 0, 7, 1, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 129, 700, -1, 8, 2, 64, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 257, 333, -1, 8, 1, 128, true, false, 0, 0}, {.wide = true}},
    {{1, 100, 333, -1, 6, 6, 80, true, false, 0, 0}, {.wide = true}},
    {{1, 100, 233, -1, 4, 2, 72, true, false, 0, 0}, {.wide = true}},
    {{1, 65, 300, -1, 4, 2, 96, true, false, 0, 0}, {.wide = true}},
    {{1, 150, 500, -1, 8, 2, 64, true, false, 100, 0}, {.wide = true, .lse = true}},
    {{1, 90, 600, -1, 8, 2, 128, true, false, 0, 3}, {.wide = true, .lse = true}},
    {{1, 90, 600, -1, 8, 2, 64, true, false, 200, 2}, {.n_lists = 2, .wide = true, .lse = true}},
    {{1, 70, 300, -1, 8, 2, 64, true, false, 0, 2}, {.n_lists = 8, .wide = true}},
    /* lists of blocks of queries */
    {{1, 300, 700, -1, 14, 2, 128, true, false, 0, 2},
     {.n_lists = 14, .wide = true, .lse = true, .list_block = 64}},
    {{1, 257, 257, 0, 8, 2, 64, true, false, 0, 1},
     {.n_lists = 2, .wide = true, .lse = true, .list_block = 64}},
    {{1, 140, 500, 200, 6, 6, 80, true, false, 90, 2}, {.n_lists = 6, .wide = true, .list_block = 128}},
    {{1, 20, 300, -1, 8, 2, 64, true, false, 0, 2}, {.n_lists = 8, .wide = true, .list_block = 8}},
    {{1, 140, 500, 200, 6, 6, 128, true, false, 90, 2}, {.n_lists = 6, .wide = true, .list_block = 64}},
    {{1, 200, 700, 0, 8, 2, 128, false, false, 0, 1},
     {.n_lists = 2, .wide = true, .lse = true, .list_block = 64}},
    {{1, 90, 400, 100, 8, 2, 64, true, false, 0, 0},
     {.wide = true, .lse = true}}, /* keys after the last query */
    {{1, 90, 50, -60, 8, 2, 64, true, false, 0, 0},
     {.wide = true, .lse = true}}, /* queries that see nothing */
    {{1, 1100, 1100, 0, 7, 1, 128, true, false, 0, 0}, {.wide = true}},
    {{1, 1030, 1500, -1, 4, 1, 64, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1024, 1536, -1, 2, 1, 128, true, false, 0, 0}, {.wide = true, .lse = true}}, /* a plan of its own */
    {{1, 100, 300, -1, 14, 2, 128, true, false, 0, 0}, {.wide = true, .far = (int64_t)1 << 23}},
    {{1, 300, 900, 123, 6, 2, 128, true, false, 0, 0}, {.wide = true, .lse = true}}, /* and on Hopper */
    {{1, 385, 1000, -1, 8, 4, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    /* few queries over many keys: one tile of rows and several, with keys behind the last query */
    {{1, 5, 3000, -1, 32, 8, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 64, 5000, -1, 28, 4, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 3, 1100, 1000, 14, 2, 128, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 33, 2000, 1400, 8, 2, 128, true, false, 0, 0}, {.wide = true}},
    /* chunks of a prompt with keys of their own */
    {{3, 128, 320, -1, 14, 2, 128, true, false, 0, 0}, {.wide = true, .own = true}},
    {{7, 130, 200, -1, 4, 2, 64, true, false, 0, 0}, {.wide = true, .own = true}},
    {{2, 512, 1000, -1, 7, 1, 128, true, false, 0, 0}, {.wide = true, .own = true}},
    {{3, 40, 100, -1, 8, 2, 64, true, false, 30, 0}, {.wide = true, .own = true}},
    /* towers */
    {{2, 257, 257, 0, 4, 4, 64, false, false, 0, 0}, {.wide = true}},
    {{3, 577, 577, 0, 2, 2, 64, false, false, 0, 0}, {.wide = true}},
    {{2, 196, 300, 0, 4, 2, 128, false, false, 0, 0}, {.wide = true}},
    {{2, 196, 196, 0, 3, 3, 72, false, false, 0, 0}, {.wide = true}},
    {{1, 100, 300, 0, 4, 4, 80, false, false, 0, 0}, {.wide = true}},
    {{1, 64, 64, 0, 4, 4, 80, false, false, 0, 0}, {.wide = true, .segments = windows}},
    {{1, 577, 577, 0, 2, 2, 64, false, false, 0, 0}, {.wide = true, .segments = pictures}},
    /* heads of more than 128 channels: steps, few queries, clusters of blocks and scratch, windows, lists */
    {{1, 1, 1, -1, 8, 4, 256, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 300, -1, 4, 1, 256, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 4097, -1, 16, 8, 256, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 3000, -1, 8, 4, 256, true, false, 1024, 0}, {.wide = true, .lse = true}},
    {{1, 1, 2050, -1, 28, 4, 136, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1, 900, -1, 6, 6, 160, true, false, 0, 0}, {.wide = true}},
    {{1, 5, 1700, -1, 8, 4, 192, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 3, 700, -1, 8, 1, 200, true, false, 100, 0}, {.wide = true}},
    {{1, 1, 1800, -1, 8, 2, 256, true, false, 0, 4}, {.n_lists = 8, .wide = true, .lse = true}},
    {{1, 1, 3000, -1, 8, 2, 256, true, false, 0, 1}, {.n_lists = 2, .wide = true, .lse = true, .uneven = true}},
    /* and many: tiles of 32 keys and 64 rows that are not full, windows shorter and longer than a tile */
    {{1, 64, 64, 0, 4, 1, 256, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 129, 161, -1, 8, 4, 256, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 300, 1100, 700, 4, 2, 256, true, false, 512, 0}, {.wide = true, .lse = true}},
    {{1, 100, 333, -1, 6, 6, 136, true, false, 17, 0}, {.wide = true}},
    {{1, 257, 500, -1, 4, 2, 160, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 90, 600, -1, 8, 2, 192, true, false, 0, 3}, {.wide = true, .lse = true}},
    {{1, 90, 50, -60, 8, 2, 256, true, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 256, 300, 0, 8, 4, 256, false, false, 0, 0}, {.wide = true, .lse = true}},
    {{1, 1040, 1100, -1, 4, 1, 256, true, false, 0, 0}, {.wide = true, .lse = true}}, /* for cuDNN where it goes */
    {{3, 40, 100, -1, 8, 2, 256, true, false, 30, 0}, {.wide = true, .own = true}},
    {{2, 65, 65, 0, 3, 3, 144, false, false, 0, 0}, {.wide = true}},
    /* rows of pictures that see one another, among others and in a window */
    {{1, 420, 420, 0, 8, 4, 256, true, false, 0, 0}, {.wide = true, .lse = true, .spans = picture_spans, .n_spans = 2}},
    {{1, 300, 500, 120, 4, 2, 256, true, false, 100, 0}, {.wide = true, .spans = picture_spans, .n_spans = 2}},
    /* capped scores: caps that bend many scores and caps that bend few, of every size of heads */
    {{1, 1, 1500, -1, 8, 4, 256, true, false, 0, 0}, {.wide = true, .lse = true, .softcap = 50}},
    {{1, 1, 2000, -1, 16, 8, 256, true, false, 700, 0}, {.wide = true, .lse = true, .softcap = 0.5f}},
    {{1, 1, 900, -1, 8, 2, 128, true, false, 0, 0}, {.wide = true, .lse = true, .softcap = 1}},
    {{1, 3, 333, -1, 4, 2, 72, true, false, 0, 0}, {.wide = true, .lse = true, .softcap = 0.25f}},
    {{1, 129, 300, -1, 8, 4, 256, true, false, 0, 0}, {.wide = true, .lse = true, .softcap = 50}},
    {{1, 300, 700, -1, 4, 2, 256, true, false, 128, 0}, {.wide = true, .lse = true, .softcap = 0.5f}},
    {{1, 150, 400, -1, 4, 2, 144, true, false, 0, 0}, {.wide = true, .softcap = 2}},
    {{1, 257, 300, -1, 8, 2, 128, true, false, 0, 0}, {.wide = true, .lse = true, .softcap = 1}},
    {{1, 1100, 1100, 0, 64, 8, 72, true, true, 64, 0}, {.wide = true, .lse = true, .softcap = 3}}, /* 128 rows a block */
    {{1, 100, 233, -1, 4, 2, 64, true, false, 0, 0}, {.wide = true, .softcap = 0.25f}},
};

/* Rows of x of the cases in which the first weight of a row, or of its half, is infinite. */
enum { N_INFINITE = 3 };
static const int64_t infinite[N_INFINITE] = {1, 5, 40};

static void put_infinity(sac_weight w, int64_t i) {
    const float x = INFINITY;
    const uint16_t half = w.tensor.dtype == SAC_DTYPE_F16 ? 0x7c00 : 0x7f80;
    uint8_t *at = (uint8_t *)w.tensor.data + sac_dtype_row_bytes(w.tensor.dtype, i);
    if (w.tensor.dtype == SAC_DTYPE_F32)
        memcpy(at, &x, sizeof x);
    else
        memcpy(at, &half, sizeof half);
}

/* What a kernel reads in place of what lies behind the end of a row must not be that weight. */
static bool make_infinite(check_case *c, int64_t m, sac_dtype t) {
    enum { K = 1000, SECOND_HALF = 512 /* of a row that is read as two: linear_gemv.cu */ };
    if (!check_make_linear_of(c, m, 40, K, t)) return false;
    sac_linear_args *a = &c->linear;
    a->act = SAC_ACT_NONE;
    put_infinity(a->w, 0);
    put_infinity(a->w, K + SECOND_HALF);
    snprintf(c->text, sizeof c->text, "%s %lld rows, a weight infinite", sac_dtype_name(t), (long long)m);
    return true;
}

/* Rows of x of the cases with a result in f32. */
enum { N_LOGITS = 3 };
static const int64_t logits[N_LOGITS] = {1, 7, 40};

enum { N_BLOCK_SHAPES = (int)SAC_COUNT(block_shapes), N_BLOCK_CASES = N_BLOCK_SHAPES * CHECK_BLOCK_TYPES };

/* The last, large shape with one type alone. */
static bool make_blocks(check_case *c, int i, sac_dtype t) {
    const int64_t *shape = block_shapes[i % N_BLOCK_SHAPES];
    const sac_dtype w = (sac_dtype)(SAC_DTYPE_Q8_0 + i / N_BLOCK_SHAPES);
    const bool is_large = i % N_BLOCK_SHAPES == N_BLOCK_SHAPES - 1;
    if (t == SAC_DTYPE_F32 || shape[2] % sac_dtype_block(w) || (is_large && w != SAC_DTYPE_Q4_K))
        return true; /* no buffers: left out */
    c->exact_x = true;
    c->f32_result = i % 3 == 0;
    return check_make_linear_of(c, shape[0], shape[1], shape[2], w);
}

static bool make_linear(check_case *c, int i, sac_dtype t) {
    const int n = (int)SAC_COUNT(linear_shapes);
    if (i >= n + N_INFINITE + N_LOGITS) return make_blocks(c, i - n - N_INFINITE - N_LOGITS, t);
    c->f32_result = i >= n + N_INFINITE;
    if (c->f32_result) return check_make_linear_of(c, logits[i - n - N_INFINITE], 3001, 1000, t);
    if (i >= n) return make_infinite(c, infinite[i - n], t);
    return check_make_linear_of(c, linear_shapes[i][0], linear_shapes[i][1], linear_shapes[i][2], t);
}

static int n_cases(check_op op) {
    switch ((int)op) {
    case CHECK_linear: return (int)SAC_COUNT(linear_shapes) + N_INFINITE + N_LOGITS + N_BLOCK_CASES;
    case CHECK_attention: return (int)SAC_COUNT(attention_cases);
    default: return cuda_n_key_cases(op);
    }
}
/* And behind them those of weights whose scales lie apart. */
static int n_all_cases(check_op op) {
    return n_cases(op) + cuda_n_code_cases(op);
}

int cuda_n_cases(check_op op) {
    return 3 * n_all_cases(op);
}

sac_dtype cuda_case_type(check_op op, int i) {
    static const sac_dtype types[] = {SAC_DTYPE_BF16, SAC_DTYPE_F16, SAC_DTYPE_F32};
    int n = n_all_cases(op);
    return n && i < 3 * n ? types[i / n] : SAC_DTYPE_F32;
}

const char *cuda_case_weights(check_op op, int i) {
    return cuda_code_case_type(op, i % n_all_cases(op) - n_cases(op));
}

bool cuda_make_case(check_case *c, check_op op, int i) {
    if (i >= 3 * n_all_cases(op)) return false;
    sac_dtype t = cuda_case_type(op, i);
    i %= n_all_cases(op);
    if (i >= n_cases(op)) {
        cuda_make_code_case(c, op, i - n_cases(op), t);
        return true;
    }
    if (op != CHECK_linear && op != CHECK_attention) return cuda_make_key_case(c, i, t);
    if (op == CHECK_linear) return make_linear(c, i, t);
    const attention_case *a = &attention_cases[i];
    if (t == SAC_DTYPE_F32 && (a->extra.far || a->shape.n_q > 300)) return true; /* no buffers: left out */
    return check_make_attention_of(c, &a->shape, t, &a->extra);
}

#define VARIANT(op, name)                                                                                    \
    static void plant_##op##_##name(sac_ops *t) {                                                            \
        t->op = sac_cuda_##op##_##name;                                                                      \
    }
VARIANT(linear, any)
VARIANT(linear, lt)
VARIANT(linear, gemv)
VARIANT(linear, blocks)
VARIANT(attention, any)
VARIANT(attention, decode)
VARIANT(attention, uneven)
VARIANT(attention, flash)
VARIANT(attention, lists)
VARIANT(attention, cudnn)
VARIANT(attention, hopper)
VARIANT(attention, hopper_long)
VARIANT(attention, spread)
VARIANT(packed_step, any)
VARIANT(packed_step, mma)
VARIANT(even_step, any)
VARIANT(even_step, mma)

const cuda_variant cuda_variants[] = {
    {"any", CHECK_linear, plant_linear_any},
    {"cublaslt", CHECK_linear, plant_linear_lt},
    {"gemv", CHECK_linear, plant_linear_gemv},
    {"blocks", CHECK_linear, plant_linear_blocks},
    {"any", CHECK_attention, plant_attention_any},
    {"decode", CHECK_attention, plant_attention_decode},
    {"uneven", CHECK_attention, plant_attention_uneven},
    {"flash", CHECK_attention, plant_attention_flash},
    {"lists", CHECK_attention, plant_attention_lists},
    {"cudnn", CHECK_attention, plant_attention_cudnn},
    {"hopper", CHECK_attention, plant_attention_hopper},
    {"hopper_long", CHECK_attention, plant_attention_hopper_long},
    {"spread", CHECK_attention, plant_attention_spread},
    {"any", CHECK_packed_step, plant_packed_step_any},
    {"mma", CHECK_packed_step, plant_packed_step_mma},
    {"any", CHECK_even_step, plant_even_step_any},
    {"mma", CHECK_even_step, plant_even_step_mma},
};
const int cuda_n_variants = (int)SAC_COUNT(cuda_variants);
