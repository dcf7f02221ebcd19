/* PyramidKV: the paper's budgets by layer, and in each layer a plain fp64 choice from raw queries and keys. */
#include "method_session.h"
#include "window_oracle.h"

enum { WINDOW = 7, CAP = 23, MEAN = CAP - WINDOW };

/* Rows before the window that the paper gives to a layer of a sequence of n tokens: the first layer's and the
 * last layer's, and the straight line between. The lower half is rounded up, the upper down. */
static int64_t paper_budget(int beta, int layer, int n_layers, int64_t n) {
    double last = floor((double)MEAN / beta), first, on_line;
    if (n <= CAP || n < 2 * MEAN || n_layers == 1) return MEAN;
    if (last < 1) last = 1;
    first = 2 * MEAN - last;
    if (first > (double)(n - WINDOW)) {
        first = (double)(n - WINDOW);
        last = 2 * MEAN - first;
    }
    on_line = first - layer * (first - last) / (n_layers - 1);
    return (int64_t)(2 * layer <= n_layers - 1 ? ceil(on_line - 1e-9) : floor(on_line + 1e-9));
}

/* One layer of a prompt of n tokens and of steps, beside the oracle's; the rows chosen before the window. */
static int64_t run_layer(const case_shape *shape, const char *settings, int64_t n, int beta, bool max_pool,
                         bool per_head) {
    static window_rows k;
    layer_case c;
    char line[100];
    double want[MAX_COLS];
    int64_t kept = WINDOW + paper_budget(beta, shape->layer, shape->n_layers, n);
    snprintf(line, sizeof line, "pyramidkv:cap=23,window=7,beta=%d%s", beta, settings);
    case_open(&c, shape, (uint64_t)(n + shape->layer));
    case_method(&c, "dense", line);
    case_prompt(&c, n);
    case_oracle(&c, n - 1, NULL, NULL, NULL, want); /* the prompt itself is dense */
    case_expect(&c, n - 1, want, 3e-6);
    assert_int_equal(c.n_rows, per_head ? n : kept < n ? kept : n);
    window_choose(&c, n, kept, WINDOW, max_pool ? 3 : 5, max_pool, per_head, NULL, &k);
    window_expect_steps(&c, 6, &k);
    case_close(&c);
    return kept - WINDOW;
}

static void every_layer_keeps_the_papers_rows(void **state) {
    static const struct {
        int beta, n_layers;
        int64_t n, first, last;
    } pyramids[] = {
        {4, 5, 83, 28, 4},  {4, 6, 83, 28, 4},  {20, 4, 83, 31, 1}, {2, 7, 60, 24, 8},
        {3, 9, 90, 27, 5},  {4, 5, 33, 26, 6},  {20, 3, 36, 29, 3}, /* the first layer keeps the whole prompt */
        {4, 5, 31, 16, 16},                                         /* short: as SnapKV */
        {1, 5, 83, 16, 16}, {4, 1, 83, 16, 16},
    };
    static const struct {
        const char *settings;
        bool max_pool, per_head;
    } kinds[] = {{"", false, false}, {",kernel=3,pool=max", true, false}, {",per_head=1", false, true}};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(pyramids); i++)
        for (size_t k = 0; k < SAC_COUNT(kinds); k++) {
            int64_t sum = 0, n_layers = pyramids[i].n_layers, chosen = 0;
            for (int layer = 0; layer < n_layers; layer++) {
                case_shape shape = {.n_heads = 4,
                                    .n_kv_heads = 2,
                                    .head_dim = 16,
                                    .n_ctx = 97,
                                    .n_layers = (int)n_layers,
                                    .layer = layer,
                                    .use_cpu = k % 2 == 0};
                chosen = run_layer(&shape, kinds[k].settings, pyramids[i].n, pyramids[i].beta,
                                   kinds[k].max_pool, kinds[k].per_head);
                if (layer == 0) assert_int_equal(chosen, pyramids[i].first);
                sum += chosen;
            }
            assert_int_equal(chosen, pyramids[i].last);
            assert_int_equal(sum, n_layers * MEAN); /* SnapKV's total */
        }
}

/* A second turn is observed by its own queries over what the first left; the budget is the sequence's. */
static void later_prompts_shrink_again(void **state) {
    static window_rows first, second;
    (void)state;
    for (int layer = 0; layer < 3; layer++) {
        layer_case c;
        double want[MAX_COLS];
        case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 97, .n_layers = 3, .layer = layer, .use_cpu = true},
                  5);
        case_method(&c, "dense", "pyramidkv:cap=23,window=7,beta=4");
        case_prompt(&c, 33);
        int64_t kept = WINDOW + paper_budget(4, layer, 3, 33);
        window_choose(&c, 33, kept, WINDOW, 5, false, false, NULL, &first);
        window_expect_steps(&c, 3, &first);
        assert_int_equal(c.n_rows, kept + 3);
        case_prompt(&c, 11);
        case_oracle(&c, 46, window_kept, NULL, &first, want);
        case_expect(&c, 10, want, 3e-6);
        kept = WINDOW + paper_budget(4, layer, 3, 47);
        assert_int_equal(c.n_rows, kept);
        window_choose(&c, 47, kept, WINDOW, 5, false, false, &first, &second);
        window_expect_steps(&c, 4, &second);
        case_prompt(&c, 2); /* shorter than the window: two observers */
        assert_int_equal(c.n_rows, kept);
        case_close(&c);
    }
}

