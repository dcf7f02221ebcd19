/* cases_even.c - cases of even_factors, pack_even, unpack_even and even_step. Codes under given factors have the same bits
 * everywhere; factors depend on which round was kept. */
#include "check.h"
#include "even_tiles.h"

#include <math.h>

#define EPS 0x1p-24

enum { ROWS = SAC_EVEN_TILE };

static int64_t tile_words(int n_heads, int d, int k_bits, int v_bits) {
    return (int64_t)sac_even_tile_bytes(n_heads, d, k_bits, v_bits) / 4;
}

/* ---------------------------------------------------------------- rows to tiles and back */

static const struct rows_shape {
    int64_t n, first;
    int n_heads, head_dim, k_bits, v_bits;
    check_values values;
} shapes[] = {
    {1, 0, 1, 64, 4, 2, CHECK_UNIFORM},   {2, 5, 2, 128, 4, 2, CHECK_OUTLIERS}, {3, 1, 4, 128, 4, 4, CHECK_UNIFORM},
    {1, 7, 3, 32, 2, 2, CHECK_LARGE},     {2, 0, 2, 64, 8, 8, CHECK_OUTLIERS},  {1, 9, 1, 256, 2, 8, CHECK_UNIFORM},
    {1, 2, 2, 64, 2, 4, CHECK_LARGE},      {1, 0, 1, 256, 8, 2, CHECK_TIES},     {9, 3, 1, 32, 4, 8, CHECK_UNIFORM},
};
static const sac_dtype types[] = {SAC_DTYPE_F16, SAC_DTYPE_BF16, SAC_DTYPE_F32};
static const struct rows_shape narrow = {2, 3, 3, 4, 4, 2, CHECK_UNIFORM}; /* fewer channels than a word has */

static void find_all(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first) {
    static float scratch[SAC_EVEN_SCRATCH_FLOATS];
    for (int64_t i = 0; i < sac_even_n_tasks(t); i++) sac_even_find(t, kv, first, i, scratch);
}
static void pack_all(const sac_even_tiles *t, const sac_kv_view *kv, int64_t first) {
    static float scratch[SAC_EVEN_SCRATCH_FLOATS];
    for (int64_t i = 0; i < sac_even_n_tasks(t); i++) sac_even_pack(t, kv, first, i, scratch);
}

/* Tiles as words, or, where factors are compared, as halves. */
static sac_even_tiles make_tiles(check_case *c, const struct rows_shape *sh, bool output) {
    const bool as_halves = c->op == CHECK_even_factors;
    const int64_t n = sh->n * tile_words(sh->n_heads, sh->head_dim, sh->k_bits, sh->v_bits) * (as_halves ? 2 : 1);
    uint8_t *at = check_buffer_add(c, output, as_halves ? SAC_DTYPE_F16 : SAC_DTYPE_F32, 1, n, n, 4);
    c->buffer[c->n_buffers - 1].integers = !as_halves;
    return (sac_even_tiles){at, sh->n, sh->n_heads, sh->head_dim, sh->k_bits, sh->v_bits};
}

