#include "quants.h"
#include "round_rows.h"
#include "safetensors.h"
#include "scheme.h"
#include "test.h"

#include <math.h>

/* tools/make_rounding_golden.py */
static sac_checkpoint golden;

static int open_golden(void **state) {
    (void)state;
    sac_error err;
    return sac_safetensors_open_file(&golden, "tests/golden/rounding.safetensors", &err) != SAC_OK;
}

static int close_golden(void **state) {
    (void)state;
    sac_checkpoint_free(&golden);
    return 0;
}

static void blocks_are_those_of_the_gguf_package(void **state) {
    (void)state;
    static const sac_dtype types[] = {SAC_DTYPE_Q8_0, SAC_DTYPE_Q4_0, SAC_DTYPE_Q4_1, SAC_DTYPE_Q5_0,
                                      SAC_DTYPE_Q5_1};
    const sac_checkpoint_tensor *x = sac_checkpoint_find(&golden, "x");
    assert_non_null(x);
    for (size_t i = 0; i < SAC_COUNT(types); i++) {
        const sac_checkpoint_tensor *want = sac_checkpoint_find(&golden, sac_dtype_name(types[i]));
        const size_t row_bytes = sac_dtype_row_bytes(types[i], x->dim[1]);
        uint8_t got[512];
        float row[256];
        assert_non_null(want);
        assert_int_equal(want->n_bytes, (size_t)x->dim[0] * row_bytes);
        for (int64_t r = 0; r < x->dim[0]; r++) {
            memcpy(row, x->data + r * 1024, sizeof row);
            sac_round_row(types[i], row, got, 256);
            if (memcmp(got, want->data + (size_t)r * row_bytes, row_bytes))
                fail_msg("%s, row %d: other bytes", sac_dtype_name(types[i]), (int)r);
        }
    }
}

/* Root mean square error of the rows that are drawn, each relative to its row's. */
static double relative_error(sac_dtype type, const sac_checkpoint_tensor *x) {
    static const int drawn[] = {0, 1, 2, 3, 10, 11};
    double sum = 0;
    for (size_t i = 0; i < SAC_COUNT(drawn); i++) {
        float row[256], back[256];
        uint8_t blocks[512];
        double error = 0, size = 0;
        memcpy(row, x->data + drawn[i] * 1024, sizeof row);
        sac_round_row(type, row, blocks, 256);
        sac_dequantize_row(type, blocks, back, 256);
        for (int k = 0; k < 256; k++) {
            error += pow((double)row[k] - (double)back[k], 2);
            size += pow((double)row[k], 2);
        }
        sum += sqrt(error / size);
    }
    return sum / SAC_COUNT(drawn);
}

static void k_quants_are_as_close_as_a_plain_search(void **state) {
    (void)state;
    static const sac_dtype types[] = {SAC_DTYPE_Q4_K, SAC_DTYPE_Q5_K, SAC_DTYPE_Q6_K};
    const sac_checkpoint_tensor *x = sac_checkpoint_find(&golden, "x"), *rms = sac_checkpoint_find(&golden, "rms");
    assert_non_null(rms);
    for (size_t i = 0; i < SAC_COUNT(types); i++) {
        float plain;
        memcpy(&plain, rms->data + 4 * i, 4);
        const double got = relative_error(types[i], x);
        print_message("%s: relative error %.5f, of a plain search %.5f\n", sac_dtype_name(types[i]), got,
                      (double)plain);
        assert_true(got > 0 && got <= 1.05 * (double)plain);
    }
}

