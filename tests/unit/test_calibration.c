#include "channel_scales.h"
#include "gptq.h"
#include "quants.h"
#include "safetensors.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum { K = 48, N = 8, ROWS = 96 };

/* tools/make_calibration_golden.py */
static sac_checkpoint golden;

static int open_golden(void **state) {
    (void)state;
    sac_error err;
    return sac_safetensors_open_file(&golden, "tests/golden/calibration.safetensors", &err) != SAC_OK;
}

static int close_golden(void **state) {
    (void)state;
    sac_checkpoint_free(&golden);
    return 0;
}

static void get(const char *name, void *to, size_t n_bytes) {
    const sac_checkpoint_tensor *t = sac_checkpoint_find(&golden, name);
    assert_non_null(t);
    assert_int_equal(t->n_bytes, n_bytes);
    memcpy(to, t->data, n_bytes);
}

static double h[K * K], u[K * K];
static float w[N * K], s[K];

/* ---------------------------------------------------------------- against numpy */

static void the_factor_is_that_of_the_inverse(void **state) {
    (void)state;
    sac_error err;
    get("h", h, sizeof h);
    get("u", u, sizeof u);
    assert_int_equal(sac_gptq_factor(h, K, 0.01, NULL, &err), SAC_OK);
    for (int i = 0; i < K; i++)
        for (int j = i; j < K; j++) assert_true(fabs(h[i * K + j] - u[i * K + j]) <= 1e-9 * u[i * K + i] + 1e-12);
}

typedef struct format_case {
    const char *name;
    sac_code_format format;
    bool scaled;
} format_case;

static const format_case cases[] = {
    {"w4g16", {SAC_DTYPE_PACKED_4, SAC_DTYPE_BF16, 16}, false}, {"w4g24", {SAC_DTYPE_PACKED_4, SAC_DTYPE_BF16, 24}, false},
    {"w4", {SAC_DTYPE_PACKED_4, SAC_DTYPE_BF16, 0}, false},     {"w8", {SAC_DTYPE_PACKED_8, SAC_DTYPE_BF16, 0}, false},
    {"w4g16s", {SAC_DTYPE_PACKED_4, SAC_DTYPE_BF16, 16}, true},
};

static int code_of(const format_case *c, const uint8_t *codes, int row, int i) {
    if (c->format.type == SAC_DTYPE_PACKED_8) return codes[row * K + i] - 128;
    return (codes[(row * K + i) / 2] >> (i % 2 * 4) & 15) - 8;
}

static void check_case(const format_case *c, sac_pool *pool) {
    const int n_groups = (int)sac_code_groups(&c->format, K);
    int8_t want[N * K];
    float scales[N * K];
    uint16_t got_scales[N * K];
    uint8_t codes[N * K];
    char name[40];
    double loss, want_loss;
    sac_error err;
    get("u", u, sizeof u);
    get("w", w, sizeof w);
    get("s", s, sizeof s);
    snprintf(name, sizeof name, "codes.%s", c->name);
    get(name, want, sizeof want);
    snprintf(name, sizeof name, "scales.%s", c->name);
    get(name, scales, (size_t)(N * n_groups) * sizeof *scales);
    snprintf(name, sizeof name, "loss.%s", c->name);
    get(name, &want_loss, sizeof want_loss);
    const sac_gptq g = {.format = c->format, .u = u, .k = K, .s = c->scaled ? s : NULL};
    assert_int_equal(sac_gptq_round(&g, w, N, codes, (uint8_t *)got_scales, &loss, pool, &err), SAC_OK);
    assert_true(fabs(loss / want_loss - 1) < 1e-6);
    for (int row = 0; row < N; row++)
        for (int i = 0; i < K; i++) {
            const float scale = scales[row * n_groups + i / (c->format.group ? (int)c->format.group : K)];
            if (code_of(c, codes, row, i) != want[row * K + i])
                fail_msg("%s: row %d, column %d: code %d, numpy's is %d", c->name, row, i, code_of(c, codes, row, i), want[row * K + i]);
            assert_true(fabsf(w[row * K + i] * (c->scaled ? s[i] : 1) - (float)want[row * K + i] * scale) <= 1e-6f * fabsf(scale));
        }
    for (int i = 0; i < N * n_groups; i++) assert_true(sac_bf16_to_f32(got_scales[i]) == scales[i]);
}

static void codes_are_numpys(void **state) {
    (void)state;
    sac_pool *pool;
    sac_error err;
    assert_int_equal(sac_pool_create(&pool, 3, &err), SAC_OK);
    for (size_t i = 0; i < SAC_COUNT(cases); i++) check_case(&cases[i], i % 2 ? pool : NULL);
    sac_pool_free(pool);
}

