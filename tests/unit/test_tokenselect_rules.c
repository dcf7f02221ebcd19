/* What holds of TokenSelect whatever the keys are: votes and heads, the Selection Cache, dense attention where
 * nothing is left out, counts, and what is refused. */
#include "method_session.h"
#include "method_test.h"

static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16}, {6, 2, 16},
                                {8, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

enum { MAX_COLS = 2 * 128 };

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
    case_method(c, "dense", line);
    case_prompt(c, 90);
    sac_choice choice = case_choose(c);
    assert_int_equal(case_starts(&choice)[1], 20);
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
    int32_t first[20];
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100}, 8);
    case_method(&c, "dense", "tokenselect:init=4,k=11,local=5,theta=-1");
    case_prompt(&c, 60);
    sac_choice choice = case_choose(&c);
    memcpy(first, choice.lists.rows, sizeof first);
    for (int64_t step = 1; step < 9; step++) {
        choice = case_choose(&c);
        assert_int_equal(case_starts(&choice)[1], 20);
        assert_memory_equal(choice.lists.rows, first, 15 * sizeof *first);
        for (int64_t i = 0; i < 5; i++) assert_int_equal(choice.lists.rows[15 + i], 56 + step + i);
    }
    case_close(&c);
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
    refused("dense", "tokenselect:k=100,pos=orig", &shape, "pos=orig,vote=true");
    sac_decode d;
    sac_error err;
    assert_ok(sac_decode_open(&d, "tokenselect:k=100,pos=orig,vote=true", &shape, &err), err); /* nothing is turned */
    sac_decode_free(&d);
    shape.fixed_rotation = true;
    refused("dense", "tokenselect:k=100,vote=true", &shape, "use pos=orig with it");
    refused("tokenselect:k=100,means=2,select=topk,chunk=64,local=64", "dense", &shape, "means=2");
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

/* Rows from `first` on are of other tokens, whose queries are like the one of token `like`. */
static void other_tokens(layer_case *c, int64_t first, int64_t n, int64_t like) {
    const int64_t q_cols = (int64_t)c->shape.n_heads * c->shape.head_dim, kv_cols = (int64_t)c->shape.n_kv_heads * c->shape.head_dim;
    for (int64_t t = first; t < first + n; t++) {
        memmove(c->raw_q + t * q_cols, c->raw_q + like * q_cols, (size_t)q_cols * sizeof(float));
        for (int64_t i = 0; i < kv_cols; i++) c->raw_k[t * kv_cols + i] = 2 * test_rand_float(&c->random);
    }
}

/* Keys that the query of token `of` looks for. */
static void wanted_keys(layer_case *c, int64_t first, int64_t n, int64_t of) {
    const int64_t d = c->shape.head_dim, n_kv = c->shape.n_kv_heads, group = c->shape.n_heads / n_kv;
    for (int64_t t = first; t < first + n; t++)
        for (int64_t i = 0; i < n_kv * d; i++)
            c->raw_k[t * n_kv * d + i] = 4 * c->raw_q[of * n_kv * group * d + i / d * group * d + i % d];
}

/* A draft: a token of the sequence, then some that are refused. What comes after reads as if these had never been. */
static void choices_of_refused_tokens_are_dropped(void **state) {
    (void)state;
    enum { PROMPT = 40, REFUSED = 5, A = 500, B = 501 };
    for (int kind = 0; kind < 8; kind++) {
        const bool as_device = kind % 2, is_new = kind / 2 % 2, counts = kind / 4;
        int32_t rows[2][40];
        int64_t n[2], n_selections = 0;
        for (int fresh = 0; fresh < 2; fresh++) {
            layer_case c;
            case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 600, .n_layers = 2, .layer = 1, .as_device = as_device}, 9);
            case_method(&c, "dense", counts ? "tokenselect:init=4,k=8,local=2,theta=0.9,max_hits=9" : "tokenselect:init=4,k=8,local=2,theta=0.9");
            case_prompt(&c, PROMPT);
            other_tokens(&c, PROMPT, 1, A);
            case_choose(&c);
            if (!fresh) {
                other_tokens(&c, PROMPT + 1, REFUSED, A);
                wanted_keys(&c, PROMPT + 1, REFUSED, B);
                if (is_new) other_tokens(&c, PROMPT + REFUSED, 1, B);
                for (int i = 0; i < REFUSED; i++) case_choose(&c);
                sac_decode_cut(&c.decode, PROMPT, true);
                c.n = c.n_rows = PROMPT + 1; /* its row is made anew by the pass that refuses */
            }
            c.random = 77;
            other_tokens(&c, PROMPT + 1, 2, is_new ? B : A);
            n_selections = c.stats.n_selections;
            case_choose(&c);
            sac_choice choice = case_choose(&c);
            n[fresh] = case_starts(&choice)[1];
            assert_true(n[fresh] == 4 + 8 + 2);
            for (int64_t i = 1; i < n[fresh]; i++) assert_true(choice.lists.rows[i] > choice.lists.rows[i - 1]);
            memcpy(rows[fresh], choice.lists.rows, (size_t)n[fresh] * sizeof **rows);
            n_selections = c.stats.n_selections - n_selections;
            if (!is_new && !as_device && !counts) assert_int_equal(n_selections, 0); /* the sequence's own choice stays */
            case_close(&c);
        }
        /* a device is not asked which choice stays: there the one of now may take its place */
        if (is_new || (!as_device && !counts)) assert_memory_equal(rows[0], rows[1], (size_t)n[0] * sizeof **rows);
    }
}