/* Rows for which there is nothing to divide by, and extremes. */
static void odd_rows_stay_finite(void **state) {
    (void)state;
    const float values[] = {0, -0.0f, 1e-38f, 1e-30f, -1e-7f, 65504, -65504, 1e-45f};
    for (sac_dtype t = 0; t < SAC_N_DTYPES; t++) {
        if (!sac_can_round(t)) continue;
        for (size_t v = 0; v < SAC_COUNT(values); v++)
            for (int kind = 0; kind < 3; kind++) {
                float row[256], back[256];
                uint8_t out[1024];
                for (int i = 0; i < 256; i++) row[i] = kind == 0 || i % 64 == 5 ? values[v] : kind == 1 ? 0 : (float)i;
                sac_round_row(t, row, out, 256);
                sac_dequantize_row(t, out, back, 256);
                for (int i = 0; i < 256; i++)
                    if (!isfinite(back[i])) fail_msg("%s of %g: not finite", sac_dtype_name(t), (double)values[v]);
            }
    }
}

static float e4m3_value(int code) {
    const int e = code >> 3 & 15, m = code & 7;
    const float v = e ? ldexpf(1 + (float)m / 8, e - 7) : ldexpf((float)m, -9);
    return code & 128 ? -v : v;
}

static void e4m3_is_the_nearest(void **state) {
    (void)state;
    for (int code = 0; code < 127; code++) {
        const float v = e4m3_value(code);
        assert_int_equal(sac_f32_to_e4m3(v), code);
        assert_int_equal(sac_f32_to_e4m3(-v), code | 128);
        if (code == 126) break;
        const float middle = (v + e4m3_value(code + 1)) / 2; /* ties to even */
        assert_int_equal(sac_f32_to_e4m3(middle), code + code % 2);
        assert_int_equal(sac_f32_to_e4m3(nextafterf(middle, 1e9f)), code + 1);
        assert_int_equal(sac_f32_to_e4m3(nextafterf(middle, 0)), code);
    }
    assert_int_equal(sac_f32_to_e4m3(1e30f), 126);
}

/* By hand: the largest magnitude is 7.5 or 127.5 steps, ties go to even, what is beyond the last code becomes that. */
static void codes_are_as_compressed_tensors_has_them(void **state) {
    (void)state;
    const float x[16] = {-7.5f, 7.5f, 0.5f, 1.5f, -3, 2.25f, 0, 1, /* scale 1 */
                         15,    -1,   3,    -2,   -5, 0,     4, 7 /* scale 2 */};
    const sac_code_format four = {SAC_DTYPE_PACKED_4, SAC_DTYPE_F32, 8};
    static const int want[16] = {-8, 7, 0, 2, -3, 2, 0, 1, 7, 0, 2, -1, -2, 0, 2, 4};
    uint8_t codes[16];
    float scales[2];
    sac_round_codes(&four, x, 16, codes, scales);
    assert_true(scales[0] == 1 && scales[1] == 2);
    for (int i = 0; i < 16; i++) assert_int_equal((codes[i / 2] >> (i % 2 * 4) & 15) - 8, want[i]);
    const sac_code_format eight = {SAC_DTYPE_I8, SAC_DTYPE_F32, 0};
    int8_t whole[16];
    sac_round_codes(&eight, x, 16, whole, scales);
    assert_true(scales[0] == 15 / 127.5f);
    assert_int_equal(whole[8], 127);
    assert_int_equal(whole[0], (int)rintf(-7.5f / scales[0]));
    const sac_code_format floats = {SAC_DTYPE_FP8, SAC_DTYPE_BF16, 0};
    uint16_t half;
    sac_round_codes(&floats, x, 16, codes, &half);
    assert_int_equal(half, sac_f32_to_bf16(15 / 448.0f));
    assert_int_equal(codes[8], sac_f32_to_e4m3(15 / sac_bf16_to_f32(half)));
    const float zeros[8] = {0};
    sac_round_codes(&four, zeros, 8, codes, scales); /* a scale that can be divided by */
    assert_true(scales[0] > 0 && codes[0] == 0x88);
}