/* More columns than a block has, and more rows: as column after column, each before the next. */
static void blocks_change_nothing(void **state) {
    (void)state;
    enum { WIDE = 320, MANY = 21 };
    static double upper[WIDE * WIDE], x[WIDE];
    static float rows[MANY * WIDE], was[MANY * WIDE];
    static const int groups[] = {32, 80, 160, 0};
    sac_error err;
    srand(3);
    for (int i = 0; i < WIDE * WIDE; i++) upper[i] = i % WIDE > i / WIDE ? 0.1 * ((double)rand() / RAND_MAX - 0.5) : 0;
    for (int i = 0; i < WIDE; i++) upper[i * WIDE + i] = 1 + (double)rand() / RAND_MAX;
    for (int i = 0; i < MANY * WIDE; i++) was[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (size_t c = 0; c < SAC_COUNT(groups); c++) {
        const sac_gptq g = {.format = {SAC_DTYPE_PACKED_4, SAC_DTYPE_F32, groups[c]}, .u = upper, .k = WIDE};
        const int group = groups[c] ? groups[c] : WIDE;
        double loss, sum = 0;
        memcpy(rows, was, sizeof rows);
        assert_int_equal(sac_gptq_round(&g, rows, MANY, NULL, NULL, &loss, NULL, &err), SAC_OK);
        for (int row = 0; row < MANY; row++) {
            double step = 0;
            for (int i = 0; i < WIDE; i++) x[i] = (double)was[row * WIDE + i];
            for (int i = 0; i < WIDE; i++) {
                double most = 0;
                for (int j = i; j < i + group && i % group == 0; j++) most = fmax(most, fabs(x[j]));
                if (i % group == 0) step = (double)((float)most / 7.5f);
                const double q = fmin(fmax(rint(x[i] / step), -8), 7) * step, e = (x[i] - q) / upper[i * WIDE + i];
                sum += e * e;
                if (fabs(q - (double)rows[row * WIDE + i]) > 1e-5) fail_msg("groups of %d: row %d, column %d", group, row, i);
                for (int j = i + 1; j < WIDE; j++) x[j] -= e * upper[i * WIDE + j];
            }
        }
        assert_true(fabs(loss / sum - 1) < 1e-9);
    }
}

/* The grid of AWQ's scales: the same losses, so the same choice. */
static void scales_of_channels_are_numpys(void **state) {
    (void)state;
    double magnitude[K], grid[SAC_CHANNEL_GRID];
    float scales[K], was[N * K];
    sac_channel_choice choice;
    sac_error err;
    int best = 0;
    get("u", u, sizeof u);
    get("w", w, sizeof w);
    get("magnitude", magnitude, sizeof magnitude);
    get("grid", grid, sizeof grid);
    memcpy(was, w, sizeof w);
    for (int i = 0; i < SAC_CHANNEL_GRID; i++) best = grid[i] < grid[best] ? i : best;
    const sac_gptq g = {.format = cases[0].format, .u = u, .k = K};
    assert_int_equal(sac_channel_scales(&g, magnitude, w, N, scales, &choice, NULL, &err), SAC_OK);
    assert_true(best > 0 && best < SAC_CHANNEL_GRID - 1);
    assert_int_equal(choice.alpha, best);
    assert_true(fabs(choice.before / grid[0] - 1) < 1e-6 && fabs(choice.after / grid[best] - 1) < 1e-6);
    assert_memory_equal(w, was, sizeof w);
    double least = 1e30, most = 0;
    for (int i = 0; i < K; i++) {
        least = fmin(least, (double)scales[i]), most = fmax(most, (double)scales[i]);
        if (magnitude[i] > 0)
            assert_true(fabs(log((double)scales[i] / (double)scales[0]) - best / 20.0 * log(magnitude[i] / magnitude[0])) < 1e-5);
    }
    assert_true(fabs(least * most - 1) < 1e-5);
}

/* ---------------------------------------------------------------- whether it helps */

/* Rows of inputs of one kind: columns mixed in one way. `kind`: which; `draw`: other rows of it. */
static void draw_rows(float *x, int n, unsigned kind, unsigned draw) {
    static float mix[K * K];
    srand(kind);
    for (int i = 0; i < K * K; i++) mix[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int i = 0; i < K; i++) {
        const float size = expf(3 * (float)rand() / (float)RAND_MAX);
        for (int j = 0; j < K; j++) mix[j * K + i] *= size;
    }
    srand(draw);
    for (int r = 0; r < n; r++) {
        float z[K / 4];
        for (int j = 0; j < K / 4; j++) z[j] = (float)rand() / (float)RAND_MAX - 0.5f; /* fewer than there are columns */
        for (int i = 0; i < K; i++) {
            x[r * K + i] = 0.2f * ((float)rand() / (float)RAND_MAX - 0.5f);
            for (int j = 0; j < K / 4; j++) x[r * K + i] += z[j] * mix[j * K + i];
        }
    }
}

static void sums_of(const float *x, int n, double *sums) {
    memset(sums, 0, K * K * sizeof *sums);
    for (int r = 0; r < n; r++)
        for (int i = 0; i < K; i++)
            for (int j = 0; j < K; j++) sums[i * K + j] += (double)x[r * K + i] * (double)x[r * K + j];
}

/* |(w - q) x|^2 over the rows. */
static double error_on(const float *x, int n, const float *was, const float *q) {
    double sum = 0;
    for (int r = 0; r < n; r++)
        for (int row = 0; row < N; row++) {
            double y = 0;
            for (int i = 0; i < K; i++) y += (double)(was[row * K + i] - q[row * K + i]) * (double)x[r * K + i];
            sum += y * y;
        }
    return sum;
}

/* Error on held-out rows of kind 1, relative to rounding to nearest, where the sums are of rows of kind `kind`. */
static double held_out(unsigned kind) {
    static float seen[4 * ROWS * K], other[4 * ROWS * K], was[N * K], near[N * K];
    const sac_code_format format = {SAC_DTYPE_PACKED_4, SAC_DTYPE_BF16, 32};
    double loss;
    sac_error err;
    draw_rows(seen, 4 * ROWS, kind, 100);
    draw_rows(other, 4 * ROWS, 1, 200);
    srand(5);
    for (int i = 0; i < N * K; i++) was[i] = w[i] = near[i] = (float)rand() / (float)RAND_MAX - 0.5f;
    for (int row = 0; row < N; row++) sac_code_values(&format, near + row * K, K);
    sums_of(seen, 4 * ROWS, h);
    assert_int_equal(sac_gptq_factor(h, K, 0.01, NULL, &err), SAC_OK);
    const sac_gptq g = {.format = format, .u = h, .k = K};
    assert_int_equal(sac_gptq_round(&g, w, N, NULL, NULL, &loss, NULL, &err), SAC_OK);
    return sqrt(error_on(other, 4 * ROWS, was, w) / error_on(other, 4 * ROWS, was, near));
}

/* The planted fault: sums of other data leave more error than rounding to nearest. */
static void rows_like_those_that_were_seen_gain(void **state) {
    (void)state;
    const double same = held_out(1), wrong = held_out(2);
    print_message("error on held-out rows, of rounding to nearest: %.3f; with sums of other data %.3f\n", same, wrong);
    assert_true(same < 0.6);
    assert_true(wrong > 0.9);
}

static void the_loss_is_that_of_the_sums(void **state) {
    (void)state;
    static double damped[K * K];
    float d[N * K];
    double sum = 0, loss, mean = 0;
    sac_error err;
    get("h", damped, sizeof damped);
    get("w", d, sizeof d);
    get("u", u, sizeof u);
    for (int i = 0; i < K; i++) damped[i * K + i] += damped[i * K + i] == 0 ? 1 : 0;
    for (int i = 0; i < K; i++) mean += damped[i * K + i] / K;
    for (int i = 0; i < K; i++) damped[i * K + i] += 0.01 * mean;
    for (int row = 0; row < N; row++)
        for (int i = 0; i < K; i++)
            for (int j = 0; j < K; j++) sum += (double)d[row * K + i] * damped[i * K + j] * (double)d[row * K + j];
    assert_int_equal(sac_gptq_loss(u, K, d, N, &loss, NULL, &err), SAC_OK);
    assert_true(fabs(loss / sum - 1) < 1e-7);
}

static void what_has_no_inverse_is_refused(void **state) {
    (void)state;
    sac_error err;
    for (int i = 0; i < K * K; i++) h[i] = NAN;
    assert_int_equal(sac_gptq_factor(h, K, 0.01, NULL, &err), SAC_BAD_ARGUMENT);
    for (int i = 0; i < K * K; i++) h[i] = 1; /* of rank one, and nothing added */
    assert_int_equal(sac_gptq_factor(h, K, 0, NULL, &err), SAC_BAD_ARGUMENT);
}

/* ---------------------------------------------------------------- blocks of GGUF */

enum { BLOCK = 256, N_BLOCKS = 40 };

static double weighted_error(sac_dtype t, const float *x, const float *weights, const float *importance) {
    static uint8_t out[N_BLOCKS * 512];
    static float back[N_BLOCKS * BLOCK];
    double sum = 0;
    if (weights)
        sac_round_row_weighted(t, x, weights, out, N_BLOCKS * BLOCK);
    else
        sac_round_row(t, x, out, N_BLOCKS * BLOCK);
    sac_dequantize_row(t, out, back, N_BLOCKS * BLOCK);
    for (int i = 0; i < N_BLOCKS * BLOCK; i++) sum += (double)importance[i] * pow((double)back[i] - (double)x[i], 2);
    return sqrt(sum);
}

/* With importances of other columns the choice is worse than without any; with equal ones it is as good as none. */
static void important_columns_err_less(void **state) {
    (void)state;
    static const struct {
        sac_dtype type;
        double gain;
    } kinds[] = {{SAC_DTYPE_Q4_0, 0.9},  {SAC_DTYPE_Q4_1, 0.9},  {SAC_DTYPE_Q5_0, 0.9}, {SAC_DTYPE_Q5_1, 0.9},
                 {SAC_DTYPE_Q4_K, 0.92}, {SAC_DTYPE_Q5_K, 0.92}, {SAC_DTYPE_Q6_K, 0.95}};
    static float x[N_BLOCKS * BLOCK], importance[N_BLOCKS * BLOCK], other[N_BLOCKS * BLOCK], equal[N_BLOCKS * BLOCK];
    srand(9);
    for (int i = 0; i < N_BLOCKS * BLOCK; i++) {
        float z = 0;
        for (int k = 0; k < 8; k++) z += (float)rand() / (float)RAND_MAX - 0.5f;
        x[i] = 0.03f * z;
        importance[i] = expf(6 * (float)rand() / (float)RAND_MAX);
        equal[i] = 7;
    }
    for (int i = 0; i < N_BLOCKS * BLOCK; i++) other[i] = importance[(i + 5) % (N_BLOCKS * BLOCK)];
    for (size_t k = 0; k < SAC_COUNT(kinds); k++) {
        const sac_dtype t = kinds[k].type;
        const double none = weighted_error(t, x, NULL, importance), right = weighted_error(t, x, importance, importance),
                     wrong = weighted_error(t, x, other, importance), flat = weighted_error(t, x, equal, equal) / sqrt(7),
                     plain = weighted_error(t, x, NULL, equal) / sqrt(7);
        print_message("%s: %.3f of the error without importances, %.3f with those of other columns; %.3f with equal ones\n",
                      sac_dtype_name(t), right / none, wrong / none, flat / plain);
        assert_true(right < kinds[k].gain * none);
        assert_true(wrong > right / 0.95);
        assert_true(flat < 1.01 * plain);
    }
}

static void odd_rows_stay_finite(void **state) {
    (void)state;
    static const sac_dtype types[] = {SAC_DTYPE_Q4_0, SAC_DTYPE_Q4_1, SAC_DTYPE_Q5_0, SAC_DTYPE_Q5_1,
                                      SAC_DTYPE_Q4_K, SAC_DTYPE_Q5_K, SAC_DTYPE_Q6_K, SAC_DTYPE_Q8_0};
    static const float values[] = {0, -0.0f, 1e-38f, 1e-30f, -1e-7f, 65504, -65504, 1e-45f};
    for (size_t t = 0; t < SAC_COUNT(types); t++)
        for (size_t v = 0; v < SAC_COUNT(values); v++)
            for (int kind = 0; kind < 3; kind++) {
                float row[BLOCK], importance[BLOCK], back[BLOCK];
                uint8_t out[1024];
                for (int i = 0; i < BLOCK; i++) row[i] = kind == 0 || i % 64 == 5 ? values[v] : kind == 1 ? 0 : (float)i;
                for (int i = 0; i < BLOCK; i++) importance[i] = i % 3 ? values[(v + (size_t)i) % 4] : i % 2 ? 1e30f : 0;
                sac_round_row_weighted(types[t], row, importance, out, BLOCK);
                sac_dequantize_row(types[t], out, back, BLOCK);
                for (int i = 0; i < BLOCK; i++)
                    if (!isfinite(back[i])) fail_msg("%s of %g: not finite", sac_dtype_name(types[t]), (double)values[v]);
            }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_factor_is_that_of_the_inverse), cmocka_unit_test(codes_are_numpys), cmocka_unit_test(blocks_change_nothing),
        cmocka_unit_test(scales_of_channels_are_numpys),
        cmocka_unit_test(rows_like_those_that_were_seen_gain), cmocka_unit_test(the_loss_is_that_of_the_sums),
        cmocka_unit_test(what_has_no_inverse_is_refused), cmocka_unit_test(important_columns_err_less),
        cmocka_unit_test(odd_rows_stay_finite),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
