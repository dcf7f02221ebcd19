/* TokenSelect against a plain fp64 vote and attention at compact positions, from raw queries and keys. */
#include "method_session.h"
#include "method_test.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16}, {6, 2, 16},
                                {8, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

enum { MAX_TOKENS = 160, MAX_COLS = 2 * 128 };
enum { SOFT, HEAD, TOPK };

/* The settings under test, the vote of a set of queries, and what it chose. */
typedef struct vote_case {
    int64_t init, k, local;
    int select; /* SOFT, HEAD or TOPK */
    bool mod, scaled;
    double score[MAX_TOKENS]; /* by token */
    int32_t rows[MAX_TOKENS]; /* the whole list */
    int64_t n_rows;
} vote_case;

static double vote_dot(const layer_case *c, const vote_case *v, int h, int64_t first, int64_t n,
                       int64_t key) {
    const sac_attention_shape *s = &c->shape;
    int d = s->head_dim, kv_head = v->mod ? h % s->n_kv_heads : h / (s->n_heads / s->n_kv_heads);
    double dot = 0, q[128];
    for (int64_t i = 0; i < n; i++) {
        case_rotate(c, c->raw_q + ((first + i) * s->n_heads + h) * d, v->local + i, q);
        for (int j = 0; j < d; j++)
            dot += q[j] * (double)c->raw_k[(key * s->n_kv_heads + kv_head) * d + j] / (double)n;
    }
    return v->scaled ? dot / sqrt(d) : dot;
}

static bool better(const double *score, int64_t i, int64_t j) {
    return score[i] > score[j] + 1e-6 || (score[i] > score[j] - 1e-6 && i < j);
}

static int64_t rank_of(const double *score, int64_t init, int64_t end, int64_t j) {
    int64_t rank = 0;
    for (int64_t i = init; i < end; i++) rank += i != j && better(score, i, j);
    return rank;
}

/* What queries [first, first + n) choose of the n_rows tokens up to them. */
static void expect_vote(const layer_case *c, vote_case *v, int64_t first, int64_t n) {
    int64_t n_rows = first + n, end = n_rows - v->local;
    for (int64_t j = 0; j < MAX_TOKENS; j++) v->score[j] = 0;
    for (int h = 0; h < c->shape.n_heads; h++) {
        double s[MAX_TOKENS], sum = 0;
        for (int64_t j = v->init; j < end; j++) s[j] = vote_dot(c, v, h, first, n, j);
        for (int64_t j = v->init; j < end; j++) sum += exp(s[j]);
        for (int64_t j = v->init; j < end; j++)
            v->score[j] += v->select == SOFT   ? exp(s[j]) / sum
                           : v->select == TOPK ? s[j]
                                               : rank_of(s, v->init, end, j) < v->k;
    }
    if (v->select == SOFT)
        for (int64_t j = v->init; j < end; j++) v->score[j] = log(v->score[j]);
    v->n_rows = 0;
    for (int64_t j = 0; j < n_rows; j++)
        if (j < v->init || j >= end || rank_of(v->score, v->init, end, j) < v->k)
            v->rows[v->n_rows++] = (int32_t)j;
}

static int64_t place_in(const vote_case *v, int64_t token) {
    for (int64_t i = 0; i < v->n_rows; i++)
        if (v->rows[i] == token) return i;
    return -1;
}
static bool is_listed(void *ctx, int h, int64_t query, int64_t key) {
    (void)h;
    return place_in(ctx, key) >= 0 && key <= query;
}
static void compact(void *ctx, int h, int64_t query, int64_t key, int64_t *query_at, int64_t *key_at) {
    (void)h;
    *query_at = place_in(ctx, query);
    *key_at = place_in(ctx, key);
}

static void expect_rows(const vote_case *v, const int32_t *rows, int64_t n) {
    assert_int_equal(n, v->n_rows);
    for (int64_t i = 0; i < n; i++)
        if (rows[i] != v->rows[i])
            fail_msg("row %lld of the choice is %d, expected %d", (long long)i, rows[i], v->rows[i]);
}

/* Outputs of the last call, whose first token was `first`, in chunks. */
static void expect_outputs(layer_case *c, vote_case *v, int64_t first, int64_t n, int64_t chunk,
                           bool at_own_positions) {
    double want[MAX_COLS];
    for (int64_t i = 0; i < n; i += chunk) {
        int64_t m = n - i < chunk ? n - i : chunk;
        bool whole = first + i + m <= v->init + v->k + v->local;
        if (!whole) expect_vote(c, v, first + i, m);
        for (int64_t q = i; q < i + m; q++) {
            case_oracle(c, first + q, whole ? NULL : is_listed, whole || at_own_positions ? NULL : compact, v,
                        want);
            case_expect(c, q, want, 2e-5);
        }
    }
}

static void settings_of(const vote_case *v, const char *more, char *line, size_t capacity) {
    static const char *const selects[] = {"soft", "head", "topk"};
    snprintf(line, capacity, "tokenselect:init=%d,k=%d,local=%d,select=%s,gqa=%s,scale=%s,%s", (int)v->init,
             (int)v->k, (int)v->local, selects[v->select], v->mod ? "mod" : "div",
             v->scaled ? "rsqrt_d" : "1", more);
}

static void prompts_equal_the_oracle(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++)
        for (int variant = 0; variant < 6; variant++) {
            layer_case c;
            char line[200];
            vote_case v = {.init = 3,
                           .k = 7,
                           .local = 13,
                           .select = variant < 3 ? variant : SOFT,
                           .mod = variant == 3,
                           .scaled = variant == 4};
            bool own = variant == 5;
            case_open(&c,
                      &(case_shape){GROUPS[i][0], GROUPS[i][1], GROUPS[i][2], .n_ctx = 128,
                                    .use_cpu = variant % 2 == 0},
                      i + 11);
            settings_of(&v, own ? "chunk=11,theta=2,pos=orig" : "chunk=11,theta=2", line, sizeof line);
            case_method(&c, line, line);
            case_prompt(&c, 79);
            expect_outputs(&c, &v, 0, 79, 11, own);
            assert_int_equal(c.stats.n_selections, 6); /* chunks ending at 33 .. 79 */
            case_prompt(&c, 5);                        /* a second turn */
            expect_outputs(&c, &v, 79, 5, 11, own);
            for (int step = 0; step < 4; step++) {
                case_step(&c);
                expect_outputs(&c, &v, c.n - 1, 1, 1, own);
            }
            assert_int_equal(c.stats.n_selections, 11);
            case_close(&c);
        }
}

