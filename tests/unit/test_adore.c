/* ADORE: the controller against fp64; who is cached, rebuilt and released against a simulation. */
#include "adore_test.h"
#include "captured.h"
#include "method_test.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

enum { MAX_TOKENS = 128, MAX_COLS = 2 * 128 };

/* score = sign * tanh(position): nothing but the place counts. */
static void place_weights(weights *w, int input, float sign) {
    random_weights(w, input, 2, 1);
    memset(w->input_gates, 0, sizeof w->input_gates);
    memset(w->state_gates, 0, sizeof w->state_gates);
    memset(w->input_bias, 0, sizeof w->input_bias);
    memset(w->state_bias, 0, sizeof w->state_bias);
    memset(w->position_bias, 0, sizeof w->position_bias);
    memset(w->inner_bias, 0, sizeof w->inner_bias);
    w->position[0] = w->position[1] = 1;
    w->inner[0] = w->inner[3] = 1;
    w->inner[1] = w->inner[2] = 0;
    w->outer[0] = sign;
    w->outer[1] = w->outer_bias[0] = 0;
}

static double row_dot(const float *w, const double *x, int n) {
    double sum = 0;
    for (int i = 0; i < n; i++) sum += (double)w[i] * x[i];
    return sum;
}

static double sigmoid(double x) {
    return 1 / (1 + exp(-x));
}

static void follow(const weights *w, const float *x, double *z) {
    int n = w->hidden;
    double in[MAX_HIDDEN], a[3 * MAX_STATE], b[3 * MAX_STATE], next[MAX_STATE];
    for (int i = 0; i < w->input; i++) in[i] = (double)x[i];
    for (int g = 0; g < 3 * n; g++) {
        a[g] = row_dot(w->input_gates + g * w->input, in, w->input) + (double)w->input_bias[g];
        b[g] = row_dot(w->state_gates + g * n, z, n) + (double)w->state_bias[g];
    }
    for (int i = 0; i < n; i++) {
        double r = sigmoid(a[i] + b[i]), u = sigmoid(a[n + i] + b[n + i]);
        next[i] = (1 - u) * tanh(a[2 * n + i] + r * b[2 * n + i]) + u * z[i];
    }
    memcpy(z, next, sizeof next);
}

static double score(const weights *w, const double *z, double position) {
    double placed[MAX_STATE], sum = (double)w->outer_bias[0];
    for (int i = 0; i < w->hidden; i++)
        placed[i] = z[i] + (double)w->position[i] * position + (double)w->position_bias[i];
    for (int i = 0; i < w->hidden; i++)
        sum += (double)w->outer[i] *
               tanh(row_dot(w->inner + i * w->hidden, placed, w->hidden) + (double)w->inner_bias[i]);
    return sum;
}

static void controller_equals_fp64(void **state) {
    (void)state;
    static weights w;
    static const int sizes[][2] = {{37, 9}, {64, 16}, {5, 1}};
    for (size_t i = 0; i < SAC_COUNT(sizes); i++)
        for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
            layer_case c;
            case_open(&c, &(case_shape){2, 1, 16, .n_ctx = 64, .use_cpu = use_cpu}, 3);
            random_weights(&w, sizes[i][0], sizes[i][1], i + 1);
            float *x = case_floats(&c, 23 * w.input), *z = case_floats(&c, 24 * w.hidden), got[23], again[23];
            double state_of[23][MAX_STATE], now[MAX_STATE] = {0};
            sac_controller_scratch scratch;
            sac_controller_scratch_take(&scratch, &w.c, 5, &(sac_memory){&c.arena, &c.arena});
            sac_buffer states = {z, z}, second = {z + 11 * w.hidden, z + 11 * w.hidden};
            fill(x, 23 * w.input, 1, &c.random);
            memset(z, 0, (size_t)w.hidden * sizeof *z);
            sac_mat first = sac_mat_f32(x, 11, w.input), rest = sac_mat_f32(x + 11 * w.input, 12, w.input);
            sac_controller_follow(&c.ops, &c.stream, first, states, &scratch);
            sac_controller_score(&c.ops, &c.stream, z + w.hidden, 11, 0, 0.01, (sac_buffer){again, again},
                                 &scratch);
            sac_controller_follow(&c.ops, &c.stream, rest, second, &scratch);
            sac_controller_score(&c.ops, &c.stream, z + w.hidden, 23, 0, 0.01, (sac_buffer){got, got},
                                 &scratch);
            for (int t = 0; t < 23; t++) {
                follow(&w, x + t * w.input, now);
                memcpy(state_of[t], now, sizeof now);
                for (int k = 0; k < w.hidden; k++)
                    assert_true(fabs((double)z[(t + 1) * w.hidden + k] - now[k]) < 1e-5);
                assert_true(fabs((double)got[t] - score(&w, now, 0.01 * t)) < 1e-5);
                if (t < 11) assert_true(fabsf(got[t] - again[t]) < 1e-6f); /* the future does not matter */
            }
            case_close(&c);
        }
}

