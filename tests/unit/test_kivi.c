/* KIVI and the plain baseline: rounding by group, what is packed when, streams against prompts, bytes. */
#include "format_test.h"
#include "method_session.h"

enum { N_CTX = 420, MAX_COLS = 8 * 128 };

static const struct {
    int n_heads, n_kv_heads, d;
} SHAPES[] = {{4, 4, 64}, {6, 2, 64}, {4, 1, 64}, {7, 1, 80}, {8, 1, 128}, {2, 1, 24}};

static case_shape shape_of(size_t i, bool use_cpu) {
    return (case_shape){.n_heads = SHAPES[i].n_heads,
                        .n_kv_heads = SHAPES[i].n_kv_heads,
                        .head_dim = SHAPES[i].d,
                        .n_ctx = N_CTX,
                        .use_cpu = use_cpu};
}

static float half(float x) {
    return sac_f16_to_f32(sac_f32_to_f16(x));
}

/* The numbers that n tokens in one range come back as. */
static void round_range(const float *x, int64_t n, int64_t stride, int bits, float *y) {
    float min = INFINITY, max = -INFINITY;
    for (int64_t i = 0; i < n; i++) {
        min = fminf(min, half(x[i * stride]));
        max = fmaxf(max, half(x[i * stride]));
    }
    sac_packed_range r = sac_packed_range_of(min, max, bits);
    float low = sac_f16_to_f32(r.min), step = sac_f16_to_f32(r.scale);
    for (int64_t i = 0; i < n; i++) {
        float u = step > 0 ? floorf((half(x[i * stride]) - low) / step + 0.5f) : 0;
        y[i * stride] = low + u * step;
        assert_true(fabsf(y[i * stride] - half(x[i * stride])) <= step / 2 * 1.0001f + 1e-6f);
    }
}

static float k_want[4 * N_CTX * 128], v_want[4 * N_CTX * 128], k_got[4 * N_CTX * 128], v_got[4 * N_CTX * 128];

/* What KIVI holds after n tokens: whole blocks of keys by channel, values but for the last `residual`. */
static void expect_kivi(const format_case *f, int64_t n, int64_t residual, int64_t group, int bits) {
    const sac_attention_shape *s = &f->c.shape;
    int d = s->head_dim;
    int64_t n_keys = n / residual * residual, n_values = n > residual ? n - residual : 0;
    for (int head = 0; head < s->n_kv_heads; head++) {
        const float *k = format_true_keys(f) + head * N_CTX * d,
                    *v = format_true_values(f) + head * N_CTX * d;
        float *kw = k_want + head * N_CTX * d, *vw = v_want + head * N_CTX * d;
        for (int64_t i = 0; i < n * d; i++) {
            kw[i] = half(k[i]);
            vw[i] = half(v[i]);
        }
        for (int64_t row = 0; row < n_keys; row += group)
            for (int c = 0; c < d; c++) round_range(k + row * d + c, group, d, bits, kw + row * d + c);
        for (int64_t row = 0; row < n_values; row++)
            for (int c = 0; c < d; c += (int)group)
                round_range(v + row * d + c, d - c < group ? d - c : group, 1, bits, vw + row * d + c);
    }
}

/* Int4: every row and head with its own range. */
static void expect_int4(const format_case *f, int64_t n) {
    int d = f->c.shape.head_dim;
    for (int head = 0; head < f->c.shape.n_kv_heads; head++)
        for (int64_t row = 0; row < n; row++) {
            int64_t at = (head * N_CTX + row) * d;
            round_range(format_true_keys(f) + at, d, 1, 4, k_want + at);
            round_range(format_true_values(f) + at, d, 1, 4, v_want + at);
        }
}

