/* Quest against a plain fp64 bound of every page and attention over the chosen pages. */
#include "method_session.h"
#include "method_test.h"

static const int GROUPS[][2] = {{4, 4}, {4, 1}, {7, 1}, {8, 1}, {6, 2}};

enum { MAX_HEADS = 8, MAX_PAGES = 64, MAX_D = 80 };
enum { SUM, UNION, QUERY };

typedef struct pages {
    int64_t page, budget_pages;
    int sharing;
    bool chosen[MAX_HEADS][MAX_PAGES];
    double bound[MAX_HEADS][MAX_PAGES];
} pages;

/* Stored keys and queries are f32 values of the rotation; the oracle's are fp64 ones of the same. */
static double bound_of(const layer_case *c, int h, int64_t query, int64_t first, int64_t end) {
    const sac_attention_shape *s = &c->shape;
    int d = s->head_dim, kv_head = h / (s->n_heads / s->n_kv_heads);
    double q[MAX_D], k[MAX_D], min[MAX_D], max[MAX_D], sum = 0;
    case_rotate(c, c->raw_q + (query * s->n_heads + h) * d, query, q);
    for (int64_t j = first; j < end; j++) {
        case_rotate(c, c->raw_k + (j * s->n_kv_heads + kv_head) * d, j, k);
        for (int i = 0; i < d; i++) {
            max[i] = j == first ? k[i] : fmax(max[i], k[i]);
            min[i] = j == first ? k[i] : fmin(min[i], k[i]);
        }
    }
    for (int i = 0; i < d; i++) sum += fmax(q[i] * max[i], q[i] * min[i]);
    return sum;
}

static void choose_best(const double *score, int64_t n, int64_t k, bool *chosen) {
    for (int64_t picked = 0; picked < k; picked++) {
        int64_t best = -1;
        for (int64_t i = 0; i < n; i++)
            if (!chosen[i] && (best < 0 || score[i] > score[best] + 1e-6)) best = i;
        chosen[best] = true;
    }
}

static void choose_pages(const layer_case *c, int64_t query, pages *p) {
    int group = c->shape.n_heads / c->shape.n_kv_heads;
    int64_t n = query + 1, n_pages = (n + p->page - 1) / p->page;
    memset(p->chosen, 0, sizeof p->chosen);
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t i = 0; i < n_pages; i++) {
            int64_t end = (i + 1) * p->page < n ? (i + 1) * p->page : n;
            p->bound[h][i] = bound_of(c, h, query, i * p->page, end);
            for (int64_t j = i * p->page; j < end; j++) /* what the bound is for */
                assert_true(case_dot(c, h, query, j, query, j) <= p->bound[h][i] + 1e-9);
        }
    for (int first = 0; first < c->shape.n_heads; first += group) {
        double score[MAX_PAGES];
        bool chosen[MAX_PAGES] = {false};
        for (int h = first; h < first + group; h++) {
            for (int64_t i = 0; i < n_pages; i++)
                score[i] = p->sharing == SUM && h > first ? score[i] + p->bound[h][i] : p->bound[h][i];
            if (p->sharing == QUERY) memset(chosen, 0, sizeof chosen);
            bool own[MAX_PAGES] = {false};
            if (p->sharing != SUM || h == first + group - 1)
                choose_best(score, n_pages - 1, p->budget_pages - 1, own);
            for (int64_t i = 0; i < n_pages; i++) chosen[i] |= own[i] || i == n_pages - 1;
            memcpy(p->chosen[h], chosen, sizeof chosen);
        }
        for (int h = first; h < first + group && p->sharing != QUERY; h++)
            memcpy(p->chosen[h], chosen, sizeof chosen);
    }
}

static bool in_chosen_page(void *ctx, int h, int64_t query, int64_t key) {
    const pages *p = ctx;
    (void)query;
    return p->chosen[h][key / p->page];
}

