/* DuoAttention's split of heads against plain fp64: which heads stream, and steps over what each reads. Layers
 * are cases of their own that share one policy, since heads are ranked over all of them. */
#include "method_session.h"
#include "method_test.h"

static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {6, 2, 16}, {7, 1, 80}, {8, 4, 32}};

enum { LAYERS = 3, MAX_HEADS = 8, MAX_D = 80, N_CTX = 220, START = 3, RECENT = 20, WINDOW = 16 };

typedef struct layers {
    layer_case of[LAYERS];
    double lost[LAYERS][MAX_HEADS]; /* by key-value head */
    bool streams[LAYERS][MAX_HEADS];
} layers;

static void layers_open(layers *x, const int *group, bool use_cpu, const char *line) {
    memset(x, 0, sizeof *x);
    for (int l = 0; l < LAYERS; l++) {
        const case_shape shape = {group[0],           group[1],   group[2],          .n_ctx = N_CTX,
                                  .n_layers = LAYERS, .layer = l, .use_cpu = use_cpu};
        layer_case *c = &x->of[l];
        case_open(c, &shape, (uint64_t)(group[0] * 10 + l));
        if (l == 0) {
            case_method(c, "dense", line);
        } else {
            c->prefill = x->of[0].prefill;
            c->decode = x->of[0].decode;
        }
    }
}

static void layers_close(layers *x) {
    for (int l = LAYERS - 1; l >= 0; l--) {
        if (l > 0) {
            x->of[l].prefill = (sac_prefill){0};
            x->of[l].decode = (sac_decode){0};
        }
        case_close(&x->of[l]);
    }
}

/* ---------------------------------------------------------------- the oracle's split */

/* Weight of one query head's softmax on the keys [START, end). */
static double weight_before(const layer_case *c, int h, int64_t query, int64_t end) {
    double sum = 0, before = 0, root = sqrt((double)c->shape.head_dim);
    for (int64_t j = 0; j <= query; j++) {
        double w = exp(case_dot(c, h, query, j, query, j) / root);
        sum += w;
        if (j >= START && j < end) before += w;
    }
    return before / sum;
}

/* The last WINDOW queries of a prompt, over the keys that each of them would leave out. */
static void measure(layers *x) {
    for (int l = 0; l < LAYERS; l++) {
        const layer_case *c = &x->of[l];
        int group = c->shape.n_heads / c->shape.n_kv_heads;
        for (int kv = 0; kv < c->shape.n_kv_heads; kv++) {
            double *lost = &x->lost[l][kv];
            *lost = 0;
            for (int64_t i = c->n - WINDOW; i < c->n; i++)
                for (int h = kv * group; h < (kv + 1) * group; h++)
                    *lost += weight_before(c, h, i, c->n - WINDOW - RECENT + 1);
            *lost /= WINDOW * group;
        }
    }
}

/* The heads that lose least, of all layers; none so alike that rounding could exchange them. */
static void split(layers *x, double share) {
    int n_kv = x->of[0].shape.n_kv_heads, n = (int)(share * LAYERS * n_kv);
    memset(x->streams, 0, sizeof x->streams);
    double last = 0;
    for (; n >= 0; n--) {
        int best = -1;
        for (int i = 0; i < LAYERS * n_kv; i++)
            if (!x->streams[i / n_kv][i % n_kv] &&
                (best < 0 || x->lost[i / n_kv][i % n_kv] < x->lost[best / n_kv][best % n_kv]))
                best = i;
        if (best < 0) return;
        double lost = x->lost[best / n_kv][best % n_kv];
        if (n == 0) assert_true(lost > last + 1e-5);
        last = lost;
        if (n > 0) x->streams[best / n_kv][best % n_kv] = true;
    }
}

typedef struct seen {
    const layer_case *c;
    const bool *streams;
} seen;

static bool is_read(void *ctx, int h, int64_t query, int64_t key) {
    const seen *x = ctx;
    bool streams = x->streams[h / (x->c->shape.n_heads / x->c->shape.n_kv_heads)];
    return !streams || key < START || key > query - RECENT;
}