static void same_rows(format_case *f, int64_t n) {
    assert_int_equal(format_rows(f, k_got, v_got), n);
    for (int head = 0; head < f->c.shape.n_kv_heads; head++)
        for (int64_t i = 0; i < n * f->c.shape.head_dim; i++) {
            int64_t at = head * N_CTX * f->c.shape.head_dim + i;
            assert_true(fabsf(k_got[at] - k_want[at]) < 2e-3f && fabsf(v_got[at] - v_want[at]) < 1e-3f);
        }
}

/* A step sees what was stored before it, and its own token plain. */
static void step_as_expected(format_case *f, double tolerance) {
    double want[MAX_COLS];
    const sac_attention_shape *s = &f->c.shape;
    int d = s->head_dim;
    int64_t token = f->c.n;
    format_step(f);
    for (int head = 0; head < s->n_kv_heads; head++)
        for (int c = 0; c < d; c++) {
            int64_t at = (head * N_CTX + token) * d + c;
            k_want[at] = half(format_true_keys(f)[at]);
            v_want[at] = half(format_true_values(f)[at]);
        }
    format_oracle(f, token, k_want, v_want, token + 1, want);
    case_expect(&f->c, 0, want, tolerance);
}

static void kivi_holds_and_attends_as_the_paper_says(void **state) {
    (void)state;
    static const struct {
        const char *line;
        int64_t residual, group;
        int bits;
    } runs[] = {{"kivi:residual=64", 64, 32, 2}, {"kivi:bits=4,group=16,residual=48", 48, 16, 4}};
    static const int64_t lengths[] = {1, 63, 64, 65, 128, 200};
    for (size_t i = 0; i < SAC_COUNT(SHAPES); i++)
        for (size_t j = 0; j < SAC_COUNT(lengths); j++) {
            size_t r = (i + j) % 2;
            case_shape s = shape_of(i, j % 2 == 0);
            format_case f;
            format_open(&f, &s, i + 10 * j, "dense", runs[r].line);
            format_prompt(&f, lengths[j]);
            for (int step = 0; step < 140; step++) {
                expect_kivi(&f, f.c.n, runs[r].residual, runs[r].group, runs[r].bits);
                if (step % 23 == 0) same_rows(&f, f.c.n);
                step_as_expected(&f, 2e-3);
            }
            format_prompt(&f, 33); /* goes on where the answer stopped */
            expect_kivi(&f, f.c.n, runs[r].residual, runs[r].group, runs[r].bits);
            same_rows(&f, f.c.n);
            for (int step = 0; step < 5; step++) {
                expect_kivi(&f, f.c.n, runs[r].residual, runs[r].group, runs[r].bits);
                step_as_expected(&f, 2e-3);
            }
            format_close(&f);
        }
}

/* Token by token or as one prompt: the same bytes. */
static void stream_equals_prompt(void **state) {
    (void)state;
    static const char *const lines[] = {"kivi:residual=64", "kivi:bits=4,residual=32", "int4"};
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        case_shape s = shape_of(1, true);
        format_case stream, prompt;
        format_open(&stream, &s, 5, "dense", lines[i]);
        format_open(&prompt, &s, 5, "dense", lines[i]);
        format_prompt(&stream, 40);
        for (int step = 0; step < 170; step++) format_step(&stream);
        format_prompt(&prompt, 210);
        assert_int_equal(format_rows(&stream, k_got, v_got), 210);
        assert_int_equal(format_rows(&prompt, k_want, v_want), 210);
        for (int head = 0; head < s.n_kv_heads; head++) {
            size_t at = (size_t)(head * N_CTX * s.head_dim), n = (size_t)(210 * s.head_dim) * sizeof(float);
            assert_memory_equal(k_got + at, k_want + at, n);
            assert_memory_equal(v_got + at, v_want + at, n);
        }
        format_close(&stream);
        format_close(&prompt);
    }
}

