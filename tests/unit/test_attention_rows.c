/* Rows of one sequence that follow one another, each a step's attention of its own: attention_many reads their keys once for all,
 * and gives each the bits that attention gives it. Values behind a row's own are no numbers, so that whoever looks at them shows. */
#include "cpu_flags.h"
#include "ops.h"
#include "test.h"

#include <math.h>

enum { MOST_KV = 5200, MOST_Q = 32, MOST_COLS = 16 * 72 };

typedef struct setting {
    int64_t first, n, window;
    int heads, kv_heads, d;
    float softcap;
} setting;

static const setting settings[] = {
    {0, 4, 0, 4, 2, 64, 0},      {120, 20, 0, 6, 2, 40, 0},   {500, 8, 0, 9, 3, 64, 0},   {1020, 12, 0, 4, 4, 128, 0},
    {1100, 32, 0, 14, 2, 64, 0}, {4093, 6, 0, 8, 1, 64, 0},   {2047, 5, 0, 16, 1, 64, 0}, {700, 7, 0, 4, 2, 37, 0},
    {300, 6, 100, 4, 2, 64, 0},  {90, 20, 100, 4, 2, 64, 0},  {1000, 6, 0, 4, 2, 64, 30}, {5120, 31, 0, 2, 2, 128, 0},
    {3000, 2, 0, 16, 8, 72, 0},  {127, 3, 0, 3, 3, 8, 0},
};

typedef struct rig {
    sac_pool *pool;
    sac_arena arena;
    sac_stream stream;
    uint8_t *k, *v;
    float *q, *o[2];
} rig;

static void put(uint8_t *to, sac_dtype t, float x) {
    uint16_t half = t == SAC_DTYPE_F16 ? sac_f32_to_f16(x) : sac_f32_to_bf16(x);
    memcpy(to, t == SAC_DTYPE_F32 ? (void *)&x : (void *)&half, sac_dtype_row_bytes(t, 1));
}

static sac_kv_view draw(rig *r, const setting *s, sac_dtype t, uint64_t *seed) {
    const size_t element = sac_dtype_row_bytes(t, 1);
    const int64_t n = s->first + s->n;
    sac_kv_view kv = {.k = r->k, .v = r->v, .dtype = t, .n_heads = s->kv_heads, .head_dim = s->d, .n_rows = n,
                      .row_stride = s->d, .head_stride = n * s->d};
    for (int64_t i = 0; i < n * s->kv_heads * s->d; i++) {
        put(r->k + (size_t)i * element, t, test_rand_float(seed));
        put(r->v + (size_t)i * element, t, test_rand_float(seed));
    }
    for (int64_t i = 0; i < s->n * s->heads * s->d; i++) r->q[i] = 2 * test_rand_float(seed);
    return kv;
}

/* Those of the rows behind `row` become NAN, or what they were: kept holds them. */
static void hide(const sac_kv_view *kv, int64_t row, uint8_t *kept, bool back) {
    const size_t element = sac_dtype_row_bytes(kv->dtype, 1), row_bytes = element * (size_t)kv->head_dim;
    for (int h = 0; h < kv->n_heads; h++)
        for (int64_t i = row + 1; i < kv->n_rows; i++)
            for (int v = 0; v < 2; v++, kept += row_bytes) {
                uint8_t *at = (uint8_t *)(v ? kv->v : kv->k) + (size_t)(h * kv->head_stride + i * kv->row_stride) * element;
                if (back) {
                    memcpy(at, kept, row_bytes);
                    continue;
                }
                memcpy(kept, at, row_bytes);
                for (int c = 0; c < kv->head_dim; c++) put(at + (size_t)c * element, kv->dtype, NAN);
            }
}

