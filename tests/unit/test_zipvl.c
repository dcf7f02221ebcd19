/* ZipVL's prefill against fp64: probes, budget, choice, attention over the chosen, one-sided and later turns.
 */
#include "captured.h"
#include "importance.h"
#include "method_session.h"
#include "method_test.h"

enum { MAX_TOKENS = 700, MAX_COLS = 2 * 128 };

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

/* What the method should find. */
typedef struct found {
    double sums[MAX_TOKENS], means[MAX_TOKENS];
    int64_t p;
    bool kept[MAX_TOKENS]; /* by token of the prompt */
    int64_t first, n;      /* the prompt's tokens */
    int64_t band, sink;    /* newest keys that a query which is not kept sees, and first ones */
    int64_t near;          /* newest keys of a block's first query, which all of the block see, beside those kept; 0: none */
} found;

typedef struct options {
    double tau;
    int64_t recent, random, seed;
    bool strict;
} options;

static void find_sums(const layer_case *c, const int32_t *probes, int64_t n_probes, found *f) {
    for (int64_t j = 0; j < f->n; j++) f->sums[j] = f->means[j] = 0;
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t i = 0; i < n_probes; i++) {
            double w[2 * MAX_TOKENS], sum = 0;
            int64_t query = f->first + probes[i];
            for (int64_t key = 0; key <= query; key++)
                sum += w[key] = exp(case_dot(c, h, query, key, query, key) / sqrt(c->shape.head_dim));
            for (int64_t key = f->first; key <= query; key++) f->sums[key - f->first] += w[key] / sum;
        }
    for (int64_t j = 0; j < f->n; j++) {
        int n_see = 0;
        for (int64_t i = 0; i < n_probes; i++) n_see += probes[i] >= j;
        f->means[j] = n_see ? f->sums[j] / n_see : 0;
    }
}

static void find(const layer_case *c, int64_t first, int64_t n, const options *o, found *f) {
    int32_t scratch[MAX_TOKENS], probes[MAX_TOKENS];
    double left[MAX_TOKENS], total = 0, held = 0;
    *f = (found){.first = first, .n = n};
    uint64_t stream = (uint64_t)first << 16 | (uint64_t)c->layer;
    int64_t n_probes = sac_draw_probes((uint64_t)o->seed, stream, n, o->recent, o->random, scratch, probes);
    find_sums(c, probes, n_probes, f);
    for (int64_t j = 0; j < n; j++) total += left[j] = f->sums[j];
    while (f->p < n && held < o->tau * total) {
        int64_t best = 0;
        for (int64_t j = 0; j < n; j++) best = left[j] > left[best] ? j : best;
        held += left[best];
        left[best] = -1;
        f->p++;
    }
    if (f->p == 0) f->p = 1;
    if (!o->strict) f->means[n - 1] = INFINITY;
    for (int64_t k = 0; k < f->p; k++) {
        int64_t best = -1;
        for (int64_t j = 0; j < n; j++)
            if (!f->kept[j] && (best < 0 || f->means[j] > f->means[best])) best = j;
        f->kept[best] = true;
    }
}

static bool sees_kept(void *ctx, int h, int64_t query, int64_t key) {
    const found *f = ctx;
    (void)h;
    if (f->near && key > query - (query - f->first) % 64 - f->near) return true;
    if (f->band && !f->kept[query - f->first]) return key > query - f->band || key < f->sink;
    return key < f->first || f->kept[key - f->first];
}