/* Chunks that vote and attend together: as many as there are, more than go at once, and what is left over. */
static void prompts_on_a_device_equal_the_oracle(void **state) {
    (void)state;
    static const int chunks[] = {11, 3, 40};
    for (size_t i = 0; i < SAC_COUNT(GROUPS) * SAC_COUNT(chunks); i++) {
        const int *g = GROUPS[i / SAC_COUNT(chunks)], chunk = chunks[i % SAC_COUNT(chunks)];
        layer_case c;
        char line[200], more[60];
        vote_case v = {.init = 3, .k = 7, .local = 13, .scaled = i % 2};
        if (chunk > v.local) v.local = chunk;
        case_open(&c, &(case_shape){g[0], g[1], g[2], .n_ctx = 160, .use_cpu = i % 2 == 0, .as_device = true},
                  i + 31);
        snprintf(more, sizeof more, "chunk=%d,theta=%s", chunk, i % 2 ? "2" : "-1");
        settings_of(&v, more, line, sizeof line);
        case_method(&c, line, line);
        case_prompt(&c, 142);
        expect_outputs(&c, &v, 0, 142, chunk, false);
        double n = (double)c.stats.n_selections, kept = c.stats.prefill_kept, pairs = c.stats.prefill_pairs;
        case_step(&c);
        expect_outputs(&c, &v, 142, 1, 1, false);
        for (int step = 0; step < 3 && i % 2 == 0; step++) { /* the choice stays, the window moves on */
            double want[MAX_COLS];
            case_step(&c);
            for (int64_t j = 0; j < v.local; j++) v.rows[v.n_rows - v.local + j]++;
            case_oracle(&c, c.n - 1, is_listed, compact, &v, want);
            case_expect(&c, 0, want, 2e-5);
        }
        c.shape.device = NULL; /* counted as if one at a time */
        case_method(&c, line, line);
        case_prompt(&c, 142);
        assert_true(n == (double)c.stats.n_selections && fabs(kept - c.stats.prefill_kept) < 1e-9 * kept &&
                    pairs == c.stats.prefill_pairs);
        case_close(&c);
    }
}

