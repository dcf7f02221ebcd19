/* H2O against a plain fp64 simulation: who is present, what each token was given, who leaves. */
#include "method_session.h"
#include "method_test.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

enum { MAX_TOKENS = 128, MAX_HEADS = 8, MAX_COLS = 2 * 128 };

typedef struct simulation {
    bool has[MAX_HEADS][MAX_TOKENS]; /* by key-value head */
    double given[MAX_HEADS][MAX_TOKENS];
    int group;
} simulation;

static bool is_present(void *ctx, int h, int64_t query, int64_t key) {
    const simulation *s = ctx;
    (void)query;
    return s->has[h / s->group][key];
}

/* Tokens [first, first + n) come and look at what is there. */
static void look(const layer_case *c, simulation *s, int64_t first, int64_t n) {
    for (int kv = 0; kv < c->shape.n_kv_heads; kv++)
        for (int64_t i = first; i < first + n; i++) s->has[kv][i] = true;
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t query = first; query < first + n; query++) {
            double w[MAX_TOKENS], sum = 0;
            for (int64_t key = 0; key <= query; key++) {
                w[key] = is_present(s, h, query, key)
                             ? exp(case_dot(c, h, query, key, query, key) / sqrt(c->shape.head_dim))
                             : 0;
                sum += w[key];
            }
            for (int64_t key = 0; key <= query; key++) s->given[h / s->group][key] += w[key] / sum;
        }
}

/* All but `budget` tokens leave, never one of the newest n_recent. */
static void leave(const layer_case *c, simulation *s, int64_t budget, int64_t n_recent) {
    for (int kv = 0; kv < c->shape.n_kv_heads; kv++) {
        int64_t n = 0;
        for (int64_t i = 0; i < c->n; i++) n += s->has[kv][i];
        for (; n > budget; n--) {
            int64_t worst = -1;
            for (int64_t i = 0; i < c->n - n_recent; i++)
                if (s->has[kv][i] && (worst < 0 || s->given[kv][i] <= s->given[kv][worst])) worst = i;
            s->has[kv][worst] = false;
        }
    }
}

static void run_steps(layer_case *c, simulation *s, int64_t n_steps, int64_t budget, int64_t n_recent) {
    double want[MAX_COLS];
    for (int64_t i = 0; i < n_steps; i++) {
        look(c, s, c->n, 1);
        case_step(c);
        case_oracle(c, c->n - 1, is_present, NULL, s, want);
        case_expect(c, 0, want, 3e-6);
        leave(c, s, budget, n_recent);
    }
}

static void run_prompt(layer_case *c, simulation *s, int64_t n, int64_t budget, int64_t n_recent) {
    double want[MAX_COLS];
    look(c, s, c->n, n);
    case_prompt(c, n);
    case_oracle(c, c->n - 1, is_present, NULL, s, want);
    case_expect(c, n - 1, want, 3e-6);
    leave(c, s, budget, n_recent);
}

static void cache_holds_heavy_and_recent(void **state) {
    (void)state;
    static simulation s;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
            layer_case c;
            case_open(
                &c, &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 120, .use_cpu = use_cpu},
                g + 1);
            s = (simulation){.group = GROUPS[g][0] / GROUPS[g][1]};
            case_method(&c, "dense", "h2o:heavy=0.21,recent=0.1");
            run_prompt(&c, &s, 71, 14 + 7, 7);
            assert_int_equal(c.n_rows, 21);
            run_steps(&c, &s, 20, 21, 7);
            assert_int_equal(c.n_rows, 21);
            run_prompt(&c, &s, 5, 20 + 9, 9); /* shorter than what is recent; budgets grow with the length */
            assert_int_equal(c.n_rows, 26);
            run_steps(&c, &s, 12, 29, 9);
            assert_int_equal(c.n_rows, 29);
            case_close(&c);
        }
}

static void budgets_may_be_rows(void **state) {
    (void)state;
    static simulation s;
    layer_case c;
    case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 100, .use_cpu = true}, 7);
    s = (simulation){.group = 2};
    case_method(&c, "dense", "h2o:heavy=13,recent=8");
    run_prompt(&c, &s, 17, 21, 8); /* shorter than the budget */
    assert_int_equal(c.n_rows, 17);
    run_steps(&c, &s, 10, 21, 8);
    assert_int_equal(c.n_rows, 21);
    run_prompt(&c, &s, 40, 21, 8);
    run_steps(&c, &s, 10, 21, 8);
    assert_int_equal(c.n_rows, 21);
    assert_true(c.stats.decode_rows < c.stats.decode_rows_dense);
    case_close(&c);
}

/* heavy=0 is a sliding window; the newest row stays even with recent=0. */
static void without_heavy_it_is_a_window(void **state) {
    (void)state;
    for (int recent = 0; recent < 10; recent += 9) {
        static simulation s;
        layer_case c;
        char line[64];
        case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 64, .use_cpu = true}, 8);
        s = (simulation){.group = 2};
        snprintf(line, sizeof line, "h2o:heavy=0,recent=%d", recent);
        case_method(&c, "dense", line);
        int64_t n = recent ? recent : 1;
        run_prompt(&c, &s, 30, n, n);
        run_steps(&c, &s, 12, n, n);
        for (int64_t i = 0; i < c.n; i++) assert_int_equal(s.has[0][i], i >= c.n - n);
        case_close(&c);
    }
}

static void below_the_budget_it_is_dense(void **state) {
    (void)state;
    layer_case c, d;
    case_shape shape = {4, 2, 16, .n_ctx = 64, .use_cpu = true};
    case_open(&c, &shape, 9);
    case_open(&d, &shape, 9);
    case_method(&c, "dense", "h2o:heavy=0.9,recent=30");
    case_method(&d, "dense", "dense");
    case_prompt(&c, 30);
    case_prompt(&d, 30);
    for (int i = 0; i < 25; i++) {
        case_step(&c);
        case_step(&d);
        assert_memory_equal(c.out, d.out, 4 * 16 * sizeof(float));
    }
    case_close(&c);
    case_close(&d);
}

static void rows_that_always_fit_are_off(void **state) {
    (void)state;
    sac_attention_shape shape = {.n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 64};
    sac_error err;
    sac_decode d;
    assert_ok(sac_decode_open(&d, "h2o:heavy=40,recent=24", &shape, &err), err);
    assert_string_equal(d.policy->name, "dense");
    sac_decode_free(&d);
    assert_ok(sac_decode_open(&d, "h2o:heavy=1,recent=1", &shape, &err), err); /* shares: may evict later */
    assert_string_equal(d.policy->name, "h2o");
    sac_decode_free(&d);
}

static void sessions_shrink_and_repeat(void **state) {
    (void)state;
    static told dense, t;
    told_as_dense(NULL, "h2o:heavy=500,recent=500");
    told_as_dense(NULL, "h2o:heavy=300,recent=300"); /* longer than the sequence */
    told_again(NULL, "h2o", &t);
    sac_model *m = told_model(2);
    sac_session_config c = told_config(NULL, NULL, NULL);
    tell(m, &c, &dense);
    assert_true(t.kv_bytes < dense.kv_bytes / 4);
    assert_true(memcmp(t.logits, dense.logits, sizeof t.logits) != 0);
    assert_true(t.layer.decode_read < 0.25);
    sac_model_free(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cache_holds_heavy_and_recent), cmocka_unit_test(budgets_may_be_rows),
        cmocka_unit_test(without_heavy_it_is_a_window), cmocka_unit_test(below_the_budget_it_is_dense),
        cmocka_unit_test(rows_that_always_fit_are_off), cmocka_unit_test(sessions_shrink_and_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
