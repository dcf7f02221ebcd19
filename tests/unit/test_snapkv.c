/* SnapKV against a plain fp64 choice from raw queries and keys. */
#include "method_session.h"
#include "method_test.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

enum { MAX_TOKENS = 128, MAX_HEADS = 8, MAX_COLS = 2 * 128 };

/* The tokens that each query head may read, in order; all later ones are added as they come. */
typedef struct kept {
    bool has[MAX_HEADS][MAX_TOKENS];
    int64_t n_prompt;
} kept;

static bool is_kept(void *ctx, int h, int64_t query, int64_t key) {
    const kept *k = ctx;
    (void)query;
    return key >= k->n_prompt || k->has[h][key];
}

/* Weights that the window's queries of one head give, added to sums. Keys are those of `k` of an earlier
 * turn, or all. */
static void observe(const layer_case *c, const kept *k, int h, int64_t n, int64_t window, double *sums) {
    double w[MAX_TOKENS];
    for (int64_t query = n - window; query < n; query++) {
        double sum = 0;
        for (int64_t key = 0; key <= query; key++) {
            bool visible = !k || is_kept((void *)k, h, query, key);
            w[key] = visible ? exp(case_dot(c, h, query, key, query, key) / sqrt(c->shape.head_dim)) : 0;
            sum += w[key];
        }
        for (int64_t key = 0; key <= query; key++) sums[key] += w[key] / sum;
    }
}

/* What SnapKV keeps of n tokens, of which `before` tells what an earlier turn left. */
static void choose(const layer_case *c, int64_t n, int64_t cap, int64_t window, int kernel, bool max_pool,
                   bool per_head, const kept *before, kept *out) {
    int group = c->shape.n_heads / c->shape.n_kv_heads, step = per_head ? 1 : group;
    memset(out, 0, sizeof *out);
    out->n_prompt = n;
    for (int first = 0; first < c->shape.n_heads; first += step) {
        double sums[MAX_TOKENS] = {0}, pooled[MAX_TOKENS], row_sum[MAX_TOKENS];
        int64_t token[MAX_TOKENS], n_rows = 0;
        for (int h = first; h < first + step; h++) observe(c, before, h, n, window, sums);
        for (int64_t j = 0; j < n - window; j++) /* pooling goes over rows, dropped tokens have none */
            if (!before || is_kept((void *)before, first, n, j)) {
                row_sum[n_rows] = sums[j];
                token[n_rows++] = j;
            }
        for (int64_t j = 0; j < n_rows; j++) {
            double sum = 0, max = 0;
            for (int64_t i = j - kernel / 2; i <= j + kernel / 2; i++)
                if (i >= 0 && i < n_rows) {
                    sum += row_sum[i];
                    max = fmax(max, row_sum[i]);
                }
            pooled[j] = max_pool ? max : sum / kernel;
        }
        for (int64_t picked = 0; picked < cap - window; picked++) {
            int64_t best = -1;
            for (int64_t j = 0; j < n_rows; j++)
                if (!out->has[first][token[j]] && (best < 0 || pooled[j] > pooled[best] + 1e-7)) best = j;
            out->has[first][token[best]] = true;
        }
        for (int64_t j = n - window; j < n; j++) out->has[first][j] = true;
        for (int h = first + 1; h < first + step; h++)
            memcpy(out->has[h], out->has[first], sizeof out->has[h]);
    }
}

static void expect_steps(layer_case *c, int64_t n_steps, kept *k) {
    double want[MAX_HEADS * 64];
    for (int64_t i = 0; i < n_steps; i++) {
        case_step(c);
        case_oracle(c, c->n - 1, is_kept, NULL, k, want);
        case_expect(c, 0, want, 3e-6);
    }
}

static void steps_read_what_the_window_saw(void **state) {
    (void)state;
    static kept k;
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
                choose(&c, 83, 23, 7, kinds[i].kernel, kinds[i].max_pool, kinds[i].per_head, NULL, &k);
                expect_steps(&c, 9, &k);
                assert_int_equal(c.n_rows, (kinds[i].per_head ? 83 : 23) + 9);
                assert_true(c.stats.decode_rows < 0.4 * c.stats.decode_rows_dense);
                assert_int_equal(c.stats.n_selections, 1);
                case_close(&c);
            }
}

/* A second turn is observed by its own queries over what the first left. */
static void later_prompts_shrink_again(void **state) {
    (void)state;
    static kept first, second;
    layer_case c;
    double want[MAX_COLS];
    case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 97, .use_cpu = true}, 5);
    case_method(&c, "dense", "snapkv:cap=23,window=7");
    case_prompt(&c, 61);
    choose(&c, 61, 23, 7, 5, false, false, NULL, &first);
    expect_steps(&c, 3, &first);
    case_prompt(&c, 11);
    case_oracle(&c, 74, is_kept, NULL, &first, want);
    case_expect(&c, 10, want, 3e-6);
    assert_int_equal(c.n_rows, 23);
    choose(&c, 75, 23, 7, 5, false, false, &first, &second);
    expect_steps(&c, 4, &second);
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
