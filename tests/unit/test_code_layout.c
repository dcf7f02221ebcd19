/* Weights whose scales lie apart, as a GPU holds them: every element where code_layout.h says, with the reference's value. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "closed_device.h"
#include "cuda/weights/code_layout.h"
#include "place_weight.h"
#include "ref/weights/fp4_levels.h"
#include "ref/weights/nf4_levels.h"
#include "ref/weights/parts.h"
#include "ref/weights/ref_weights.h"
#include "test.h"

#include <math.h>

static uint32_t rng = 7;
static uint8_t next_byte(void) {
    rng = rng * 1664525u + 1013904223u;
    return (uint8_t)(rng >> 24);
}
static void *bytes(size_t n) {
    uint8_t *p = malloc(n + 1);
    for (size_t i = 0; i < n; i++) p[i] = next_byte();
    return p;
}
static sac_tensor tensor(sac_dtype t, int64_t rows, int64_t cols) {
    return (sac_tensor){bytes((size_t)rows * sac_dtype_row_bytes(t, cols)), t, 2, {rows, cols}};
}
static sac_tensor scales(sac_dtype t, int64_t rows, int64_t cols) {
    sac_tensor s = tensor(t, rows, cols);
    for (int64_t i = 0; i < rows * cols; i++) {
        const float f = (float)(next_byte() + 1) / 300 * (next_byte() % 2 ? 1 : -1);
        const uint16_t h = t == SAC_DTYPE_F16 ? sac_f32_to_f16(f) : sac_f32_to_bf16(f);
        uint8_t *to = (uint8_t *)(uintptr_t)s.data + i * (t == SAC_DTYPE_F32 ? 4 : 2);
        memcpy(to, t == SAC_DTYPE_F32 ? (const void *)&f : &h, t == SAC_DTYPE_F32 ? 4 : 2);
    }
    return s;
}
static void release(sac_weight *w) {
    const sac_tensor *parts[] = {&w->tensor, &w->scales, &w->zeros, &w->order};
    for (int i = 0; i < 4; i++) free((void *)(uintptr_t)parts[i]->data);
}

static const uint8_t *part_at(const uint8_t *to, const sac_block_layout *l, sac_layout_part p, int64_t row,
                              int64_t i) {
    return to + l->at[p] + (row / 16 * l->n_stretches + i / 256) * l->bytes[p];
}
static float e4m3(uint8_t b) {
    const int e = b >> 3 & 15, m = b & 7;
    if ((b & 0x7f) == 0x7f) return NAN;
    return (b & 0x80 ? -1.0f : 1.0f) * (e ? ldexpf((float)(8 + m), e - 10) : ldexpf((float)m, -9));
}
/* Levels of codes of four bits that have no zero; NULL: it is no such type. */
static const float *levels_of(sac_dtype t) {
    if (t == SAC_DTYPE_NF4_32 || t == SAC_DTYPE_NF4_64) return sac_nf4_levels;
    return t == SAC_DTYPE_E2M1_16 || t == SAC_DTYPE_E2M1_32 ? sac_fp4_levels : NULL;
}
/* e4m3_rows, with scales of rows or of blocks of 128 x 128. */
static float plain_element(const uint8_t *to, const sac_block_layout *l, bool by_blocks, int64_t row, int64_t i) {
    const int64_t pitch = l->n_stretches * 256, at = by_blocks ? row / 128 * ((pitch + 511) / 512 * 4) + i / 128 : row;
    float scale;
    memcpy(&scale, to + l->at[SAC_BLOCK_SCALES] + at * 4, 4);
    return scale * e4m3(to[row * pitch + i]);
}
/* What the header says of element i of a row. */
static float element_of(const uint8_t *to, const sac_block_layout *l, sac_dtype t, int64_t row, int64_t i) {
    const int64_t chunk = i / 64 % 4, step = i % 64 / 16, byte = i % 2 * 2 + i % 4 / 2, half = row % 16 / 8,
                  lane = row % 8 * 4 + i % 16 / 4, unit = sac_dtype_block(t);
    const uint8_t *codes = part_at(to, l, SAC_BLOCK_CODES, row, i),
                  *word = part_at(to, l, SAC_BLOCK_SCALES, row, i) +
                          (row % 16 * (256 / unit) + i % 256 / unit) * 4;
    uint32_t bits;
    float scale;
    memcpy(&bits, word, 4);
    const float minimum = t == SAC_DTYPE_Q4_1 ? sac_f16_to_f32((uint16_t)(bits >> 16)) : 0;
    const uint32_t of_scale = t == SAC_DTYPE_E4M3_128 || levels_of(t) ? bits : bits & 0xffffff00u;
    memcpy(&scale, &of_scale, 4);
    if (t != SAC_DTYPE_E4M3_128 && t != SAC_DTYPE_C8_32 && t != SAC_DTYPE_C8_128) {
        const uint8_t two =
            codes[((half * 2 + chunk / 2) * 32 + lane) * 16 + chunk % 2 * 8 + step / 2 * 4 + byte];
        const int four = two >> (step % 2 * 4) & 15;
        if (t == SAC_DTYPE_Q4_1) return sac_f16_to_f32((uint16_t)bits) * (float)four + minimum;
        return levels_of(t) ? scale * levels_of(t)[four] : scale * (float)(four - (int)(bits & 255));
    }
    const uint8_t code = codes[((half * 4 + chunk) * 32 + lane) * 16 + 4 * step + byte];
    if (t == SAC_DTYPE_E4M3_128) return scale * e4m3(code);
    return scale * (float)((int8_t)code - (int8_t)(uint8_t)bits);
}

