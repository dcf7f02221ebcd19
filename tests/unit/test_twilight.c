/* Twilight over every base: which rows of the base's choice are kept, against sorted fp64 weights estimated
 * from the same 4-bit keys, and what is then attended to. */
#include "attend.h"
#include "captured.h"
#include "gathered.h"
#include "key_copy.h"
#include "method_session.h"
#include "pack_rows.h"

static const int GROUPS[][2] = {{4, 4}, {4, 1}, {7, 1}, {8, 1}, {6, 2}};

enum { MAX_HEADS = 8, MAX_TOKENS = 160, MAX_D = 80 };

/* A choice of a step, by query head: the base's rows, the kept ones, and where rows stand. */
typedef struct cut {
    int64_t n_base[MAX_HEADS], n_kept[MAX_HEADS];
    int32_t base[MAX_HEADS][MAX_TOKENS];
    bool kept[MAX_HEADS][MAX_TOKENS]; /* by row */
    int64_t place[MAX_TOKENS], query_place;
    double budget;                        /* rows kept, as the method counts them */
    double weight[MAX_HEADS][MAX_TOKENS]; /* by number in base */
} cut;

static bool is_kept(void *ctx, int h, int64_t query, int64_t key) {
    (void)query;
    return ((cut *)ctx)->kept[h][key];
}
static void places(void *ctx, int h, int64_t query, int64_t key, int64_t *query_at, int64_t *key_at) {
    const cut *c = ctx;
    (void)h;
    (void)query;
    *query_at = c->query_place;
    *key_at = c->place[key];
}

/* One step's choices, of the base alone and of Twilight; the step is not finished. */
static sac_layer_attention choose(layer_case *c, cut *k, sac_choice *choice) {
    int n_heads = c->shape.n_heads;
    sac_layer_attention a = case_tokens(c, 1);
    sac_choice base = {.wants_rows = true};
    memset(k, 0, sizeof *k);
    *choice = (sac_choice){0};
    assert_int_equal(c->decode.base->policy->select(c->decode.base->state, &a, &base), SAC_OK);
    const bool all = sac_choice_is_all(&base);
    for (int h = 0; h < n_heads; h++) {
        int list = all ? 0 : h / (n_heads / base.lists.n_lists);
        int64_t first = all ? 0 : case_starts(&base)[list];
        k->n_base[h] = all ? a.kv.n_rows : case_starts(&base)[list + 1] - first;
        for (int64_t i = 0; i < k->n_base[h]; i++)
            k->base[h][i] = all ? (int32_t)i : base.lists.rows[first + i];
    }
    for (int64_t i = 0; i < a.kv.n_rows; i++) k->place[i] = i;
    k->query_place = a.kv.n_rows - 1;
    if (base.kind == SAC_CHOICE_PLACES) {
        for (int64_t i = 0; i < k->n_base[0]; i++) k->place[k->base[0][i]] = i;
        k->query_place = k->n_base[0] - 1;
    }
    assert_int_equal(c->decode.policy->select(c->decode.state, &a, choice), SAC_OK);
    double before = c->stats.decode_budget;
    case_count(c);
    k->budget = c->stats.decode_budget - before;
    const bool view = choice->kind == SAC_CHOICE_VIEW;
    const sac_choice_lists *l = &choice->lists;
    const int64_t *start = l->start.device;
    assert_true(view == (base.kind == SAC_CHOICE_PLACES));
    for (int h = 0; h < n_heads; h++) {
        int list = h / (n_heads / l->n_lists);
        for (int64_t i = start[list]; i < start[list + 1]; i++) {
            int32_t row = view ? choice->view.rows[l->rows[i]] : l->rows[i];
            assert_true(i == start[list] || l->rows[i] > l->rows[i - 1]);
            if (view) assert_int_equal(row - base.room->turn_keys[l->rows[i]], k->place[row]);
            k->kept[h][row] = true;
            k->n_kept[h]++;
        }
    }
    if (view) assert_int_equal(a.position[0] - *(int32_t *)base.room->turn.host, k->query_place);
    return a;
}

