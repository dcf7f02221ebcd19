/* Keys and values in pages: whatever pages they lie in, attention gives the bits that it gives of the same rows one
 * behind another, in the reference and in the variants of every instruction set. */
#include "cpu_flags.h"
#include "ops.h"
#include "test.h"

enum { HEADS = 6, KV_HEADS = 2, D = 40, COLS = HEADS * D, MOST = 700 };

typedef struct setting {
    int64_t n_q, n_kv, window;
    int page_rows, list; /* keys by a list, of every so manieth row; 0: all rows */
    bool causal;
} setting;

static const setting settings[] = {
    {1, 300, 0, 16, 0, true}, {1, 700, 0, 64, 0, true},   {1, 257, 0, 256, 0, false},
    {97, 97, 0, 7, 0, true},  {60, 400, 50, 48, 0, true}, {20, 333, 0, 32, 3, true},
    {1, 500, 0, 1, 2, true},  {5, 20, 0, 33, 0, true},    {1, 128, 0, 64, 0, true},
};

typedef struct rig {
    sac_pool *pool;
    sac_arena arena;
    sac_stream stream;
    uint8_t *flat[2], *paged[2]; /* keys, values */
    float *q, *o[2], *lse[2];
    int32_t pages[MOST];
    int32_t rows[MOST];
    int64_t start[2];
} rig;

static size_t element(sac_dtype t) {
    return sac_dtype_row_bytes(t, 1);
}

static void draw(rig *r, sac_dtype t, uint64_t *seed) {
    for (int i = 0; i < 2; i++)
        for (int64_t e = 0; e < (int64_t)MOST * KV_HEADS * D; e++) {
            float x = test_rand_float(seed);
            uint16_t half = t == SAC_DTYPE_F16 ? sac_f32_to_f16(x) : sac_f32_to_bf16(x);
            memcpy(r->flat[i] + (size_t)e * element(t), t == SAC_DTYPE_F32 ? (void *)&x : (void *)&half,
                   element(t));
        }
    for (int64_t e = 0; e < (int64_t)MOST * COLS; e++) r->q[e] = test_rand_float(seed);
}

/* Rows to pages that stand in another order than the table's, between others; the rest is no number. */
static sac_kv_view put_in_pages(rig *r, const sac_kv_view *flat, int page_rows) {
    sac_kv_view p = *flat;
    int n_pages = (int)((flat->n_rows + page_rows - 1) / page_rows);
    p.pages = r->pages;
    p.page_rows = page_rows;
    p.row_stride = D, p.head_stride = (int64_t)page_rows * D;
    p.page_stride = KV_HEADS * p.head_stride;
    p.k = r->paged[0], p.v = r->paged[1];
    for (int i = 0; i < n_pages; i++) r->pages[i] = 2 * ((i * 5 + 1) % n_pages) + i % 2;
    if (n_pages % 5 == 0)
        for (int i = 0; i < n_pages; i++) r->pages[i] = 2 * (n_pages - 1 - i) + i % 2;
    for (int i = 0; i < 2; i++) {
        memset(r->paged[i], 0xff, (size_t)(2 * n_pages * p.page_stride) * element(p.dtype));
        for (int h = 0; h < KV_HEADS; h++)
            for (int64_t row = 0; row < flat->n_rows; row++)
                memcpy(r->paged[i] + (size_t)(sac_kv_row_at(&p, row) + h * p.head_stride) * element(p.dtype),
                       r->flat[i] +
                           (size_t)(row * flat->row_stride + h * flat->head_stride) * element(p.dtype),
                       (size_t)D * element(p.dtype));
    }
    return p;
}

static const sac_row_lists *list_of(rig *r, const setting *s, sac_row_lists *l) {
    if (!s->list) return NULL;
    r->start[0] = r->start[1] = 0;
    for (int64_t i = 1; i < s->n_kv; i += s->list) r->rows[r->start[1]++] = (int32_t)i;
    *l = (sac_row_lists){r->rows, r->start, 1};
    return l;
}