typedef struct simulation {
    bool cached[MAX_TOKENS], part[MAX_TOKENS]; /* part: takes part in the step at hand */
    double score[MAX_TOKENS], z[MAX_TOKENS][MAX_STATE];
    int64_t m, r, recent, sink;
    bool by_attention, compact, rel;
    const weights *w;
    int group;
} simulation;

static bool takes_part(void *ctx, int h, int64_t query, int64_t key) {
    (void)h;
    (void)query;
    return ((simulation *)ctx)->part[key];
}

static void at_rank(void *ctx, int h, int64_t query, int64_t key, int64_t *query_at, int64_t *key_at) {
    const simulation *s = ctx;
    (void)h;
    *query_at = *key_at = 0;
    for (int64_t i = 0; i < query; i++) *query_at += s->part[i];
    for (int64_t i = 0; i < key; i++) *key_at += s->part[i];
}

static sac_mat embeddings(const layer_case *c, int64_t first, int64_t n) {
    return sac_mat_f32(c->raw_q + first * c->shape.hidden, n, c->shape.hidden);
}

/* n tokens are seen for the first time: their states, and everybody's score. */
static void see(const layer_case *c, simulation *s, int64_t first, int64_t n) {
    double z[MAX_STATE] = {0};
    if (s->by_attention) return;
    if (first) memcpy(z, s->z[first - 1], sizeof z);
    for (int64_t i = first; i < first + n; i++) {
        follow(s->w, c->raw_q + i * c->shape.hidden, z);
        memcpy(s->z[i], z, sizeof z);
    }
    for (int64_t i = s->rel ? 0 : first; i < first + n; i++)
        s->score[i] =
            score(s->w, s->z[i], (double)(s->rel ? first + n - i : i) / (double)c->shape.max_position);
}

/* Weights of the query over what takes part, added to the scores. */
static void give(const layer_case *c, simulation *s, int64_t query) {
    double w[MAX_TOKENS];
    for (int h = 0; h < c->shape.n_heads && s->by_attention; h++) {
        double sum = 0;
        for (int64_t key = 0; key <= query; key++) {
            int64_t query_at = query, key_at = key;
            if (s->compact) at_rank(s, h, query, key, &query_at, &key_at);
            w[key] = s->part[key]
                         ? exp(case_dot(c, h, query, key, query_at, key_at) / sqrt(c->shape.head_dim))
                         : 0;
            sum += w[key];
        }
        for (int64_t key = 0; key <= query; key++) s->score[key] += w[key] / sum;
    }
}

static double rank_of(const simulation *s, int64_t token, int64_t n) {
    return token < s->sink || token >= n - s->recent ? INFINITY : s->score[token];
}