/* The voting position local + i lies beyond the sequence: the mean is turned forward, not back. */
static void a_large_local_window_votes_from_beyond_the_end(void **state) {
    (void)state;
    layer_case c;
    vote_case v = {.init = 1, .k = 2, .local = 40};
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128}, 5);
    case_method(&c, "tokenselect:init=1,k=2,local=40,chunk=31", "dense");
    case_prompt(&c, 61);
    expect_outputs(&c, &v, 0, 61, 31, false);
    assert_int_equal(c.stats.n_selections, 1);
    case_close(&c);
}

/* A yarn table holds a factor, in stored keys and in queries, that turning must neither add nor take. */
static void the_factor_of_a_table_stays_what_it_is(void **state) {
    (void)state;
    static const char *const lines[] = {"tokenselect:init=1,k=2,local=40,chunk=31",
                                        "tokenselect:init=3,k=7,local=13,chunk=11"};
    static float plain[61 * 96];
    for (size_t l = 0; l < SAC_COUNT(lines); l++) {
        layer_case c;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128}, 5);
        case_method(&c, lines[l], "dense");
        case_prompt(&c, 61);
        memcpy(plain, c.out, sizeof plain);
        for (int64_t i = 0; i < 128 * 16; i++) c.cos_sin[i] *= 1.25f;
        for (int64_t i = 0; i < 128 * 96; i++) c.raw_q[i] *= 0.8f * 0.8f;
        c.rotation.factor = 1.25f;
        case_method(&c, lines[l], "dense");
        case_prompt(&c, 61);
        for (int64_t i = 0; i < 61 * 96; i++) assert_true(fabsf(c.out[i] - plain[i]) < 1e-5f);
        case_close(&c);
    }
}

static void select_step(layer_case *c, sac_choice *choice) {
    sac_layer_attention a = case_tokens(c, 1);
    *choice = (sac_choice){0};
    assert_int_equal(c->decode.policy->select(c->decode.state, &a, choice), SAC_OK);
    c->n++;
    c->n_rows++;
}

static void steps_choose_what_the_oracle_chooses(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++) {
        layer_case c;
        sac_choice choice;
        vote_case v = {.init = 5, .k = 9, .local = 3};
        case_open(&c, &(case_shape){GROUPS[i][0], GROUPS[i][1], 8, .n_ctx = 128, .use_cpu = true}, i + 1);
        case_method(&c, "dense", "tokenselect:init=5,k=9,local=3,theta=2");
        case_prompt(&c, 15);
        select_step(&c, &choice);
        assert_true(choice.all); /* 16 tokens, 17 may be read */
        select_step(&c, &choice);
        assert_true(choice.all);
        for (int step = 0; step < 40; step++) {
            select_step(&c, &choice);
            expect_vote(&c, &v, c.n - 1, 1);
            assert_false(choice.all);
            expect_rows(&v, choice.lists.rows, choice.lists.start[1]);
        }
        case_close(&c);
    }
}

/* One key that every head's query points at. */
static void a_planted_key_is_found(void **state) {
    (void)state;
    layer_case c;
    sac_choice choice;
    case_open(&c, &(case_shape){8, 2, 16, .n_ctx = 128}, 2);
    case_method(&c, "dense", "tokenselect:init=2,k=1,local=4,theta=2");
    const sac_attention_shape *s = &c.shape;
    for (int h = 0; h < s->n_heads; h++) {
        double q[16];
        float *query = c.raw_q + (100 * s->n_heads + h) * 16;
        memcpy(query, c.raw_q + (100 * s->n_heads + h / 4 * 4) * 16, 16 * sizeof(float));
        case_rotate(&c, query, 4, q); /* at the voting position, local */
        for (int j = 0; j < 16; j++) c.raw_k[(57 * s->n_kv_heads + h / 4) * 16 + j] = 4 * (float)q[j];
    }
    case_prompt(&c, 100);
    select_step(&c, &choice);
    assert_int_equal(choice.lists.start[1], 7);
    assert_int_equal(choice.lists.rows[2], 57);
    case_close(&c);
}