static void kivi_bytes_equal_the_closed_form(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(SHAPES) - 1; i++) {
        case_shape s = shape_of(i, true);
        size_t channels = (size_t)(s.n_kv_heads * s.head_dim),
               groups = (size_t)((s.head_dim + 31) / 32 * s.n_kv_heads);
        format_case f;
        format_open(&f, &s, i, "dense", "kivi:bits=4,residual=64");
        format_prompt(&f, 150);
        for (size_t n = 150; n < 350; n++) {
            size_t n_keys = n / 64 * 64, n_values = n - 64;
            size_t keys = n_keys * channels / 2 + n_keys / 32 * channels * 4;
            size_t values = (n_values + 7) / 8 * 8 * channels / 2 + n_values * groups * 4;
            size_t n_tail = (size_t)f.cache.layer_rows[0];
            assert_true(n_tail >= 64 && n_tail < 128);
            assert_int_equal(sac_kv_cache_bytes_used(&f.cache), keys + values + 4 * channels * n_tail);
            format_step(&f);
        }
        format_close(&f);
    }
}

static void int4_holds_every_row_rounded(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(SHAPES); i++) {
        case_shape s = shape_of(i, i % 2 == 0);
        format_case f;
        double want[MAX_COLS];
        format_open(&f, &s, i, "dense", "int4");
        format_prompt(&f, 77);
        for (int step = 0; step < 40; step++) {
            format_step(&f);
            expect_int4(&f, f.c.n);
            format_oracle(&f, f.c.n - 1, k_want, v_want, f.c.n, want);
            case_expect(&f.c, 0, want, 2e-3);
        }
        same_rows(&f, f.c.n);
        size_t n = 117, channels = (size_t)(s.n_kv_heads * s.head_dim);
        assert_int_equal(sac_kv_cache_bytes_used(&f.cache),
                         (n + (n + 7) / 8 * 8) * channels / 2 + n * (size_t)s.n_kv_heads * 8);
        format_prompt(&f, 30);
        expect_int4(&f, f.c.n);
        for (int head = 0; head < s.n_kv_heads; head++) /* what the first prompt left was packed once */
            assert_int_equal(format_rows(&f, k_got, v_got), 147);
        same_rows(&f, 147);
        format_close(&f);
    }
}

static void settings(void **state) {
    (void)state;
    sac_attention_shape shape = {.n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 100};
    sac_kv_choice c;
    sac_error err;
    assert_int_equal(sac_kv_choice_parse(&c, "kivi:bits=3", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "kivi:group=20", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "kivi:residual=40", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_kv_choice_parse(&c, "int4:bits=5", &shape, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_kv_choice_parse(&c, "kivi:residual=128", &shape, &err), err); /* never reached */
    assert_string_equal(c.format->name, "f16");
    assert_ok(sac_kv_choice_parse(&c, "kivi:residual=96", &shape, &err), err);
    assert_string_equal(c.format->name, "kivi");
}

static void sessions_repeat_themselves(void **state) {
    (void)state;
    static told first, t, dense;
    static const char *const lines[] = {"kivi:bits=4,residual=32", "int4", "int4:bits=8"};
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        sac_session_config c = told_config(NULL, NULL, lines[i]);
        for (int run = 0; run < 3; run++) {
            sac_model *m = told_model(run == 2 ? 1 : 2);
            tell(m, &c, &t);
            if (run == 0) first = t;
            told_equal(&first, &t);
            sac_model_free(m);
        }
    }
    sac_model *m = told_model(2);
    sac_session_config off = told_config(NULL, NULL, "kivi:residual=1024"), d = told_config(NULL, NULL, NULL);
    tell(m, &d, &dense);
    tell(m, &off, &t);
    told_equal(&dense, &t);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kivi_holds_and_attends_as_the_paper_says),
        cmocka_unit_test(stream_equals_prompt),
        cmocka_unit_test(kivi_bytes_equal_the_closed_form),
        cmocka_unit_test(int4_holds_every_row_rounded),
        cmocka_unit_test(settings),
        cmocka_unit_test(sessions_repeat_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