static void prompt(layers *x, int64_t n) {
    for (int l = 0; l < LAYERS; l++) case_prompt(&x->of[l], n);
}

/* A step of every layer. */
static void step_equals_the_oracle(layers *x) {
    double want[MAX_HEADS * MAX_D];
    for (int l = 0; l < LAYERS; l++) {
        layer_case *c = &x->of[l];
        seen ctx = {c, x->streams[l]};
        double before = c->stats.decode_rows, n_rows = 0;
        case_step(c);
        case_oracle(c, c->n - 1, is_read, NULL, &ctx, want);
        case_expect(c, 0, want, 3e-6);
        for (int h = 0; h < c->shape.n_kv_heads; h++)
            n_rows += x->streams[l][h] && c->n > START + RECENT ? START + RECENT : (double)c->n;
        assert_true(fabs(c->stats.decode_rows - before - n_rows) < 1e-6);
    }
}

static void steps_equal_the_oracle(void **state) {
    (void)state;
    static const double shares[] = {0.25, 0.34, 0.5, 0.75, 1};
    static layers x;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t i = 0; i < SAC_COUNT(shares); i++)
            for (int use_cpu = 0; use_cpu < 2; use_cpu++) {
                char line[100];
                double share = shares[i] * LAYERS * GROUPS[g][1] < 1 ? 0.34 : shares[i];
                snprintf(line, sizeof line, "duo:start=3,recent=20,window=16,share=%g", share);
                layers_open(&x, GROUPS[g], use_cpu, line);
                prompt(&x, 101);
                measure(&x);
                split(&x, share);
                for (int step = 0; step < 5; step++) step_equals_the_oracle(&x);
                prompt(&x, WINDOW - 1); /* too few to rank heads */
                for (int step = 0; step < 3; step++) step_equals_the_oracle(&x);
                prompt(&x, 60);
                measure(&x);
                split(&x, share);
                for (int step = 0; step < 3; step++) step_equals_the_oracle(&x);
                for (int l = 0; l < LAYERS; l++) {
                    assert_int_equal(x.of[l].stats.n_selections, 2);
                    assert_int_equal(x.of[l].n_rows, x.of[l].n); /* nothing is dropped */
                }
                layers_close(&x);
            }
}

/* A head that looks back far stays a retrieval head, and one that looks near streams, in whichever layer. */
static void heads_that_look_far_keep_everything(void **state) {
    (void)state;
    static layers x;
    for (int far = 0; far < LAYERS * 2; far++) {
        layers_open(&x, (const int[]){4, 2, 16}, true, "duo:start=3,recent=20,window=16,share=0.8334");
        layer_case *c = &x.of[far / 2];
        for (int64_t t = 0; t < N_CTX; t++)
            for (int i = 0; i < 16; i++) { /* keys in the middle meet its queries where angles hardly turn */
                float *k = c->raw_k + (t * 2 + far % 2) * 16, *q = c->raw_q + t * 64 + far % 2 * 32;
                if (i % 8 < 6) continue;
                k[i] = t > 20 && t < 40 ? 9 : 0;
                q[i] = q[i + 16] = 3;
            }
        prompt(&x, 101);
        for (int l = 0; l < LAYERS; l++) case_step(&x.of[l]);
        for (int l = 0; l < LAYERS; l++)
            assert_true(x.of[l].stats.decode_rows == (l == far / 2 ? 23 + 102 : 2 * 23));
        layers_close(&x);
    }
}