/* The stored key as 4 bits give it back, written without the packing's code. */
static void coarse_key(const layer_case *c, int kv_head, int64_t row, int bits, double *key) {
    double k[MAX_D];
    int d = c->shape.head_dim;
    float min = INFINITY, max = -INFINITY;
    case_rotate(c, c->raw_k + (row * c->shape.n_kv_heads + kv_head) * d, row, k);
    for (int i = 0; i < d; i++) {
        min = fminf(min, (float)k[i]);
        max = fmaxf(max, (float)k[i]);
    }
    sac_packed_range r = sac_packed_range_of(min, max, bits);
    double scale = (double)sac_f16_to_f32(r.scale), low = (double)sac_f16_to_f32(r.min);
    for (int i = 0; i < d; i++) key[i] = floor((k[i] - low) / scale + 0.5) * scale + low;
}

/* Turned on by so many positions, which may be negative. */
static void turn(const layer_case *c, double *x, int64_t by) {
    int half = c->shape.head_dim / 2;
    const float *t = c->cos_sin + (by < 0 ? -by : by) * c->shape.head_dim;
    for (int i = 0; i < half; i++) {
        double cosine = (double)t[2 * i], sine = by < 0 ? -(double)t[2 * i + 1] : (double)t[2 * i + 1];
        double u = x[i], v = x[i + half];
        x[i] = u * cosine - v * sine;
        x[i + half] = v * cosine + u * sine;
    }
}

static void estimate(const layer_case *c, cut *k, int64_t query, int bits) {
    int d = c->shape.head_dim, group = c->shape.n_heads / c->shape.n_kv_heads;
    for (int h = 0; h < c->shape.n_heads; h++) {
        double q[MAX_D], key[MAX_D], sum = 0;
        case_rotate(c, c->raw_q + (query * c->shape.n_heads + h) * d, k->query_place, q);
        for (int64_t i = 0; i < k->n_base[h]; i++) {
            int64_t row = k->base[h][i];
            double dot = 0;
            coarse_key(c, h / group, row, bits, key);
            turn(c, key, k->place[row] - row);
            for (int j = 0; j < d; j++) dot += q[j] * key[j];
            k->weight[h][i] = exp(dot / sqrt(d));
            sum += k->weight[h][i];
        }
        for (int64_t i = 0; i < k->n_base[h]; i++) k->weight[h][i] /= sum;
    }
}

/* Enough weight, all of it in the heaviest rows, and no row too many. */
static void expect_smallest_sets(const layer_case *c, const cut *k, double p) {
    for (int h = 0; h < c->shape.n_heads; h++) {
        double held = 0, least = 1, most_left = 0;
        int64_t n = 0;
        for (int64_t i = 0; i < k->n_base[h]; i++) {
            double w = k->weight[h][i];
            if (k->kept[h][k->base[h][i]]) {
                held += w;
                least = fmin(least, w);
                n++;
            } else {
                most_left = fmax(most_left, w);
            }
        }
        assert_int_equal(n, k->n_kept[h]); /* nothing that the base did not choose */
        assert_true(n >= 1 && held >= p - 1e-4 && held - least < p + 1e-4 && least >= most_left - 1e-5);
    }
}

static const char *const BASES[] = {
    "base=dense",
    "base=quest,base.page=7,base.budget=40",
    "base=quest,base.page=5,base.budget=40,base.heads=query",
    "base=doublesparse,base.k=33,base.channels=5",
    "base=tokenselect,base.init=3,base.k=21,base.local=9,base.theta=2,base.pos=orig",
    "base=tokenselect,base.init=3,base.k=21,base.local=9,base.theta=2",
    "base=streaming,base.start=4,base.recent=31",
    "base=streaming,base.start=0,base.recent=1",
    "base=streaming,base.start=4,base.recent=31,base.pos=orig",
};

static void each_head_keeps_the_smallest_set(void **state) {
    (void)state;
    static cut k;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t b = 0; b < SAC_COUNT(BASES); b++) {
            layer_case c;
            char line[200];
            sac_choice choice;
            double want[MAX_HEADS * MAX_D], p = b % 2 ? 0.85 : 0.5;
            case_shape shape = {GROUPS[g][0],  GROUPS[g][1], g == 2 ? 80 : 16,     .n_ctx = MAX_TOKENS,
                                .n_layers = 3, .layer = 2,   .use_cpu = b % 3 == 0};
            case_open(&c, &shape, g + 3);
            snprintf(line, sizeof line, "twilight:p=%g,union=0,%s", p, BASES[b]);
            case_method(&c, "dense", line);
            case_prompt(&c, 101);
            for (int step = 0; step < 4; step++) {
                sac_layer_attention a = choose(&c, &k, &choice);
                estimate(&c, &k, c.n, 4);
                expect_smallest_sets(&c, &k, p);
                double n_kept = 0;
                for (int h = 0; h < c.shape.n_heads; h++) n_kept += (double)k.n_kept[h];
                assert_true(k.budget == n_kept);
                assert_int_equal(sac_attend_choice(&a, &choice), SAC_OK);
                case_finish(&c, &a, 1);
                case_oracle(&c, c.n - 1, is_kept, places, &k, want);
                case_expect(&c, 0, want, 1e-5);
            }
            case_close(&c);
        }
}