/* Each head has one vote, however its scores lie. */
static void votes_of_all_keys_sum_to_the_heads(void **state) {
    (void)state;
    enum { HEADS = 7, N = 1003 };
    static float scores[HEADS * N], votes[N], lse[HEADS];
    uint64_t random = 9;
    layer_case c;
    case_open(&c, &(case_shape){7, 1, 16, .n_ctx = 16, .use_cpu = true}, 1);
    for (int spread = 1; spread <= 1000; spread *= 10) {
        double sum = 0;
        for (int i = 0; i < HEADS * N; i++) scores[i] = (float)spread * test_rand_float(&random);
        c.ops.softmax(&c.stream, &(sac_softmax_args){scores, N, N, NULL, HEADS, lse, NULL, NULL});
        c.ops.soft_vote(&c.stream, &(sac_soft_vote_args){scores, N, N, HEADS, lse, votes, 1, NULL});
        for (int j = 0; j < N; j++) sum += exp((double)votes[j]);
        assert_true(fabs(sum - HEADS) < HEADS * 2e-6 * fmax(1, spread / 10.0));
    }
    case_close(&c);
}

/* New places of the query heads of every token, and of the key-value heads. */
static void permute_heads(layer_case *c, const int *q_from, const int *kv_from) {
    const sac_attention_shape *s = &c->shape;
    float old[MAX_COLS];
    for (int64_t t = 0; t < s->n_ctx; t++) {
        float *q = c->raw_q + t * s->n_heads * s->head_dim, *k = c->raw_k + t * s->n_kv_heads * s->head_dim;
        size_t head = (size_t)s->head_dim;
        memcpy(old, q, (size_t)s->n_heads * head * sizeof(float));
        for (int h = 0; h < s->n_heads; h++)
            memcpy(q + h * s->head_dim, old + q_from[h] * s->head_dim, head * sizeof(float));
        memcpy(old, k, (size_t)s->n_kv_heads * head * sizeof(float));
        for (int h = 0; h < s->n_kv_heads; h++)
            memcpy(k + h * s->head_dim, old + kv_from[h] * s->head_dim, head * sizeof(float));
    }
}

static void choice_of_a_step(layer_case *c, const char *line, int32_t *rows) {
    sac_choice choice;
    case_method(c, "dense", line);
    case_prompt(c, 90);
    select_step(c, &choice);
    assert_int_equal(choice.lists.start[1], 20);
    memcpy(rows, choice.lists.rows, 20 * sizeof *rows);
}

static void order_of_heads_does_not_matter(void **state) {
    (void)state;
    static const int q_from[2][6] = {{2, 0, 1, 4, 5, 3}, {3, 4, 5, 0, 1, 2}};
    static const int kv_from[2][2] = {{0, 1}, {1, 0}};
    const char *line = "tokenselect:init=4,k=11,local=5";
    for (int i = 0; i < 2; i++) {
        layer_case c;
        int32_t rows[20], permuted[20];
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100}, 4);
        choice_of_a_step(&c, line, rows);
        permute_heads(&c, q_from[i], kv_from[i]);
        choice_of_a_step(&c, line, permuted);
        assert_memory_equal(rows, permuted, sizeof rows);
        case_close(&c);
    }
}

/* With one key head, or one a query head, both readings of the pairing are the same. */
static void pairings_differ_only_with_groups(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++) {
        layer_case c;
        int32_t rows[20], mod[20];
        bool same = GROUPS[i][1] == 1 || GROUPS[i][1] == GROUPS[i][0];
        case_open(&c, &(case_shape){GROUPS[i][0], GROUPS[i][1], GROUPS[i][2], .n_ctx = 100}, i + 3);
        choice_of_a_step(&c, "tokenselect:init=4,k=11,local=5", rows);
        choice_of_a_step(&c, "tokenselect:init=4,k=11,local=5,gqa=mod", mod);
        assert_true((memcmp(rows, mod, sizeof rows) == 0) == same);
        case_close(&c);
    }
}

