/* MInference: each pattern against masks made from raw queries and keys, and dense attention under them. */
#include "method_session.h"
#include "method_test.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

enum { MAX_TOKENS = 500, MAX_HEADS = 8, MAX_COLS = 2 * 128, BLOCK = 64 };

typedef struct mask {
    bool column[MAX_HEADS][MAX_TOKENS], diagonal[MAX_HEADS][MAX_TOKENS];
    bool block[MAX_HEADS][MAX_TOKENS / BLOCK + 1][MAX_TOKENS / BLOCK + 1]; /* [head][of queries][of keys] */
    bool by_block;
    int64_t past; /* blocks of queries are counted from here, those of keys from 0 */
} mask;

static bool is_met(void *ctx, int h, int64_t query, int64_t key) {
    const mask *m = ctx;
    int64_t block = (query - m->past) / BLOCK;
    if (m->by_block) return m->block[h][block][key / BLOCK];
    if (m->column[h][key]) return true;
    int64_t first = m->past + block * BLOCK; /* a strip: any query of the block has the key on a diagonal */
    for (int64_t q = first; q < first + BLOCK && q < MAX_TOKENS; q++)
        if (q >= key && m->diagonal[h][q - key]) return true;
    return false;
}

static void mark_best(const double *score, int64_t n, int64_t k, bool *best) {
    memset(best, 0, (size_t)n * sizeof *best);
    for (int64_t i = 0; i < k && i < n; i++) {
        int64_t at = -1;
        for (int64_t j = 0; j < n; j++)
            if (!best[j] && (at < 0 || score[j] > score[at])) at = j;
        best[at] = true;
    }
}

/* Of n tokens: the last n_q queries' mass by column and by distance. */
static void mark_lines(const layer_case *c, int64_t n, int64_t n_q, int64_t v, int64_t s, mask *m) {
    static double column[MAX_TOKENS], diagonal[MAX_TOKENS], w[MAX_TOKENS];
    for (int h = 0; h < c->shape.n_heads; h++) {
        memset(column, 0, sizeof column);
        memset(diagonal, 0, sizeof diagonal);
        for (int64_t query = n - n_q; query < n; query++) {
            double sum = 0;
            for (int64_t key = 0; key <= query; key++)
                sum += w[key] = exp(case_dot(c, h, query, key, query, key) / sqrt(c->shape.head_dim));
            for (int64_t key = 0; key <= query; key++) {
                column[key] += w[key] / sum;
                diagonal[query - key] += w[key] / sum;
            }
        }
        for (int i = 0; i < 30; i++) column[i] = INFINITY;
        for (int i = 0; i < 100; i++) diagonal[i] = INFINITY;
        mark_best(column, n, v, m->column[h]);
        mark_best(diagonal, n, s, m->diagonal[h]);
    }
}

static void mark_blocks(const layer_case *c, int64_t past, int64_t n, int64_t k, mask *m) {
    m->by_block = true;
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t first = past; first < n; first += BLOCK) {
            int64_t end = first + BLOCK < n ? first + BLOCK : n, n_blocks = (end + BLOCK - 1) / BLOCK;
            double score[MAX_TOKENS / BLOCK + 1] = {0};
            for (int64_t b = 0; b < n_blocks; b++) {
                int64_t last = (b + 1) * BLOCK < end ? (b + 1) * BLOCK : end;
                for (int64_t query = first; query < end; query++)
                    for (int64_t key = b * BLOCK; key < last; key++)
                        score[b] += case_dot(c, h, query, key, query, key);
                score[b] = last > first ? INFINITY : score[b] / (double)(last - b * BLOCK);
            }
            int64_t n_own = n_blocks - first / BLOCK;
            bool *met = m->block[h][(first - past) / BLOCK];
            mark_best(score, n_blocks, k > n_own ? k : n_own, met);
            for (int64_t query = first; query < end; query++) assert_true(met[query / BLOCK]);
        }
}

/* Outputs of queries past, past + step .. and the pairs that were counted. */
static void expect_mask(const layer_case *c, int64_t past, int64_t n, int64_t step, mask *m) {
    double want[MAX_COLS], pairs = 0;
    m->past = past;
    for (int64_t q = past; q < n; q += step) {
        case_oracle(c, q, is_met, NULL, m, want);
        case_expect(c, q - past, want, 5e-6);
    }
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t q = past; q < n; q++)
            for (int64_t key = 0; key <= q; key++) pairs += is_met(m, h, q, key);
    if (step == 1) assert_true(c->stats.prefill_pairs == pairs);
}

static mask the_mask;

