/* XAttention: what it chooses against sums along antidiagonals in fp64 and a choice block by block, and dense
 * attention under that choice. */
#include "method_session.h"
#include "method_test.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {6, 2, 20}, {2, 1, 64}, {2, 1, 80}};

enum {
    BLOCK = 128,
    MAX_TOKENS = 1100,
    MAX_BLOCKS = MAX_TOKENS / BLOCK + 1,
    MAX_HEADS = 8,
    MAX_COLS = 2 * 128
};

typedef struct settings {
    double tau;
    int64_t stride, sink, local;
} settings;

typedef struct choice {
    bool met[MAX_HEADS][MAX_BLOCKS][MAX_BLOCKS]; /* [head][block of queries][of keys] */
    int64_t past;
} choice;

static bool is_met(void *ctx, int h, int64_t query, int64_t key) {
    const choice *m = ctx;
    return m->met[h][(query - m->past) / BLOCK][key / BLOCK];
}

/* s(t, u): tokens from `first` on are the unit's queries, up to n of them. */
static double meet(const layer_case *c, int h, int64_t first, int64_t end, int64_t u, int64_t n_keys,
                   int64_t stride) {
    double sum = 0;
    for (int64_t i = 0; i < stride; i++) {
        int64_t query = first + stride - 1 - i, key = u * stride + i;
        if (query < end && key < n_keys) sum += case_dot(c, h, query, key, query, key);
    }
    return sum / sqrt(c->shape.head_dim) / (double)stride;
}

/* What blocks of keys get from queries [first, end), of n tokens. */
static void add_up(const layer_case *c, int h, int64_t first, int64_t end, int64_t n, int64_t stride,
                   double *sums) {
    static double w[MAX_TOKENS];
    memset(sums, 0, MAX_BLOCKS * sizeof *sums);
    for (int64_t t = first; t < end; t += stride) {
        int64_t last = (t + stride < end ? t + stride : end) - 1, n_seen = last / stride + 1;
        double total = 0;
        for (int64_t u = 0; u < n_seen; u++) total += w[u] = exp(meet(c, h, t, end, u, n, stride));
        for (int64_t u = 0; u < n_seen; u++) sums[u * stride / BLOCK] += w[u] / total;
    }
}

/* The paper's choice: what is always met counts first; then by falling sum, while less than tau is held. No
 * sum that decides may be near another. */
static void choose(const settings *p, int64_t first, int64_t end, const double *sums, bool *met) {
    int64_t n = (end + BLOCK - 1) / BLOCK, own = first / BLOCK;
    double total = 0, held = 0;
    for (int64_t j = 0; j < n; j++) {
        total += sums[j];
        met[j] = j < p->sink || j > own - p->local;
        if (met[j]) held += sums[j];
    }
    while (held < p->tau * total) {
        int64_t best = -1;
        for (int64_t j = 0; j < n; j++)
            if (!met[j] && (best < 0 || sums[j] > sums[best])) best = j;
        if (best < 0) return;
        met[best] = true;
        held += sums[best];
    }
    assert_true(held - p->tau * total > 1e-6 * total || p->tau == 0);
}

static void choose_all(const layer_case *c, const settings *p, int64_t past, int64_t n, choice *m) {
    double sums[MAX_BLOCKS];
    memset(m, 0, sizeof *m);
    m->past = past;
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t first = past; first < n; first += BLOCK) {
            int64_t end = first + BLOCK < n ? first + BLOCK : n;
            add_up(c, h, first, end, n, p->stride, sums);
            choose(p, first, end, sums, m->met[h][(first - past) / BLOCK]);
        }
}

/* Outputs of queries past, past + step .. and the pairs that were counted. */
static void expect(const layer_case *c, const settings *p, int64_t past, int64_t n, int64_t step) {
    static choice m;
    double want[MAX_COLS], pairs = 0;
    choose_all(c, p, past, n, &m);
    for (int64_t q = past; q < n; q += step) {
        case_oracle(c, q, is_met, NULL, &m, want);
        case_expect(c, q - past, want, 5e-6);
    }
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t q = past; q < n; q++)
            for (int64_t key = 0; key <= q; key++) pairs += is_met(&m, h, q, key);
    assert_true(c->stats.prefill_pairs == pairs);
}

static void set(layer_case *c, const settings *p) {
    char line[100];
    snprintf(line, sizeof line, "xattn:min=0,tau=%g,stride=%lld,sink=%lld,local=%lld", p->tau,
             (long long)p->stride, (long long)p->sink, (long long)p->local);
    case_method(c, line, "dense");
    assert_string_equal(c->prefill.policy->name, "xattn");
}

static const settings lines[] = {
    {0.6, 16, 1, 1}, {0.5, 8, 0, 1}, {0.8, 4, 1, 2}, {0, 16, 1, 1}, {0.7, 64, 2, 1}};

static void blocks_are_the_papers(void **state) {
    int n_fewer = 0;
    (void)state;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
            layer_case c;
            int64_t n = use_cpu ? 700 : 515;
            case_open(
                &c, &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 700, .use_cpu = use_cpu},
                g + 1);
            for (size_t i = g % 2; i < SAC_COUNT(lines); i += 2) {
                set(&c, &lines[i]);
                case_prompt(&c, n);
                expect(&c, &lines[i], 0, n, 23);
                assert_int_equal(c.stats.n_selections, 1);
                n_fewer += c.stats.prefill_pairs < c.stats.prefill_pairs_dense;
            }
            case_close(&c);
        }
    assert_true(n_fewer >= 20); /* of 30 */
}

