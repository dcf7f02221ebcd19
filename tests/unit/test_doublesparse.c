/* Double Sparsity against plain fp64 labels: which channels, which tokens, and attention over them. */
#include "method_session.h"
#include "method_test.h"

static const int GROUPS[][2] = {{4, 4}, {4, 1}, {7, 1}, {8, 1}, {6, 2}};

enum { MAX_HEADS = 8, MAX_TOKENS = 160, MAX_D = 80 };
enum { VOTE, UNION, QUERY };

typedef struct chosen {
    int64_t k;
    int r, sharing;
    bool channel[MAX_HEADS][MAX_D]; /* by key-value head */
    bool token[MAX_HEADS][MAX_TOKENS];
} chosen;

static bool is_chosen(void *ctx, int h, int64_t query, int64_t key) {
    (void)query;
    return ((chosen *)ctx)->token[h][key];
}

static void choose_best(const double *score, int64_t n, int64_t k, bool *best) {
    memset(best, 0, (size_t)n);
    for (int64_t picked = 0; picked < k; picked++) {
        int64_t at = -1;
        for (int64_t i = 0; i < n; i++)
            if (!best[i] && (at < 0 || score[i] > score[at] + 1e-6)) at = i;
        best[at] = true;
    }
}

/* From a prompt of n tokens. */
static void choose_channels(const layer_case *c, int64_t n, chosen *x) {
    const sac_attention_shape *s = &c->shape;
    int d = s->head_dim, group = s->n_heads / s->n_kv_heads;
    for (int kv = 0; kv < s->n_kv_heads; kv++) {
        double importance[MAX_D] = {0}, q[MAX_D], k[MAX_D];
        for (int64_t t = 0; t < n; t++)
            for (int h = kv * group; h < (kv + 1) * group; h++) {
                case_rotate(c, c->raw_q + (t * s->n_heads + h) * d, t, q);
                case_rotate(c, c->raw_k + (t * s->n_kv_heads + kv) * d, t, k);
                for (int i = 0; i < d; i++) importance[i] += fabs(q[i] * k[i]);
            }
        choose_best(importance, d, x->r, x->channel[kv]);
    }
}

/* f16 labels make the oracle's order uncertain within their rounding, so they are rounded here too. */
static double label_dot(const layer_case *c, const chosen *x, int h, int64_t query, int64_t key) {
    const sac_attention_shape *s = &c->shape;
    int d = s->head_dim, kv = h / (s->n_heads / s->n_kv_heads);
    double q[MAX_D], k[MAX_D], dot = 0;
    case_rotate(c, c->raw_q + (query * s->n_heads + h) * d, query, q);
    case_rotate(c, c->raw_k + (key * s->n_kv_heads + kv) * d, key, k);
    for (int i = 0; i < d; i++)
        if (x->channel[kv][i]) dot += q[i] * (double)sac_f16_to_f32(sac_f32_to_f16((float)k[i]));
    return dot;
}

static void choose_tokens(const layer_case *c, int64_t query, chosen *x) {
    int group = c->shape.n_heads / c->shape.n_kv_heads, d = c->shape.head_dim;
    for (int first = 0; first < c->shape.n_heads; first += group) {
        double votes[MAX_TOKENS] = {0}, s[MAX_TOKENS];
        bool any[MAX_TOKENS] = {false};
        for (int h = first; h < first + group; h++) {
            double sum = 0;
            for (int64_t j = 0; j <= query; j++) s[j] = label_dot(c, x, h, query, j) / sqrt(d);
            for (int64_t j = 0; j <= query; j++) sum += exp(s[j]);
            for (int64_t j = 0; j <= query; j++) votes[j] += exp(s[j]) / sum;
            choose_best(s, query + 1, x->k, x->token[h]);
            for (int64_t j = 0; j <= query; j++) any[j] |= x->token[h][j];
        }
        for (int64_t j = 0; j <= query; j++) votes[j] = log(votes[j]);
        for (int h = first; h < first + group; h++) {
            if (x->sharing == UNION) memcpy(x->token[h], any, sizeof any);
            if (x->sharing == VOTE && group > 1) choose_best(votes, query + 1, x->k, x->token[h]);
        }
    }
}

static void steps_equal_the_oracle(void **state) {
    (void)state;
    static const char *const names[] = {"vote", "union", "query"};
    static chosen x;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (int sharing = VOTE; sharing <= QUERY; sharing++) {
            layer_case c;
            char line[100];
            double want[MAX_HEADS * MAX_D];
            int d = g == 2 ? 80 : 16;
            case_shape shape = {GROUPS[g][0],
                                GROUPS[g][1],
                                d,
                                .n_ctx = MAX_TOKENS,
                                .n_layers = 3,
                                .layer = 2,
                                .use_cpu = sharing != UNION};
            case_open(&c, &shape, g + 1);
            for (int64_t t = 0; t < MAX_TOKENS; t++) /* some channels stand out */
                for (int i = 0; i < GROUPS[g][1] * d; i++)
                    c.raw_k[t * GROUPS[g][1] * d + i] *= i % 3 ? 0.3f : 2;
            x = (chosen){.k = 23, .r = sharing == QUERY ? d : 7, .sharing = sharing};
            snprintf(line, sizeof line, "doublesparse:k=23,channels=%d,heads=%s", x.r, names[sharing]);
            case_method(&c, "dense", line);
            case_prompt(&c, 101);
            choose_channels(&c, 101, &x);
            for (int step = 0; step < 9; step++) {
                if (step == 5) case_prompt(&c, 17); /* channels stay those of the first prompt */
                case_step(&c);
                choose_tokens(&c, c.n - 1, &x);
                case_oracle(&c, c.n - 1, is_chosen, NULL, &x, want);
                case_expect(&c, 0, want, 1e-5);
            }
            assert_true(c.stats.decode_budget == 9.0 * 23 * GROUPS[g][0]);
            assert_int_equal(c.stats.n_selections, 9);
            case_close(&c);
        }
}

