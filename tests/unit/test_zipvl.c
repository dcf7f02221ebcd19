/* ZipVL's prefill against fp64: attention over the chosen, one-sided, with a band, and later turns. */
#include "captured.h"
#include "zipvl_test.h"

static bool sees_kept(void *ctx, int h, int64_t query, int64_t key) {
    const found *f = ctx;
    (void)h;
    if (f->near && key > query - (query - f->first) % 64 - f->near) return true;
    if (f->band && !f->kept[query - f->first]) return key > query - f->band || key < f->sink;
    return key < f->first || f->kept[key - f->first];
}

static void same_outputs(const layer_case *c, const found *f, bool one_sided) {
    double want[MAX_COLS];
    int64_t cols = (int64_t)c->shape.n_heads * c->shape.head_dim;
    static const float zeros[MAX_COLS];
    for (int64_t i = 0; i < f->n; i++) {
        if (!one_sided && !f->band && !f->kept[i]) {
            assert_memory_equal(c->out + i * cols, zeros, (size_t)cols * sizeof(float));
            continue;
        }
        case_oracle(c, f->first + i, sees_kept, NULL, (void *)(uintptr_t)f, want);
        case_expect(c, i, want, 4e-6);
    }
}

/* All rows are probes up to 128 tokens; either side of it, and of the probes' number. */
static void sets_and_outputs_equal_the_oracle(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 2, 37, 64, 65, 128, 129, 211};
    static found f;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t i = 0; i < SAC_COUNT(lengths); i++)
            for (int side = 0; side < 2; side++) {
                layer_case c;
                const options o = {
                    .tau = 0.75 + 0.05 * (double)(g % 5), .recent = 64, .random = 64, .seed = 3};
                char line[80];
                snprintf(line, sizeof line, "zipvl:min=0,tau=%g,seed=3,side=%s", o.tau, side ? "one" : "two");
                case_open(&c,
                          &(case_shape){.n_heads = GROUPS[g][0],
                                        .n_kv_heads = GROUPS[g][1],
                                        .head_dim = GROUPS[g][2],
                                        .n_ctx = MAX_TOKENS,
                                        .use_cpu = i % 2 == 0},
                          7 * g + i);
                case_method(&c, line, "dense");
                case_prompt(&c, lengths[i]);
                find(&c, 0, lengths[i], &o, &f);
                same_set(&c, &f);
                same_outputs(&c, &f, side == 1);
                assert_int_equal((int64_t)c.stats.prefill_kept, f.p);
                case_close(&c);
            }
}

/* The same of a trained model's attention: few tokens hold tau, and most weights are next to nothing. */
static void sets_of_a_trained_layer_equal_the_oracle(void **state) {
    (void)state;
    static const char *const sides[] = {"two", "one", "band"};
    static const double taus[] = {0.9, 0.975};
    static found f;
    for (int i = 0; i < 12; i++) {
        layer_case c;
        char line[120];
        const int side = i % 3;
        const options o = {
            .tau = taus[i / 3 % 2], .recent = 16, .random = 16, .seed = 3, .strict = i / 6 == 1};
        snprintf(line, sizeof line, "zipvl:min=0,tau=%g,recent=16,random=16,seed=3,strict=%d,side=%s", o.tau,
                 o.strict, sides[side]);
        case_captured(&c, (case_shape){.use_cpu = i % 2 == 0});
        case_method(&c, line, "dense");
        case_prompt(&c, CAPTURED_TOKENS);
        find(&c, 0, CAPTURED_TOKENS, &o, &f);
        assert_true(f.p < CAPTURED_TOKENS / 2); /* else it were no better than random numbers */
        f.band = side == 2 ? 16 : 0;
        same_set(&c, &f);
        same_outputs(&c, &f, side == 1);
        case_close(&c);
    }
}

static void later_turns_read_all_that_came_before(void **state) {
    (void)state;
    static found f;
    const options o = {.tau = 0.85, .recent = 64, .random = 64};
    static const char *const lines[] = {"zipvl:min=0,tau=0.85", "zipvl:min=0,tau=0.85,side=one"};
    for (int side = 0; side < 2; side++) {
        layer_case c;
        case_open(&c, &(case_shape){.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS}, 5);
        case_method(&c, lines[side], "dense");
        case_prompt(&c, 83);
        case_step(&c);
        case_prompt(&c, 47);
        find(&c, 84, 47, &o, &f);
        assert_true(f.p < 47);
        same_set(&c, &f);
        same_outputs(&c, &f, side == 1);
        double pairs = 0; /* of one head, both prompts: recount the second */
        for (int64_t i = 0; i < 47; i++)
            if (side == 1 || f.kept[i]) {
                pairs += 84;
                for (int64_t j = 0; j <= i; j++) pairs += f.kept[j];
            }
        sac_layer_stats both = c.stats;
        case_method(&c, lines[side], "dense");
        case_prompt(&c, 83);
        assert_true(fabs(both.prefill_pairs - c.stats.prefill_pairs - 6 * pairs) < 0.5);
        case_close(&c);
    }
}