static void compare(rig *r, const sac_ops *ops, const setting *s, const sac_kv_view *kv) {
    static uint8_t kept[MOST_Q * 8 * 128 * 4 * 2 * 2];
    const int64_t cols = (int64_t)s->heads * s->d;
    sac_attention_args each[MOST_Q];
    for (int64_t i = 0; i < s->n; i++)
        each[i] = (sac_attention_args){.o = sac_mat_f32(r->o[0] + i * cols, 1, cols),
                                       .q = sac_mat_f32(r->q + i * cols, 1, cols),
                                       .kv = *kv,
                                       .n_q = 1,
                                       .n_kv = s->first + i + 1,
                                       .first = s->first + i,
                                       .n_batch = 1,
                                       .n_heads = s->heads,
                                       .scale = 0.2f,
                                       .causal = true,
                                       .window = s->window,
                                       .softcap = s->softcap};
    assert_int_equal(ops->attention_many(&r->stream, &(sac_attention_many_args){each, (int)s->n}), SAC_OK);
    for (int64_t i = 0; i < s->n; i++) {
        each[i].o.data = r->o[1] + i * cols;
        hide(kv, s->first + i, kept, false);
        assert_int_equal(ops->attention(&r->stream, &each[i]), SAC_OK);
        hide(kv, s->first + i, kept, true);
        if (memcmp(r->o[0] + i * cols, r->o[1] + i * cols, (size_t)cols * sizeof(float)))
            fail_msg("row %lld of %lld behind %lld, %d/%d heads of %d", (long long)i, (long long)s->n, (long long)s->first,
                     s->heads, s->kv_heads, s->d);
    }
    /* what the last row alone sees is none of the others' */
    for (int c = 0; c < s->d; c++)
        put((uint8_t *)kv->v + (size_t)((kv->n_rows - 1) * kv->row_stride + c) * sac_dtype_row_bytes(kv->dtype, 1), kv->dtype, INFINITY);
    for (int64_t i = 0; i < s->n; i++) each[i].o.data = r->o[0] + i * cols;
    assert_int_equal(ops->attention_many(&r->stream, &(sac_attention_many_args){each, (int)s->n}), SAC_OK);
    assert_memory_equal(r->o[0], r->o[1], (size_t)((s->n - 1) * cols) * sizeof(float));
    /* in place, as a decoder has it */
    for (int64_t i = 0; i < s->n; i++) each[i].o = each[i].q;
    assert_int_equal(ops->attention_many(&r->stream, &(sac_attention_many_args){each, (int)s->n}), SAC_OK);
    assert_memory_equal(r->q, r->o[0], (size_t)(s->n * cols) * sizeof(float));
}

static void rows_have_the_bits_of_steps(void **state) {
    static const sac_dtype types[] = {SAC_DTYPE_F16, SAC_DTYPE_BF16, SAC_DTYPE_F32};
    rig r = {0};
    sac_error err;
    sac_ops ops[3];
    uint64_t seed = 7;
    (void)state;
    assert_ok(sac_pool_create(&r.pool, 2, &err), err);
    assert_ok(sac_arena_open(&r.arena, (size_t)1 << 26, &err), err);
    assert_ok(sac_stream_init(&r.stream, r.pool, &r.arena, 1 << 20, &err), err);
    r.k = sac_arena_take(&r.arena, (size_t)MOST_KV * 512 * 4);
    r.v = sac_arena_take(&r.arena, (size_t)MOST_KV * 512 * 4);
    r.q = sac_arena_take(&r.arena, sizeof(float) * MOST_Q * MOST_COLS);
    for (int i = 0; i < 2; i++) r.o[i] = sac_arena_take(&r.arena, sizeof(float) * MOST_Q * MOST_COLS);
    assert_non_null(r.o[1]);
    sac_ops_init_ref(&ops[0]);
    sac_ops_init_cpu(&ops[1], sac_cpu_flags() & SAC_CPU_AVX2);
    sac_ops_init_cpu(&ops[2], sac_cpu_flags());
    for (size_t t = 0; t < SAC_COUNT(types); t++)
        for (size_t i = 0; i < SAC_COUNT(settings); i++)
            for (int k = t || settings[i].first > 1100; k < 3; k++) {
                const sac_kv_view kv = draw(&r, &settings[i], types[t], &seed);
                compare(&r, &ops[k], &settings[i], &kv);
            }
    sac_arena_free(&r.arena);
    sac_pool_free(r.pool);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_have_the_bits_of_steps)};
    return cmocka_run_group_tests_name("attention of rows that follow one another", tests, NULL, NULL);
}