static void same_set(layer_case *c, const found *f) {
    sac_important got = c->prefill.policy->important(c->prefill.state);
    int64_t at = 0;
    assert_int_equal(got.n_lists, 1);
    for (int64_t j = 0; j < f->n; j++) {
        bool is_in = at < got.n && got.rows[at] == j;
        if (is_in != f->kept[j])
            fail_msg("token %lld of %lld is %s, p %lld of %lld", (long long)j, (long long)f->n,
                     is_in ? "in" : "out", (long long)got.n, (long long)f->p);
        at += is_in;
    }
    assert_int_equal(at, got.n);
    assert_int_equal(got.n, f->p);
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
    for (size_t i = 0; i < 2 * SAC_COUNT(unread); i++) {
        const size_t at = i % SAC_COUNT(unread);
        case_method(&c, at == i ? "zipvl:min=0,tau=0.9,side=band" : "zipvl:min=0,tau=0.9,side=band,sink=2",
                    "dense");
        sac_layer_attention a = case_tokens(&c, N);
        a.n_unread = unread[at];
        assert_int_equal(sac_prefill_attend(&c.prefill, &a), SAC_OK);
        if (at == 0) memcpy(all, c.q, sizeof all);
        for (int64_t j = unread[at] * COLS; j < N * COLS; j++) assert_true(fabsf(all[j] - c.q[j]) < 1e-6f);
        assert_true(at == 0 || memcmp(all, c.q, (size_t)COLS * sizeof(float)));
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

static int64_t n_kept_at(layer_case *c, const char *line, int64_t n, int32_t *kept) {
    case_method(c, line, "dense");
    case_prompt(c, n);
    sac_important got = c->prefill.policy->important(c->prefill.state);
    memcpy(kept, got.rows, (size_t)got.n * sizeof *kept);
    return got.n;
}

static void budget_grows_with_tau(void **state) {
    (void)state;
    layer_case c;
    int32_t kept[MAX_TOKENS];
    int64_t last = 0;
    case_open(&c, &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS}, 11);
    for (int i = 0; i < 20; i++) {
        char line[40];
        snprintf(line, sizeof line, "zipvl:min=0,tau=%g", 0.05 * i + 0.01);
        int64_t n = n_kept_at(&c, line, 150, kept);
        assert_true(n >= last && n >= 1 && kept[n - 1] == 149);
        last = n;
    }
    assert_true(last > 100);
    assert_int_equal(n_kept_at(&c, "zipvl:min=0,tau=0", 150, kept), 1); /* the last token alone */
    case_close(&c);
}

static void seed_moves_random_probes_only(void **state) {
    (void)state;
    int32_t scratch[200], a[128], b[128];
    for (uint64_t seed = 0; seed < 5; seed++) {
        assert_int_equal(sac_draw_probes(seed, 9, 200, 64, 64, scratch, a), 128);
        assert_int_equal(sac_draw_probes(seed, 9, 200, 64, 64, scratch, b), 128);
        assert_memory_equal(a, b, sizeof a);
        for (int i = 0; i < 128; i++) {
            assert_true(i == 0 || a[i] > a[i - 1]);
            if (i >= 64) assert_int_equal(a[i], 72 + i);
        }
        sac_draw_probes(seed + 1, 9, 200, 64, 64, scratch, b);
        assert_memory_not_equal(a, b, 64 * sizeof *a);
        assert_memory_equal(a + 64, b + 64, 64 * sizeof *a);
    }
    assert_int_equal(sac_draw_probes(1, 1, 100, 64, 64, scratch, a), 100);
    for (int i = 0; i < 100; i++) assert_int_equal(a[i], i);
}

/* Every eighth of the draws lands in every eighth of the range about as often. */
static void random_probes_are_spread(void **state) {
    (void)state;
    static int32_t scratch[4096], probes[64];
    int n[8] = {0};
    for (uint64_t layer = 0; layer < 200; layer++) {
        sac_draw_probes(0, layer, 4096, 0, 64, scratch, probes);
        for (int i = 0; i < 64; i++) n[probes[i] / 512]++;
    }
    for (int i = 0; i < 8; i++) assert_in_range(n[i], 1600 - 160, 1600 + 160);
}

/* Equal weights need as many as arithmetic says; a key that gets everything is enough. */
static void count_of_equal_and_of_peaked_weights(void **state) {
    (void)state;
    sac_ops ops;
    sac_stream stream = {0};
    float w[100];
    int64_t p;
    sac_ops_init_ref(&ops);
    for (int i = 0; i < 100; i++) w[i] = 0.37f;
    for (int i = 1; i <= 100; i++) {
        assert_int_equal(sac_importance_count(&ops, &stream, w, 100, i / 100.0, &p), SAC_OK);
        assert_int_equal(p, i);
    }
    for (int i = 0; i < 100; i++) w[i] = i == 40 ? 99.0f : 0.01f;
    assert_int_equal(sac_importance_count(&ops, &stream, w, 100, 0.9, &p), SAC_OK);
    assert_int_equal(p, 1);
    for (int i = 0; i < 100; i++) w[i] = 0;
    assert_int_equal(sac_importance_count(&ops, &stream, w, 100, 0.9, &p), SAC_OK);
    assert_int_equal(p, 1);
}

/* Keys of zeros: every row of the matrix is even. One large key: it takes all. */
static void even_and_peaked_attention(void **state) {
    (void)state;
    static found f;
    layer_case c;
    int32_t kept[MAX_TOKENS];
    const options o = {.tau = 0.9, .recent = 64, .random = 64};
    case_open(&c, &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS}, 2);
    memset(c.raw_k, 0, (size_t)(MAX_TOKENS * 2 * 16) * sizeof(float));
    case_method(&c, "zipvl:min=0,tau=0.9", "dense");
    case_prompt(&c, 120);
    find(&c, 0, 120, &o, &f);
    same_set(&c, &f);
    assert_true(f.p > 60);
    for (int64_t i = 0; i < 200 * 4;
         i++) /* queries alike, and a key along them: rotation moves both by less */
        for (int d = 0; d < 16; d++) c.raw_q[i * 16 + d] = d % 8 == 7 ? 12.0f : 0;
    for (int h = 0; h < 2; h++)
        for (int d = 0; d < 16; d++) c.raw_k[(5 * 2 + h) * 16 + d] = d % 8 == 7 ? 12.0f : 0;
    assert_true(n_kept_at(&c, "zipvl:min=0,tau=0.8", 40, kept) <= 3);
    case_close(&c);
}