/* Rows and columns that are not there are zeros. */
static void check(const sac_weight *w, sac_dtype want_type) {
    const int64_t n = w->tensor.dim[0], k = w->tensor.dim[1], laid_n = (n + 15) / 16 * 16,
                  laid_k = (k + 255) / 256 * 256;
    const sac_dtype t = sac_code_layout_type(w, want_type == SAC_DTYPE_E4M3_ROWS);
    assert_true(sac_ref_weight_of(w)->holds(w, n, k));
    assert_int_equal(t, want_type);
    const size_t n_bytes = sac_block_layout_bytes(t, n, k);
    assert_int_equal(n_bytes, (size_t)laid_n * sac_dtype_row_bytes(t, laid_k));
    uint8_t *to = aligned_alloc(64, (n_bytes + 63) / 64 * 64);
    int32_t *input = malloc((size_t)k * sizeof *input);
    memset(to, 0xa5, n_bytes);
    for (int64_t i = 0; i < k; i++) input[i] = (int32_t)i;
    assert_int_equal(sac_code_layout_pack(w, t, to, w->order.data ? input : NULL), SAC_OK);
    const sac_block_layout l = sac_block_layout_of(t, n, k);
    float *want = malloc((size_t)k * sizeof *want);
    bool *seen = calloc((size_t)k, 1);
    for (int64_t row = 0; row < laid_n; row++) {
        if (row < n) sac_ref_weight_of(w)->row(w, row, k, want);
        for (int64_t i = 0; i < laid_k; i++) {
            const float got = t == SAC_DTYPE_E4M3_ROWS ? plain_element(to, &l, w->group_rows == 128, row, i)
                                                       : element_of(to, &l, t, row, i);
            if (row >= n || i >= k) {
                if (row >= n) assert_true(got == 0);
                continue;
            }
            const float is = want[input[i]];
            seen[input[i]] = true;
            const int64_t at = row * w->scales.dim[1] + i / w->group;
            if (t == SAC_DTYPE_Q4_1) { /* d and m are rounded to f16 */
                const float d = fabsf(sac_ref_scale(&w->scales, at)), m = d * fabsf(sac_ref_scale(&w->zeros, at));
                assert_true(fabsf(got - is) <= 0x1.1p-11f * (15 * d + m));
            } else if (w->scales.dtype == SAC_DTYPE_F32 && t != SAC_DTYPE_E4M3_128 && t != SAC_DTYPE_E4M3_ROWS && !levels_of(t))
                assert_true(fabsf(got - is) <= 0x1p-16f * fabsf(is));
            else
                assert_true(got == is || (isnan(got) && isnan(is)));
        }
    }
    for (int64_t i = 0; i < k; i++) assert_true(seen[i]);
    free(seen), free(want), free(input), free(to);
}

static void test_awq(void **state) {
    static const struct {
        int64_t group;
        sac_dtype type;
    } groups[] = {
        {32, SAC_DTYPE_C4_32}, {64, SAC_DTYPE_C4_64}, {128, SAC_DTYPE_C4_128}, {256, SAC_DTYPE_C4_128}};
    (void)state;
    for (int i = 0; i < 8; i++) {
        const int64_t group = groups[i / 2].group, k = i % 2 ? 3 * group : 768, n = i % 2 ? 40 : 16;
        sac_weight w = {.format = SAC_WEIGHT_AWQ, .group = group, .tensor = tensor(SAC_DTYPE_AWQ, n, k)};
        w.scales = scales(SAC_DTYPE_F16, k / group, n);
        w.zeros = tensor(SAC_DTYPE_AWQ, k / group, n);
        check(&w, groups[i / 2].type);
        release(&w);
    }
}