/* What `llama-quantize` gives these tensors. */
static void mixes_follow_the_published_rule(void **state) {
    (void)state;
    static const struct {
        const char *scheme, *name;
        int layer, n_layers;
        bool has_head;
        int64_t cols;
        sac_dtype want;
    } cases[] = {
        {"q4_k_m", "output.weight", 0, 32, true, 4096, SAC_DTYPE_Q6_K},
        {"q4_k_m", "token_embd.weight", 0, 32, true, 4096, SAC_DTYPE_Q4_K},
        {"q4_k_m", "token_embd.weight", 0, 32, false, 4096, SAC_DTYPE_Q6_K},
        {"q4_k_m", "token_embd.weight", 0, 24, false, 896, SAC_DTYPE_Q8_0},
        {"q8_0", "output.weight", 0, 32, true, 4096, SAC_DTYPE_Q8_0},
        {"q4_0", "output.weight", 0, 32, true, 4096, SAC_DTYPE_Q6_K},
        {"q4_0", "token_embd.weight", 0, 32, true, 4096, SAC_DTYPE_Q4_0},
        {"q4_k_m", "blk.3.attn_v.weight", 3, 32, true, 4096, SAC_DTYPE_Q6_K},
        {"q4_k_m", "blk.4.attn_v.weight", 4, 32, true, 4096, SAC_DTYPE_Q4_K},
        {"q4_k_m", "blk.6.attn_v.weight", 6, 32, true, 4096, SAC_DTYPE_Q6_K},
        {"q4_k_m", "blk.28.ffn_down.weight", 28, 32, true, 11008, SAC_DTYPE_Q6_K},
        {"q4_k_m", "blk.5.ffn_down.weight", 5, 32, true, 11008, SAC_DTYPE_Q4_K},
        {"q4_k_m", "blk.5.attn_q.weight", 5, 32, true, 4096, SAC_DTYPE_Q4_K},
        {"q4_k_m", "blk.5.attn_v.weight", 5, 80, true, 8192, SAC_DTYPE_Q6_K},
        {"q4_k_m", "blk.10.attn_v.weight", 10, 80, true, 8192, SAC_DTYPE_Q5_K},
        {"q4_k_m", "blk.5.attn_q.weight", 5, 24, false, 896, SAC_DTYPE_Q5_0},
        {"q4_k_m", "blk.0.attn_v.weight", 0, 24, false, 896, SAC_DTYPE_Q8_0},
        {"q5_k_m", "blk.5.attn_q.weight", 5, 24, false, 896, SAC_DTYPE_Q5_1},
        {"q4_k_s", "blk.3.attn_v.weight", 3, 32, true, 4096, SAC_DTYPE_Q5_K},
        {"q4_k_s", "blk.4.attn_v.weight", 4, 32, true, 4096, SAC_DTYPE_Q4_K},
        {"q4_k_s", "blk.3.ffn_down.weight", 3, 32, true, 4096, SAC_DTYPE_Q5_K},
        {"q4_k_s", "blk.4.ffn_down.weight", 4, 32, true, 4096, SAC_DTYPE_Q4_K},
        {"q4_k", "blk.0.ffn_down.weight", 0, 32, true, 4096, SAC_DTYPE_Q6_K},
        {"q8_0", "blk.0.ffn_down.weight", 0, 32, true, 100, SAC_DTYPE_F16},
        {"bf16", "output.weight", 0, 32, true, 4096, SAC_DTYPE_BF16},
    };
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        sac_scheme s;
        sac_error err;
        assert_int_equal(sac_scheme_parse(&s, cases[i].scheme, &err), SAC_OK);
        const sac_scheme_model m = {cases[i].n_layers, cases[i].has_head, cases[i].n_layers == 80};
        const sac_dtype got = sac_scheme_block_type(&s, &m, cases[i].name, cases[i].layer, cases[i].cols);
        if (got != cases[i].want)
            fail_msg("%s, %s of %d layers: %s", cases[i].scheme, cases[i].name, cases[i].n_layers,
                     sac_dtype_name(got));
    }
}