/* Each probe gives each head's weight of one away. */
static void sums_hold_one_a_probe_and_head(void **state) {
    (void)state;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++) {
        layer_case c;
        int32_t scratch[MAX_TOKENS], probes[128];
        float *sums = calloc(MAX_TOKENS, sizeof *sums);
        case_open(&c,
                  &(case_shape){.n_heads = GROUPS[g][0],
                                .n_kv_heads = GROUPS[g][1],
                                .head_dim = GROUPS[g][2],
                                .n_ctx = MAX_TOKENS,
                                .use_cpu = g % 2 == 0},
                  g);
        sac_layer_attention a = case_tokens(&c, 211);
        int64_t n_probes = sac_draw_probes(3, 0, 211, 64, 64, scratch, probes);
        assert_int_equal(c.ops.attention_sums(&c.stream, &(sac_attention_sums_args){.sums = sums,
                                                                                    .stride = MAX_TOKENS,
                                                                                    .n_sums = 1,
                                                                                    .q = a.q,
                                                                                    .probes = probes,
                                                                                    .n_probes = n_probes,
                                                                                    .kv = a.kv,
                                                                                    .n_kv = 211,
                                                                                    .n_heads = GROUPS[g][0],
                                                                                    .scale = a.scale}),
                         SAC_OK);
        double sum = 0, want = (double)(n_probes * GROUPS[g][0]);
        for (int64_t j = 0; j < 211; j++) sum += (double)sums[j];
        assert_int_equal(n_probes, 128);
        assert_true(fabs(sum / want - 1) < 1e-4);
        free(sums);
        case_close(&c);
    }
}

static void order_of_heads_is_immaterial(void **state) {
    (void)state;
    layer_case c;
    int32_t kept[MAX_TOKENS], again[MAX_TOKENS];
    case_open(&c, &(case_shape){.n_heads = 6, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS}, 21);
    int64_t n = n_kept_at(&c, "zipvl:min=0,tau=0.9", 170, kept);
    for (int64_t i = 0; i < MAX_TOKENS; i++) /* the three heads of each group the other way round */
        for (int group = 0; group < 2; group++)
            for (int d = 0; d < 16; d++) {
                float *a = c.raw_q + (i * 6 + group * 3) * 16 + d, *b = a + 2 * 16, t = *a;
                *a = *b;
                *b = t;
            }
    assert_int_equal(n_kept_at(&c, "zipvl:min=0,tau=0.9", 170, again), n);
    assert_memory_equal(kept, again, (size_t)n * sizeof *kept);
    case_close(&c);
}

static void cover_holds_tau_and_no_token_too_many(void **state) {
    (void)state;
    static found f;
    layer_case c;
    int32_t kept[MAX_TOKENS];
    const options o = {.tau = 0.9, .recent = 64, .random = 64};
    case_open(&c, &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS}, 8);
    int64_t n = n_kept_at(&c, "zipvl:min=0,tau=0.9,budget=cover", 160, kept);
    find(&c, 0, 160, &o, &f);
    double held = 0, total = 0, least = INFINITY;
    int64_t worst = 0;
    for (int64_t j = 0; j < 160; j++) total += f.sums[j];
    for (int64_t i = 0; i < n; i++) {
        held += f.sums[kept[i]];
        if (f.means[kept[i]] < least) {
            least = f.means[kept[i]];
            worst = kept[i];
        }
    }
    assert_true(held >= 0.9 * total - 1e-6 && held - f.sums[worst] < 0.9 * total);
    assert_true(n >= f.p); /* the largest sums need the fewest */
    case_close(&c);
}

