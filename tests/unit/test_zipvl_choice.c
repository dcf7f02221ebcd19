/* What ZipVL chooses: probes, sums, the budget, first and last tokens. */
#include "zipvl_test.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budget_grows_with_tau),
        cmocka_unit_test(seed_moves_random_probes_only),
        cmocka_unit_test(random_probes_are_spread),
        cmocka_unit_test(count_of_equal_and_of_peaked_weights),
        cmocka_unit_test(even_and_peaked_attention),
        cmocka_unit_test(sums_hold_one_a_probe_and_head),
        cmocka_unit_test(order_of_heads_is_immaterial),
        cmocka_unit_test(cover_holds_tau_and_no_token_too_many),
        cmocka_unit_test(sink_and_last_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