/* The same of a trained model's attention, whose steps need few rows: bases with room for all, and with less. */
static void a_trained_layer_keeps_the_smallest_set(void **state) {
    (void)state;
    static cut k;
    for (size_t b = 0; b < SAC_COUNT(BASES); b++)
        for (int i = 0; i < 2; i++) {
            layer_case c;
            char line[200];
            sac_choice choice;
            const double p = i ? 0.95 : 0.85;
            case_captured(&c, (case_shape){.n_layers = 3, .layer = 2, .use_cpu = i});
            snprintf(line, sizeof line, "twilight:p=%g,union=0,%s", p, BASES[b]);
            case_method(&c, "dense", line);
            case_prompt(&c, CAPTURED_TOKENS - 4);
            for (int step = 0; step < 4; step++) {
                double want[MAX_HEADS * MAX_D];
                sac_layer_attention a = choose(&c, &k, &choice);
                estimate(&c, &k, c.n, 4);
                expect_smallest_sets(&c, &k, p);
                assert_int_equal(sac_attend_choice(&a, &choice), SAC_OK);
                case_finish(&c, &a, 1);
                case_oracle(&c, c.n - 1, is_kept, places, &k, want);
                case_expect(&c, 0, want, 1e-5);
            }
            case_close(&c);
        }
}

/* Rows of the union are those that any head of the group keeps alone. */
static void a_group_reads_what_any_head_keeps(void **state) {
    (void)state;
    static cut alone, united;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t b = 0; b < SAC_COUNT(BASES); b++) {
            layer_case c[2];
            char line[200];
            sac_choice choice;
            sac_layer_attention a;
            double want[MAX_HEADS * MAX_D], budget[2];
            for (int u = 0; u < 2; u++) {
                case_shape shape = {GROUPS[g][0],        GROUPS[g][1],  16,
                                    .n_ctx = MAX_TOKENS, .n_layers = 3, .layer = 2};
                case_open(&c[u], &shape, g + 3);
                snprintf(line, sizeof line, "twilight:p=0.6,union=%d,%s", u, BASES[b]);
                case_method(&c[u], "dense", line);
                case_prompt(&c[u], 101);
                a = choose(&c[u], u ? &united : &alone, &choice);
                budget[u] = (u ? &united : &alone)->budget;
            }
            assert_true(budget[0] == budget[1]);
            int group = GROUPS[g][0] / GROUPS[g][1];
            for (int h = 0; h < GROUPS[g][0]; h++)
                for (int64_t row = 0; row <= 101; row++) {
                    bool any = false;
                    for (int i = 0; i < group; i++) any |= alone.kept[h / group * group + i][row];
                    assert_int_equal(united.kept[h][row], any);
                }
            assert_int_equal(sac_attend_choice(&a, &choice), SAC_OK);
            case_finish(&c[1], &a, 1);
            case_oracle(&c[1], 101, is_kept, places, &united, want);
            case_expect(&c[1], 0, want, 1e-5);
            for (int u = 0; u < 2; u++) case_close(&c[u]);
        }
}

static void more_p_keeps_more(void **state) {
    (void)state;
    static cut k;
    static const double ps[] = {0.01, 0.3, 0.6, 0.85, 0.95, 0.999};
    int64_t before[MAX_HEADS] = {0};
    for (size_t i = 0; i < SAC_COUNT(ps); i++) {
        layer_case c;
        char line[64];
        sac_choice choice;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .n_layers = 3, .layer = 2}, 7);
        snprintf(line, sizeof line, "twilight:p=%g,union=0", ps[i]);
        case_method(&c, "dense", line);
        case_prompt(&c, 120);
        choose(&c, &k, &choice);
        for (int h = 0; h < 6; h++) {
            assert_true(k.n_kept[h] >= before[h] && k.n_kept[h] >= 1);
            before[h] = k.n_kept[h];
        }
        case_close(&c);
    }
}