static void sink_and_last_token(void **state) {
    (void)state;
    layer_case c;
    int32_t kept[MAX_TOKENS];
    case_open(&c, &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = MAX_TOKENS}, 4);
    for (int d = 0; d < 2 * 16; d++) { /* nobody looks at the first or the last key */
        c.raw_k[d] *= 0.01f;
        c.raw_k[99 * 2 * 16 + d] = 0;
    }
    for (int64_t i = 0; i < 100 * 4 * 16; i++) c.raw_q[i] *= 3;
    int64_t n = n_kept_at(&c, "zipvl:min=0,tau=0.5,strict=1", 100, kept);
    assert_true(kept[n - 1] != 99);
    assert_int_equal(n_kept_at(&c, "zipvl:min=0,tau=0.5", 100, kept), n);
    assert_int_equal(kept[n - 1], 99);
    assert_int_equal(n_kept_at(&c, "zipvl:min=0,tau=0.5,keep_sink=1", 100, kept), n);
    assert_true(kept[0] == 0 && kept[n - 1] == 99);
    assert_int_equal(n_kept_at(&c, "zipvl:min=0,tau=0,keep_sink=1", 100, kept), 2);
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

static void session_off_value_is_dense(void **state) {
    (void)state;
    told_as_dense("zipvl:min=0,tau=1", NULL);
    told_as_dense("zipvl:tau=0.5", NULL);
    told_as_dense("zipvl:min=0,tau=0.5,side=band,skip=1000", NULL);
}

static void session_repeats_itself(void **state) {
    (void)state;
    static told t;
    told_again("zipvl:min=0,tau=0.9,seed=5", NULL, &t);
    assert_true(t.layer.prefill_kept > 0.02 && t.layer.prefill_kept < 0.999);
    assert_true(t.layer.prefill_work < t.layer.prefill_kept);
    told_again("zipvl:min=0,tau=0.9,side=one,budget=cover", NULL, &t);
    assert_true(t.layer.prefill_kept < 0.999);
    told_again("zipvl:min=0,tau=0.9,side=band,skip=1", NULL, &t);
    assert_true(t.layer.prefill_work < 0.999);
}

/* ---------------------------------------------------------------- several media, chunks */

enum { MAX_LAYERS = 16, MAX_PROMPT = 1000 };

typedef struct mixed_media {
    int32_t kept[MAX_LAYERS][MAX_PROMPT];
    int64_t n_kept[MAX_LAYERS], n_tokens;
    char text[512];
    float logits[1024];
    size_t kv_bytes;
    size_t n_media;
    int64_t visual_tokens[3];
} mixed_media;

static void keep(void *ctx, int layer, const int32_t *kept, int64_t n_kept, int64_t n_tokens) {
    mixed_media *m = ctx;
    assert_true(layer < MAX_LAYERS && n_kept <= MAX_PROMPT && m->n_kept[layer] == 0);
    memcpy(m->kept[layer], kept, (size_t)n_kept * sizeof *kept);
    m->n_kept[layer] = n_kept;
    m->n_tokens = n_tokens;
}

