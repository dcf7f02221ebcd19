/* StreamingLLM against plain fp64 attention over its list of tokens. */
#include "method_session.h"
#include "method_test.h"

static const int GROUPS[][2] = {{4, 4}, {4, 1}, {7, 1}, {8, 1}, {6, 2}};

enum { MAX_COLS = 8 * 64 };

typedef struct kept {
    int64_t start, recent;
} kept;

/* Place of a token in a query's list, or -1. */
static int64_t place(const kept *k, int64_t query, int64_t key) {
    if (query < k->start + k->recent) return key;
    if (key < k->start) return key;
    return key > query - k->recent ? k->start + key - (query - k->recent + 1) : -1;
}
static bool is_kept(void *ctx, int h, int64_t query, int64_t key) {
    (void)h;
    return place(ctx, query, key) >= 0;
}
static void compact(void *ctx, int h, int64_t query, int64_t key, int64_t *query_at, int64_t *key_at) {
    (void)h;
    *query_at = place(ctx, query, query);
    *key_at = place(ctx, query, key);
}

static void expect(const layer_case *c, int64_t first, int64_t n, kept *k, bool own) {
    double want[MAX_COLS];
    for (int64_t i = 0; i < n; i++) {
        case_oracle(c, first + i, is_kept, own ? NULL : compact, k, want);
        case_expect(c, i, want, 5e-6);
    }
}

static void prompts_and_steps_equal_the_oracle(void **state) {
    (void)state;
    static const kept settings[] = {{4, 17}, {0, 9}, {1, 1}, {5, 40}};
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++)
        for (size_t j = 0; j < 2 * SAC_COUNT(settings); j++) {
            layer_case c;
            char line[100];
            kept k = settings[j / 2];
            bool own = j % 2;
            case_open(
                &c,
                &(case_shape){GROUPS[i][0], GROUPS[i][1], i % 2 ? 64 : 16, .n_ctx = 400, .use_cpu = i % 2},
                i + 1);
            snprintf(line, sizeof line, "streaming:start=%d,recent=%d,pos=%s", (int)k.start, (int)k.recent,
                     own ? "orig" : "compact");
            case_method(&c, line, line);
            case_prompt(&c, 311);
            expect(&c, 0, 311, &k, own);
            case_prompt(&c, 3); /* a second turn */
            expect(&c, 311, 3, &k, own);
            case_step(&c);
            expect(&c, 314, 1, &k, own);
            int64_t n_read = k.start + k.recent;
            assert_true(c.stats.decode_rows == (double)n_read * c.shape.n_kv_heads);
            double pairs = (double)(n_read * (n_read + 1) / 2 + (314 - n_read) * n_read) * c.shape.n_heads;
            assert_true(c.stats.prefill_pairs == pairs);
            for (int64_t t = 315; t < 318; t++) { /* a list of rows is of its step alone */
                case_step(&c);
                expect(&c, t, 1, &k, own);
            }
            case_close(&c);
        }
}

/* A yarn table holds a factor that turned queries must not get twice. */
static void the_factor_of_a_table_stays_what_it_is(void **state) {
    (void)state;
    layer_case c;
    static float plain[100 * 6 * 16];
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 120}, 5);
    case_method(&c, "streaming:start=3,recent=20", "dense");
    case_prompt(&c, 100);
    memcpy(plain, c.out, sizeof plain);
    for (int64_t i = 0; i < 120 * 16; i++) c.cos_sin[i] *= 1.25f;
    for (int64_t i = 0; i < 120 * 6 * 16; i++) c.raw_q[i] *= 0.8f * 0.8f; /* the factor in q and in k */
    c.rotation.factor = 1.25f;
    case_method(&c, "streaming:start=3,recent=20", "dense");
    case_prompt(&c, 100);
    for (int64_t i = 0; i < 100 * 6 * 16; i++) assert_true(fabsf(c.out[i] - plain[i]) < 1e-5f);
    case_close(&c);
}

static void the_middle_is_never_read(void **state) {
    (void)state;
    for (int cpu = 0; cpu < 2; cpu++) {
        layer_case c;
        float before[6 * 16];
        const char *line = "streaming:start=4,recent=20";
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 120, .use_cpu = cpu}, 5);
        for (int changed = 0; changed < 2; changed++) {
            for (int64_t i = 4 * 2 * 16; changed && i < 80 * 2 * 16; i++) c.raw_k[i] = c.raw_v[i] = 9;
            case_method(&c, line, line);
            case_prompt(&c, 100);
            if (!changed)
                memcpy(before, c.out + 99 * 96, sizeof before);
            else
                assert_memory_equal(before, c.out + 99 * 96, sizeof before);
        }
        case_close(&c);
    }
}

static void run_all(layer_case *c, const char *line, float *outputs) {
    case_method(c, line, line);
    case_prompt(c, 70);
    memcpy(outputs, c->out, 70 * 96 * sizeof(float));
    for (size_t step = 0; step < 5; step++) {
        case_step(c);
        memcpy(outputs + (70 + step) * 96, c->out, 96 * sizeof(float));
    }
}

static void off_and_short_are_dense_bit_by_bit(void **state) {
    (void)state;
    static float dense[75 * 96], got[75 * 96];
    layer_case c;
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100, .use_cpu = true}, 5);
    run_all(&c, "dense", dense);
    run_all(&c, "streaming:start=4,recent=96", got);
    assert_true(c.decode.policy == &sac_decode_dense && c.prefill.policy == &sac_prefill_dense);
    assert_memory_equal(got, dense, sizeof got);
    run_all(&c, "streaming:start=4,recent=71", got);
    assert_true(c.decode.policy != &sac_decode_dense && c.prefill.policy != &sac_prefill_dense);
    assert_memory_equal(got, dense, sizeof got);
    case_close(&c);
}

static void senseless_settings_are_refused(void **state) {
    (void)state;
    sac_attention_shape shape = {
        .n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 10000, .max_position = 1000};
    sac_error err = {0};
    sac_decode d;
    assert_int_equal(sac_decode_open(&d, "streaming", &shape, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "use pos=orig"));
    shape.fixed_rotation = true;
    assert_int_equal(sac_decode_open(&d, "streaming:recent=997", &shape, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "trained on 1000"));
    assert_ok(sac_decode_open(&d, "streaming:recent=996", &shape, &err), err);
    sac_decode_free(&d);
}

static void the_demo_model_answers_alike(void **state) {
    (void)state;
    static told t;
    told_as_dense("streaming:start=100,recent=900", "streaming");
    told_as_dense("streaming:start=0,recent=500", "streaming:start=0,recent=500");
    told_again("streaming:start=4,recent=100", "streaming:start=4,recent=100", &t);
    assert_true(t.layer.prefill_work < 1 && t.layer.decode_rows == 104);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_and_steps_equal_the_oracle),
        cmocka_unit_test(the_factor_of_a_table_stays_what_it_is),
        cmocka_unit_test(the_middle_is_never_read),
        cmocka_unit_test(off_and_short_are_dense_bit_by_bit),
        cmocka_unit_test(senseless_settings_are_refused),
        cmocka_unit_test(the_demo_model_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