/* One token that outweighs all, not the first; and queries of zeros, to which all tokens are alike. */
static void peaks_keep_one_and_ties_keep_all(void **state) {
    (void)state;
    static cut k;
    for (int64_t peak = -1; peak < 100; peak += 20) {
        layer_case c;
        sac_choice choice;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .n_layers = 3, .layer = 2}, 7);
        for (int h = 0; h < 6; h++)
            for (int i = 0; i < 16; i++) {
                float *q = &c.raw_q[(100 * 6 + h) * 16 + i];
                *q = peak < 0 ? 0 : i == 3 ? 8 : 0;
            }
        for (int64_t row = 0; peak >= 0 && row <= 100; row++)
            for (int kv = 0; kv < 2; kv++) {
                double turned[16], one[16] = {0};
                one[3] = row == peak ? 30 : -1;
                memcpy(turned, one, sizeof turned);
                turn(&c, turned, 100 - row); /* meets the query as if at its position */
                for (int i = 0; i < 16; i++) c.raw_k[(row * 2 + kv) * 16 + i] = (float)turned[i];
            }
        case_method(&c, "dense", "twilight:p=0.95,union=0");
        case_prompt(&c, 100);
        choose(&c, &k, &choice);
        for (int h = 0; h < 6; h++) {
            assert_int_equal(k.n_kept[h], peak < 0 ? 101 : 1);
            if (peak >= 0) assert_true(k.kept[h][peak]);
        }
        case_close(&c);
    }
}

/* What is left out costs at most its share of true weight, twice the largest value. */
static void the_error_is_bounded_by_the_mass(void **state) {
    (void)state;
    static cut k;
    for (int bits = 2; bits <= 8; bits *= 2)
        for (uint64_t seed = 1; seed < 6; seed++) {
            layer_case c;
            char line[64];
            sac_choice choice;
            double dense[96];
            case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .n_layers = 3, .layer = 2}, seed);
            snprintf(line, sizeof line, "twilight:p=0.8,union=0,bits=%d", bits);
            case_method(&c, "dense", line);
            case_prompt(&c, 100);
            sac_layer_attention a = choose(&c, &k, &choice);
            estimate(&c, &k, 100, bits);
            expect_smallest_sets(&c, &k, 0.8);
            assert_int_equal(sac_attend_choice(&a, &choice), SAC_OK);
            case_finish(&c, &a, 1);
            case_oracle(&c, 100, NULL, NULL, NULL, dense);
            for (int h = 0; h < 6; h++) {
                double held = 0, all = 0;
                for (int64_t row = 0; row <= 100; row++) {
                    double w = exp(case_dot(&c, h, 100, row, 100, row) / 4);
                    all += w;
                    if (k.kept[h][row]) held += w;
                }
                for (int i = 0; i < 16; i++)
                    assert_true(fabs((double)c.out[h * 16 + i] - dense[h * 16 + i]) <=
                                (1 - held / all) * 2 + 1e-5);
                if (bits == 8) assert_true(held / all > 0.79);
            }
            case_close(&c);
        }
}

static void copies_come_back_within_half_a_step(void **state) {
    (void)state;
    uint64_t random = 3;
    sac_attention_shape shape = {.n_kv_heads = 3, .head_dim = 37, .n_ctx = 50};
    sac_arena arena;
    sac_error err;
    assert_ok(sac_arena_open(&arena, 1 << 20, &err), err);
    for (int bits = 2; bits <= 8; bits *= 2) {
        sac_packed_rows copy = sac_key_copy_take(&shape, 50, 37, bits, &(sac_memory){&arena, &arena});
        for (int64_t row = 0; row < 50; row++) {
            float key[3][37], back[37];
            for (int i = 0; i < 3 * 37; i++)
                key[i / 37][i % 37] = row == 7   ? 0.1f
                                      : row == 8 ? 0
                                                 : (float)(row + 1) * test_rand_float(&random);
            const sac_kv_view one = {.k = key,
                                     .v = key,
                                     .n_heads = 3,
                                     .head_dim = 37,
                                     .n_rows = 1,
                                     .row_stride = 37,
                                     .head_stride = 37};
            sac_pack_keys(&copy, row, &one, &(sac_pack_rows){NULL, 1, 0, 1});
            for (int h = 0; h < 3; h++) {
                float low = INFINITY, high = -INFINITY;
                for (int i = 0; i < 37; i++) low = fminf(low, key[h][i]), high = fmaxf(high, key[h][i]);
                sac_packed_get_key(&copy, h, row, back);
                float step = (high - low) / (float)((1 << bits) - 1) * 1.01f + 1e-3f * fabsf(low);
                for (int i = 0; i < 37; i++) assert_true(fabsf(back[i] - key[h][i]) <= step / 2);
            }
        }
    }
    sac_arena_free(&arena);
}