bool check_make_even(check_case *c, int i) {
    const int n_shapes = (int)SAC_COUNT(shapes), type = i / n_shapes;
    /* With few channels all factors shrink from round to round by as much as a mistake would change them. */
    const bool is_narrow = i == 3 * n_shapes && c->op != CHECK_even_factors;
    const struct rows_shape *sh = is_narrow ? &narrow : &shapes[i % n_shapes];
    if (type >= 3 && !is_narrow) return false;
    check_kv_shape kv_shape = {.dtype = types[is_narrow ? 2 : type],
                               .n_heads = sh->n_heads,
                               .head_dim = sh->head_dim,
                               .n_rows = sh->first + sh->n * ROWS,
                               .n_valid = sh->first + sh->n * ROWS,
                               .k = sh->values,
                               .v = sh->values};
    sac_kv_view kv = check_kv(c, &kv_shape, NULL, NULL);
    const sac_even_tiles t = make_tiles(c, sh, c->op != CHECK_unpack_even);
    kv.n_rows = kv_shape.n_rows;
    if (c->op != CHECK_even_factors) find_all(&t, &kv, sh->first);
    if (c->op == CHECK_unpack_even) {
        pack_all(&t, &kv, sh->first);
        kv_shape.output = true;
        kv = check_kv(c, &kv_shape, NULL, NULL);
        kv.n_rows = kv_shape.n_rows;
        c->unpack_even = (sac_unpack_even_args){t, kv, sh->first};
    }
    if (c->op == CHECK_pack_even) c->pack_even = (sac_pack_even_args){t, kv, sh->first};
    c->exact = c->same_bits = true;
    if (c->op == CHECK_even_factors) {
        c->even_factors = (sac_even_factors_args){t, kv, sh->first};
        c->exact = false;
        check_allow(c, sh->n * tile_words(sh->n_heads, sh->head_dim, sh->k_bits, sh->v_bits) * 2);
        c->relative = sh->values == CHECK_OUTLIERS ? 0.4 : 0.15; /* a card kept a round that had 0.72 of the other's, all alike */
    }
    snprintf(c->text, sizeof c->text, "%s %lld tiles from %lld, %dx%d, %d and %d bits %s", sac_dtype_name(kv.dtype),
             (long long)sh->n, (long long)sh->first, sh->n_heads, sh->head_dim, sh->k_bits, sh->v_bits,
             check_values_name(sh->values));
    return true;
}

/* ---------------------------------------------------------------- a step */

/* Either run alone, both, neither; more tiles than warps of a card; groups of 1, 3, 7, 8 and 9 heads; heads that are of the
 * common sizes and not. */
static const struct step_shape {
    int head_dim, n_heads, n_kv_heads;
    int64_t n_first, n_others;
    int first_bits, k_bits, v_bits;
    int64_t n_tail;
    bool by_head; /* the tail's order of rows and heads */
} step_shapes[] = {
    {128, 28, 4, 1, 5, 8, 4, 2, 50, true},   {64, 14, 2, 1, 3, 8, 4, 2, 127, true},  {128, 8, 1, 1, 0, 8, 4, 2, 1, false},
    {128, 9, 1, 0, 4, 8, 4, 4, 128, true},   {64, 4, 4, 1, 2, 4, 2, 2, 33, false},   {128, 6, 2, 1, 2, 2, 2, 4, 16, true},
    {64, 6, 2, 1, 2, 2, 8, 8, 15, true},     {128, 7, 1, 1, 3, 4, 8, 2, 0, true},    {64, 7, 1, 1, 1, 8, 2, 8, 70, true},
    {128, 2, 2, 1, 1, 8, 8, 4, 9, true},     {64, 3, 1, 1, 1, 8, 4, 8, 3, false},    {128, 16, 16, 1, 40, 8, 4, 2, 20, true},
    {64, 8, 1, 1, 600, 8, 4, 2, 31, true},   {128, 28, 4, 0, 0, 8, 4, 2, 77, true},  {32, 6, 2, 1, 2, 8, 4, 2, 40, true},
    {256, 4, 2, 1, 1, 8, 2, 4, 5, true},     {16, 3, 3, 1, 3, 4, 4, 2, 0, false},    {128, 14, 2, 1, 90, 8, 2, 2, 100, true},
    {128, 64, 8, 1, 130, 4, 4, 4, 64, true},
};

