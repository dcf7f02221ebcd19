/* linear over plain weights: each level of AVX-512 gives the bits of the one before it, whatever numbers the weights are. */
#include "cpu_flags.h"
#include "ops.h"
#include "test.h"

#include <stdlib.h>

enum { ROWS = 33, COLS = 67, MOST_K = 403 };

static const sac_dtype dtypes[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
static uint32_t weights[COLS * MOST_K];
static float x[ROWS * MOST_K];

/* Half weights of any bits below 2; those of f32 are drawn as numbers. */
static void draw(sac_dtype t, uint64_t *seed) {
    uint16_t *half = (uint16_t *)(void *)weights;
    for (int i = 0; i < COLS * MOST_K; i++) {
        const float f = (float)test_rand_int(seed, -1000, 1000) / 1024;
        const uint16_t any = (uint16_t)(test_rand_int(seed, 0, 0x3fff) | test_rand_int(seed, 0, 1) << 15);
        if (t == SAC_DTYPE_F32)
            memcpy(&weights[i], &f, sizeof f);
        else
            half[i] = any;
    }
    for (int i = 0; i < ROWS * MOST_K; i++) x[i] = (float)test_rand_int(seed, -1000, 1000) / 512;
}

static void run(unsigned level, sac_dtype t, int64_t m, int64_t k, bool steady, float *y) {
    sac_error err;
    sac_pool *pool;
    sac_arena arena;
    sac_stream stream;
    sac_ops ops;
    sac_ops_init_cpu(&ops, level);
    const size_t scratch = ops.linear_scratch_bytes(m, k) + 64;
    assert_ok(sac_pool_create(&pool, 1, &err), err);
    assert_ok(sac_arena_open(&arena, sac_stream_bytes(1, scratch), &err), err);
    assert_ok(sac_stream_init(&stream, pool, &arena, scratch, &err), err);
    const sac_weight w = sac_weight_of((sac_tensor){weights, t, 2, {COLS, k}});
    assert_int_equal(ops.linear(&stream, &(sac_linear_args){.y = sac_mat_f32(y, m, COLS),
                                                            .x = sac_mat_f32(x, m, k),
                                                            .w = w,
                                                            .steady = steady}),
                     SAC_OK);
    sac_arena_free(&arena);
    sac_pool_free(pool);
}

static void levels_give_the_same_bits(void **state) {
    (void)state;
    const unsigned avx512 = SAC_CPU_AVX2 | SAC_CPU_AVX512,
                   vbmi = avx512 | SAC_CPU_AVX512_VNNI | SAC_CPU_AVX512_VBMI;
    static const int64_t rows[] = {1, 2, 6, 7, ROWS}, lengths[] = {5, 16, 384, MOST_K};
    static float want[ROWS * COLS], got[ROWS * COLS];
    uint64_t seed = 11;
    if ((sac_cpu_flags() & vbmi) != vbmi) skip();
    for (size_t t = 0; t < SAC_COUNT(dtypes); t++)
        for (size_t i = 0; i < SAC_COUNT(rows); i++)
            for (size_t k = 0; k < SAC_COUNT(lengths); k++) {
                draw(dtypes[t], &seed);
                for (int steady = 0; steady < 2; steady++) {
                    run(avx512, dtypes[t], rows[i], lengths[k], steady, want);
                    run(vbmi, dtypes[t], rows[i], lengths[k], steady, got);
                    assert_memory_equal(got, want, (size_t)(rows[i] * COLS) * sizeof *got);
                }
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(levels_give_the_same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
