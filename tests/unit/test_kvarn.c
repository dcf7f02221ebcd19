/* KVarN: turning, factors and rounding against fp64; what a step reads; bytes; what is refused. */
#include "even.h"
#include "format_test.h"
#include "method_session.h"

enum { N_CTX = 600, TILE = 128, MAX_D = 128, MAX_COLS = 8 * MAX_D };

static const struct {
    int n_heads, n_kv_heads, d;
} SHAPES[] = {{4, 4, 64}, {6, 2, 64}, {7, 1, 32}, {4, 2, 128}, {2, 1, 16}};

static case_shape shape_of(size_t i, bool use_cpu) {
    return (case_shape){.n_heads = SHAPES[i].n_heads,
                        .n_kv_heads = SHAPES[i].n_kv_heads,
                        .head_dim = SHAPES[i].d,
                        .n_ctx = N_CTX,
                        .use_cpu = use_cpu};
}

/* ---------------------------------------------------------------- fp64 */

/* Sylvester's matrix: the sign of the bits that row and column share. */
static void turn(const double *x, int64_t n, double *y) {
    for (int64_t i = 0; i < n; i++) {
        y[i] = 0;
        for (int64_t j = 0; j < n; j++)
            y[i] += (__builtin_popcountll((unsigned long long)(i & j)) % 2 ? -1 : 1) * x[j];
        y[i] /= sqrt((double)n);
    }
}

/* Deviation of column j of [n][m] x over c and r, or of row j. */
static double deviation(const double *x, int64_t n, int64_t m, bool of_row, int64_t j, const double *c,
                        const double *r) {
    int64_t n_across = of_row ? m : n;
    double mean = 0, sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int64_t i = 0; i < n_across; i++) {
            int64_t row = of_row ? j : i, column = of_row ? i : j;
            double y = x[row * m + column] / exp(c[column]) / exp(r[row]);
            if (pass == 0)
                mean += y / (double)n_across;
            else
                sum += (y - mean) * (y - mean);
        }
    return fmin(1e3, fmax(1e-3, sqrt(sum / (double)(n_across - 1))));
}

static double spread(const double *x, int64_t n, int64_t m, bool of_row, const double *c, const double *r) {
    double least = INFINITY, most = 0;
    for (int64_t j = 0; j < (of_row ? n : m); j++) {
        double s = deviation(x, n, m, of_row, j, c, r);
        least = fmin(least, s);
        most = fmax(most, s);
    }
    return most / least;
}

/* The paper's rounds, columns first; factors of columns. */
static void factors(const double *x, int64_t n, int64_t m, double *factor) {
    double c[SAC_EVEN_MAX] = {0}, r[SAC_EVEN_MAX] = {0}, next[SAC_EVEN_MAX], best = INFINITY;
    for (int round = 0; round <= 16; round++) {
        for (int side = 0; side < 2 && round > 0; side++) {
            for (int64_t j = 0; j < (side ? n : m); j++) {
                double log_factor = (side ? r : c)[j] + log(deviation(x, n, m, side, j, c, r));
                next[j] = fmin(10, fmax(-8, log_factor));
            }
            memcpy(side ? r : c, next, (size_t)(side ? n : m) * sizeof *next);
        }
        double now = spread(x, n, m, false, c, r) + spread(x, n, m, true, c, r);
        if (now > best) continue;
        best = now;
        for (int64_t j = 0; j < m; j++) factor[j] = exp(c[j]);
    }
}

/* ---------------------------------------------------------------- parts */

static void turning_is_its_own_inverse(void **state) {
    uint64_t random = 1;
    (void)state;
    for (int64_t n = 1; n <= 256; n *= 2) {
        float x[256], y[256];
        double u[256], want[256];
        for (int64_t i = 0; i < n; i++) u[i] = (double)(x[i] = y[i] = 10 * test_rand_float(&random));
        turn(u, n, want);
        sac_even_turn(y, n);
        for (int64_t i = 0; i < n; i++) assert_true(fabs((double)y[i] - want[i]) < 1e-5 * 10);
        sac_even_turn(y, n);
        for (int64_t i = 0; i < n; i++) assert_true(fabsf(y[i] - x[i]) < 1e-5f * 10);
    }
}

/* Random numbers with one row and one column that are 50 times larger, and all of them small. */
static void planted(float *x, int64_t n, int64_t m, float scale, uint64_t seed) {
    for (int64_t i = 0; i < n * m; i++) {
        x[i] = scale * test_rand_float(&seed);
        if (i / m == n / 3) x[i] *= 50;
        if (i % m == m / 2) x[i] *= 50;
    }
}

/* Rounds end alike or nearly so: which of the last is the best one is a matter of rounding, and from round to round all
 * factors grow or shrink together, which the other side's take back. */
