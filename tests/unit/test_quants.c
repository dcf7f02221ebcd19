#include "block_numbers.h"
#include "quants.h"
#include "test.h"

#include <math.h>

/* tools/make_quant_goldens.py */
static void rows_equal_the_gguf_package(void **state) {
    (void)state;
    for (sac_dtype t = 0; t < SAC_DTYPE_I8; t++) {
        char path[64];
        snprintf(path, sizeof path, "tests/golden/quants/%s.bin", sac_dtype_name(t));
        FILE *f = fopen(path, "rb");
        if (!f) fail_msg("%s: cannot open", path);
        int32_t n;
        assert_int_equal(fread(&n, sizeof n, 1, f), 1);
        size_t row_bytes = sac_dtype_row_bytes(t, n);
        void *row = malloc(row_bytes);
        float *want = malloc((size_t)n * sizeof *want), *got = malloc((size_t)n * sizeof *got);
        assert_int_equal(fread(row, 1, row_bytes, f), row_bytes);
        assert_int_equal(fread(want, sizeof *want, (size_t)n, f), n);
        fclose(f);
        sac_dequantize_row(t, row, got, n);
        for (int i = 0; i < n; i++)
            if (memcmp(&got[i], &want[i], sizeof *got) != 0)
                fail_msg("%s[%d]: got %a, want %a", sac_dtype_name(t), i, (double)got[i], (double)want[i]);
        free(row);
        free(want);
        free(got);
    }
}

/* A row of random blocks with scales of ordinary size. */
static void random_row(sac_dtype t, uint8_t *row, int64_t n, uint64_t *seed) {
    size_t size = (size_t)sac_dtype_block_bytes(t);
    for (uint8_t *b = row; b < row + sac_dtype_row_bytes(t, n); b += size) {
        for (size_t i = 0; i < size; i++) b[i] = (uint8_t)test_rand(seed);
        float d = test_rand_float(seed);
        block_put_numbers(t, b, d, test_rand_float(seed));
    }
}

/* An activation is off by at most half a step of its block, so a product by at most that times sum |w|. */
static void products_are_as_close_as_the_rounding(void **state) {
    (void)state;
    enum { n = 1024 };
    static uint8_t row[4096], xq[8192];
    static float x[n], w[n];
    uint64_t seed = 1;
    for (sac_dtype t = SAC_DTYPE_Q8_0; t < SAC_DTYPE_I8; t++) {
        for (int round = 0; round < 20; round++) {
            random_row(t, row, n, &seed);
            for (int i = 0; i < n; i++) x[i] = test_rand_float(&seed) * (i % 97 == 0 ? 10.0f : 1.0f);
            sac_quantize_activations(t, x, xq, n);
            sac_dequantize_row(t, row, w, n);
            double want = 0, bound = 0, magnitude = 0;
            for (int i = 0; i < n; i++) {
                float max = 0;
                int block = sac_dtype_block(t);
                for (int j = i / block * block; j < (i / block + 1) * block; j++)
                    max = fmaxf(max, fabsf(x[j]));
                want += (double)x[i] * (double)w[i];
                bound += (double)max / 127 * 0.502 * fabs((double)w[i]);
                magnitude += fabs((double)x[i] * (double)w[i]);
            }
            /* scales (and q8_1's sums) of 11 bits: 2^-11 of what they multiply */
            bound += 4 * 0x1p-11 * magnitude + 0x1p-10 * bound;
            double got = (double)sac_quant_dot(t, row, xq, n);
            if (!(fabs(got - want) <= bound))
                fail_msg("%s: got %g, want %g within %g", sac_dtype_name(t), got, want, bound);
        }
    }
}

static void activations_round_to_even(void **state) {
    (void)state;
    float x[32] = {127.0f, 0.5f, 1.5f, -0.5f, -1.5f, 2.49f, -126.51f};
    sac_xblock_q8_1 b;
    sac_quantize_activations(SAC_DTYPE_Q4_1, x, &b, 32);
    static const int8_t want[32] = {127, 0, 2, 0, -2, 2, -127};
    assert_memory_equal(b.q, want, sizeof want);
    assert_int_equal(b.d, sac_f32_to_f16(1.0f));
    assert_int_equal(b.s, sac_f32_to_f16(2.0f));
}

static void zeros_and_nan_stay(void **state) {
    (void)state;
    static float x[256];
    static uint8_t xq[8192], row[4096];
    uint64_t seed = 2;
    for (sac_dtype t = SAC_DTYPE_Q8_0; t < SAC_DTYPE_I8; t++) {
        memset(x, 0, sizeof x);
        random_row(t, row, 256, &seed);
        sac_quantize_activations(t, x, xq, 256);
        assert_true(sac_quant_dot(t, row, xq, 256) == 0);
        x[77] = NAN;
        sac_quantize_activations(t, x, xq, 256);
        assert_true(isnan(sac_quant_dot(t, row, xq, 256)));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_equal_the_gguf_package),
        cmocka_unit_test(products_are_as_close_as_the_rounding),
        cmocka_unit_test(activations_round_to_even),
        cmocka_unit_test(zeros_and_nan_stay),
    };
    return cmocka_run_group_tests_name("quants", tests, NULL, NULL);
}