/* Sequences that go back: what the token behind the first n chose is of a token that is gone. */
static void choices_of_tokens_that_went_are_dropped(void **state) {
    (void)state;
    enum { PROMPT = 40, LIKE = 500 };
    for (int as_device = 0; as_device < 2; as_device++) {
        layer_case c;
        case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 600, .as_device = as_device}, 9);
        case_method(&c, "dense", "tokenselect:init=4,k=8,local=2,theta=0.9");
        case_prompt(&c, PROMPT);
        other_tokens(&c, PROMPT, 1, LIKE);
        case_step(&c);
        assert_int_equal(c.stats.n_selections, 1);
        sac_decode_cut(&c.decode, PROMPT, false);
        c.n = c.n_rows = PROMPT;
        other_tokens(&c, PROMPT, 2, LIKE);
        case_step(&c);
        assert_int_equal(c.stats.n_selections, 2);
        case_step(&c);
        assert_int_equal(c.stats.n_cache_hits, 1);
        case_close(&c);
    }
}

/* Who looks at a step gets lists, and nothing is gathered; what later steps read is the choice of then, not the one before. */
static void a_choice_that_was_looked_at_is_what_later_steps_read(void **state) {
    (void)state;
    enum { PROMPT = 60, A = 500, B = 501, COLS = 4 * 16 };
    for (int as_device = 0; as_device < 2; as_device++) {
        float out[2][COLS];
        for (int looks = 0; looks < 2; looks++) {
            layer_case c;
            case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 600, .as_device = as_device}, 9);
            case_method(&c, "dense", "tokenselect:init=4,k=8,local=2,theta=0.9");
            case_prompt(&c, PROMPT);
            other_tokens(&c, PROMPT, 1, A);
            other_tokens(&c, PROMPT + 1, 2, B);
            case_step(&c);
            if (looks)
                case_choose(&c);
            else
                case_step(&c);
            case_step(&c);
            assert_true(c.stats.n_selections == 2 && c.stats.n_cache_hits == 1);
            memcpy(out[looks], c.out, sizeof *out);
            case_close(&c);
        }
        for (int i = 0; i < COLS; i++) assert_true(fabsf(out[0][i] - out[1][i]) < 1e-5f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(votes_of_all_keys_sum_to_the_heads),
        cmocka_unit_test(order_of_heads_does_not_matter),
        cmocka_unit_test(pairings_differ_only_with_groups),
        cmocka_unit_test(like_queries_reuse_the_choice),
        cmocka_unit_test(a_hit_keeps_the_choice_and_moves_the_window),
        cmocka_unit_test(off_and_short_are_dense_bit_by_bit),
        cmocka_unit_test(later_tokens_change_no_earlier_output),
        cmocka_unit_test(pairs_are_counted),
        cmocka_unit_test(keys_of_zeros_give_numbers),
        cmocka_unit_test(senseless_settings_are_refused),
        cmocka_unit_test(the_demo_model_answers_alike),
        cmocka_unit_test(choices_of_refused_tokens_are_dropped),
        cmocka_unit_test(choices_of_tokens_that_went_are_dropped),
        cmocka_unit_test(a_choice_that_was_looked_at_is_what_later_steps_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