static void same_but_for_scale(const float *factor, const double *want, int64_t n) {
    double common = (double)factor[0] / want[0];
    assert_true(fabs(common - 1) < 0.1);
    for (int64_t j = 0; j < n; j++) assert_true(fabs((double)factor[j] / want[j] / common - 1) < 1e-3);
}

static void factors_are_the_papers(void **state) {
    static float x[TILE * MAX_D], turned[TILE * MAX_D];
    static double u[TILE * MAX_D], t[TILE * MAX_D];
    static const float scales[] = {1, 0.01f, 30};
    (void)state;
    for (size_t k = 0; k < 6; k++) {
        const int64_t n = TILE, m = k % 2 ? 64 : 16;
        float factor[TILE];
        double want[TILE];
        planted(x, n, m, scales[k / 2], k);
        for (int64_t i = 0; i < n * m; i++) t[i % m * n + i / m] = u[i] = (double)x[i];
        sac_even_factors(x, n, m, false, turned, factor);
        factors(u, n, m, want);
        same_but_for_scale(factor, want, m);
        assert_true(factor[m / 2] > 10 * factor[0]); /* the planted column */
        sac_even_factors(x, n, m, true, turned, factor);
        factors(t, m, n, want);
        same_but_for_scale(factor, want, n);
        assert_true(factor[n / 3] > 10 * factor[0]); /* the planted row */
    }
}

/* ---------------------------------------------------------------- the cache */

static float k_want[4 * N_CTX * MAX_D], v_want[4 * N_CTX * MAX_D], k_got[4 * N_CTX * MAX_D],
    v_got[4 * N_CTX * MAX_D];

static float half(float x) {
    return sac_f16_to_f32(sac_f32_to_f16(x));
}

/* One range of n numbers `stride` apart, rounded. */
static void round_range(double *x, int64_t n, int64_t stride, int bits) {
    double min = INFINITY, max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        min = fmin(min, x[i * stride]);
        max = fmax(max, x[i * stride]);
    }
    sac_packed_range r = sac_packed_range_of((float)min, (float)max, bits);
    double low = (double)sac_f16_to_f32(r.min), step = (double)sac_f16_to_f32(r.scale);
    for (int64_t i = 0; i < n; i++)
        x[i * stride] = low + (step > 0 ? floor((x[i * stride] - low) / step + 0.5) : 0) * step;
}

/* A tile of a head as it comes back: keys with a range a channel and factors a token, values the other way. */
static void expect_tile(const float *x, int d, bool keys, int bits, float *y) {
    static double u[TILE * MAX_D], t[TILE * MAX_D];
    double row[MAX_D], factor[TILE];
    for (int64_t i = 0; i < TILE; i++) {
        for (int c = 0; c < d; c++) row[c] = (double)half(x[i * d + c]);
        turn(row, d, u + i * d);
    }
    for (int64_t i = 0; i < TILE * d; i++) t[i % d * TILE + i / d] = u[i];
    factors(keys ? t : u, keys ? d : TILE, keys ? TILE : d, factor);
    for (int64_t i = 0; i < TILE * d; i++) u[i] /= (double)half((float)factor[keys ? i / d : i % d]);
    if (keys)
        for (int c = 0; c < d; c++) round_range(u + c, TILE, d, bits);
    else
        for (int64_t i = 0; i < TILE; i++) round_range(u + i * d, d, 1, bits);
    for (int64_t i = 0; i < TILE * d; i++) u[i] *= (double)half((float)factor[keys ? i / d : i % d]);
    for (int64_t i = 0; i < TILE; i++) {
        turn(u + i * d, d, row);
        for (int c = 0; c < d; c++) y[i * d + c] = (float)row[c];
    }
}

/* All that is held of n tokens: whole tiles rounded, the rest as halves. */
static void expect_rows(const format_case *f, int64_t n, int k_bits, int v_bits, int first) {
    int d = f->c.shape.head_dim;
    for (int head = 0; head < f->c.shape.n_kv_heads; head++)
        for (int64_t row = 0; row < n; row += TILE) {
            int64_t at = (head * N_CTX + row) * d, left = n - row;
            const float *k = format_true_keys(f) + at, *v = format_true_values(f) + at;
            if (left >= TILE) {
                expect_tile(k, d, true, row ? k_bits : first, k_want + at);
                expect_tile(v, d, false, row ? v_bits : first, v_want + at);
                continue;
            }
            for (int64_t i = 0; i < left * d; i++) k_want[at + i] = half(k[i]), v_want[at + i] = half(v[i]);
        }
}

/* A code may fall the other way where it lies on an edge: few numbers may be off, by a step of their range, so that they
 * are as wrong as the others. The root of the mean square tells, beside that of what rounding takes. */