/* Later prompts, whose blocks of queries begin within those of keys, and a device's way. */
static void later_prompts(void **state) {
    static const int64_t turns[] = {300, 290, 3, 130, 17};
    (void)state;
    for (int as_device = 0; as_device < 2; as_device++) {
        layer_case c;
        int64_t past = 0;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 1000, .use_cpu = true, .as_device = as_device}, 4);
        set(&c, &lines[0]);
        for (size_t i = 0; i < SAC_COUNT(turns); i++) {
            c.stats = (sac_layer_stats){0};
            case_prompt(&c, turns[i]);
            expect(&c, &lines[0], past, past + turns[i], 5);
            past += turns[i];
        }
        case_close(&c);
    }
}

/* A block of keys that one block of queries looks for, far from it, is met; the others are not. */
static void a_needle_is_met(void **state) {
    enum { N = 1024, D = 16, NEEDLE = 2 * BLOCK + 40, WIDTH = 16, SEEKER = 7 };
    layer_case c;
    (void)state;
    case_open(&c, &(case_shape){1, 1, D, .n_ctx = N, .use_cpu = true}, 3);
    for (int64_t i = 0; i < N * D; i++) c.raw_q[i] *= 0.1f, c.raw_k[i] *= 0.1f;
    for (int64_t i = 0; i < N * D; i++) c.cos_sin[i] = i % 2 ? 0.0f : 1.0f; /* no rotation */
    for (int64_t t = NEEDLE; t < NEEDLE + WIDTH; t++) c.raw_k[t * D] = 12;
    for (int64_t t = SEEKER * BLOCK; t < N; t++) c.raw_q[t * D] = 12;
    case_method(&c, "xattn:min=0,tau=0.5", "dense");
    case_prompt(&c, N);
    double want[D];
    for (int64_t q = SEEKER * BLOCK; q < N; q++) { /* dense attention is at the needle */
        case_oracle(&c, q, NULL, NULL, NULL, want);
        case_expect(&c, q, want, 1e-3);
    }
    static choice m;
    choose_all(&c, &(settings){0.5, 16, 1, 1}, 0, N, &m);
    for (int64_t j = 0; j < SEEKER; j++) assert_int_equal(m.met[0][SEEKER][j], j == 0 || j == NEEDLE / BLOCK);
    case_close(&c);
}

static void covered_sequences_are_dense(void **state) {
    static const char *const dense[] = {"xattn", "xattn:min=0,sink=3", "xattn:min=0,sink=1,local=2",
                                        "xattn:min=0,dense_layers=1"};
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(dense); i++) {
        layer_case c, d;
        case_shape shape = {4, 2, 16, .n_ctx = 5000, .n_layers = 2, .use_cpu = true};
        case_open(&c, &shape, 9);
        case_open(&d, &shape, 9);
        case_method(&c, dense[i], "dense");
        case_method(&d, "dense", "dense");
        assert_string_equal(c.prefill.policy->name, "xattn"); /* not off: 5000 tokens would not be */
        case_prompt(&c, 350);
        case_prompt(&d, 350);
        assert_memory_equal(c.out, d.out, 350 * 4 * 16 * sizeof(float));
        assert_true(c.stats.prefill_pairs == d.stats.prefill_pairs && c.stats.n_selections == 0);
        case_close(&c);
        case_close(&d);
    }
}

/* tau just below 1 takes every block, by the method's own way: the numbers are dense's but for rounding. */
static void nearly_all_is_nearly_dense(void **state) {
    layer_case c, d;
    case_shape shape = {4, 2, 16, .n_ctx = 600, .use_cpu = true};
    (void)state;
    case_open(&c, &shape, 9);
    case_open(&d, &shape, 9);
    case_method(&c, "xattn:min=0,tau=0.9999999", "dense");
    case_method(&d, "dense", "dense");
    case_prompt(&c, 600);
    case_prompt(&d, 600);
    assert_true(c.stats.prefill_pairs == d.stats.prefill_pairs && c.stats.n_selections == 1);
    for (int64_t i = 0; i < 600 * 4 * 16; i++) assert_true(fabsf(c.out[i] - d.out[i]) < 1e-6f);
    case_close(&c);
    case_close(&d);
}

static void settings_are_checked(void **state) {
    static const char *const bad[] = {"xattn:stride=12", "xattn:stride=2", "xattn:local=0", "xattn:tau=1.5"};
    static const char *const off[] = {"xattn:tau=1", "xattn", "xattn:min=0,sink=9",
                                      "xattn:min=0,dense_layers=1"};
    layer_case c;
    (void)state;
    case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 1000}, 1);
    for (size_t i = 0; i < SAC_COUNT(bad); i++) {
        sac_prefill m;
        sac_error err = {0};
        assert_int_equal(sac_prefill_open(&m, bad[i], &c.shape, &err), SAC_BAD_ARGUMENT);
        assert_non_null(strstr(err.text, "prefill policy"));
    }
    for (size_t i = 0; i < SAC_COUNT(off); i++) {
        case_method(&c, off[i], "dense");
        assert_string_equal(c.prefill.policy->name, "dense");
    }
    case_close(&c);
}

static void sessions_repeat(void **state) {
    static told t;
    (void)state;
    told_as_dense("xattn", NULL); /* short */
    told_as_dense("xattn:min=0,tau=1", NULL);
    told_again("xattn:min=0,tau=0.5", NULL, &t);
    assert_true(t.layer.prefill_work < 1 && t.layer.prefill_work > 0.3);
    told_again("xattn:min=0,tau=0.5", "twilight:skip=0,p=0.8", &t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_the_papers),
        cmocka_unit_test(later_prompts),
        cmocka_unit_test(a_needle_is_met),
        cmocka_unit_test(covered_sequences_are_dense),
        cmocka_unit_test(nearly_all_is_nearly_dense),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(sessions_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