static void steps_equal_the_oracle(void **state) {
    (void)state;
    static const char *const names[] = {"sum", "union", "query"};
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++)
        for (int sharing = SUM; sharing <= QUERY; sharing++) {
            layer_case c;
            char line[100];
            double want[MAX_HEADS * MAX_D];
            pages p = {.page = 7, .budget_pages = 4, .sharing = sharing};
            case_shape shape = {GROUPS[i][0],  GROUPS[i][1], i == 3 ? 80 : 16,           .n_ctx = 256,
                                .n_layers = 3, .layer = 2,   .use_cpu = sharing != UNION};
            case_open(&c, &shape, i + 5);
            snprintf(line, sizeof line, "quest:page=7,budget=28,heads=%s", names[sharing]);
            case_method(&c, "dense", line);
            case_prompt(&c, 101);
            for (int step = 0; step < 20; step++) {
                if (step == 11) case_prompt(&c, 17); /* a second turn */
                case_step(&c);
                choose_pages(&c, c.n - 1, &p);
                case_oracle(&c, c.n - 1, in_chosen_page, NULL, &p, want);
                case_expect(&c, 0, want, 1e-5);
            }
            assert_int_equal(c.stats.n_selections, 20);
            double most = (double)c.shape.n_heads * 28 * 20;
            assert_true(c.stats.decode_budget <= most && c.stats.decode_budget > 0.7 * most);
            if (sharing != UNION) assert_true(c.stats.decode_rows * GROUPS[i][0] / GROUPS[i][1] <= most);
            case_close(&c);
        }
}

/* Pages of an earlier query, and all rows from its last page on. */
static bool in_shared_choice(void *ctx, int h, int64_t query, int64_t key) {
    const pages *p = ctx;
    int64_t last = 0;
    for (int64_t i = 0; i < MAX_PAGES; i++)
        if (p->chosen[h][i]) last = i;
    (void)query;
    return key / p->page > last || p->chosen[h][key / p->page];
}

/* The same step in another layer, whose choices are of other steps: it is told of no prompt. */
static void step_in_layer(layer_case *c, int layer) {
    const sac_layer_stats stats = c->stats;
    const int own = c->layer;
    c->layer = layer;
    case_step(c);
    c->layer = own;
    c->n--, c->n_rows--;
    c->stats = stats;
}

/* Steps that share a choice; a prompt, and a cut that takes the step which chose, end it. */
static void shared_choices_equal_the_oracle(void **state) {
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(GROUPS); i++)
        for (int sharing = SUM; sharing <= QUERY; sharing += QUERY - SUM) {
            layer_case c;
            double want[MAX_HEADS * MAX_D];
            pages p = {.page = 7, .budget_pages = 4, .sharing = sharing};
            int64_t chosen = 0, n_choices = 0;
            case_open(&c, &(case_shape){GROUPS[i][0], GROUPS[i][1], 16, .n_ctx = 256, .n_layers = 4, .layer = 2, .use_cpu = true}, i + 5);
            case_method(&c, "dense", sharing == SUM ? "quest:page=7,budget=28,every=9" : "quest:page=7,budget=28,every=9,heads=query");
            case_prompt(&c, 101);
            for (int step = 0; step < 40; step++) {
                if (step == 5) case_prompt(&c, 3), chosen = 0;
                if (step == 13 || step == 26) { /* some of the steps; with that which chose */
                    c.n = c.n_rows = step == 13 ? c.n - 2 : chosen - 3;
                    sac_decode_cut(&c.decode, c.n, false);
                    if (step == 26) chosen = 0;
                }
                step_in_layer(&c, 3);
                case_step(&c);
                if (!chosen || c.n - chosen >= 9) chosen = c.n, choose_pages(&c, c.n - 1, &p), n_choices++;
                case_oracle(&c, c.n - 1, in_shared_choice, NULL, &p, want);
                case_expect(&c, 0, want, 1e-5);
                assert_int_equal(c.stats.n_selections, n_choices);
            }
            assert_in_range(n_choices, 5, 8);
            case_close(&c);
        }
    sac_error err;
    sac_decode d;
    const sac_attention_shape shape = {.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_layers = 3, .n_ctx = 256};
    assert_int_equal(sac_decode_open(&d, "quest:page=7,budget=28,heads=union,every=2", &shape, &err), SAC_BAD_ARGUMENT);
    assert_says(err, "decode policy quest: heads=union chooses in every step: leave out every, or heads");
}

/* A key that stands out is read, wherever its page begins. */
static void a_planted_key_is_read(void **state) {
    (void)state;
    for (int64_t planted = 0; planted < 96; planted += 5) {
        layer_case c;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .n_layers = 3, .layer = 2}, 3);
        for (int i = 0; i < 32; i++) c.raw_k[planted * 32 + i] *= 30;
        case_method(&c, "dense", "quest:budget=32,heads=query");
        case_prompt(&c, 100);
        sac_choice choice = case_choose(&c);
        assert_int_equal(choice.lists.n_lists, 6);
        for (int h = 0; h < 6; h++) {
            bool read = false;
            for (int64_t i = case_starts(&choice)[h]; i < case_starts(&choice)[h + 1]; i++)
                read |= choice.lists.rows[i] == planted;
            assert_true(read);
            assert_int_equal(choice.lists.rows[case_starts(&choice)[h + 1] - 1], 100);
        }
        case_close(&c);
    }
}