/* Queries of the last tokens: a slow turn away from the first, so that theta decides. */
static void drifting_queries(layer_case *c, int64_t first, double turn) {
    int64_t cols = (int64_t)c->shape.n_heads * c->shape.head_dim;
    for (int64_t t = first + 1; t < c->shape.n_ctx; t++)
        for (int64_t i = 0; i < cols; i += 2) {
            const float *from = c->raw_q + first * cols + i;
            double angle = turn * (double)(t - first), x = (double)from[0], y = (double)from[1];
            c->raw_q[t * cols + i] = (float)(x * cos(angle) - y * sin(angle));
            c->raw_q[t * cols + i + 1] = (float)(x * sin(angle) + y * cos(angle));
        }
}

static void like_queries_reuse_the_choice(void **state) {
    (void)state;
    struct {
        const char *settings;
        int64_t hits, selections;
    } runs[] = {{"theta=1.5", 0, 12},  {"theta=-1", 11, 1},           {"theta=0.9", 8, 4},
                {"theta=0.99", 0, 12}, {"theta=-1,max_hits=2", 8, 4}, {"theta=0.9,max_hits=1", 6, 6}};
    for (size_t i = 0; i < SAC_COUNT(runs); i++) {
        layer_case c;
        char line[100];
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100}, 8);
        drifting_queries(&c, 60, 0.2); /* cosines .98, .92, .83 with the selecting query */
        snprintf(line, sizeof line, "tokenselect:init=4,k=11,local=5,%s", runs[i].settings);
        case_method(&c, "dense", line);
        case_prompt(&c, 60);
        for (int step = 0; step < 12; step++) case_step(&c);
        assert_int_equal(c.stats.n_cache_hits, runs[i].hits);
        assert_int_equal(c.stats.n_selections, runs[i].selections);
        case_prompt(&c, 3); /* a new prompt forgets */
        case_step(&c);
        assert_int_equal(c.stats.n_selections, runs[i].selections + 1);
        case_close(&c);
    }
}

/* A hit reads the old choice and the window of now. */
static void a_hit_keeps_the_choice_and_moves_the_window(void **state) {
    (void)state;
    layer_case c;
    sac_choice choice;
    int32_t first[20];
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100}, 8);
    case_method(&c, "dense", "tokenselect:init=4,k=11,local=5,theta=-1");
    case_prompt(&c, 60);
    select_step(&c, &choice);
    memcpy(first, choice.lists.rows, sizeof first);
    for (int64_t step = 1; step < 9; step++) {
        select_step(&c, &choice);
        assert_int_equal(choice.lists.start[1], 20);
        assert_memory_equal(choice.lists.rows, first, 15 * sizeof *first);
        for (int64_t i = 0; i < 5; i++) assert_int_equal(choice.lists.rows[15 + i], 56 + step + i);
    }
    case_close(&c);
}

/* Fewest of the best that hold p of the vote. */
static int64_t expected_by_mass(const layer_case *c, vote_case *v, double p) {
    int64_t end = c->n - v->local, n = 0;
    double held = 0;
    expect_vote(c, v, c->n - 1, 1);
    for (int64_t rank = 0; rank < end - v->init && held < p * c->shape.n_heads; rank++)
        for (int64_t j = v->init; j < end; j++)
            if (rank_of(v->score, v->init, end, j) == rank) {
                held += exp(v->score[j]);
                n++;
            }
    return n;
}

static void p_chooses_by_mass(void **state) {
    (void)state;
    static const double ps[] = {0.05, 0.3, 0.6, 0.9, 0.99};
    int64_t before = 0;
    for (size_t i = 0; i < SAC_COUNT(ps); i++) {
        layer_case c;
        char line[100];
        sac_choice choice;
        vote_case v = {.init = 4, .k = 1, .local = 5};
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 160}, 8);
        snprintf(line, sizeof line, "tokenselect:init=4,local=5,theta=2,kmin=1,p=%g", ps[i]);
        case_method(&c, "dense", line);
        case_prompt(&c, 130);
        select_step(&c, &choice);
        int64_t want = expected_by_mass(&c, &v, ps[i]), got = choice.lists.start[1] - 9;
        assert_int_equal(got, want);
        assert_true(got >= before && (i == 0 || got > 1));
        before = got;
        v.k = want;
        expect_vote(&c, &v, c.n - 1, 1);
        expect_rows(&v, choice.lists.rows, choice.lists.start[1]);
        case_method(&c, "dense", "tokenselect:init=4,local=5,kmin=17,kmax=20,p=0.05");
        case_prompt(&c, 130);
        select_step(&c, &choice);
        assert_int_equal(choice.lists.start[1], 26);
        case_method(&c, "dense", "tokenselect:init=4,local=5,kmin=17,kmax=20,p=1");
        case_prompt(&c, 130);
        select_step(&c, &choice);
        assert_int_equal(choice.lists.start[1], 29);
        case_close(&c);
    }
}