static void run(rig *r, const sac_ops *ops, const setting *s, const sac_kv_view *kv, int out) {
    sac_row_lists l;
    memset(r->o[out], 0x7f, sizeof(float) * (size_t)s->n_q * COLS);
    assert_int_equal(
        ops->attention(&r->stream, &(sac_attention_args){.o = sac_mat_f32(r->o[out], s->n_q, COLS),
                                                         .q = sac_mat_f32(r->q, s->n_q, COLS),
                                                         .kv = *kv,
                                                         .lists = list_of(r, s, &l),
                                                         .lse = r->lse[out],
                                                         .n_q = s->n_q,
                                                         .n_kv = s->n_kv,
                                                         .first = s->n_kv - s->n_q,
                                                         .n_batch = 1,
                                                         .n_heads = HEADS,
                                                         .scale = 0.2f,
                                                         .causal = s->causal,
                                                         .window = s->window}),
        SAC_OK);
}

static bool are_equal(const rig *r, const setting *s) {
    return !memcmp(r->o[0], r->o[1], sizeof(float) * (size_t)s->n_q * COLS) &&
           !memcmp(r->lse[0], r->lse[1], sizeof(float) * (size_t)s->n_q * HEADS);
}

/* And with a wrong last entry of the table they are others: the comparison sees where rows come from. */
static void compare(rig *r, const sac_ops *ops, const setting *s, sac_dtype t) {
    sac_kv_view flat = {.k = r->flat[0],
                        .v = r->flat[1],
                        .dtype = t,
                        .n_heads = KV_HEADS,
                        .head_dim = D,
                        .n_rows = s->n_kv,
                        .row_stride = KV_HEADS * D,
                        .head_stride = D};
    sac_kv_view paged = put_in_pages(r, &flat, s->page_rows);
    run(r, ops, s, &flat, 0);
    run(r, ops, s, &paged, 1);
    assert_true(are_equal(r, s));
    if (s->n_kv <= s->page_rows) return;
    r->pages[(s->n_kv - 1) / s->page_rows] = r->pages[0];
    run(r, ops, s, &paged, 1);
    assert_false(are_equal(r, s));
}

static void rig_open(rig *r) {
    sac_error err;
    size_t n = (size_t)MOST * KV_HEADS * D * sizeof(float);
    memset(r, 0, sizeof *r);
    assert_ok(sac_pool_create(&r->pool, 2, &err), err);
    assert_ok(sac_arena_open(&r->arena, (size_t)1 << 26, &err), err);
    assert_ok(sac_stream_init(&r->stream, r->pool, &r->arena, 1 << 20, &err), err);
    for (int i = 0; i < 2; i++) {
        r->flat[i] = sac_arena_take(&r->arena, n);
        r->paged[i] = sac_arena_take(&r->arena, 5 * n);
        r->o[i] = sac_arena_take(&r->arena, sizeof(float) * MOST * COLS);
        r->lse[i] = sac_arena_take(&r->arena, sizeof(float) * MOST * HEADS);
    }
    r->q = sac_arena_take(&r->arena, sizeof(float) * MOST * COLS);
    assert_non_null(r->q);
}

static void rows_in_pages_are_the_same_rows(void **state) {
    static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
    static rig r;
    sac_ops ops[3];
    uint64_t seed = 5;
    (void)state;
    rig_open(&r);
    sac_ops_init_ref(&ops[0]);
    sac_ops_init_cpu(&ops[1], sac_cpu_flags() & SAC_CPU_AVX2);
    sac_ops_init_cpu(&ops[2], sac_cpu_flags());
    for (size_t t = 0; t < SAC_COUNT(types); t++) {
        draw(&r, types[t], &seed);
        for (size_t i = 0; i < SAC_COUNT(settings); i++)
            for (int k = 0; k < 3; k++) compare(&r, &ops[k], &settings[i], types[t]);
    }
    sac_arena_free(&r.arena);
    sac_pool_free(r.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_in_pages_are_the_same_rows)};
    return cmocka_run_group_tests_name("keys and values in pages", tests, NULL, NULL);
}