static void run_all(layer_case *c, const char *line, float *outputs) {
    size_t cols = (size_t)(c->shape.n_heads * c->shape.head_dim);
    case_method(c, "dense", line);
    case_prompt(c, 70);
    for (size_t step = 0; step < 20; step++) {
        case_step(c);
        memcpy(outputs + step * cols, c->out, cols * sizeof(float));
    }
}

static void off_and_short_are_dense_bit_by_bit(void **state) {
    (void)state;
    static const char *const lines[] = {"quest:budget=100",
                                        "quest:skip=3,budget=20",
                                        "quest:budget=90",
                                        "quest",
                                        "quest:budget=100,every=8",
                                        "quest:budget=90,every=8",
                                        "quest:skip=3,budget=20,every=4096"};
    static float dense[20 * 96], got[20 * 96];
    for (int layer = 0; layer < 3; layer++) {
        layer_case c;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100, .use_cpu = true, .n_layers = 3, .layer = layer},
                  5);
        run_all(&c, "dense", dense);
        for (size_t i = 0; i < SAC_COUNT(lines); i++) {
            run_all(&c, lines[i], got);
            assert_true((c.decode.policy == &sac_decode_dense) == (i != 2 && i != 5));
            assert_memory_equal(got, dense, sizeof got);
        }
        run_all(&c, "quest:budget=20", got); /* two layers are left alone */
        assert_true((memcmp(got, dense, sizeof got) == 0) == (layer < 2));
        case_close(&c);
    }
}

/* Heads of a group in another order, and groups in another order: the same pages. */
static void order_of_heads_does_not_matter(void **state) {
    (void)state;
    static const int q_from[2][6] = {{2, 0, 1, 4, 5, 3}, {3, 4, 5, 0, 1, 2}};
    for (int i = 0; i < 2; i++)
        for (int sharing = SUM; sharing <= UNION; sharing++) {
            layer_case c;
            float out[2][96], old[96], *rows[2];
            case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .n_layers = 3, .layer = 2}, 4);
            for (int run = 0; run < 2; run++) {
                case_method(&c, "dense", sharing == SUM ? "quest:budget=48" : "quest:budget=48,heads=union");
                case_prompt(&c, 99);
                case_step(&c);
                memcpy(out[run], c.out, sizeof out[run]);
                for (int64_t t = 0; t < 128; t++) {
                    memcpy(old, c.raw_q + t * 96, sizeof old);
                    for (int h = 0; h < 6; h++)
                        memcpy(c.raw_q + t * 96 + h * 16, old + q_from[i][h] * 16, 16 * sizeof(float));
                    rows[0] = c.raw_k + t * 32;
                    rows[1] = c.raw_v + t * 32;
                    for (int kv = 0; i == 1 && kv < 2; kv++) {
                        memcpy(old, rows[kv], 32 * sizeof(float));
                        memcpy(rows[kv], old + 16, 16 * sizeof(float));
                        memcpy(rows[kv] + 16, old, 16 * sizeof(float));
                    }
                }
            }
            for (int h = 0; h < 6; h++)
                for (int j = 0; j < 16; j++)
                    assert_true(fabsf(out[1][h * 16 + j] - out[0][q_from[i][h] * 16 + j]) < 1e-6f);
            case_close(&c);
        }
}

static void the_demo_model_answers_alike(void **state) {
    (void)state;
    static told t;
    told_as_dense("dense", "quest:budget=1000");
    told_as_dense("dense", "quest:budget=500");
    told_again("dense", "quest:budget=64", &t);
    assert_true(t.layer.decode_read < 0.5 && t.layer.decode_rows <= 64);
    told_again("dense", "quest:budget=64,heads=union", &t);
    assert_true(t.layer.decode_budget <= 64 && t.layer.decode_rows >= t.layer.decode_budget);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_equal_the_oracle),
        cmocka_unit_test(shared_choices_equal_the_oracle),
        cmocka_unit_test(a_planted_key_is_read),
        cmocka_unit_test(off_and_short_are_dense_bit_by_bit),
        cmocka_unit_test(order_of_heads_does_not_matter),
        cmocka_unit_test(the_demo_model_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