static double root_mean_square_off(const format_case *f, int64_t n, const float *got, const float *want) {
    int d = f->c.shape.head_dim;
    double sum = 0;
    for (int head = 0; head < f->c.shape.n_kv_heads; head++)
        for (int64_t i = 0; i < n * d; i++) {
            double off = (double)got[head * N_CTX * d + i] - (double)want[head * N_CTX * d + i];
            sum += off * off;
        }
    return sqrt(sum / (double)(n * d * f->c.shape.n_kv_heads));
}

/* A step reads what is stored and its own token. */
static void step_as_held(format_case *f) {
    double want[MAX_COLS];
    const sac_attention_shape *s = &f->c.shape;
    int64_t token = f->c.n;
    assert_int_equal(format_rows(f, k_got, v_got), token);
    format_step(f);
    for (int head = 0; head < s->n_kv_heads; head++)
        for (int c = 0; c < s->head_dim; c++) {
            int64_t at = (head * N_CTX + token) * s->head_dim + c;
            k_got[at] = half(format_true_keys(f)[at]);
            v_got[at] = half(format_true_values(f)[at]);
        }
    format_oracle(f, token, k_got, v_got, token + 1, want);
    case_expect(&f->c, 0, want, 2e-3);
}

static void holds_and_attends_as_the_paper_says(void **state) {
    static const struct {
        const char *line;
        int k, v, first;
    } runs[] = {{"kvarn", 4, 2, 8}, {"kvarn:k=2,v=2,first=2", 2, 2, 2}, {"kvarn:k=4,v=4,first=8", 4, 4, 8}};
    static const int64_t lengths[] = {5, 127, 128, 300};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(SHAPES); i++)
        for (size_t j = 0; j < SAC_COUNT(lengths); j++) {
            size_t r = (i + j) % 3;
            case_shape s = shape_of(i, j % 2 == 0);
            format_case f;
            format_open(&f, &s, i + 10 * j, "dense", runs[r].line);
            format_prompt(&f, lengths[j]);
            for (int step = 0; step < 140; step++)
                if (step % 9 == 0)
                    step_as_held(&f);
                else
                    format_step(&f);
            format_prompt(&f, 90); /* goes on where the answer stopped */
            expect_rows(&f, f.c.n, runs[r].k, runs[r].v, runs[r].first);
            assert_int_equal(format_rows(&f, k_got, v_got), f.c.n);
            assert_true(root_mean_square_off(&f, f.c.n, k_got, k_want) <
                        0.5 * root_mean_square_off(&f, f.c.n, k_got, format_true_keys(&f)) + 1e-3);
            assert_true(root_mean_square_off(&f, f.c.n, v_got, v_want) <
                        0.5 * root_mean_square_off(&f, f.c.n, v_got, format_true_values(&f)) + 1e-3);
            for (int step = 0; step < 3; step++) step_as_held(&f);
            format_close(&f);
        }
}

/* Root of the mean square error of a prompt's ordinary numbers, where a channel, and a token if asked for, is 50 times as
 * large as the others. (Rope takes a channel of keys to two.) */
static void off_of(const char *line, bool token, double *k, double *v) {
    enum { N = 384, CHANNEL = 5, TOKEN = 200 };
    case_shape s = shape_of(0, true);
    format_case f;
    double n = 0;
    format_open(&f, &s, 3, "dense", line);
    for (int64_t i = 0; i < N_CTX * s.n_kv_heads * s.head_dim; i++) {
        bool is_large = i % s.head_dim == CHANNEL || (token && i / s.head_dim / s.n_kv_heads == TOKEN);
        f.c.raw_k[i] *= is_large ? 25 : 0.5f;
        f.c.raw_v[i] *= is_large ? 25 : 0.5f;
    }
    format_prompt(&f, N);
    assert_int_equal(format_rows(&f, k_got, v_got), N);
    *k = *v = 0;
    for (int64_t i = 0; i < s.n_kv_heads * N * s.head_dim; i++) {
        int64_t head = i / N / s.head_dim, row = i / s.head_dim % N, c = i % s.head_dim;
        int64_t at = (head * N_CTX + row) * s.head_dim + c;
        if (c % (s.head_dim / 2) == CHANNEL || row == TOKEN) continue;
        *k += pow((double)k_got[at] - (double)format_true_keys(&f)[at], 2);
        *v += pow((double)v_got[at] - (double)format_true_values(&f)[at], 2);
        n++;
    }
    *k = sqrt(*k / n);
    *v = sqrt(*v / n);
    format_close(&f);
}

/* A large token takes the precision of those that share a range of a channel with it in KIVI, not here; and a large
 * channel takes less of the values'. */