static void columns_and_diagonals_of_each_head(void **state) {
    (void)state;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
            layer_case c;
            case_open(
                &c, &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 333, .use_cpu = use_cpu},
                g + 1);
            case_method(&c, "minference:v=37,s=113", "dense");
            case_prompt(&c, 333);
            memset(&the_mask, 0, sizeof the_mask);
            mark_lines(&c, 333, 64, 37, 113, &the_mask);
            expect_mask(&c, 0, 333, use_cpu ? 1 : 7, &the_mask);
            assert_int_equal(c.stats.n_selections, 1);
            assert_true(c.stats.prefill_pairs < c.stats.prefill_pairs_dense);
            case_close(&c);
        }
}

static void block_sparse_and_a_shape(void **state) {
    (void)state;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++) {
        layer_case c;
        case_open(&c, &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 333, .use_cpu = true},
                  g + 1);
        case_method(&c, "minference:pattern=block_sparse,blocks=2", "dense");
        case_prompt(&c, 333);
        memset(&the_mask, 0, sizeof the_mask);
        mark_blocks(&c, 0, 333, 2, &the_mask);
        expect_mask(&c, 0, 333, 1, &the_mask);
        case_method(&c, "minference:pattern=a_shape,v=5,s=71", "dense");
        case_prompt(&c, 333);
        memset(&the_mask, 0, sizeof the_mask);
        for (int h = 0; h < MAX_HEADS; h++) {
            memset(the_mask.column[h], 1, 5);
            memset(the_mask.diagonal[h], 1, 71);
        }
        expect_mask(&c, 0, 333, 1, &the_mask);
        case_close(&c);
    }
}

/* A second turn: its queries estimate, over all keys; blocks of queries no longer start at multiples of 64.
 */
static void later_prompts(void **state) {
    (void)state;
    layer_case c;
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 300, .use_cpu = true}, 4);
    case_method(&c, "minference:v=31,s=51", "dense");
    case_prompt(&c, 151);
    c.stats = (sac_layer_stats){0};
    case_prompt(&c, 101);
    memset(&the_mask, 0, sizeof the_mask);
    mark_lines(&c, 252, 64, 31, 51, &the_mask);
    expect_mask(&c, 151, 252, 1, &the_mask);
    case_prompt(&c, 3);
    memset(&the_mask, 0, sizeof the_mask);
    mark_lines(&c, 255, 3, 31, 51, &the_mask);
    expect_mask(&c, 252, 255, 2, &the_mask);
    case_method(&c, "minference:pattern=block_sparse,blocks=1", "dense");
    case_prompt(&c, 151);
    c.stats = (sac_layer_stats){0};
    case_prompt(&c, 101);
    memset(&the_mask, 0, sizeof the_mask);
    mark_blocks(&c, 151, 252, 1, &the_mask);
    expect_mask(&c, 151, 252, 4, &the_mask);
    case_method(&c, "minference:pattern=block_sparse,blocks=2", "dense");
    case_prompt(&c, 190);
    c.stats = (sac_layer_stats){0};
    case_prompt(&c, 70); /* a block of 2 + 62 keys, one of 6 */
    memset(&the_mask, 0, sizeof the_mask);
    mark_blocks(&c, 190, 260, 2, &the_mask);
    expect_mask(&c, 190, 260, 1, &the_mask);
    case_close(&c);
}

static void covered_sequences_are_dense(void **state) {
    (void)state;
    static const char *const lines[] = {
        "minference:v=200,s=50", "minference:v=30,s=200", "minference:pattern=a_shape,v=100,s=100",
        "minference:pattern=block_sparse,blocks=4", "minference:v=31,s=51,dense_layers=1"};
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        layer_case c, d;
        case_shape shape = {4, 2, 16, .n_ctx = 260, .n_layers = 2, .use_cpu = true};
        case_open(&c, &shape, 9);
        case_open(&d, &shape, 9);
        case_method(&c, lines[i], "dense");
        case_method(&d, "dense", "dense");
        assert_string_equal(c.prefill.policy->name, "minference"); /* not off: 260 tokens would not be */
        case_prompt(&c, 200);
        case_prompt(&d, 200);
        assert_memory_equal(c.out, d.out, 200 * 4 * 16 * sizeof(float));
        assert_true(c.stats.prefill_pairs == d.stats.prefill_pairs && c.stats.n_selections == 0);
        case_close(&c);
        case_close(&d);
    }
}

static void sessions_repeat(void **state) {
    (void)state;
    static told t;
    told_as_dense("minference", NULL);            /* 6096 diagonals */
    told_as_dense("minference:v=300,s=50", NULL); /* more columns than the prompt has */
    told_again("minference:v=30,s=50", NULL, &t);
    assert_true(t.layer.prefill_work < 1 && t.layer.prefill_work > 0.3);
    told_again("minference:pattern=block_sparse,blocks=1", NULL, &t);
    told_again("minference:pattern=a_shape,v=4,s=32", NULL, &t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_and_diagonals_of_each_head),
        cmocka_unit_test(block_sparse_and_a_shape),
        cmocka_unit_test(later_prompts),
        cmocka_unit_test(covered_sequences_are_dense),
        cmocka_unit_test(sessions_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