/* Outputs of a prompt of 70 and 5 steps. */
static void run_all(layer_case *c, const char *line, float *outputs) {
    size_t cols = (size_t)(c->shape.n_heads * c->shape.head_dim);
    case_method(c, line, line);
    case_prompt(c, 70);
    memcpy(outputs, c->out, 70 * cols * sizeof(float));
    for (size_t step = 0; step < 5; step++) {
        case_step(c);
        memcpy(outputs + (70 + step) * cols, c->out, cols * sizeof(float));
    }
}

static void off_and_short_are_dense_bit_by_bit(void **state) {
    (void)state;
    static const char *const off[] = {
        "tokenselect:init=10,k=80,local=10,chunk=10", "tokenselect:p=1,local=9,chunk=9",
        "tokenselect:init=5,k=40,local=30,chunk=7" /* 75 tokens are still short */};
    static float dense[75 * MAX_COLS], got[75 * MAX_COLS];
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++) {
        layer_case c;
        case_open(&c, &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 100, .use_cpu = true},
                  g + 21);
        run_all(&c, "dense", dense);
        for (size_t i = 0; i < SAC_COUNT(off); i++) {
            run_all(&c, off[i], got);
            assert_true((c.decode.policy == &sac_decode_dense) == (i < 2));
            assert_true((c.prefill.policy == &sac_prefill_dense) == (i < 2));
            assert_memory_equal(got, dense, sizeof got);
            assert_true(c.stats.prefill_pairs == c.stats.prefill_pairs_dense && c.stats.prefill_kept == 70);
            assert_true(c.stats.decode_rows == c.stats.decode_rows_dense);
        }
        case_close(&c);
    }
}

/* Later tokens change nothing for the chunks before them. */
static void later_tokens_change_no_earlier_output(void **state) {
    (void)state;
    layer_case c;
    static float first[44 * MAX_COLS];
    const char *line = "tokenselect:init=3,k=7,local=13,chunk=11";
    size_t cols = 6 * 16;
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .use_cpu = true}, 3);
    case_method(&c, line, "dense");
    case_prompt(&c, 44);
    memcpy(first, c.out, 44 * cols * sizeof(float));
    case_method(&c, line, "dense");
    case_prompt(&c, 99);
    assert_memory_equal(c.out, first, 44 * cols * sizeof(float));
    case_close(&c);
}

static void pairs_are_counted(void **state) {
    (void)state;
    layer_case c;
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128}, 3);
    case_method(&c, "tokenselect:init=3,k=7,local=13,chunk=10", "tokenselect:init=3,k=7,local=13,theta=2");
    case_prompt(&c, 45); /* 20 dense, then chunks of 10, 10 and 5 that read 23 */
    assert_true(c.stats.prefill_pairs == 6 * (210 + 2 * (10 * 13 + 55) + 5 * 18 + 15));
    assert_true(c.stats.prefill_pairs_dense == 6 * 45 * 23);
    assert_true(fabs(c.stats.prefill_kept - (20 + 230.0 / 30 + 230.0 / 40 + 115.0 / 45)) < 1e-9);
    case_step(&c);
    assert_true(c.stats.decode_rows == 46 && c.stats.decode_rows_dense == 92);
    assert_true(c.stats.decode_budget == 23 * 6);
    case_close(&c);
}

static void refused(const char *prefill, const char *decode, const sac_attention_shape *shape,
                    const char *text) {
    sac_error err = {0};
    sac_prefill p;
    sac_decode d;
    sac_status st = sac_prefill_open(&p, prefill, shape, &err);
    if (st == SAC_OK) {
        st = sac_decode_open(&d, decode, shape, &err);
        sac_prefill_free(&p);
    }
    assert_true(st != SAC_OK);
    if (!strstr(err.text, text)) fail_msg("\"%s\" lacks \"%s\"", err.text, text);
}