/* What came with the model ranks the heads from the first token on, whatever prompts show. */
static void the_model_ranks_heads(void **state) {
    (void)state;
    static const float lost[LAYERS * 2] = {0.5f, 0.1f, 0.2f, 0.1f, 0.05f, 0.3f};
    static const bool streams[LAYERS][2] = {{false, true}, {false, true}, {true, false}};
    static const char *const lines[] = {"duo:start=3,recent=20,window=16",
                                        "duo:start=3,recent=20,window=16,heads=model"};
    static layers x;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        layers_open(&x, (const int[]){4, 2, 16}, true, "duo");
        sac_decode_free(&x.of[0].decode);
        sac_prefill_free(&x.of[0].prefill);
        x.of[0].shape.head_losses = lost;
        case_method(&x.of[0], "dense", lines[i]);
        for (int l = 1; l < LAYERS; l++) {
            x.of[l].prefill = x.of[0].prefill;
            x.of[l].decode = x.of[0].decode;
        }
        assert_true(sac_decode_keeps_prefix(&x.of[0].decode));
        for (int l = 0; l < LAYERS; l++) memcpy(x.streams[l], streams[l], sizeof streams[l]);
        prompt(&x, 24);
        for (int step = 0; step < 3; step++) step_equals_the_oracle(&x);
        prompt(&x, 60); /* long enough to rank them otherwise */
        for (int step = 0; step < 3; step++) step_equals_the_oracle(&x);
        const double *known = x.of[0].decode.policy->head_losses(x.of[0].decode.state);
        for (int h = 0; h < LAYERS * 2; h++) assert_true(known[h] == (double)lost[h]);
        layers_close(&x);
    }
}

/* ---------------------------------------------------------------- dense, and streaming */

enum { STEPS = 9, COLS = 6 * 16 };

static void run(layer_case *c, const char *line, int64_t n_prompt, float *outputs) {
    case_method(c, "dense", line);
    case_prompt(c, n_prompt);
    for (size_t step = 0; step < STEPS; step++) {
        case_step(c);
        memcpy(outputs + step * COLS, c->out, COLS * sizeof(float));
    }
}

static void open_one(layer_case *c) {
    case_open(c, &(case_shape){6, 2, 16, .n_ctx = 100, .use_cpu = true}, 5);
}

static void off_and_short_are_dense_bit_by_bit(void **state) {
    (void)state;
    static const struct {
        const char *line;
        bool is_off;
    } lines[] = {{"duo:share=0,recent=8,start=2,window=8", true},
                 {"duo:share=0.49,recent=8,start=2,window=8", true}, /* less than a head */
                 {"duo:recent=100,start=0,window=1", true},
                 {"duo:recent=50,start=40,window=11", true}, /* the context holds no prompt that long */
                 {"duo", true},
                 {"duo:recent=30,start=33,window=8", false}, /* a prompt of 70 is too short */
                 {"duo:recent=8,start=2,window=71", false},  /* and has too few queries */
                 {"duo:recent=70,start=9,window=1", false}}; /* and the step's rows are all */
    static float dense[STEPS * COLS], got[STEPS * COLS];
    layer_case c;
    open_one(&c);
    run(&c, "dense", 70, dense);
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        run(&c, lines[i].line, 70, got);
        if ((c.decode.policy == &sac_decode_dense) != lines[i].is_off) fail_msg("%s", lines[i].line);
        assert_memory_equal(got, dense, sizeof got);
        assert_true(c.stats.decode_rows == c.stats.decode_rows_dense);
    }
    run(&c, "duo:recent=8,start=2,window=8", 70, got);
    assert_true(memcmp(got, dense, sizeof got) != 0);
    case_close(&c);
}

/* Of one layer with half of its heads streaming, the others' outputs are dense attention's. */
static void retrieval_heads_are_dense(void **state) {
    (void)state;
    static float dense[STEPS * COLS], got[STEPS * COLS];
    layer_case c;
    int n_alike[2] = {0};
    open_one(&c);
    run(&c, "dense", 70, dense);
    run(&c, "duo:recent=8,start=2,window=8", 70, got);
    for (int kv = 0; kv < 2; kv++)
        for (int i = 0; i < STEPS * COLS; i++)
            if (i % COLS / (COLS / 2) == kv) n_alike[kv] += fabsf(got[i] - dense[i]) < 1e-6f;
    int retrieval = n_alike[1] > n_alike[0];
    assert_int_equal(n_alike[retrieval], STEPS * COLS / 2);
    assert_true(n_alike[1 - retrieval] < STEPS * COLS / 20);
    case_close(&c);
}