static void names_that_are_none_are_refused(void **state) {
    (void)state;
    static const char *const bad[] = {"", "q4", "w4a16:g=0", "w4a16:g=12", "w4a16:h=8", "w4a16:g=128x", "q8_0:g=32",
                                      "fp8:g=8", "a name that is longer than any that there is"};
    sac_scheme s;
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        sac_error err = {0};
        assert_int_equal(sac_scheme_parse(&s, bad[i], &err), SAC_BAD_ARGUMENT);
        assert_non_null(strstr(err.text, "format"));
    }
    assert_int_equal(sac_scheme_parse(&s, "w4a16:g=64", NULL), SAC_OK);
    assert_int_equal(s.group, 64);
    assert_true(sac_scheme_takes_rows(&s, 128) && !sac_scheme_takes_rows(&s, 96));
}

static sac_rounded rounded(sac_checkpoint_tensor *t, const float *x, int64_t rows, int64_t cols) {
    sac_rounded r;
    *t = (sac_checkpoint_tensor){.name = (char *)(uintptr_t) "a.weight",
                                 .dtype = SAC_DTYPE_F32,
                                 .n_dims = 2,
                                 .dim = {rows, cols},
                                 .data = (const uint8_t *)x};
    sac_rounded_of(&r, t);
    r.type = SAC_DTYPE_F32;
    return r;
}

/* Dimensions beside a 0 may be anything: their product is not taken (the sanitizers would say). */
static void tensors_without_elements_have_no_columns(void **state) {
    (void)state;
    const int64_t huge = (int64_t)1 << 40;
    sac_rounded r;
    sac_rounded_of(&r, &(sac_checkpoint_tensor){.n_dims = 3, .dim = {huge, huge, 0}});
    assert_true(r.rows == huge && r.cols == 0);
    sac_rounded_of(&r, &(sac_checkpoint_tensor){.n_dims = 4, .dim = {0, huge, huge, huge}});
    assert_true(r.rows == 0 && r.cols == 0);
    sac_rounded_of(&r, &(sac_checkpoint_tensor){.n_dims = 3, .dim = {3, 5, 7}});
    assert_true(r.rows == 3 && r.cols == 35);
}

static void rows_of_a_head_take_turns(void **state) {
    (void)state;
    const float x[8] = {0, 1, 2, 3, 4, 5, 6, 7}, want[8] = {0, 2, 1, 3, 4, 6, 5, 7};
    float got[8];
    sac_checkpoint_tensor t;
    sac_rounded r = rounded(&t, x, 8, 1);
    r.heads = 2;
    assert_int_equal(sac_round_rows(&r, 0, 8, got, NULL, NULL), SAC_OK);
    assert_memory_equal(got, want, sizeof want);
    assert_int_equal(sac_round_rows(&r, 5, 2, got, NULL, NULL), SAC_OK);
    assert_true(got[0] == 6 && got[1] == 5);
}

static void what_is_not_finite_is_refused_by_name(void **state) {
    (void)state;
    const float bad[] = {NAN, INFINITY, -INFINITY, 1e6f};
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        float x[64] = {0};
        uint8_t out[68];
        x[40] = bad[i];
        sac_checkpoint_tensor t;
        sac_rounded r = rounded(&t, x, 2, 32);
        r.type = SAC_DTYPE_Q8_0;
        sac_error err = {0};
        assert_int_equal(sac_round_rows(&r, 0, 2, out, NULL, &err), SAC_BAD_FILE);
        assert_non_null(strstr(err.text, "a.weight"));
        assert_int_equal(sac_round_rows(&r, 0, 1, out, NULL, &err), SAC_OK); /* the other row is fine */
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_without_elements_have_no_columns),
        cmocka_unit_test(blocks_are_those_of_the_gguf_package),
        cmocka_unit_test(k_quants_are_as_close_as_a_plain_search),
        cmocka_unit_test(odd_rows_stay_finite),
        cmocka_unit_test(e4m3_is_the_nearest),
        cmocka_unit_test(codes_are_as_compressed_tensors_has_them),
        cmocka_unit_test(mixes_follow_the_published_rule),
        cmocka_unit_test(names_that_are_none_are_refused),
        cmocka_unit_test(rows_of_a_head_take_turns),
        cmocka_unit_test(what_is_not_finite_is_refused_by_name),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