/* So many tokens that the important ones go in several steps, a later turn, and bands of one key, of some, and of more
 * than there are, alone and with first tokens. The pairs are counted by hand. */
static void queries_left_out_meet_a_band(void **state) {
    (void)state;
    static const int64_t bands[] = {1, 5, 16, MAX_TOKENS, 1, 16, 3, 16}, lengths[] = {612, 61};
    static const int64_t sinks[] = {0, 0, 0, 0, 1, 4, 600, MAX_TOKENS};
    static found f;
    const options o = {.tau = 0.9, .recent = 64, .random = 64};
    for (size_t i = 0; i < SAC_COUNT(bands); i++) {
        layer_case c;
        char line[80];
        double pairs = 0;
        snprintf(line, sizeof line, "zipvl:min=0,tau=0.9,side=band,band=%d,sink=%d", (int)bands[i],
                 (int)sinks[i]);
        case_open(
            &c,
            &(case_shape){
                .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS, .use_cpu = i % 2 == 0},
            17 + i);
        case_method(&c, line, "dense");
        assert_false(c.prefill.policy->picks_queries(c.prefill.p));
        for (int turn = 0; turn < 2; turn++) {
            int64_t first = c.n, n = lengths[turn];
            case_prompt(&c, n);
            find(&c, first, n, &o, &f);
            f.band = bands[i];
            f.sink = sinks[i];
            assert_true(f.p < n && (turn == 1 || f.p > 256));
            same_set(&c, &f);
            same_outputs(&c, &f, false);
            for (int64_t query = first; query < first + n; query++)
                for (int64_t key = 0; key <= query; key++) pairs += sees_kept(&f, 0, query, key);
            assert_true(fabs(c.stats.prefill_pairs - 4 * pairs) < 0.5);
        }
        case_close(&c);
    }
}

/* The same where all queries meet the important keys, and a band that begins with a block of 64 queries. */
static void all_queries_meet_a_band(void **state) {
    (void)state;
    static const int64_t bands[] = {1, 5, 64, 65, 66, MAX_TOKENS, MAX_TOKENS + 1}, lengths[] = {612, 61};
    static found f;
    const options o = {.tau = 0.8, .recent = 64, .random = 64};
    for (size_t i = 0; i < SAC_COUNT(bands); i++) {
        layer_case c;
        char line[80];
        double pairs = 0;
        snprintf(line, sizeof line, "zipvl:min=0,tau=0.8,side=near,band=%d", (int)bands[i]);
        case_open(
            &c,
            &(case_shape){
                .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS, .use_cpu = i % 2 == 0},
            23 + i);
        case_method(&c, line, "dense");
        for (int turn = 0; turn < 2; turn++) {
            int64_t first = c.n, n = lengths[turn];
            case_prompt(&c, n);
            find(&c, first, n, &o, &f);
            f.near = bands[i];
            assert_true(f.p < n);
            same_set(&c, &f);
            same_outputs(&c, &f, true);
            for (int64_t query = first; query < first + n; query++)
                for (int64_t key = 0; key <= query; key++) pairs += sees_kept(&f, 0, query, key);
            assert_true(fabs(c.stats.prefill_pairs - 4 * pairs) < 0.5);
        }
        case_close(&c);
    }
}