/* Labels of all channels find the true best tokens; coarser labels find most of them. */
static void finer_labels_hold_more_weight(void **state) {
    (void)state;
    static const char *const lines[] = {"doublesparse:k=20,channels=16,heads=query",
                                        "doublesparse:k=20,channels=16,bits=8,heads=query",
                                        "doublesparse:k=20,channels=16,bits=4,heads=query",
                                        "doublesparse:k=20,channels=16,bits=2,heads=query",
                                        "doublesparse:k=20,channels=4,heads=query",
                                        "streaming:start=0,recent=20,pos=orig"};
    double mass[SAC_COUNT(lines)];
    layer_case c;
    case_shape shape = {6, 2, 16, .n_ctx = MAX_TOKENS, .n_layers = 3, .layer = 2, .measure_mass = true};
    case_open(&c, &shape, 5);
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        case_method(&c, "dense", lines[i]);
        case_prompt(&c, 140);
        for (int step = 0; step < 15; step++) case_step(&c);
        mass[i] = c.stats.decode_mass / c.stats.n_decode_mass;
        if (i == 0) continue;
        assert_true(mass[i] <= mass[0] + 1e-6);
    }
    assert_true(mass[1] > mass[0] - 0.01 && mass[2] > mass[0] - 0.05 && mass[3] > mass[4]);
    assert_true(mass[4] > mass[5] + 0.1);
    case_close(&c);
}

static void run_all(layer_case *c, const char *line, float *outputs) {
    case_method(c, "dense", line);
    case_prompt(c, 70);
    for (size_t step = 0; step < 9; step++) {
        case_step(c);
        memcpy(outputs + step * 96, c->out, 96 * sizeof(float));
    }
}

static void off_and_short_are_dense_bit_by_bit(void **state) {
    (void)state;
    static const char *const lines[] = {"doublesparse:k=100", "doublesparse:k=5,skip=3", "doublesparse:k=79"};
    static float dense[9 * 96], got[9 * 96];
    for (int layer = 0; layer < 3; layer++) {
        layer_case c;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100, .use_cpu = true, .n_layers = 3, .layer = layer},
                  5);
        run_all(&c, "dense", dense);
        for (size_t i = 0; i < SAC_COUNT(lines); i++) {
            run_all(&c, lines[i], got);
            assert_true((c.decode.policy == &sac_decode_dense) == (i < 2));
            assert_memory_equal(got, dense, sizeof got);
        }
        run_all(&c, "doublesparse:k=20", got);
        assert_true((memcmp(got, dense, sizeof got) == 0) == (layer < 2));
        case_close(&c);
    }
}

/* A new sequence finds new channels. */
static void sequences_calibrate_anew(void **state) {
    (void)state;
    static float fresh[9 * 96], again[9 * 96];
    layer_case c;
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100, .n_layers = 3, .layer = 2}, 5);
    run_all(&c, "doublesparse:k=20,bits=4", fresh);
    for (int64_t i = 0; i < 100 * 32; i++) c.raw_k[i] *= i % 2 ? 10 : 0.1f;
    run_all(&c, "doublesparse:k=20,bits=4", again); /* new state */
    for (int64_t i = 0; i < 100 * 32; i++) c.raw_k[i] *= i % 2 ? 0.1f : 10;
    c.decode.policy->begin(c.decode.state); /* the same state, a new sequence of the first kind */
    c.n = c.n_rows = 0;
    case_prompt(&c, 70);
    for (size_t step = 0; step < 9; step++) {
        case_step(&c);
        memcpy(again + step * 96, c.out, 96 * sizeof(float));
    }
    for (size_t i = 0; i < SAC_COUNT(fresh); i++) assert_true(fabsf(fresh[i] - again[i]) < 1e-4f);
    case_close(&c);
}

static void senseless_settings_are_refused(void **state) {
    (void)state;
    sac_attention_shape shape = {
        .n_layers = 3, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 10000, .fixed_rotation = true};
    sac_error err = {0};
    sac_decode d;
    assert_int_equal(sac_decode_open(&d, "doublesparse:channels=17", &shape, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "a head of this model has 16"));
}

static void the_demo_model_answers_alike(void **state) {
    (void)state;
    static told t;
    told_as_dense("dense", "doublesparse:k=1000");
    told_as_dense("dense", "doublesparse:k=500");
    told_again("dense", "doublesparse:k=64,bits=4", &t);
    assert_true(t.layer.decode_rows == 64);
    told_again("dense", "doublesparse:k=64,heads=union", &t);
    assert_true(t.layer.decode_budget == 64 && t.layer.decode_rows >= 64);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_equal_the_oracle),
        cmocka_unit_test(finer_labels_hold_more_weight),
        cmocka_unit_test(off_and_short_are_dense_bit_by_bit),
        cmocka_unit_test(sequences_calibrate_anew),
        cmocka_unit_test(senseless_settings_are_refused),
        cmocka_unit_test(the_demo_model_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
