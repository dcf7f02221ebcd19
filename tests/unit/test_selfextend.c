/* SelfExtend against plain fp64 attention with grouped positions. */
#include "method_session.h"
#include "method_test.h"

static const int GROUPS[][2] = {{4, 4}, {4, 1}, {7, 1}, {8, 1}, {6, 2}};

enum { MAX_COLS = 8 * 64 };

typedef struct setting {
    int64_t group, window, furthest;
} setting;

static void stand(void *ctx, int h, int64_t query, int64_t key, int64_t *query_at, int64_t *key_at) {
    setting *s = ctx;
    (void)h;
    if (query - key >= s->window) {
        *query_at = query / s->group + s->window - s->window / s->group;
        *key_at = key / s->group;
    }
    if (*query_at - *key_at > s->furthest) s->furthest = *query_at - *key_at;
    assert_true(*query_at - *key_at >= 0);
}

static void expect(const layer_case *c, int64_t first, int64_t n, setting *s) {
    double want[MAX_COLS];
    for (int64_t i = 0; i < n; i++) {
        case_oracle(c, first + i, NULL, stand, s, want);
        case_expect(c, i, want, 1e-5);
    }
}

static void prompts_and_steps_equal_the_oracle(void **state) {
    (void)state;
    static const setting settings[] = {
        {4, 20, 0}, {3, 17, 0}, {8, 1, 0}, {2, 290, 0}}; /* 3 does not divide 17 */
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t i = 0; i < SAC_COUNT(settings); i++) {
            layer_case c;
            char line[100];
            setting s = settings[i];
            case_open(
                &c,
                &(case_shape){GROUPS[g][0], GROUPS[g][1], g % 2 ? 64 : 16, .n_ctx = 400, .use_cpu = g % 2},
                g + 1);
            snprintf(line, sizeof line, "selfextend:group=%d,window=%d", (int)s.group, (int)s.window);
            case_method(&c, line, line);
            case_prompt(&c, 301);
            expect(&c, 0, 301, &s);
            case_prompt(&c, 3); /* a second turn */
            expect(&c, 301, 3, &s);
            for (int step = 0; step < 3; step++) {
                case_step(&c);
                expect(&c, c.n - 1, 1, &s);
            }
            /* One more when the group does not divide the window. */
            assert_true(s.furthest <= s.window + (307 - s.window) / s.group + (s.window % s.group != 0));
            assert_true(c.stats.prefill_pairs == c.stats.prefill_pairs_dense && c.stats.prefill_kept == 304);
            assert_true(c.stats.decode_rows == c.stats.decode_rows_dense);
            case_close(&c);
        }
}

/* A yarn table holds a factor, in stored keys and in queries, that turning must neither add nor take. */
static void the_factor_of_a_table_stays_what_it_is(void **state) {
    (void)state;
    layer_case c;
    static float plain[100 * 96];
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 120}, 5);
    case_method(&c, "selfextend:group=4,window=20", "dense");
    case_prompt(&c, 100);
    memcpy(plain, c.out, sizeof plain);
    for (int64_t i = 0; i < 120 * 16; i++) c.cos_sin[i] *= 1.25f;
    for (int64_t i = 0; i < 120 * 96; i++) c.raw_q[i] *= 0.8f * 0.8f;
    c.rotation.factor = 1.25f;
    case_method(&c, "selfextend:group=4,window=20", "dense");
    case_prompt(&c, 100);
    for (int64_t i = 0; i < 100 * 96; i++) assert_true(fabsf(c.out[i] - plain[i]) < 1e-5f);
    case_close(&c);
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
    static const char *const lines[] = {"selfextend:group=1", "selfextend:window=100",
                                        "selfextend:group=5,window=75"};
    static float dense[75 * 96], got[75 * 96];
    layer_case c;
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100, .use_cpu = true}, 5);
    run_all(&c, "dense", dense);
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        run_all(&c, lines[i], got);
        assert_true((c.decode.policy == &sac_decode_dense) == (i < 2));
        assert_true((c.prefill.policy == &sac_prefill_dense) == (i < 2));
        assert_memory_equal(got, dense, sizeof got);
    }
    case_close(&c);
}

static void senseless_settings_are_refused(void **state) {
    (void)state;
    sac_attention_shape shape = {
        .n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 10000, .max_position = 2000};
    sac_error err = {0};
    sac_decode d;
    assert_int_equal(sac_decode_open(&d, "selfextend", &shape, &err), SAC_UNSUPPORTED);
    shape.fixed_rotation = true;
    assert_int_equal(sac_decode_open(&d, "selfextend", &shape, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "reach distance 2145"));
    assert_ok(sac_decode_open(&d, "selfextend:group=10", &shape, &err), err);
    sac_decode_free(&d);
}

/* A context is refused exactly when one of its distances was not trained. */
static void the_largest_distance_decides(void **state) {
    (void)state;
    for (int64_t n = 2; n < 40; n++)
        for (int64_t group = 2; group < 9; group++)
            for (int64_t window = 1; window < n; window++) {
                setting s = {group, window, 0};
                for (int64_t query = 0; query < n; query++)
                    for (int64_t key = 0; key <= query; key++) {
                        int64_t query_at = query, key_at = key;
                        stand(&s, 0, query, key, &query_at, &key_at);
                    }
                sac_attention_shape shape = {.n_layers = 1,
                                             .n_heads = 4,
                                             .n_kv_heads = 2,
                                             .head_dim = 16,
                                             .n_ctx = n,
                                             .max_position = s.furthest + 1,
                                             .fixed_rotation = true};
                char line[60];
                sac_error err = {0};
                sac_decode d;
                snprintf(line, sizeof line, "selfextend:group=%d,window=%d", (int)group, (int)window);
                assert_ok(sac_decode_open(&d, line, &shape, &err), err);
                sac_decode_free(&d);
                shape.max_position--;
                if (shape.max_position == 0) continue;
                assert_int_equal(sac_decode_open(&d, line, &shape, &err), SAC_BAD_ARGUMENT);
            }
}

static void the_demo_model_answers_alike(void **state) {
    (void)state;
    static told t;
    told_as_dense("selfextend:group=1", "selfextend:group=1");
    told_as_dense("selfextend", "selfextend:window=500");
    told_again("selfextend:group=4,window=100", "selfextend:group=4,window=100", &t);
    assert_true(t.layer.prefill_work == 1 && t.layer.decode_read == 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_and_steps_equal_the_oracle),
        cmocka_unit_test(the_factor_of_a_table_stays_what_it_is),
        cmocka_unit_test(off_and_short_are_dense_bit_by_bit),
        cmocka_unit_test(senseless_settings_are_refused),
        cmocka_unit_test(the_largest_distance_decides),
        cmocka_unit_test(the_demo_model_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