/* Nothing to tell keys apart by: the first candidates, and numbers all the way, in this method and in others.
 */
static void keys_of_zeros_give_numbers(void **state) {
    (void)state;
    static const char *const lines[] = {"tokenselect:init=4,k=11,local=5,chunk=5",
                                        "quest:budget=32",
                                        "doublesparse:k=20",
                                        "doublesparse:k=20,bits=4",
                                        "twilight",
                                        "twilight:base=quest,base.budget=32",
                                        "twilight:base=tokenselect,base.init=4,base.k=11,base.local=5",
                                        "infllm:local=20,block=8,topk=2",
                                        "selfextend:group=4,window=9"};
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        layer_case c;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100, .n_layers = 3, .layer = 2, .use_cpu = i % 2}, 3);
        memset(c.raw_k, 0, 100 * 32 * sizeof(float));
        case_method(&c, i == 0 ? lines[0] : "dense", lines[i]);
        case_prompt(&c, 90);
        for (int step = 0; step < 3; step++) case_step(&c);
        for (int j = 0; j < 96; j++) assert_true(fabsf(c.out[j]) <= 1);
        case_close(&c);
    }
}

static void senseless_settings_are_refused(void **state) {
    (void)state;
    sac_attention_shape shape = {.n_layers = 1,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 16,
                                 .hidden = 64,
                                 .n_ctx = 10000,
                                 .chunk = 64,
                                 .max_position = 1000,
                                 .fixed_rotation = true};
    refused("tokenselect:chunk=513", "dense", &shape, "give chunk <= local");
    refused("tokenselect", "dense", &shape, "trained on 1000");
    refused("dense", "tokenselect", &shape, "= 2688 tokens at once");
    refused("dense", "tokenselect:k=300,p=0.9", &shape, "trained on 1000");
    refused("dense", "tokenselect:p=0.9,select=head,kmax=100", &shape, "select=soft");
    refused("dense", "tokenselect:theta=x", &shape, "theta=x");
    shape.fixed_rotation = false;
    refused("dense", "tokenselect:k=100", &shape, "dynamic rope scaling");
    sac_decode d;
    sac_error err;
    shape.fixed_rotation = true;
    assert_ok(sac_decode_open(&d, "tokenselect:pos=orig", &shape, &err), err);
    sac_decode_free(&d);
}

static void the_demo_model_answers_alike(void **state) {
    (void)state;
    static told t;
    told_as_dense("tokenselect:k=1000", "tokenselect:k=1000");
    told_as_dense("tokenselect:init=4,k=500,local=64,chunk=64", "tokenselect:init=4,k=500,local=64");
    told_again("tokenselect:init=4,k=100,local=64,chunk=64", "tokenselect:init=4,k=100,local=64", &t);
    assert_true(t.layer.prefill_work < 1 && t.layer.decode_read < 1);
    assert_true(t.layer.selections > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_equal_the_oracle),
        cmocka_unit_test(prompts_on_a_device_equal_the_oracle),
        cmocka_unit_test(a_large_local_window_votes_from_beyond_the_end),
        cmocka_unit_test(the_factor_of_a_table_stays_what_it_is),
        cmocka_unit_test(steps_choose_what_the_oracle_chooses),
        cmocka_unit_test(a_planted_key_is_found),
        cmocka_unit_test(votes_of_all_keys_sum_to_the_heads),
        cmocka_unit_test(order_of_heads_does_not_matter),
        cmocka_unit_test(pairings_differ_only_with_groups),
        cmocka_unit_test(like_queries_reuse_the_choice),
        cmocka_unit_test(a_hit_keeps_the_choice_and_moves_the_window),
        cmocka_unit_test(p_chooses_by_mass),
        cmocka_unit_test(off_and_short_are_dense_bit_by_bit),
        cmocka_unit_test(later_tokens_change_no_earlier_output),
        cmocka_unit_test(pairs_are_counted),
        cmocka_unit_test(keys_of_zeros_give_numbers),
        cmocka_unit_test(senseless_settings_are_refused),
        cmocka_unit_test(the_demo_model_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