/* Inputs of a group anywhere; the last group is short. */
static sac_tensor order_of(int64_t k, int64_t group) {
    int32_t *g = malloc((size_t)k * sizeof *g);
    for (int64_t i = 0; i < k; i++) g[i] = (int32_t)(i / group);
    for (int64_t i = k - 1; i > 0; i--) {
        const int64_t j = (next_byte() * 256 + next_byte()) % (i + 1);
        const int32_t was = g[i];
        g[i] = g[j], g[j] = was;
    }
    return (sac_tensor){g, SAC_DTYPE_I32, 2, {1, k}};
}

static void test_gptq(void **state) {
    (void)state;
    for (int i = 0; i < 16; i++) {
        const sac_dtype t = i % 2 ? SAC_DTYPE_GPTQ_8 : SAC_DTYPE_GPTQ_4;
        const int64_t k = 296, n = 24, group = i / 2 % 2 ? 32 : 128, n_groups = (k + group - 1) / group;
        sac_weight w = {
            .format = SAC_WEIGHT_GPTQ, .group = group, .zero_add = i / 4 % 2, .tensor = tensor(t, n, k)};
        w.scales = scales(i % 3 ? SAC_DTYPE_F16 : SAC_DTYPE_BF16, n_groups, n);
        w.zeros = tensor(t, n_groups, n);
        if (i >= 8) w.order = order_of(k, group);
        check(&w, t == SAC_DTYPE_GPTQ_4 ? (group == 32 ? SAC_DTYPE_C4_32 : SAC_DTYPE_C4_128)
                                        : (group == 32 ? SAC_DTYPE_C8_32 : SAC_DTYPE_C8_128));
        if (i >= 8) { /* a group with one input more than it has places for */
            int32_t *g = (int32_t *)(uintptr_t)w.order.data;
            for (int64_t c = 0; c < k; c++)
                if (g[c] != g[0]) {
                    g[c] = g[0];
                    break;
                }
            assert_int_equal(sac_code_layout_type(&w, true), SAC_N_DTYPES);
        }
        release(&w);
    }
}