static void the_own_token_can_be_forced(void **state) {
    (void)state;
    static cut k;
    for (size_t b = 0; b < SAC_COUNT(BASES); b++) {
        layer_case c;
        char line[200];
        sac_choice choice;
        case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .n_layers = 3, .layer = 2}, 9);
        for (int i = 0; i < 32; i++) c.raw_k[100 * 32 + i] = -c.raw_q[100 * 96 + (i / 16) * 48 + i % 16] * 4;
        snprintf(line, sizeof line, "twilight:p=0.3,union=0,force_last=1,%s", BASES[b]);
        case_method(&c, "dense", line);
        case_prompt(&c, 100);
        choose(&c, &k, &choice);
        double n_kept = 0;
        for (int h = 0; h < 6; h++) {
            assert_true(k.kept[h][100]);
            n_kept += (double)k.n_kept[h];
        }
        assert_true(k.budget == n_kept);
        case_close(&c);
    }
}

static void run_all(layer_case *c, const char *line, float *outputs) {
    case_method(c, "dense", line);
    case_prompt(c, 70);
    for (size_t step = 0; step < 9; step++) {
        case_step(c);
        memcpy(outputs + step * 96, c->out, 96 * sizeof(float));
    }
}

/* p = 1 is the base alone, bit by bit, and dense over dense. */
static void all_of_the_base_is_the_base(void **state) {
    (void)state;
    static const char *const lines[][2] = {
        {"twilight:p=1", "dense"},
        {"twilight:skip=3", "dense"},
        {"twilight:p=1,base=quest", "dense"},
        {"twilight:p=1,base=quest,base.budget=32", "quest:budget=32"},
        {"twilight:p=1,base=quest,base.budget=32,base.every=8", "quest:budget=32,every=8"},
        {"twilight:p=1,base=doublesparse,base.k=30", "doublesparse:k=30"},
        {"twilight:p=1,base=streaming,base.recent=20", "streaming:recent=20"},
        {"twilight:p=1,base=tokenselect,base.init=2,base.k=9,base.local=4", "tokenselect:init=2,k=9,local=4"},
        {"twilight:skip=9,base=tokenselect,base.init=2,base.k=9,base.local=4",
         "tokenselect:init=2,k=9,local=4"},
    };
    static float want[9 * 96], got[9 * 96];
    layer_case c;
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .use_cpu = true, .n_layers = 3, .layer = 2}, 5);
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        run_all(&c, lines[i][1], want);
        run_all(&c, lines[i][0], got);
        assert_true((c.decode.policy == &sac_decode_dense) == (i < 2));
        assert_memory_equal(got, want, sizeof got);
    }
    case_close(&c);
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 128, .use_cpu = true, .n_layers = 3, .layer = 1}, 5);
    run_all(&c, "dense", want);
    run_all(&c, "twilight:p=0.2", got);
    assert_memory_equal(got, want, sizeof got);
    run_all(&c, "tokenselect:init=2,k=9,local=4", want); /* not dense: its positions may not reach that far */
    run_all(&c, "twilight:p=0.2,base=tokenselect,base.init=2,base.k=9,base.local=4", got);
    assert_memory_equal(got, want, sizeof got);
    case_close(&c);
}

static void expect_line(const char *line, int64_t n_ctx, int64_t max_position, const char *says) {
    char text[700];
    sac_decode m;
    sac_error err = {0};
    sac_attention_shape shape = {.n_layers = 4,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 16,
                                 .hidden = 64,
                                 .n_ctx = n_ctx,
                                 .chunk = 64,
                                 .max_position = max_position,
                                 .fixed_rotation = true};
    assert_ok(sac_decode_open(&m, line, &shape, &err), err);
    sac_decode_print(&m, text, sizeof text);
    sac_decode_free(&m);
    if (!strstr(text, says)) fail_msg("%s is %s, without %s", line, text, says);
}