/* Two pictures and a video between texts; linear layers see `chunk` rows at a time. */
static void ask_of_three(const sac_model *model, int64_t chunk, const char *prefill, const char *kv,
                         mixed_media *m) {
    sac_part parts[] = {{.kind = SAC_PART_TEXT, .text = "First "},
                        {.kind = SAC_PART_IMAGE, .path = "samples/picture0000.png"},
                        {.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                        {.kind = SAC_PART_TEXT, .text = " and then "},
                        {.kind = SAC_PART_IMAGE, .path = "samples/picture0001.jpg"},
                        {.kind = SAC_PART_TEXT, .text = "How many numbers appear?"}};
    parts[2].video.num_frames = 3;
    sac_message message = {"user", parts, SAC_COUNT(parts), NULL};
    sac_session_config config = told_config(prefill, NULL, kv);
    config.prefill_chunk = (int)chunk;
    sac_session *s;
    sac_result r;
    sac_error err;
    sac_sampling o;
    sac_model_info info;
    memset(m, 0, sizeof *m);
    sac_sampling_default(&o);
    o.max_tokens = 12;
    o.ignore_eos = true;
    assert_ok(sac_session_create(&s, model, &config, &err), err);
    sac_session_observe_kept(s, keep, m);
    assert_ok(sac_session_generate(s, &message, 1, &o, NULL, &r, &err), err);
    sac_model_get_info(model, &info);
    assert_true(info.vocab <= 1024 && info.n_layers <= MAX_LAYERS && r.n_prompt_tokens <= MAX_PROMPT);
    m->n_media = r.n_media;
    for (size_t i = 0; i < r.n_media && i < 3; i++) m->visual_tokens[i] = r.media[i].n_tokens;
    snprintf(m->text, sizeof m->text, "%s", r.text);
    memcpy(m->logits, sac_session_logits(s), (size_t)info.vocab * sizeof(float));
    m->kv_bytes = sac_session_kv_bytes(s);
    sac_session_free(s);
}

/* Linear layers may see a prompt in chunks, attention sees it whole: the same tokens are kept, of several
 * media too. The last chunk of 37 leaves so few rows that a float kernel may sum them in another order. */
static void session_of_pictures_and_a_video(void **state) {
    (void)state;
    static const char *const PREFILL[] = {"zipvl:min=0,tau=0.9", "zipvl:min=0,tau=0.8,side=one"};
    static const char *const KV[] = {"f32", "mixed"};
    static mixed_media whole, chunks, dense;
    sac_model *model = told_model(2);
    ask_of_three(model, 1000, NULL, "f32", &dense);
    for (size_t i = 0; i < SAC_COUNT(PREFILL); i++) {
        ask_of_three(model, 1000, PREFILL[i], KV[i], &whole);
        assert_int_equal(whole.n_media, 3);
        assert_true(whole.visual_tokens[0] == 64 && whole.visual_tokens[1] == 3 * 64 &&
                    whole.visual_tokens[2] == 64);
        assert_true(memcmp(whole.logits, dense.logits, sizeof dense.logits) != 0);
        int64_t fewest = whole.n_tokens;
        for (int layer = 0; whole.n_kept[layer] > 0; layer++) {
            int64_t n = whole.n_kept[layer];
            if (n < fewest) fewest = n;
            assert_int_equal(whole.kept[layer][n - 1], whole.n_tokens - 1);
            for (int64_t k = 1; k < n; k++) assert_true(whole.kept[layer][k] > whole.kept[layer][k - 1]);
        }
        assert_true(fewest < whole.n_tokens * 3 / 4);
        static const int64_t sizes[] = {64, 128, 37};
        for (size_t c = 0; c < SAC_COUNT(sizes); c++) {
            ask_of_three(model, sizes[c], PREFILL[i], KV[i], &chunks);
            assert_int_equal(chunks.n_tokens, whole.n_tokens);
            assert_memory_equal(chunks.n_kept, whole.n_kept, sizeof whole.n_kept);
            assert_memory_equal(chunks.kept, whole.kept, sizeof whole.kept);
            assert_string_equal(chunks.text, whole.text);
            assert_int_equal(chunks.kv_bytes, whole.kv_bytes);
            for (size_t j = 0; j < SAC_COUNT(whole.logits); j++)
                assert_true(fabsf(chunks.logits[j] - whole.logits[j]) < 1e-3f);
            if (sizes[c] != 37) assert_memory_equal(chunks.logits, whole.logits, sizeof whole.logits);
        }
    }
    sac_model_free(model);
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
        cmocka_unit_test(budget_grows_with_tau),
        cmocka_unit_test(seed_moves_random_probes_only),
        cmocka_unit_test(random_probes_are_spread),
        cmocka_unit_test(count_of_equal_and_of_peaked_weights),
        cmocka_unit_test(even_and_peaked_attention),
        cmocka_unit_test(sums_hold_one_a_probe_and_head),
        cmocka_unit_test(order_of_heads_is_immaterial),
        cmocka_unit_test(cover_holds_tau_and_no_token_too_many),
        cmocka_unit_test(sink_and_last_token),
        cmocka_unit_test(full_budget_gives_dense_bits),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(short_sequences_are_read_densely),
        cmocka_unit_test(session_off_value_is_dense),
        cmocka_unit_test(session_repeats_itself),
        cmocka_unit_test(session_of_pictures_and_a_video),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