static void below_the_cap_it_is_dense(void **state) {
    static const char *const lines[] = {"pyramidkv:cap=40", "pyramidkv:cap=40,per_head=1",
                                        "pyramidkv:cap=40,window=2"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++)
        for (int layer = 0; layer < 3; layer++) {
            layer_case c, d;
            case_shape shape = {4, 2, 16, .n_ctx = 64, .n_layers = 3, .layer = layer, .use_cpu = true};
            case_open(&c, &shape, 9);
            case_open(&d, &shape, 9);
            case_method(&c, "dense", lines[i]);
            case_method(&d, "dense", "dense");
            case_prompt(&c, 40);
            case_prompt(&d, 40);
            for (int k = 0; k < 20; k++) {
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

static void expect_refused(const char *line, const char *says) {
    sac_attention_shape shape = {.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 64};
    sac_error err;
    sac_decode d;
    assert_int_equal(sac_decode_open(&d, line, &shape, &err), SAC_BAD_ARGUMENT);
    if (!strstr(err.text, says)) fail_msg("%s: \"%s\" does not say \"%s\"", line, err.text, says);
    sac_decode_free(&d);
}

static void settings_are_checked(void **state) {
    sac_attention_shape shape = {.n_layers = 2, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 64};
    sac_error err;
    sac_decode d;
    (void)state;
    expect_refused("pyramidkv:cap=32", "decode policy pyramidkv: cap=32 must be more than window=32");
    expect_refused("pyramidkv:cap=40,kernel=4", "decode policy pyramidkv: kernel=4: give an odd number");
    expect_refused("pyramidkv:beta=0", "beta=0");
    expect_refused("pyramidkv:beta=1.5", "beta=1.5: give a whole number");
    expect_refused("pyramidkv:pool=min", "pool=min: give one of avg, max");
    expect_refused("snapkv:beta=20", "no setting \"beta\"");
    assert_ok(sac_decode_open(&d, "pyramidkv", &shape, &err), err); /* cap 2048 holds any sequence */
    assert_string_equal(d.policy->name, "dense");
    sac_decode_free(&d);
}

/* The demo model's answer with the line, its cache's bytes too. */
static void tell_line(const char *line, told *t) {
    sac_model *m = told_model(2);
    sac_session_config c = told_config(NULL, line, NULL);
    tell(m, &c, t);
    sac_model_free(m);
}

/* beta=1 gives every layer the same, and a prompt of less than twice the cap too: SnapKV to the last bit. */
static void flat_it_is_snapkv(void **state) {
    static const char *const pairs[][2] = {
        {"pyramidkv:cap=100,beta=1", "snapkv:cap=100"},
        {"pyramidkv:cap=60,window=16,kernel=7,pool=max,beta=1", "snapkv:cap=60,window=16,kernel=7,pool=max"},
        {"pyramidkv:cap=100,beta=1,per_head=1", "snapkv:cap=100,per_head=1"},
        {"pyramidkv:cap=240", "snapkv:cap=240"}};
    static told pyramid, snap;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(pairs); i++) {
        tell_line(pairs[i][0], &pyramid);
        tell_line(pairs[i][1], &snap);
        told_equal(&pyramid, &snap);
        assert_int_equal(pyramid.kv_bytes, snap.kv_bytes);
        assert_true(pyramid.layer.decode_read < 1);
    }
}

static void sessions_shrink_and_repeat(void **state) {
    static told snap, t;
    (void)state;
    told_as_dense(NULL, "pyramidkv:cap=1000");
    told_as_dense(NULL, "pyramidkv:cap=600"); /* longer than the prompt */
    told_again(NULL, "pyramidkv:cap=100", &t);
    tell_line("snapkv:cap=100", &snap);
    assert_int_equal(t.kv_bytes, snap.kv_bytes); /* the same total, otherwise shared out */
    assert_true(t.layer.decode_read < 0.6 * snap.layer.decode_read);
    assert_true(memcmp(t.logits, snap.logits, sizeof t.logits) != 0);
    told_again(NULL, "pyramidkv:cap=100,per_head=1", &t);
    assert_true(t.kv_bytes > 2 * snap.kv_bytes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layer_keeps_the_papers_rows),
        cmocka_unit_test(later_prompts_shrink_again),
        cmocka_unit_test(below_the_cap_it_is_dense),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(flat_it_is_snapkv),
        cmocka_unit_test(sessions_shrink_and_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