static void with_all_heads_it_is_streaming_bit_by_bit(void **state) {
    (void)state;
    static float streaming[STEPS * COLS], got[STEPS * COLS];
    layer_case c;
    open_one(&c);
    run(&c, "streaming:start=5,recent=17,pos=orig", 70, streaming);
    double n_rows = c.stats.decode_rows;
    run(&c, "duo:start=5,recent=17,window=8,share=1", 70, got);
    assert_memory_equal(got, streaming, sizeof got);
    assert_true(c.stats.decode_rows == n_rows);
    case_close(&c);
}

/* What an earlier sequence taught is forgotten. */
static void sequences_rank_anew(void **state) {
    (void)state;
    static float got[STEPS * COLS];
    layer_case c;
    open_one(&c);
    run(&c, "duo:recent=8,start=2,window=8", 70, got);
    assert_true(c.stats.decode_rows < c.stats.decode_rows_dense);
    c.decode.policy->begin(c.decode.state);
    c.n = c.n_rows = 0;
    c.stats = (sac_layer_stats){0};
    case_prompt(&c, 7); /* too short */
    for (int64_t i = 0; i < 22; i++) case_step(&c);
    assert_true(c.stats.decode_rows == c.stats.decode_rows_dense);
    case_close(&c);
}

static void settings_are_checked(void **state) {
    (void)state;
    static const char *const lines[][2] = {
        {"duo:share=1.5", "share"},   {"duo:share=-0.1", "share"}, {"duo:recent=0", "recent"},
        {"duo:recent=2.5", "recent"}, {"duo:start=-1", "start"},   {"duo:window=0", "window"},
        {"duo:heads=sum", "heads"},   {"duo:share=nan", "share"},  {"duo:start=1,start=2", "start"}};
    sac_attention_shape shape = {.n_layers = 3,
                                 .n_heads = 4,
                                 .n_kv_heads = 2,
                                 .head_dim = 16,
                                 .n_ctx = 10000,
                                 .fixed_rotation = false};
    for (size_t i = 0; i < SAC_COUNT(lines); i++) {
        sac_error err = {0};
        sac_decode d;
        assert_int_equal(sac_decode_open(&d, lines[i][0], &shape, &err), SAC_BAD_ARGUMENT);
        if (!strstr(err.text, lines[i][1])) fail_msg("%s: %s", lines[i][0], err.text);
        sac_decode_free(&d);
    }
    sac_error err = {0};
    sac_decode d;
    char text[200];
    assert_int_equal(sac_decode_open(&d, "duo:heads=model", &shape, &err), SAC_UNSUPPORTED);
    assert_non_null(strstr(err.text, "duo.safetensors"));
    sac_decode_free(&d);
    assert_ok(sac_decode_open(&d, "duo", &shape, &err), err); /* keys stay where they are */
    sac_decode_print(&d, text, sizeof text);
    assert_string_equal(text, "duo:start=64,recent=256,share=0.5,window=32,heads=auto");
    sac_decode_free(&d);
}

static void sessions_repeat(void **state) {
    (void)state;
    static told dense, t;
    told_as_dense("dense", "duo:share=0");
    told_as_dense("dense", "duo:recent=1000");
    told_as_dense("dense", "duo:recent=500"); /* longer than the prompt */
    told_again("dense", "duo:start=4,recent=40", &t);
    sac_model *m = told_model(2);
    sac_session_config c = told_config(NULL, NULL, NULL);
    tell(m, &c, &dense);
    assert_int_equal(t.kv_bytes, dense.kv_bytes);
    assert_true(memcmp(t.logits, dense.logits, sizeof t.logits) != 0);
    sac_model_free(m);
    told_again("dense", "duo:start=4,recent=40,share=1", &t);
    assert_true(t.layer.decode_rows == 44);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_equal_the_oracle),
        cmocka_unit_test(heads_that_look_far_keep_everything),
        cmocka_unit_test(the_model_ranks_heads),
        cmocka_unit_test(off_and_short_are_dense_bit_by_bit),
        cmocka_unit_test(retrieval_heads_are_dense),
        cmocka_unit_test(with_all_heads_it_is_streaming_bit_by_bit),
        cmocka_unit_test(sequences_rank_anew),
        cmocka_unit_test(settings_are_checked),
        cmocka_unit_test(sessions_repeat),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