/* The cache shrinks to `size`, the worst first; `spared` (a token or -1) stays; n counts the newest. */
static void shrink(simulation *s, int64_t n, int64_t size, int64_t spared) {
    int64_t held = 0;
    for (int64_t i = 0; i < n; i++) held += s->cached[i];
    for (; held > size; held--) {
        int64_t worst = -1;
        for (int64_t i = 0; i < n; i++)
            if (s->cached[i] && i != spared && (worst < 0 || rank_of(s, i, n) < rank_of(s, worst, n)))
                worst = i;
        s->cached[worst] = false;
    }
}

static void adore_prompt(layer_case *c, simulation *s, int64_t n) {
    double want[MAX_COLS];
    int64_t first = c->n;
    assert_int_equal(
        c->decode.policy->inputs(c->decode.state, &c->ops, &c->stream, embeddings(c, first, n), first),
        SAC_OK);
    case_prompt(c, n);
    see(c, s, first, n);
    for (int64_t i = 0; i < first + n; i++) s->part[i] = i >= first || s->cached[i];
    bool compact = s->compact;
    s->compact = false;
    for (int64_t i = first; i < first + n; i++) give(c, s, i);
    s->compact = compact;
    case_oracle(c, c->n - 1, takes_part, NULL, s, want);
    case_expect(c, n - 1, want, 3e-6);
    for (int64_t i = first; i < first + n; i++) s->cached[i] = true;
    if (!s->by_attention) shrink(s, c->n, s->m, -1);
}

/* Tokens of a step, in rows after the cache's: those rebuilt, and the step's own. */
static sac_layer_attention step_tokens(layer_case *c, const int32_t *position, int64_t n, float *k,
                                       float *v) {
    const sac_attention_shape *sh = &c->shape;
    int64_t q_cols = (int64_t)sh->n_heads * sh->head_dim, kv_cols = (int64_t)sh->n_kv_heads * sh->head_dim;
    sac_mat q = sac_mat_f32(c->q, n, q_cols), km = sac_mat_f32(k, n, kv_cols),
            vm = sac_mat_f32(v, n, kv_cols);
    for (int64_t i = 0; i < n; i++) {
        memcpy(c->q + i * q_cols, c->raw_q + position[i] * q_cols, (size_t)q_cols * sizeof(float));
        memcpy(k + i * kv_cols, c->raw_k + position[i] * kv_cols, (size_t)kv_cols * sizeof(float));
        memcpy(v + i * kv_cols, c->raw_v + position[i] * kv_cols, (size_t)kv_cols * sizeof(float));
    }
    c->ops.rope(&c->stream, &(sac_rope_args){q, sh->n_heads, sh->head_dim, c->rotation, position, false});
    c->ops.rope(&c->stream, &(sac_rope_args){km, sh->n_kv_heads, sh->head_dim, c->rotation, position, false});
    sac_kv_view kv = case_view(c, c->n_rows + n);
    c->ops.kv_store(&c->stream, &(sac_kv_store_args){kv, km, vm, c->n_rows});
    return (sac_layer_attention){.ops = &c->ops,
                                 .stream = &c->stream,
                                 .shape = sh,
                                 .q = q,
                                 .kv = kv,
                                 .past = c->n_rows,
                                 .position = position,
                                 .n_before = c->n,
                                 .n_seen = c->n + 1,
                                 .scale = 1.0f / sqrtf((float)sh->head_dim),
                                 .window = sh->window,
                                 .rotation = c->rotation,
                                 .stats = &c->stats};
}

/* Who is rebuilt, by the simulation: the r best of the released. */
static int64_t expect_rebuilt(const layer_case *c, simulation *s, const int32_t *position, int64_t n) {
    memcpy(s->part, s->cached, sizeof s->part);
    int64_t n_rebuilt = 0;
    for (; n_rebuilt < s->r; n_rebuilt++) {
        int64_t best = -1;
        for (int64_t i = 0; i < c->n; i++)
            if (!s->part[i] && (best < 0 || s->score[i] > s->score[best])) best = i;
        if (best < 0) break;
        s->part[best] = true;
    }
    assert_int_equal(n, n_rebuilt);
    for (int64_t i = 0; i < n; i++) {
        assert_true(s->part[position[i]] && !s->cached[position[i]]);
        if (i) assert_true(position[i] > position[i - 1]);
    }
    return n_rebuilt;
}

