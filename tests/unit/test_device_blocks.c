/* Quantised weights on a device: GGUF's blocks in the order that a GPU has them in, and quantised folders as its types. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "device_weights_test.h"

#include "block_numbers.h"
#include "cuda/weights/block_layout.h"
#include "place_weight.h"
#include "quants.h"
#include "ref/weights/code_tables.h"

/* Where a part of a tile's stretch begins that has element i of a row. */
static const uint8_t *part_at(const uint8_t *w, const sac_block_layout *l, sac_layout_part p, int64_t row,
                              int64_t i) {
    return w + l->at[p] + (row / 16 * l->n_stretches + i / 256) * l->bytes[p];
}

/* Where block_layout.h says that a GPU has the code of element i of a row. */
static int code_of(const uint8_t *w, const sac_block_layout *l, int64_t row, int64_t i) {
    const int64_t chunk = i / 64 % 4, step = i % 64 / 16, byte = i % 2 * 2 + i % 4 / 2, half = row % 16 / 8,
                  lane = row % 8 * 4 + i % 16 / 4, line = half * 32 + lane;
    const uint8_t *codes = part_at(w, l, SAC_BLOCK_CODES, row, i),
                  *high = part_at(w, l, SAC_BLOCK_HIGH, row, i);
    const int code_bits = l->bytes[SAC_BLOCK_CODES] / 16 * 8 / 256,
              high_bits = l->bytes[SAC_BLOCK_HIGH] / 16 * 8 / 256;
    if (code_bits == 8) return (int8_t)codes[((half * 4 + chunk) * 32 + lane) * 16 + 4 * step + byte];
    const int low =
        code_bits == 2
            ? codes[line * 16 + chunk * 4 + byte] >> (2 * step) & 3
            : codes[((half * 2 + chunk / 2) * 32 + lane) * 16 + chunk % 2 * 8 + step / 2 * 4 + byte] >>
                      (step % 2 * 4) &
                  15;
    const int top = high_bits == 2   ? high[line * 16 + chunk * 4 + byte] >> (2 * step) & 3
                    : high_bits == 1 ? high[line * 8 + chunk / 2 * 4 + byte] >> (chunk % 2 * 4 + step) & 1
                                     : 0;
    return low | top << code_bits;
}

static float half_at(const uint8_t *p) {
    uint16_t h;
    memcpy(&h, p, 2);
    return sac_f16_to_f32(h);
}

/* Element `at` of a row by what a GPU has of its stretch. */
static float element_of(const uint8_t *w, const sac_block_layout *l, sac_dtype t, int64_t row, int64_t at) {
    const uint8_t *scales =
        part_at(w, l, SAC_BLOCK_SCALES, row, at) + row % 16 * (l->bytes[SAC_BLOCK_SCALES] / 16);
    const uint8_t *more = part_at(w, l, SAC_BLOCK_MORE, row, at) + row % 16 * (l->bytes[SAC_BLOCK_MORE] / 16);
    const int code = code_of(w, l, row, at);
    const float q = (float)code;
    const int64_t i = at % 256;
    uint8_t scale[16], min[8];
    switch ((int)t) {
    case SAC_DTYPE_Q8_0: return half_at(scales + i / 32 * 2) * q;
    case SAC_DTYPE_Q4_0: return half_at(scales + i / 32 * 2) * (q - 8);
    case SAC_DTYPE_Q5_0: return half_at(scales + i / 32 * 2) * (q - 16);
    case SAC_DTYPE_Q4_1:
    case SAC_DTYPE_Q5_1: return half_at(scales + i / 32 * 4) * q + half_at(scales + i / 32 * 4 + 2);
    case SAC_DTYPE_IQ4_NL: return half_at(scales + i / 32 * 2) * (float)sac_iq4_values[code];
    case SAC_DTYPE_MXFP4: return sac_mxfp4_scale(scales[i / 32]) * (float)sac_mxfp4_values[code];
    case SAC_DTYPE_Q2_K:
        return half_at(more) * (float)(scales[i / 16] & 15) * q -
               half_at(more + 2) * (float)(scales[i / 16] >> 4);
    case SAC_DTYPE_Q3_K:
        sac_q3_k_scales(scales, scale);
        return half_at(more) * (float)(scale[i / 16] - 32) * (q - 4);
    case SAC_DTYPE_Q4_K:
    case SAC_DTYPE_Q5_K:
        sac_q4_k_scales(scales + 4, scale, min);
        return half_at(scales) * (float)scale[i / 32] * q - half_at(scales + 2) * (float)min[i / 32];
    case SAC_DTYPE_Q6_K: return half_at(more) * (float)(int8_t)scales[i / 16] * (q - 32);
    case SAC_DTYPE_IQ4_XS: {
        const int low = scales[4 + i / 64] >> (i / 32 % 2 * 4) & 15,
                  high = (scales[2] | scales[3] << 8) >> (i / 32 * 2) & 3;
        return half_at(scales) * (float)((low | high << 4) - 32) * (float)sac_iq4_values[code];
    }
    default: fail_msg("%s is not known here", sac_dtype_name(t)); return 0;
    }
}

/* Bytes without a f16 among them that is not a number. */
static void fill_blocks(uint8_t *bytes, size_t n) {
    uint32_t rng = 1;
    for (size_t i = 0; i < n; i++) rng = rng * 1664525u + 1013904223u, bytes[i] = (uint8_t)(rng >> 24) & 0xbf;
}