static void large_ones_do_not_spoil_the_others(void **state) {
    double k, v, k_more, v_more, k_kivi, v_kivi, k_kivi_more, v_kivi_more;
    (void)state;
    off_of("kvarn:k=4,v=4,first=4", false, &k, &v);
    off_of("kvarn:k=4,v=4,first=4", true, &k_more, &v_more);
    off_of("kivi:bits=4,group=128,residual=128", false, &k_kivi, &v_kivi);
    off_of("kivi:bits=4,group=128,residual=128", true, &k_kivi_more, &v_kivi_more);
    assert_true(k_more < 1.05 * k && v_more < 1.05 * v);
    assert_true(k_kivi_more > 3 * k_kivi);
    assert_true(v < 0.5 * v_kivi && k_more < k_kivi_more);
}

static void bytes_equal_the_closed_form(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(SHAPES); i++) {
        case_shape s = shape_of(i, true);
        size_t channels = (size_t)(s.n_kv_heads * s.head_dim), heads = (size_t)s.n_kv_heads;
        size_t factors_of_tile = 3 * 2 * (channels + heads * TILE);
        format_case f;
        format_open(&f, &s, i, "dense", "kvarn");
        format_prompt(&f, 100);
        for (size_t n = 100; n < 500; n++) {
            size_t tiles = n / TILE, first = tiles > 0 ? 2 * TILE * channels + factors_of_tile : 0;
            size_t others = tiles > 1 ? (tiles - 1) * (TILE * channels * 6 / 8 + factors_of_tile) : 0;
            assert_int_equal(sac_kv_cache_bytes_used(&f.cache), first + others + 4 * channels * (n % TILE));
            format_step(&f);
        }
        format_close(&f);
    }
}

/* Token by token or as one prompt: the same bytes. */
static void stream_equals_prompt(void **state) {
    case_shape s = shape_of(1, true);
    format_case stream, prompt;
    (void)state;
    format_open(&stream, &s, 5, "dense", "kvarn");
    format_open(&prompt, &s, 5, "dense", "kvarn");
    format_prompt(&stream, 40);
    for (int step = 0; step < 260; step++) format_step(&stream);
    format_prompt(&prompt, 300);
    assert_int_equal(format_rows(&stream, k_got, v_got), 300);
    assert_int_equal(format_rows(&prompt, k_want, v_want), 300);
    for (int head = 0; head < s.n_kv_heads; head++) {
        size_t at = (size_t)(head * N_CTX * s.head_dim), n = (size_t)(300 * s.head_dim) * sizeof(float);
        assert_memory_equal(k_got + at, k_want + at, n);
        assert_memory_equal(v_got + at, v_want + at, n);
    }
    format_close(&stream);
    format_close(&prompt);
}

static void settings(void **state) {
    sac_attention_shape shape = {.n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .n_ctx = 100};
    sac_device card = {.kind = SAC_DEVICE_CUDA};
    sac_kv_choice c;
    sac_error err;
    (void)state;
    assert_ok(sac_kv_choice_parse(&c, "kvarn:k=2,v=8", &shape, &err), err);
    assert_int_equal(sac_kv_choice_parse(&c, "kvarn:k=3", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "kvarn:first=5", &shape, &err), SAC_BAD_ARGUMENT);
    for (int d = 80; d <= 512; d += 432) { /* no power of two; more than there is room for */
        shape.head_dim = d;
        assert_int_equal(sac_kv_choice_parse(&c, "kvarn", &shape, &err), SAC_UNSUPPORTED);
        assert_non_null(strstr(err.text, "powers of two up to 256"));
    }
    shape.head_dim = 64;
    shape.device = &card;
    assert_ok(sac_kv_choice_parse(&c, "kvarn", &shape, &err), err);
}

static void sessions_repeat_themselves(void **state) {
    static told first, t;
    static const char *const prefills[] = {NULL, "zipvl:min=0", "xattn:min=0,tau=0.5"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(prefills); i++) {
        sac_session_config c = told_config(prefills[i], NULL, "kvarn");
        for (int run = 0; run < 3; run++) {
            sac_model *m = told_model(run == 2 ? 1 : 2);
            tell(m, &c, &t);
            if (run == 0) first = t;
            told_equal(&first, &t);
            sac_model_free(m);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(turning_is_its_own_inverse),
        cmocka_unit_test(factors_are_the_papers),
        cmocka_unit_test(holds_and_attends_as_the_paper_says),
        cmocka_unit_test(large_ones_do_not_spoil_the_others),
        cmocka_unit_test(bytes_equal_the_closed_form),
        cmocka_unit_test(stream_equals_prompt),
        cmocka_unit_test(settings),
        cmocka_unit_test(sessions_repeat_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