static void adore_step(layer_case *c, simulation *s) {
    const sac_decode_policy *d = c->decode.policy;
    static float x[64 * MAX_COLS], k[64 * MAX_COLS], v[64 * MAX_COLS];
    int32_t position[64];
    double want[MAX_COLS];
    int64_t n;
    if (s->by_attention) shrink(s, c->n + 1, s->m, -1); /* a prompt's cut, made by the first step */
    assert_int_equal(
        d->rebuild(c->decode.state, &c->ops, &c->stream, sac_mat_f32(x, 64, c->shape.hidden), position, &n),
        SAC_OK);
    expect_rebuilt(c, s, position, n);
    for (int64_t i = 0; i < n; i++)
        assert_memory_equal(x + i * c->shape.hidden, c->raw_q + position[i] * c->shape.hidden,
                            (size_t)c->shape.hidden * sizeof(float));
    position[n] = (int32_t)c->n;
    int64_t evicted_n = c->n; /* scores of the plan are those before the step */
    simulation before = *s;
    assert_int_equal(d->inputs(c->decode.state, &c->ops, &c->stream, embeddings(c, c->n, 1), c->n), SAC_OK);
    see(c, s, c->n, 1);
    s->part[c->n] = true;
    int64_t n_part = 0;
    for (int64_t i = 0; i <= c->n; i++) n_part += s->part[i];
    bool compact = s->compact;
    s->compact = compact && n_part < c->n + 1 && c->n + 1 > c->shape.max_position;
    c->out = c->q;
    sac_layer_attention a;
    for (int left = 1; left >= 0; left--) { /* a layer before the last, then the last one, where only the step's own row is wanted */
        a = step_tokens(c, position, n + 1, k, v);
        a.layer = -left;
        assert_int_equal(sac_decode_attend(&c->decode, &a, NULL), SAC_OK);
        for (int64_t i = left ? 0 : n; i <= n; i++) {
            case_oracle(c, position[i], takes_part, s->compact ? at_rank : NULL, s, want);
            case_expect(c, i, want, 1e-5);
        }
        give(c, s, c->n);
    }
    s->compact = compact;
    assert_int_equal(d->settle(c->decode.state, &a, &c->n_rows), SAC_OK);
    c->n++;
    memcpy(before.cached, s->cached, sizeof before.cached);
    before.cached[evicted_n] = true;
    shrink(&before, c->n, s->m, evicted_n);
    memcpy(s->cached, before.cached, sizeof s->cached);
    assert_true(c->n_rows <= s->m && c->stats.n_steps > 0);
}

static void run_case(layer_case *c, simulation *s, const char *line) {
    case_method(c, "dense", line);
    assert_string_equal(c->decode.policy->name, "adore");
    adore_prompt(c, s, 47);
    assert_int_equal(c->n_rows, s->by_attention ? 47 : s->m);
    for (int i = 0; i < 14; i++) adore_step(c, s);
    adore_prompt(c, s, 9); /* a second turn meets what is cached */
    for (int i = 0; i < 14; i++) adore_step(c, s);
    assert_int_equal(c->n_rows, s->m);
    case_close(c);
}