/* The paper's budgets: 8,192 rows or a quarter, as far as a base's positions reach; what a line says is taken. */
static void a_base_chooses_generously(void **state) {
    (void)state;
    static const char *const bases[][3] = {{"quest", "budget", "budget=1024"},
                                           {"doublesparse", "k", "k=2048"},
                                           {"streaming", "recent", "recent=2000"},
                                           {"tokenselect", "k", "k=2048"}};
    for (size_t i = 0; i < SAC_COUNT(bases); i++) {
        char line[100], says[60];
        snprintf(line, sizeof line, "twilight:base=%s", bases[i][0]);
        snprintf(says, sizeof says, "base.%s=8192", bases[i][1]);
        expect_line(line, 20000, 32768, says);
        snprintf(says, sizeof says, "base.%s=25000", bases[i][1]);
        expect_line(line, 100000, 131072, says);
        snprintf(line, sizeof line, "twilight:base=%s,base.%s=77", bases[i][0], bases[i][1]);
        snprintf(says, sizeof says, "base.%s=77", bases[i][1]);
        expect_line(line, 100000, 131072, says);
        expect_line(bases[i][0], 100000, 131072, bases[i][2]); /* alone its own */
    }
    expect_line("twilight:base=tokenselect,base.init=100", 20000, 8192, "base.k=7580"); /* 8192 - 100 - 512 */
    expect_line("twilight:base=tokenselect,base.pos=orig", 20000, 8192, "base.k=8192");
    expect_line("twilight:base=streaming", 20000, 8192, "base.recent=8188");
    expect_line("twilight:base=streaming,base.pos=orig", 20000, 8192, "base.recent=8192");
}

/* What is reported: mass against dense attention, rows of the union, rows of heads before it. */
static void counts_are_of_the_union_and_of_heads(void **state) {
    (void)state;
    layer_case c;
    case_shape shape = {6, 2, 16, .n_ctx = 128, .n_layers = 3, .layer = 2, .measure_mass = true};
    case_open(&c, &shape, 5);
    case_method(&c, "dense", "twilight:p=0.9,bits=8");
    case_prompt(&c, 100);
    case_step(&c);
    assert_true(c.stats.decode_mass > 0.9 && c.stats.decode_mass < 1 && c.stats.n_decode_mass == 1);
    assert_true(c.stats.decode_budget / 6 <
                c.stats.decode_rows / 2); /* a head's share of what its group reads */
    assert_true(c.stats.decode_rows < 202 && c.stats.decode_rows_dense == 202);
    case_method(&c, "dense", "twilight:p=0.9,bits=8,base=streaming,base.recent=50");
    case_prompt(&c, 100);
    case_step(&c);
    assert_true(c.stats.decode_mass > 0.1 && c.stats.decode_mass < 0.9);
    case_close(&c);
}

static void the_demo_model_answers_alike(void **state) {
    (void)state;
    static told t;
    told_as_dense("dense", "twilight:p=1");
    told_as_dense("dense", "twilight:p=1,base=quest,base.budget=500");
    told_again("dense", "twilight:p=0.9", &t);
    assert_true(t.layer.decode_read < 1 && t.layer.decode_budget <= t.layer.decode_rows);
    told_again("dense", "twilight:p=0.9,base=tokenselect,base.init=4,base.k=100,base.local=64", &t);
    assert_true(t.layer.decode_rows <= 168 && t.layer.selections > 0);
    assert_string_equal(
        t.lines.decode,
        "twilight:base=tokenselect,p=0.9,bits=4,skip=2,union=1,force_last=0,base.init=4,"
        "base.k=100,base.local=64,base.chunk=512,base.theta=0.9,base.scale=1,base.select=soft,"
        "base.gqa=div,base.pos=compact,base.max_hits=0,base.p=0,base.kmin=128,base.kmax=0,base.keys=16,base."
        "vote=local,base.means=1");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_head_keeps_the_smallest_set),
        cmocka_unit_test(a_trained_layer_keeps_the_smallest_set),
        cmocka_unit_test(a_group_reads_what_any_head_keeps),
        cmocka_unit_test(more_p_keeps_more),
        cmocka_unit_test(peaks_keep_one_and_ties_keep_all),
        cmocka_unit_test(the_error_is_bounded_by_the_mass),
        cmocka_unit_test(copies_come_back_within_half_a_step),
        cmocka_unit_test(the_own_token_can_be_forced),
        cmocka_unit_test(all_of_the_base_is_the_base),
        cmocka_unit_test(a_base_chooses_generously),
        cmocka_unit_test(counts_are_of_the_union_and_of_heads),
        cmocka_unit_test(the_demo_model_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