/* Of a last layer only the outputs that are read are made. */
static void a_band_leaves_out_what_is_not_read(void **state) {
    (void)state;
    enum { N = 500, COLS = 4 * 16 };
    static float all[N * COLS];
    static const int64_t unread[] = {0, 1, 300, N - 1};
    layer_case c;
    case_open(
        &c,
        &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS, .use_cpu = true},
        9);
    static const char *const lines[] = {"zipvl:min=0,tau=0.9,side=band", "zipvl:min=0,tau=0.9,side=band,sink=2",
                                        "zipvl:min=0,tau=0.9,side=near"};
    for (size_t i = 0; i < SAC_COUNT(lines) * SAC_COUNT(unread); i++) {
        const size_t at = i % SAC_COUNT(unread), line = i / SAC_COUNT(unread);
        const bool by_blocks = line == 2; /* of 64 queries */
        case_method(&c, lines[line], "dense");
        sac_layer_attention a = case_tokens(&c, N);
        a.n_unread = unread[at];
        assert_int_equal(sac_prefill_attend(&c.prefill, &a), SAC_OK);
        if (at == 0) memcpy(all, c.q, sizeof all);
        for (int64_t j = unread[at] * COLS; j < N * COLS; j++) assert_true(fabsf(all[j] - c.q[j]) < 1e-6f);
        assert_true(unread[at] < (by_blocks ? 64 : 1) || memcmp(all, c.q, (size_t)COLS * sizeof(float)));
    }
    case_close(&c);
}

/* Layers below `skip` have dense attention's bits and find every token important; from it on the bits are those of
 * skip=0. Skipping all layers is no method. */
static void first_layers_stay_dense(void **state) {
    (void)state;
    enum { N = 150, COLS = 4 * 16 };
    static float dense[2 * N * COLS], sparse[2 * N * COLS];
    static const char *const sides[] = {"two", "one", "band"};
    for (int side = 0; side < 3; side++)
        for (int layer = 0; layer < 3; layer++) {
            layer_case c;
            char line[80];
            case_open(&c,
                      &(case_shape){.n_heads = 4,
                                    .n_kv_heads = 2,
                                    .head_dim = 16,
                                    .n_ctx = MAX_TOKENS,
                                    .n_layers = 3,
                                    .layer = layer,
                                    .use_cpu = true},
                      4);
            for (int run = 0; run < 3; run++) {
                float *out = run == 0 ? dense : run == 1 ? sparse : NULL;
                snprintf(line, sizeof line, "zipvl:min=0,tau=0.8,side=%s,skip=%d", sides[side],
                         run == 2 ? 2 : 0);
                case_method(&c, run == 0 ? "dense" : line, "dense");
                for (int turn = 0; turn < 2; turn++) {
                    case_prompt(&c, N);
                    if (out) memcpy(out + turn * N * COLS, c.out, (size_t)(N * COLS) * sizeof *out);
                    if (run < 2) continue;
                    const float *want = (layer < 2 ? dense : sparse) + turn * N * COLS;
                    sac_important got = sac_prefill_important(&c.prefill);
                    assert_memory_equal(want, c.out, (size_t)(N * COLS) * sizeof *want);
                    assert_int_equal(got.n == N, layer < 2);
                    for (int64_t i = 0; layer < 2 && i < N; i++) assert_int_equal(got.rows[i], i);
                    assert_int_equal(c.stats.prefill_kept == c.stats.prefill_tokens, layer < 2);
                    assert_int_equal(c.stats.n_selections, layer < 2 ? 0 : turn + 1);
                }
            }
            assert_true(memcmp(dense, sparse, sizeof dense));
            case_method(&c, "zipvl:min=0,tau=0.8,skip=3", "dense");
            assert_string_equal(c.prefill.policy->name, "dense");
            case_close(&c);
        }
}

/* Queries that are made when they are asked for give the bits of those that stand there, and no more of them
 * are made than probes and kept tokens. */
static void picked_queries_give_the_same_bits(void **state) {
    (void)state;
    static const char *const lines[] = {"zipvl:min=0,tau=0.8", "zipvl:min=0,recent=8,random=4,ratio=0.3",
                                        "zipvl:min=0,tau=0.99999", "zipvl:tau=0.5"};
    for (size_t i = 0; i < SAC_COUNT(lines); i++)
        for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
            layer_case all, picked;
            const case_shape shape = {
                .n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS, .use_cpu = use_cpu == 1};
            case_open(&all, &shape, 31);
            case_open(&picked, &shape, 31);
            picked.made = case_floats(&picked, MAX_TOKENS * 6 * 16);
            case_method(&all, lines[i], "dense");
            case_method(&picked, lines[i], "dense");
            assert_true(picked.prefill.policy->picks_queries(picked.prefill.p));
            for (int turn = 0; turn < 2; turn++) {
                int64_t n = turn ? 61 : 190, kept = (int64_t)all.stats.prefill_kept;
                picked.n_made = 0;
                case_prompt(&all, n);
                case_prompt(&picked, n);
                assert_memory_equal(all.out, picked.out, (size_t)(n * 6 * 16) * sizeof(float));
                kept = (int64_t)all.stats.prefill_kept - kept;
                assert_int_equal(kept < n, i < 2);
                if (i == 1) assert_int_equal(picked.n_made, kept + 12);
                if (i == 3) assert_int_equal(picked.n_made, n);
            }
            case_close(&all);
            case_close(&picked);
        }
    layer_case c; /* one-sided attention reads every query */
    case_open(&c, &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 40}, 1);
    case_method(&c, "zipvl:min=0,side=one", "dense");
    assert_false(c.prefill.policy->picks_queries(c.prefill.p));
    case_close(&c);
}