/* GGUF's blocks lie on a GPU in an order of their own, every element where it is looked for; the host's stay. */
static void test_blocks(void **state) {
    fixture *f = *state;
    enum { ROWS = 21, LAID_ROWS = 32 };
    static uint8_t from[ROWS * 1024 * 2], before[sizeof from], got[LAID_ROWS * 1024 * 2];
    static float want[1024];
    sac_error err = {0};
    for (int i = 0; i < 2 * N_BLOCK_DTYPES; i++) {
        const sac_dtype t = (sac_dtype)(SAC_DTYPE_Q8_0 + i / 2);
        const int64_t k = sac_dtype_block(t) == 256 ? 512 + 256 * (i % 2) : 544 - 480 * (i % 2);
        const size_t row_bytes = sac_dtype_row_bytes(t, k);
        fill_blocks(from, sizeof from);
        memcpy(before, from, sizeof from);
        sac_weight w = sac_weight_of((sac_tensor){from, t, 2, {ROWS, k}});
        sac_placer p = {
            .arena = sac_arena_measure(), .stream = &f->stream, .activations = SAC_DTYPE_F32, .err = &err};
        assert_int_equal(sac_place_weight(&p, &w), SAC_UNSUPPORTED);
        assert_non_null(strstr(err.text, sac_dtype_name(t)));
        p.activations = SAC_DTYPE_BF16;
        assert_ok(sac_place_weight(&p, &w), err);
        const size_t n_bytes = sac_block_layout_bytes(t, ROWS, k);
        assert_int_equal(n_bytes, LAID_ROWS * sac_dtype_row_bytes(t, (k + 255) / 256 * 256));
        assert_in_range(p.arena.used_bytes, n_bytes, n_bytes + 255);
        p.arena = sac_arena_over(closed_region, p.arena.used_bytes);
        assert_ok(sac_place_weight(&p, &w), err);
        assert_ptr_equal(w.tensor.data, closed_region);
        assert_int_equal(f->device.download(&f->stream, got, w.tensor.data, n_bytes), SAC_OK);
        assert_memory_equal(from, before, sizeof from);
        const sac_block_layout l = sac_block_layout_of(t, ROWS, k);
        for (int64_t row = 0; row < ROWS; row++) {
            sac_dequantize_row(t, from + (size_t)row * row_bytes, want, k);
            for (int64_t e = 0; e < k; e++) {
                const float value = element_of(got, &l, t, row, e);
                assert_memory_equal(&value, &want[e], sizeof value);
            }
        }
    }
}

/* Quantised folders go up as the device's types, floats beside them in 16 bits; groups of 40 fit into none. */
static void test_folders(void **state) {
    fixture *f = *state;
    static const struct {
        const char *folder;
        sac_dtype type;
        const char *refused;
    } all[] = {
        {"packed_awq", SAC_DTYPE_C4_32, NULL},
        {"packed_gptq_4", SAC_DTYPE_C4_32, NULL},
        {"packed_gptq_4_v2", SAC_DTYPE_C4_32, NULL},
        {"packed_gptq_4_order", SAC_DTYPE_C4_32, NULL},
        {"packed_gptq_8", SAC_DTYPE_C8_32, NULL},
        {"packed_ct_w4", SAC_DTYPE_C4_32, NULL},
        {"packed_ct_w4_zeros", SAC_DTYPE_C4_32, NULL},
        {"packed_ct_w8", SAC_DTYPE_C8_128, NULL},
        {"packed_ct_w8a8", SAC_DTYPE_C8_128, NULL},
        {"packed_ct_w8a8_static", SAC_DTYPE_C8_128, NULL},
        {"packed_fp8_static", SAC_DTYPE_E4M3_128, NULL},
        {"packed_modelopt_fp8", SAC_DTYPE_E4M3_128, NULL},
        {"packed_ct_fp8", SAC_DTYPE_E4M3_128, NULL},
        {"packed_ct_fp8_tensor", SAC_DTYPE_E4M3_128, NULL},
        {"packed_nf4", SAC_DTYPE_NF4_32, NULL},
        {"packed_nf4_nested", SAC_DTYPE_NF4_32, NULL},
        {"packed_llm_int8", SAC_DTYPE_C8_128, NULL},
        {"packed_fp8_block", SAC_N_DTYPES, "fp8 in groups of 40"},
        {"packed_ct_nvfp4", SAC_DTYPE_E2M1_16, NULL},
        {"packed_ct_mxfp4", SAC_DTYPE_E2M1_32, NULL},
        {"packed_modelopt_nvfp4", SAC_DTYPE_E2M1_16, NULL},
        {"packed_hqq", SAC_DTYPE_Q4_1, NULL},
    };
    for (size_t i = 0; i < SAC_COUNT(all); i++) {
        sac_loaded_model m;
        sac_device_decoder d;
        sac_error err = {0};
        char path[128];
        snprintf(path, sizeof path, "tests/golden/models/%s", all[i].folder);
        assert_ok(sac_loaded_model_open(&m, path, NULL, NULL, &err), err);
        const sac_dtype activations = sac_device_activations(&m);
        assert_int_equal(activations, SAC_DTYPE_F16);
        const sac_status st = sac_decoder_to_device(&m, activations, &f->stream, &d, NULL, NULL, &err);
        if (all[i].type == SAC_N_DTYPES) {
            assert_int_equal(st, SAC_UNSUPPORTED);
            assert_non_null(strstr(err.text, all[i].refused));
        } else {
            assert_ok(st, err);
            const sac_weight *q = &d.decoder.layers[0].q, *here = &m.decoder.layers[0].q;
            assert_int_equal(q->tensor.dtype, all[i].type);
            assert_int_equal(q->x_rounding, here->x_rounding);
            assert_true(q->x_scale == here->x_scale);
            assert_int_equal(q->order.data != NULL, here->order.data != NULL);
            assert_null(q->scales.data);
            assert_int_equal(d.decoder.embed.tensor.dtype, SAC_DTYPE_F16);
        }
        sac_device_decoder_free(&d, &f->device);
        sac_loaded_model_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_blocks, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