static void test_rows(void **state) {
    static const sac_dtype types[] = {SAC_DTYPE_PACKED_4, SAC_DTYPE_PACKED_8, SAC_DTYPE_I8, SAC_DTYPE_FP8,
                                      SAC_DTYPE_NF4};
    static const sac_dtype whole[] = {SAC_DTYPE_C4_128, SAC_DTYPE_C8_128, SAC_DTYPE_C8_128,
                                      SAC_DTYPE_E4M3_128, SAC_DTYPE_NF4_64};
    static const sac_weight_format formats[] = {SAC_WEIGHT_PACKED, SAC_WEIGHT_PACKED, SAC_WEIGHT_INT8,
                                                SAC_WEIGHT_FP8, SAC_WEIGHT_NF4};
    static const sac_dtype floats[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
    (void)state;
    for (int i = 0; i < 60; i++) {
        const int f = i % 5, kind = i / 5 % 4;
        const int64_t n = i % 3 ? 19 : 32, k = 520, group = kind < 2 ? k : 128,
                      n_groups = (k + group - 1) / group;
        const bool one = kind == 0 && f != 4;
        sac_weight w = {.format = formats[f], .group = group, .tensor = tensor(types[f], n, k)};
        if (f == 3 && kind >= 2) w.group_rows = kind == 2 ? 7 : 128;
        w.scales = scales(floats[i / 20],
                          one            ? 1
                          : w.group_rows ? (n + w.group_rows - 1) / w.group_rows
                                         : n,
                          n_groups);
        if (f < 2 && i / 10 % 2) w.zeros = tensor(types[f], n_groups, one ? 8 : (n + 7) / 8 * 8);
        if (f == 2 && i / 10 % 2) w.zeros = tensor(SAC_DTYPE_I8, one ? 1 : n, n_groups);
        if (f == 3) { /* a NaN makes its stretch of 128 NaN: they are looked at apart */
            uint8_t *q = (uint8_t *)(uintptr_t)w.tensor.data;
            for (int64_t c = 0; c < n * k; c++) q[c] = (q[c] & 0x7f) == 0x7f ? 0x38 : q[c];
        }
        check(&w, whole[f]);
        w.group = 24; /* fits into no unit */
        assert_int_equal(sac_code_layout_type(&w, true), SAC_N_DTYPES);
        release(&w);
    }
}

static void test_fp4(void **state) {
    static const struct {
        int64_t group, k;
        sac_dtype type;
    } all[] = {{16, 528, SAC_DTYPE_E2M1_16}, {48, 288, SAC_DTYPE_E2M1_16}, {32, 96, SAC_DTYPE_E2M1_32},
               {64, 576, SAC_DTYPE_E2M1_32}, {40, 40, SAC_DTYPE_E2M1_32},  {24, 48, SAC_N_DTYPES}};
    (void)state;
    for (int i = 0; i < 3 * (int)SAC_COUNT(all); i++) {
        const int64_t n = i % 2 ? 19 : 32, k = all[i / 3].k, group = all[i / 3].group;
        sac_weight w = {.format = SAC_WEIGHT_FP4, .group = group, .tensor = tensor(SAC_DTYPE_FP4, n, k)};
        w.scales = scales((sac_dtype)(SAC_DTYPE_F32 + i % 3), n, k / group);
        if (all[i / 3].type == SAC_N_DTYPES)
            assert_int_equal(sac_code_layout_type(&w, true), SAC_N_DTYPES);
        else
            check(&w, all[i / 3].type);
        release(&w);
    }
}

/* Zeros that are no whole numbers; what is beyond f16 is left. */
static void test_hqq(void **state) {
    static const struct {
        int64_t group, k;
        sac_dtype type;
    } all[] = {{32, 96, SAC_DTYPE_Q4_1}, {64, 576, SAC_DTYPE_Q4_1}, {128, 512, SAC_DTYPE_Q4_1}, {40, 80, SAC_N_DTYPES},
               {16, 64, SAC_N_DTYPES}};
    (void)state;
    for (int i = 0; i < 3 * (int)SAC_COUNT(all); i++) {
        const int64_t n = i % 2 ? 19 : 32, k = all[i / 3].k, group = all[i / 3].group;
        sac_weight w = {.format = SAC_WEIGHT_HQQ, .group = group, .tensor = tensor(SAC_DTYPE_HQQ_4, n, k)};
        w.scales = scales((sac_dtype)(SAC_DTYPE_F32 + i % 3), n, k / group);
        w.zeros = scales(SAC_DTYPE_F32, n, k / group);
        float *zeros = (float *)(uintptr_t)w.zeros.data;
        for (int64_t g = 0; g < n * (k / group); g++) zeros[g] = 8 + 8 * zeros[g];
        if (all[i / 3].type == SAC_N_DTYPES)
            assert_int_equal(sac_code_layout_type(&w, true), SAC_N_DTYPES);
        else
            check(&w, all[i / 3].type);
        zeros[n * (k / group) - 1] = 0x1p30f;
        assert_int_equal(sac_code_layout_type(&w, true), SAC_N_DTYPES);
        release(&w);
    }
}

static void test_plain_rows(void **state) {
    static const int64_t shapes[][2] = {{37, 528}, {300, 144}, {129, 1040}, {896, 512}};
    static const sac_dtype floats[] = {SAC_DTYPE_F32, SAC_DTYPE_F16, SAC_DTYPE_BF16};
    (void)state;
    for (int i = 0; i < 36; i++) {
        const int64_t n = shapes[i % 4][0], k = shapes[i % 4][1];
        const int how = i / 4 % 3;
        sac_weight w = {.format = SAC_WEIGHT_FP8, .group = k, .tensor = tensor(SAC_DTYPE_FP8, n, k)};
        w.x_rounding = how == 0 ? SAC_X_FP8_ROWS : how == 1 ? SAC_X_FP8_STATIC : SAC_X_FP8_GROUPS;
        w.x_scale = how == 1 ? 0.01f : 0;
        if (how == 2) w.group = w.group_rows = 128;
        w.scales = how == 2 ? scales(floats[i / 12], (n + 127) / 128, (k + 127) / 128) : scales(floats[i / 12], how == 1 ? 1 : n, 1);
        check(&w, SAC_DTYPE_E4M3_ROWS);
        assert_int_equal(sac_code_layout_type(&w, false), SAC_DTYPE_E4M3_128); /* of a card that does not take them */
        w.x_scale = 0, w.group_rows = how == 1 ? 0 : 64;
        assert_int_equal(sac_code_layout_type(&w, true), SAC_DTYPE_E4M3_128); /* no scale of x; scales of w that are of neither */
        release(&w);
    }
}

static void test_plain_cards(void **state) {
    (void)state;
    assert_true(sac_code_layout_is_plain(&(sac_device){.compute = 90}));
    assert_false(sac_code_layout_is_plain(&(sac_device){.compute = 90, .no_e4m3 = true}));
    assert_false(sac_code_layout_is_plain(&(sac_device){.compute = 90, .shared_bytes = 48 << 10}));
    assert_true(sac_code_layout_is_plain(&(sac_device){.compute = 90, .shared_bytes = 227 << 10}));
    assert_false(sac_code_layout_is_plain(&(sac_device){.compute = 80}));
    assert_false(sac_code_layout_is_plain(&(sac_device){.compute = 100})); /* whose instructions are others */
}

static void test_nan(void **state) {
    (void)state;
    sac_weight w = {.format = SAC_WEIGHT_FP8, .group = 256, .tensor = tensor(SAC_DTYPE_FP8, 2, 256)};
    uint8_t *q = (uint8_t *)(uintptr_t)w.tensor.data, to[16 * 264 * 2];
    for (int i = 0; i < 512; i++) q[i] &= 0x77;
    q[256 + 130] = 0xff;
    w.scales = scales(SAC_DTYPE_F32, 1, 1);
    assert_int_equal(sac_code_layout_pack(&w, SAC_DTYPE_E4M3_128, to, NULL), SAC_OK);
    const sac_block_layout l = sac_block_layout_of(SAC_DTYPE_E4M3_128, 2, 256);
    assert_true(!isnan(element_of(to, &l, SAC_DTYPE_E4M3_128, 1, 0)));
    assert_true(isnan(element_of(to, &l, SAC_DTYPE_E4M3_128, 1, 128)));
    assert_true(!isnan(element_of(to, &l, SAC_DTYPE_E4M3_128, 0, 130)));
    release(&w);
}

/* What is placed takes the layout's bytes and an order, and nothing of the host's is left in the weight. */
static void test_placed(void **state) {
    (void)state;
    const int64_t n = 16, k = 128;
    sac_error err = {0};
    sac_weight w = {.format = SAC_WEIGHT_GPTQ, .group = 32, .tensor = tensor(SAC_DTYPE_GPTQ_4, n, k)}, host;
    w.scales = scales(SAC_DTYPE_F16, 4, n);
    w.zeros = tensor(SAC_DTYPE_GPTQ_4, 4, n);
    w.order = order_of(k, 32);
    host = w;
    assert_true(closed_open());
    sac_device device = closed_device;
    sac_stream stream = {.device = &device};
    sac_placer p = {
        .arena = sac_arena_measure(), .stream = &stream, .activations = SAC_DTYPE_F32, .err = &err};
    assert_int_equal(sac_place_weight(&p, &w), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "gptq_4"));
    p.activations = SAC_DTYPE_F16;
    assert_ok(sac_place_weight(&p, &w), err);
    assert_memory_equal(&w, &host, sizeof w);
    p.arena = sac_arena_over(closed_region, p.arena.used_bytes);
    assert_ok(sac_place_weight(&p, &w), err);
    assert_int_equal(w.tensor.dtype, SAC_DTYPE_C4_32);
    assert_ptr_equal(w.tensor.data, closed_region);
    assert_null(w.scales.data);
    assert_null(w.zeros.data);
    uint8_t want[16 * 160], got[sizeof want];
    int32_t input[128], got_input[128];
    assert_int_equal(sac_block_layout_bytes(SAC_DTYPE_C4_32, n, k), sizeof want);
    assert_int_equal(sac_code_layout_pack(&host, SAC_DTYPE_C4_32, want, input), SAC_OK);
    assert_int_equal(device.download(&stream, got, w.tensor.data, sizeof got), SAC_OK);
    assert_int_equal(device.download(&stream, got_input, w.order.data, sizeof got_input), SAC_OK);
    assert_memory_equal(got, want, sizeof want);
    assert_memory_equal(got_input, input, sizeof input);
    release(&host);
    munmap(closed_region, CLOSED_BYTES);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_awq), cmocka_unit_test(test_gptq),   cmocka_unit_test(test_rows),
        cmocka_unit_test(test_fp4), cmocka_unit_test(test_hqq), cmocka_unit_test(test_plain_rows),
        cmocka_unit_test(test_plain_cards), cmocka_unit_test(test_nan), cmocka_unit_test(test_placed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
