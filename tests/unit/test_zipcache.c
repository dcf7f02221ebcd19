/* ZipCache: salience by key-value head, packing by share, packing anew. */
#include "blocks.h"
#include "format_test.h"
#include "importance.h"
#include "method_session.h"

enum { N_CTX = 400, MAX_COLS = 8 * 64 };

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

static const sac_kv_block_layer *layer_of(const format_case *f) {
    return &((const sac_kv_blocks *)f->cache.packing)->layer[f->c.layer];
}

/* Sums over a group's heads and the probes, over n - j; the best 60 % of every key-value head. */
static void salience_equals_the_oracle(void **state) {
    (void)state;
    static const int64_t lengths[] = {1, 19, 100, 163};
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t i = 0; i < SAC_COUNT(lengths); i++) {
            int64_t n = lengths[i];
            layer_case c;
            case_open(&c,
                      &(case_shape){.n_heads = GROUPS[g][0],
                                    .n_kv_heads = GROUPS[g][1],
                                    .head_dim = GROUPS[g][2],
                                    .n_ctx = N_CTX,
                                    .use_cpu = i % 2},
                      g + 10 * i);
            case_method(&c, "zipcache:seed=2", "dense");
            case_prompt(&c, n);
            sac_important got = c.prefill.policy->important(c.prefill.state);
            int32_t scratch[N_CTX], probes[N_CTX];
            int64_t share = (int64_t)ceil(0.05 * (double)n);
            int64_t n_probes = sac_draw_probes(2, 0, n, share, share, scratch, probes);
            assert_int_equal(got.n_lists, GROUPS[g][1]);
            assert_int_equal(got.n, n - (int64_t)(0.4 * (double)n));
            for (int kv = 0; kv < GROUPS[g][1]; kv++) {
                double salience[N_CTX] = {0};
                int group = GROUPS[g][0] / GROUPS[g][1];
                for (int h = kv * group; h < (kv + 1) * group; h++)
                    for (int64_t r = 0; r < n_probes; r++) {
                        double w[N_CTX], sum = 0;
                        for (int64_t key = 0; key <= probes[r]; key++)
                            sum += w[key] =
                                exp(case_dot(&c, h, probes[r], key, probes[r], key) / sqrt(c.shape.head_dim));
                        for (int64_t key = 0; key <= probes[r]; key++) salience[key] += w[key] / sum;
                    }
                for (int64_t j = 0; j < n; j++) salience[j] /= (double)(n - j);
                for (int64_t k = 0; k < got.n; k++) { /* no more than its own number are better */
                    int64_t n_better = 0;
                    for (int64_t j = 0; j < n; j++)
                        n_better += salience[j] > salience[got.rows[kv * got.n + k]] * (1 + 1e-5);
                    assert_true(n_better < got.n);
                    if (k) assert_true(got.rows[kv * got.n + k] > got.rows[kv * got.n + k - 1]);
                }
            }
            double want[MAX_COLS];
            for (int64_t q = 0; q < n; q++) { /* the attention is dense */
                case_oracle(&c, q, NULL, NULL, NULL, want);
                case_expect(&c, q, want, 4e-6);
            }
            case_close(&c);
        }
}

static float k_rows[4 * N_CTX * 64], v_rows[4 * N_CTX * 64];

/* Steps read what is stored, through one packing, of which heads have lists of their own. */
static void steps_equal_attention_over_what_is_stored(void **state) {
    (void)state;
    static const char *const lines[] = {"zipcache:gap=40", "zipcache:gap=40,requantise=0",
                                        "zipcache:gap=40,k_group=32",
                                        "zipcache:gap=40,requantise=0,k_group=16"};
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t line = 0; line < SAC_COUNT(lines); line++) {
            double want[MAX_COLS];
            case_shape s = {
                .n_heads = GROUPS[g][0], .n_kv_heads = GROUPS[g][1], .head_dim = 64, .n_ctx = N_CTX};
            s.use_cpu = g % 2;
            format_case f;
            format_open(&f, &s, g, "zipcache", lines[line]);
            format_prompt(&f, 90);
            for (int step = 0; step < 100; step++) {
                int64_t n = format_rows(&f, k_rows, v_rows), token = f.c.n;
                assert_int_equal(n, token);
                format_step(&f);
                for (int head = 0; head < s.n_kv_heads; head++) {
                    int64_t at = (head * N_CTX + token) * 64;
                    memcpy(k_rows + at, format_true_keys(&f) + at, 64 * sizeof(float));
                    memcpy(v_rows + at, format_true_values(&f) + at, 64 * sizeof(float));
                }
                format_oracle(&f, token, k_rows, v_rows, n + 1, want);
                case_expect(&f.c, 0, want, 4e-3); /* the rows came back as halves */
            }
            const sac_kv_block_layer *l = layer_of(&f);
            assert_int_equal(l->n_blocks, line % 2 ? 3 : 1);
            int64_t n_high = 0; /* 60 % of 90, and of 40 twice */
            for (int i = 0; i < l->n_parts; i++) n_high += l->part[i].bits == 4 ? l->part[i].n : 0;
            assert_int_equal(n_high, 54 + 24 + 24);
            format_close(&f);
        }
}

/* In eight bits nothing moves far, however often it is packed; order survives. */
static void packing_anew_keeps_order(void **state) {
    (void)state;
    case_shape s = {.n_heads = 6, .n_kv_heads = 2, .head_dim = 64, .n_ctx = N_CTX, .use_cpu = true};
    format_case f;
    format_open(&f, &s, 3, "zipcache", "zipcache:high=8,low=8,gap=32");
    format_prompt(&f, 70);
    for (int i = 0; i < 100; i++) format_step(&f);
    format_prompt(&f, 41);
    for (int i = 0; i < 50; i++) format_step(&f);
    assert_int_equal(format_rows(&f, k_rows, v_rows), 261);
    for (int head = 0; head < 2; head++)
        for (int64_t i = 0; i < 261 * 64; i++) {
            int64_t at = head * N_CTX * 64 + i;
            assert_true(fabsf(k_rows[at] - format_true_keys(&f)[at]) < 0.04f);
            assert_true(fabsf(v_rows[at] - format_true_values(&f)[at]) < 0.04f);
        }
    format_close(&f);
}

static void sessions_repeat_themselves(void **state) {
    (void)state;
    static told first, t;
    sac_session_config c = told_config("zipcache", NULL, "zipcache:gap=32");
    for (int run = 0; run < 3; run++) {
        sac_model *m = told_model(run == 2 ? 1 : 2);
        tell(m, &c, &t);
        if (run == 0) first = t;
        told_equal(&first, &t);
        sac_model_free(m);
    }
    told_as_dense("zipcache:salient=1", NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(salience_equals_the_oracle),
        cmocka_unit_test(steps_equal_attention_over_what_is_stored),
        cmocka_unit_test(packing_anew_keeps_order),
        cmocka_unit_test(sessions_repeat_themselves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
