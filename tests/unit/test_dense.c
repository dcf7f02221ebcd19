/* The dense policies, and the shared parts of methods, against plain fp64 attention. */
#include "attend.h"
#include "gathered.h"
#include "method_test.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

static void dense_equals_the_oracle(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++)
        for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
            layer_case c;
            double want[2 * 128];
            case_open(
                &c, &(case_shape){GROUPS[i][0], GROUPS[i][1], GROUPS[i][2], .n_ctx = 50, .use_cpu = use_cpu},
                i + 1);
            case_method(&c, "dense", "dense");
            case_prompt(&c, 37);
            for (int64_t q = 0; q < 37; q++) {
                case_oracle(&c, q, NULL, NULL, NULL, want);
                case_expect(&c, q, want, 2e-6);
            }
            case_prompt(&c, 5); /* a second turn */
            case_oracle(&c, 41, NULL, NULL, NULL, want);
            case_expect(&c, 4, want, 2e-6);
            for (int64_t q = 42; q < 50; q++) {
                case_step(&c);
                case_oracle(&c, q, NULL, NULL, NULL, want);
                case_expect(&c, 0, want, 2e-6);
            }
            assert_true(c.stats.prefill_kept == 42 && c.stats.prefill_tokens == 42);
            assert_true(c.stats.prefill_pairs == c.stats.prefill_pairs_dense);
            assert_true(c.stats.decode_rows == c.stats.decode_rows_dense && c.stats.n_steps == 8);
            case_close(&c);
        }
}

/* Rows that a test keeps: the list, and where a kept key stands in it. */
typedef struct kept {
    int32_t rows[8];
    int64_t start[2];
} kept;

static int64_t place_in(const kept *k, int64_t row) {
    for (int64_t i = 0; i < k->start[1]; i++)
        if (k->rows[i] == row) return i;
    return -1;
}
static bool is_kept(void *ctx, int h, int64_t query, int64_t key) {
    (void)h;
    (void)query;
    return place_in(ctx, key) >= 0;
}
static void compact_positions(void *ctx, int h, int64_t query, int64_t key, int64_t *query_at,
                              int64_t *key_at) {
    (void)h;
    *query_at = place_in(ctx, query);
    *key_at = place_in(ctx, key);
}

static void choices_are_read_at_true_or_compact_positions(void **state) {
    (void)state;
    for (int compact = 0; compact < 2; compact++) {
        layer_case c;
        double want[4 * 16];
        kept k = {.rows = {0, 3, 4, 17, 30, 39}, .start = {0, 6}};
        case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 64, .use_cpu = true}, 3);
        case_method(&c, "dense", "dense");
        case_prompt(&c, 39);
        sac_gathered room = {.k = NULL};
        sac_gathered_take(&room, &c.shape, 8, &(sac_memory){&c.arena, &c.arena});
        for (int i = 0; i < 6; i++) room.turn_keys[i] = k.rows[i] - i;
        sac_layer_attention a = case_tokens(&c, 1);
        sac_choice choice = {.kind = compact ? SAC_CHOICE_PLACES : SAC_CHOICE_ROWS,
                             .lists = {k.rows, {k.start, k.start}, 1},
                             .room = &room};
        assert_int_equal(sac_attend_choice(&a, &choice), SAC_OK);
        c.out = c.q;
        case_oracle(&c, 39, is_kept, compact ? compact_positions : NULL, &k, want);
        case_expect(&c, 0, want, 5e-6);
        case_close(&c);
    }
}

static void refused(const char *prefill, const char *decode, const char *text) {
    sac_attention_shape shape = {.n_layers = 1,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 16,
                                 .hidden = 64,
                                 .n_ctx = 64,
                                 .chunk = 64,
                                 .max_position = 64,
                                 .fixed_rotation = true};
    sac_error err = {0};
    sac_prefill p;
    sac_decode d;
    sac_status st = sac_prefill_open(&p, prefill, &shape, &err);
    if (st == SAC_OK) st = sac_decode_open(&d, decode, &shape, &err);
    assert_int_equal(st, SAC_BAD_ARGUMENT);
    if (!strstr(err.text, text)) fail_msg("\"%s\" lacks \"%s\"", err.text, text);
    sac_prefill_free(&p);
}

static void wrong_lines_are_refused(void **state) {
    (void)state;
    refused("sparse", "dense", "prefill policy \"sparse\" is not known: there are dense");
    refused("dense:k=3", "dense", "has no setting \"k\"");
    refused("dense", "densest", "decode policy \"densest\" is not known");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_equals_the_oracle),
        cmocka_unit_test(choices_are_read_at_true_or_compact_positions),
        cmocka_unit_test(wrong_lines_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