static void full_budget_gives_dense_bits(void **state) {
    (void)state;
    layer_case c;
    int32_t kept[MAX_TOKENS];
    float *dense = malloc((size_t)(90 * 4 * 16) * sizeof *dense);
    case_open(
        &c,
        &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS, .use_cpu = true},
        4);
    case_method(&c, "dense", "dense");
    case_prompt(&c, 90);
    memcpy(dense, c.out, (size_t)(90 * 4 * 16) * sizeof *dense);
    assert_int_equal(n_kept_at(&c, "zipvl:min=0,tau=0.999999", 90, kept), 90);
    assert_memory_equal(dense, c.out, (size_t)(90 * 4 * 16) * sizeof *dense);
    free(dense);
    case_close(&c);
}

static void bad_settings_are_refused(void **state) {
    (void)state;
    sac_attention_shape shape = {.n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 100};
    sac_prefill m;
    sac_error err;
    assert_int_equal(sac_prefill_open(&m, "zipvl:min=0,recent=0,random=0", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_prefill_open(&m, "zipvl:min=0,tau=1.5", &shape, &err), SAC_BAD_ARGUMENT);
    assert_int_equal(sac_prefill_open(&m, "zipvl:min=0,sink=1", &shape, &err),
                     SAC_BAD_ARGUMENT); /* no band */
    assert_int_equal(sac_prefill_open(&m, "zipvl:min=0,side=near,sink=1", &shape, &err), SAC_BAD_ARGUMENT);
    shape.n_ctx = sac_ops_traits_of(NULL)->pattern_rows_max + 1; /* more rows than lists are made of */
    assert_int_equal(sac_prefill_open(&m, "zipvl:min=0,side=near", &shape, &err), SAC_UNSUPPORTED);
    shape.n_ctx = 100;
    shape.window = 50;
    assert_int_equal(sac_prefill_open(&m, "zipvl:min=0", &shape, &err), SAC_UNSUPPORTED);
    shape.window = 100;
    assert_ok(sac_prefill_open(&m, "zipvl:min=0", &shape, &err), err);
    sac_prefill_free(&m);
}

/* Below `min` tokens, those of earlier turns counted, the bits are dense attention's and nobody is important.
 */
static void short_sequences_are_read_densely(void **state) {
    (void)state;
    enum { N = 90, COLS = 4 * 16 };
    static float dense[2 * N * COLS];
    layer_case c;
    case_open(&c, &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS}, 4);
    case_method(&c, "dense", "dense");
    for (int turn = 0; turn < 2; turn++) {
        case_prompt(&c, N);
        memcpy(dense + turn * N * COLS, c.out, (size_t)(N * COLS) * sizeof(float));
    }
    case_method(&c, "zipvl:tau=0.5,min=91", "dense");
    for (int turn = 0; turn < 2; turn++) {
        case_prompt(&c, N);
        bool equal = !memcmp(dense + turn * N * COLS, c.out, (size_t)(N * COLS) * sizeof(float));
        assert_int_equal(c.prefill.is_short, turn == 0);
        assert_int_equal(equal, turn == 0);
        assert_int_equal(sac_prefill_important(&c.prefill).rows == NULL, turn == 0);
    }
    case_method(&c, "zipvl:tau=0.5,min=90", "dense"); /* as long as that is long enough */
    case_prompt(&c, N);
    assert_false(c.prefill.is_short);
    case_close(&c);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sets_and_outputs_equal_the_oracle),
        cmocka_unit_test(sets_of_a_trained_layer_equal_the_oracle),
        cmocka_unit_test(later_turns_read_all_that_came_before),
        cmocka_unit_test(queries_left_out_meet_a_band),
        cmocka_unit_test(all_queries_meet_a_band),
        cmocka_unit_test(a_band_leaves_out_what_is_not_read),
        cmocka_unit_test(first_layers_stay_dense),
        cmocka_unit_test(picked_queries_give_the_same_bits),
        cmocka_unit_test(full_budget_gives_dense_bits),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(short_sequences_are_read_densely),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
