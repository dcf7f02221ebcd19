/* TokenSelect against a plain fp64 vote and attention at compact positions, from raw queries and keys. */
#include "captured.h"
#include "tokenselect.h"

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
    bool at_true;             /* the vote is at the tokens' own positions */
    int means;                /* of a chunk; 0 as 1 */
    double score[MAX_TOKENS]; /* by token */
    int32_t rows[MAX_TOKENS]; /* the whole list */
    int64_t n_rows;
} vote_case;

/* The mean of n queries from `first` on, in a chunk that begins at `chunk`, and a key. */
static double vote_dot(const layer_case *c, const vote_case *v, int h, int64_t chunk, int64_t first,
                       int64_t n, int64_t key) {
    const sac_attention_shape *s = &c->shape;
    int d = s->head_dim, kv_head = v->mod ? h % s->n_kv_heads : h / (s->n_heads / s->n_kv_heads);
    double dot = 0, q[128], k[128];
    case_rotate(c, c->raw_k + (key * s->n_kv_heads + kv_head) * d, v->at_true ? key : 0, k);
    for (int64_t i = 0; i < n; i++) {
        case_rotate(c, c->raw_q + ((first + i) * s->n_heads + h) * d,
                    v->at_true ? first + i : v->local + first - chunk + i, q);
        for (int j = 0; j < d; j++) dot += q[j] * k[j] / (double)n;
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
    int64_t n_rows = first + n, end = n_rows - v->local, means = v->means > 1 ? v->means : 1,
            each = (n + means - 1) / means;
    for (int64_t j = 0; j < MAX_TOKENS; j++) v->score[j] = 0;
    for (int64_t i = 0; i < (n + each - 1) / each * c->shape.n_heads; i++) {
        double s[MAX_TOKENS], sum = 0;
        int h = (int)(i % c->shape.n_heads);
        int64_t at = first + i / c->shape.n_heads * each, m = n_rows - at < each ? n_rows - at : each;
        for (int64_t j = v->init; j < end; j++) s[j] = vote_dot(c, v, h, first, at, m, j);
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
    snprintf(line, capacity,
             "tokenselect:init=%d,k=%d,local=%d,select=%s,gqa=%s,scale=%s,vote=%s,means=%d,%s", (int)v->init,
             (int)v->k, (int)v->local, selects[v->select], v->mod ? "mod" : "div",
             v->scaled ? "rsqrt_d" : "1", v->at_true ? "true" : "local", v->means > 1 ? v->means : 1, more);
}

static void prompts_equal_the_oracle(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++)
        for (int variant = 0; variant < 10; variant++) {
            layer_case c;
            char line[200];
            vote_case v = {.init = 3,
                           .k = 7,
                           .local = 13,
                           .select = variant < 3 ? variant : SOFT,
                           .mod = variant == 3 || variant == 9,
                           .scaled = variant == 4 || variant == 7,
                           .at_true = variant == 6 || variant == 7,
                           .means = variant == 7   ? 3
                                    : variant == 8 ? 4
                                    : variant == 9 ? 2
                                                   : 1};
            bool own = variant == 5 || v.at_true;
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

/* The same of a trained model's attention: votes at the paper's positions, at the tokens' own, and of several means. */
static void choices_of_a_trained_layer_equal_the_oracle(void **state) {
    (void)state;
    for (int variant = 0; variant < 8; variant++) {
        layer_case c;
        char line[200];
        const bool at_true = variant % 4 >= 2, own = variant % 4 >= 1;
        vote_case v = {.init = 3,
                       .k = 17,
                       .local = 13,
                       .scaled = at_true,
                       .at_true = at_true,
                       .means = variant % 4 == 3 ? 4 : 1};
        case_captured(&c, (case_shape){.use_cpu = variant < 4});
        settings_of(&v, own ? "chunk=11,theta=2,pos=orig" : "chunk=11,theta=2", line, sizeof line);
        case_method(&c, line, line);
        case_prompt(&c, CAPTURED_TOKENS - 4);
        expect_outputs(&c, &v, 0, CAPTURED_TOKENS - 4, 11, own);
        for (int step = 0; step < 4; step++) {
            case_step(&c);
            expect_outputs(&c, &v, c.n - 1, 1, 1, own);
        }
        case_close(&c);
    }
}

/* Chunks that vote and attend together: as many as there are, more than go at once, and what is left over; at places, at
 * the tokens' own positions, and with votes there, too. */
static void prompts_on_a_device_equal_the_oracle(void **state) {
    (void)state;
    static const int chunks[] = {11, 3, 40};
    static const char *const forms[] = {"pos=compact", "pos=orig", "pos=orig"};
    for (size_t i = 0; i < SAC_COUNT(GROUPS) * SAC_COUNT(chunks) * SAC_COUNT(forms); i++) {
        const size_t at = i / SAC_COUNT(forms), form = i % SAC_COUNT(forms);
        const int *g = GROUPS[at / SAC_COUNT(chunks)], chunk = chunks[at % SAC_COUNT(chunks)];
        const bool own = form > 0;
        layer_case c;
        char line[200], more[60];
        vote_case v = {.init = 3, .k = 7, .local = 13, .scaled = at % 2, .at_true = form == 2};
        if (chunk > v.local) v.local = chunk;
        case_open(&c, &(case_shape){g[0], g[1], g[2], .n_ctx = 160, .use_cpu = at % 2 == 0, .as_device = true},
                  at + 31);
        snprintf(more, sizeof more, "chunk=%d,theta=%s,%s", chunk, at % 2 ? "2" : "-1", forms[form]);
        settings_of(&v, more, line, sizeof line);
        case_method(&c, line, line);
        assert_true(((const sac_tokenselect *)c.prefill.state)->chunks.n_at_once > 1);
        case_prompt(&c, 142);
        expect_outputs(&c, &v, 0, 142, chunk, own);
        double n = (double)c.stats.n_selections, kept = c.stats.prefill_kept, pairs = c.stats.prefill_pairs;
        case_step(&c);
        expect_outputs(&c, &v, 142, 1, 1, own);
        for (int step = 0; step < 3 && at % 2 == 0; step++) { /* the choice stays, the window moves on */
            double want[MAX_COLS];
            case_step(&c);
            for (int64_t j = 0; j < v.local; j++) v.rows[v.n_rows - v.local + j]++;
            case_oracle(&c, c.n - 1, is_listed, own ? NULL : compact, &v, want);
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

static void steps_choose_what_the_oracle_chooses(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++) {
        layer_case c;
        vote_case v = {.init = 5, .k = 9, .local = 3};
        case_open(&c, &(case_shape){GROUPS[i][0], GROUPS[i][1], 8, .n_ctx = 128, .use_cpu = true}, i + 1);
        case_method(&c, "dense", "tokenselect:init=5,k=9,local=3,theta=2");
        case_prompt(&c, 15);
        sac_choice choice = case_choose(&c);
        assert_true(sac_choice_is_all(&choice)); /* 16 tokens, 17 may be read */
        choice = case_choose(&c);
        assert_true(sac_choice_is_all(&choice));
        for (int step = 0; step < 40; step++) {
            choice = case_choose(&c);
            expect_vote(&c, &v, c.n - 1, 1);
            assert_false(sac_choice_is_all(&choice));
            expect_rows(&v, choice.lists.rows, case_starts(&choice)[1]);
        }
        case_close(&c);
    }
}

/* One key that every head's query points at. */
static void a_planted_key_is_found(void **state) {
    (void)state;
    layer_case c;
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
    sac_choice choice = case_choose(&c);
    assert_int_equal(case_starts(&choice)[1], 7);
    assert_int_equal(choice.lists.rows[2], 57);
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
        vote_case v = {.init = 4, .k = 1, .local = 5};
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 160}, 8);
        snprintf(line, sizeof line, "tokenselect:init=4,local=5,theta=2,kmin=1,p=%g", ps[i]);
        case_method(&c, "dense", line);
        case_prompt(&c, 130);
        sac_choice choice = case_choose(&c);
        int64_t want = expected_by_mass(&c, &v, ps[i]), got = case_starts(&choice)[1] - 9;
        assert_int_equal(got, want);
        assert_true(got >= before && (i == 0 || got > 1));
        before = got;
        v.k = want;
        expect_vote(&c, &v, c.n - 1, 1);
        expect_rows(&v, choice.lists.rows, case_starts(&choice)[1]);
        case_method(&c, "dense", "tokenselect:init=4,local=5,kmin=17,kmax=20,p=0.05");
        case_prompt(&c, 130);
        choice = case_choose(&c);
        assert_int_equal(case_starts(&choice)[1], 26);
        case_method(&c, "dense", "tokenselect:init=4,local=5,kmin=17,kmax=20,p=1");
        case_prompt(&c, 130);
        choice = case_choose(&c);
        assert_int_equal(case_starts(&choice)[1], 29);
        case_close(&c);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_equal_the_oracle),
        cmocka_unit_test(choices_of_a_trained_layer_equal_the_oracle),
        cmocka_unit_test(prompts_on_a_device_equal_the_oracle),
        cmocka_unit_test(a_large_local_window_votes_from_beyond_the_end),
        cmocka_unit_test(the_factor_of_a_table_stays_what_it_is),
        cmocka_unit_test(steps_choose_what_the_oracle_chooses),
        cmocka_unit_test(a_planted_key_is_found),
        cmocka_unit_test(p_chooses_by_mass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