static void cached_rebuilt_and_released(void **state) {
    (void)state;
    static weights w;
    static simulation s;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (int kind = 0; kind < 6; kind++) {
            layer_case c;
            char line[100];
            bool by_attention = kind % 2 == 1;
            case_shape shape = {GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 100,
                                .use_cpu = g % 2 == 0};
            shape.max_position = kind == 2 || kind == 3 ? 55 : 0;
            case_open(&c, &shape, g + 31);
            random_weights(&w, c.shape.hidden, 9, g + 1);
            c.shape.controller = &w.c;
            s = (simulation){.m = 21, .r = 5, .w = &w, .by_attention = by_attention, .compact = kind >= 2};
            s.recent = kind >= 4 ? 6 : 0;
            s.sink = kind >= 4 ? 3 : 0;
            s.rel = kind == 4;
            if (kind >= 4) c.shape.max_position = 55;
            snprintf(line, sizeof line, "adore:m=21,r=5,sigma=%s,recent=%d,sink=%d,feature=%s",
                     by_attention ? "attention" : "gru", (int)s.recent, (int)s.sink, s.rel ? "rel" : "abs");
            run_case(&c, &s, line);
        }
}

/* Sums of a trained model's attention, with newest rows kept and without. */
static void sums_of_a_trained_layer_release_the_worst(void **state) {
    (void)state;
    static simulation s;
    for (int i = 0; i < 4; i++) {
        layer_case c;
        char line[100];
        case_captured(&c, (case_shape){.use_cpu = i % 2 == 0});
        s = (simulation){.m = 21, .r = 5, .by_attention = true, .recent = i < 2 ? 0 : 6};
        snprintf(line, sizeof line, "adore:m=21,r=5,sigma=attention,recent=%d", (int)s.recent);
        run_case(&c, &s, line);
    }
}

/* A score that grows with the place keeps the newest, one that falls keeps the oldest. */
static void scores_by_place_make_windows(void **state) {
    (void)state;
    for (int sign = -1; sign < 2; sign += 2) {
        static weights w;
        static simulation s;
        layer_case c;
        case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 100, .max_position = 100, .use_cpu = true}, 5);
        place_weights(&w, c.shape.hidden, (float)sign);
        c.shape.controller = &w.c;
        s = (simulation){.m = 21, .r = 0, .w = &w};
        case_method(&c, "dense", "adore:m=21,r=0");
        adore_prompt(&c, &s, 47);
        for (int i = 0; i < 14; i++) adore_step(&c, &s);
        for (int64_t i = 0; i < c.n; i++)
            assert_int_equal(s.cached[i], sign > 0 ? i >= c.n - 21 : i < 20 || i == c.n - 1);
        case_close(&c);
    }
}

static void settings_are_checked(void **state) {
    (void)state;
    sac_attention_shape shape = {.n_layers = 1,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 16,
                                 .n_ctx = 640,
                                 .chunk = 64,
                                 .max_position = 500,
                                 .fixed_rotation = true};
    static const struct {
        const char *line;
        sac_status status;
        const char *text;
    } cases[] = {
        {"adore", SAC_UNSUPPORTED, "adore.safetensors"},
        {"adore:sigma=attention,m=10,recent=5,sink=5", SAC_BAD_ARGUMENT, "nothing of m=10"},
        {"adore:sigma=attention,r=64", SAC_BAD_ARGUMENT, "prefill chunk"},
    };
    sac_error err;
    sac_decode d;
    for (size_t i = 0; i < SAC_COUNT(cases); i++) {
        assert_int_equal(sac_decode_open(&d, cases[i].line, &shape, &err), cases[i].status);
        assert_non_null(strstr(err.text, cases[i].text));
    }
    shape.fixed_rotation = false;
    assert_int_equal(sac_decode_open(&d, "adore:sigma=attention", &shape, &err), SAC_UNSUPPORTED);
    assert_ok(sac_decode_open(&d, "adore:sigma=attention,pos=orig", &shape, &err), err);
    sac_decode_free(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(controller_equals_fp64),
        cmocka_unit_test(cached_rebuilt_and_released),
        cmocka_unit_test(sums_of_a_trained_layer_release_the_worst),
        cmocka_unit_test(scores_by_place_make_windows),
        cmocka_unit_test(settings_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