/* Random codes under sane ranges and factors. */
static sac_even_tiles make_run(check_case *c, const struct step_shape *sh, int64_t n, int k_bits, int v_bits) {
    const int heads = sh->n_kv_heads, d = sh->head_dim;
    const int64_t words = n * tile_words(heads, d, k_bits, v_bits);
    uint32_t *at = check_buffer_add(c, false, SAC_DTYPE_F32, 1, words, words, 4);
    sac_even_tiles t = {(uint8_t *)at, n, heads, d, k_bits, v_bits};
    for (int64_t i = 0; i < words; i++) at[i] = (uint32_t)check_rand(&c->rng);
    for (int64_t i = 0; i < n; i++) {
        const sac_even_tile tile = sac_even_tile_at(&t, i);
        const struct {
            uint16_t *x;
            int64_t n;
            double low, high;
        } halves[] = {{tile.keys.k_scale, heads * d, 0, 2.0 / ((1 << k_bits) - 1)},
                      {tile.keys.k_min, heads * d, -1, 0},
                      {tile.factor, heads * ROWS, 0.3, 2},
                      {tile.values.v_scale, heads * ROWS, 0, 2.0 / ((1 << v_bits) - 1)},
                      {tile.values.v_min, heads * ROWS, -1, 0},
                      {tile.values.v_channel, heads * d, 0.1, 2}};
        for (size_t j = 0; j < SAC_COUNT(halves); j++)
            for (int64_t k = 0; k < halves[j].n; k++)
                halves[j].x[k] = sac_f32_to_f16((float)(halves[j].low + (halves[j].high - halves[j].low) * check_rand_unit(c)));
    }
    return t;
}

static sac_kv_view make_tail(check_case *c, const struct step_shape *sh, sac_dtype t) {
    const int64_t rows = sh->n_tail + 3, cols = (int64_t)sh->n_kv_heads * sh->head_dim, n = rows * cols;
    sac_kv_view kv = {.dtype = t, .n_heads = sh->n_kv_heads, .head_dim = sh->head_dim, .n_rows = sh->n_tail};
    kv.row_stride = sh->by_head ? sh->head_dim : cols;
    kv.head_stride = sh->by_head ? rows * sh->head_dim : sh->head_dim;
    for (int i = 0; i < 2; i++) {
        uint8_t *x = check_buffer_add(c, false, t, 1, n, n, 0);
        for (int64_t j = 0; j < n; j++) {
            float f = (float)(2 * check_rand_unit(c) - 1);
            uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
            memcpy(x + j * (t == SAC_DTYPE_F32 ? 4 : 2), t == SAC_DTYPE_F32 ? (void *)&f : (void *)&h, t == SAC_DTYPE_F32 ? 4 : 2);
        }
        if (i)
            kv.v = x;
        else
            kv.k = x;
    }
    return kv;
}

int check_n_even_steps(void) {
    return (int)SAC_COUNT(step_shapes);
}

/* Scores are about 1, sums of two halves a number (2^-22 of it); rows mix to less than 4. */
bool check_make_even_step(check_case *c, int i, sac_dtype t) {
    if (i >= check_n_even_steps()) return false;
    const struct step_shape *sh = &step_shapes[i];
    const int64_t cols = (int64_t)sh->n_heads * sh->head_dim, n_rows = (sh->n_first + sh->n_others) * ROWS + sh->n_tail;
    sac_even_step_args *a = &c->even_step;
    *a = (sac_even_step_args){.n_heads = sh->n_heads, .scale = 1 / sqrtf((float)sh->head_dim)};
    if (sh->n_first) a->tiles[0] = make_run(c, sh, sh->n_first, sh->first_bits, sh->first_bits);
    if (sh->n_others) a->tiles[1] = make_run(c, sh, sh->n_others, sh->k_bits, sh->v_bits);
    a->tail = make_tail(c, sh, t);
    a->q = check_mat(c, true, 1, cols, 0, 0, CHECK_UNIFORM);
    a->lse = check_mat(c, true, 1, sh->n_heads, 0, 0, CHECK_UNIFORM).data;
    double *allowed = check_allow(c, cols + sh->n_heads);
    for (int64_t j = 0; j < cols + sh->n_heads; j++)
        allowed[j] = j < cols ? 2 * (0x1p-14 + sqrt((double)n_rows) * (0x1p-19 + EPS)) : 0x1p-15;
    c->relative = 8 * EPS;
    c->same_bits = true;
    snprintf(c->text, sizeof c->text, "%s tiles=%lld+%lld tail=%lld heads=%d/%d d=%d bits=%d, %d and %d", sac_dtype_name(t),
             (long long)sh->n_first, (long long)sh->n_others, (long long)sh->n_tail, sh->n_heads, sh->n_kv_heads,
             sh->head_dim, sh->first_bits, sh->k_bits, sh->v_bits);
    return true;
}
