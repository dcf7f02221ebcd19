/* SnapKV against a plain fp64 choice from raw queries and keys. */
#include "method_session.h"
#include "window_oracle.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

static void steps_read_what_the_window_saw(void **state) {
    (void)state;
    static window_rows k;
    static const struct {
        const char *line;
        int kernel;
        bool max_pool, per_head;
    } kinds[] = {{"snapkv:cap=23,window=7,kernel=5", 5, false, false},
                 {"snapkv:cap=23,window=7,kernel=3,pool=max", 3, true, false},
                 {"snapkv:cap=23,window=7,kernel=5,per_head=1", 5, false, true}};
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t i = 0; i < SAC_COUNT(kinds); i++)
            for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
                layer_case c;
                double want[MAX_COLS];
                case_open(
                    &c,
                    &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 97, .use_cpu = use_cpu},
                    g + 11);
                case_method(&c, "dense", kinds[i].line);
                case_prompt(&c, 83);
                case_oracle(&c, 82, NULL, NULL, NULL, want); /* the prompt itself is dense */
                case_expect(&c, 82, want, 3e-6);
                assert_int_equal(c.n_rows, kinds[i].per_head ? 83 : 23);
                window_choose(&c, 83, 23, 7, kinds[i].kernel, kinds[i].max_pool, kinds[i].per_head, NULL, &k);
                window_expect_steps(&c, 9, &k);
                assert_int_equal(c.n_rows, (kinds[i].per_head ? 83 : 23) + 9);
                assert_true(c.stats.decode_rows < 0.4 * c.stats.decode_rows_dense);
                assert_int_equal(c.stats.n_selections, 1);
                case_close(&c);
            }
}

/* A second turn is observed by its own queries over what the first left. */
static void later_prompts_shrink_again(void **state) {
    (void)state;
    static window_rows first, second;
    layer_case c;
    double want[MAX_COLS];
    case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 97, .use_cpu = true}, 5);
    case_method(&c, "dense", "snapkv:cap=23,window=7");
    case_prompt(&c, 61);
    window_choose(&c, 61, 23, 7, 5, false, false, NULL, &first);
    window_expect_steps(&c, 3, &first);
    case_prompt(&c, 11);
    case_oracle(&c, 74, window_kept, NULL, &first, want);
    case_expect(&c, 10, want, 3e-6);
    assert_int_equal(c.n_rows, 23);
    window_choose(&c, 75, 23, 7, 5, false, false, &first, &second);
    window_expect_steps(&c, 4, &second);
    case_prompt(&c, 2); /* shorter than the window: two observers */
    assert_int_equal(c.n_rows, 23);
    case_close(&c);
}

static void below_the_cap_it_is_dense(void **state) {
    (void)state;
    for (int per_head = 0; per_head < 2; per_head++) {
        layer_case c, d;
        case_shape shape = {4, 2, 16, .n_ctx = 64, .use_cpu = true};
        case_open(&c, &shape, 9);
        case_open(&d, &shape, 9);
        case_method(&c, "dense", per_head ? "snapkv:cap=40,per_head=1" : "snapkv:cap=40");
        case_method(&d, "dense", "dense");
        case_prompt(&c, 40);
        case_prompt(&d, 40);
        for (int i = 0; i < 20; i++) {
            case_step(&c);
            case_step(&d);
            assert_memory_equal(c.out, d.out, 4 * 16 * sizeof(float));
        }
        assert_int_equal(c.stats.n_selections, 0);
        assert_true(c.stats.decode_rows == d.stats.decode_rows);
        case_close(&c);
        case_close(&d);
    }
}

static void settings_are_checked(void **state) {
    (void)state;
    sac_attention_shape shape = {.n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 64};
    sac_error err;
    sac_decode d;
    assert_int_equal(sac_decode_open(&d, "snapkv:cap=32", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_decode_open(&d, "snapkv:cap=40,kernel=4", &shape, &err), SAC_BAD_ARGUMENT);
    assert_ok(sac_decode_open(&d, "snapkv", &shape, &err), err); /* cap 2048 holds any sequence */
    assert_string_equal(d.policy->name, "dense");
    sac_decode_free(&d);
}

static void sessions_shrink_and_repeat(void **state) {
    (void)state;
    static told dense, t;
    told_as_dense(NULL, "snapkv:cap=1000");
    told_as_dense(NULL, "snapkv:cap=600"); /* longer than the prompt */
    told_again(NULL, "snapkv:cap=100", &t);
    sac_model *m = told_model(2);
    sac_session_config c = told_config(NULL, NULL, NULL);
    tell(m, &c, &dense);
    assert_true(t.kv_bytes < dense.kv_bytes / 2);
    assert_true(memcmp(t.logits, dense.logits, sizeof t.logits) != 0);
    assert_true(t.layer.decode_read < 0.5);
    told_again(NULL, "snapkv:cap=100,per_head=1", &t);
    assert_int_equal(t.kv_bytes, dense.kv_bytes);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_read_what_the_window_saw), cmocka_unit_test(later_prompts_shrink_again),
        cmocka_unit_test(below_the_cap_it_is_dense),      cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(sessions_shrink_and_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
