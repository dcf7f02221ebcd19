/* FastV: which visual tokens stay against an fp64 ranking; what later layers see; whole sessions. */
#include "method_session.h"
#include "method_test.h"
#include "part.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

enum { MAX_TOKENS = 128, MAX_HEADS = 8, MAX_COLS = 2 * 128 };

static bool is_visual(const layer_case *c, int64_t i) {
    for (int s = 0; s < c->n_visual; s++)
        if (i >= c->visual[s].first && i < c->visual[s].first + c->visual[s].n) return true;
    return false;
}

/* Which of tokens [first, n) stay when n_best visual ones may; earlier tokens all do. */
static void rank(const layer_case *c, int64_t first, int64_t n, bool by_all, int64_t n_best, bool *stays) {
    double given[MAX_TOKENS] = {0}, w[MAX_TOKENS];
    for (int h = 0; h < c->shape.n_heads; h++)
        for (int64_t query = by_all ? first : n - 1; query < n; query++) {
            double sum = 0;
            for (int64_t key = 0; key <= query; key++)
                sum += w[key] = exp(case_dot(c, h, query, key, query, key) / sqrt(c->shape.head_dim));
            for (int64_t key = 0; key <= query; key++) given[key] += w[key] / sum;
        }
    for (int64_t i = 0; i < n; i++) stays[i] = i < first || !is_visual(c, i);
    for (int64_t k = 0; k < n_best; k++) {
        int64_t best = -1;
        for (int64_t i = first; i < n; i++)
            if (!stays[i] && (best < 0 || given[i] > given[best])) best = i;
        stays[best] = true;
    }
    stays[n - 1] = true;
}

static bool both_stay(void *ctx, int h, int64_t query, int64_t key) {
    const bool *stays = ctx;
    (void)h;
    return stays[query] && stays[key];
}

/* A prompt of n tokens in one layer, without moving on: the same tokens meet the next layer. */
static sac_layer_attention run_layer(layer_case *c, int layer, int64_t n) {
    c->layer = layer;
    sac_layer_attention a = case_tokens(c, n);
    assert_int_equal(sac_prefill_attend(&c->prefill, &a), SAC_OK);
    c->out = c->q;
    return a;
}

static void expect_kept(const layer_case *c, const sac_layer_attention *a, const bool *stays, int64_t first,
                        int64_t n) {
    int64_t n_kept, at = 0;
    const int32_t *kept = c->prefill.policy->keep(c->prefill.state, a, &n_kept);
    assert_non_null(kept);
    for (int64_t i = first; i < n; i++)
        if (stays[i]) {
            assert_true(at < n_kept);
            assert_int_equal(kept[at++], i - first);
        }
    assert_int_equal(at, n_kept);
}

static const sac_visual_span SPANS[] = {{3, 21}, {30, 26}, {70, 19}};

static void set_spans(layer_case *c, int n) {
    c->n_visual = n;
    memcpy(c->visual, SPANS, sizeof SPANS);
}

static void the_last_query_ranks_visual_tokens(void **state) {
    (void)state;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (int by_all = 0; by_all < 2; by_all++) {
            layer_case c;
            bool stays[MAX_TOKENS];
            double want[MAX_COLS];
            case_open(&c,
                      &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 120, .n_layers = 5,
                                    .use_cpu = g % 2 == 0},
                      g + 1);
            set_spans(&c, 3);
            case_method(&c, by_all ? "fastv:ratio=0.7,query=all" : "fastv:ratio=0.7", "dense");
            run_layer(&c, 0, 61);
            sac_layer_attention a = run_layer(&c, 1, 61);
            case_oracle(&c, 60, NULL, NULL, NULL, want);
            case_expect(&c, 60, want, 3e-6);
            rank(&c, 0, 61, by_all, 14, stays); /* 0.3 x 47 = 14.1 */
            expect_kept(&c, &a, stays, 0, 61);
            a = run_layer(&c, 2, 61); /* only once */
            int64_t n;
            assert_null(c.prefill.policy->keep(c.prefill.state, &a, &n));
            c.n = c.n_rows = 61; /* a second turn: its own picture only, and it ends in one */
            run_layer(&c, 0, 28);
            a = run_layer(&c, 1, 28);
            rank(&c, 61, 89, by_all, 6, stays);
            expect_kept(&c, &a, stays, 61, 89);
            case_close(&c);
        }
}

/* All visual tokens go: text goes on, and the last token, be it visual. */
static void a_ratio_of_one_leaves_text(void **state) {
    (void)state;
    for (int64_t n = 55; n <= 61; n += 6) { /* within the second picture, and after it */
        layer_case c;
        int64_t n_kept, at = 0;
        case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 120, .n_layers = 5, .use_cpu = true}, 8);
        set_spans(&c, 3);
        case_method(&c, "fastv:ratio=1", "dense");
        run_layer(&c, 0, n);
        sac_layer_attention a = run_layer(&c, 1, n);
        const int32_t *kept = c.prefill.policy->keep(c.prefill.state, &a, &n_kept);
        assert_non_null(kept);
        for (int64_t i = 0; i < n; i++)
            if (!is_visual(&c, i) || i == n - 1) {
                assert_true(at < n_kept);
                assert_int_equal(kept[at++], i);
            }
        assert_int_equal(at, n_kept);
        case_close(&c);
    }
}

static void attention_only_leaves_the_rest_at_zero(void **state) {
    (void)state;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++) {
        layer_case c;
        bool stays[MAX_TOKENS];
        double want[MAX_COLS];
        case_open(&c,
                  &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = 120, .n_layers = 5,
                                .use_cpu = true},
                  g + 1);
        set_spans(&c, 2);
        case_method(&c, "fastv:layer=3,ratio=0.5,mode=attn", "dense");
        for (int layer = 0; layer < 3; layer++) run_layer(&c, layer, 61);
        rank(&c, 0, 61, false, 24, stays); /* 23.5, to even */
        c.stats = (sac_layer_stats){0};
        sac_layer_attention a = run_layer(&c, 3, 61);
        for (int64_t q = 0; q < 61; q++) {
            case_oracle(&c, q, both_stay, NULL, stays, want);
            case_expect(&c, q, want, 3e-6);
        }
        double n = 14 + 24;
        assert_true(c.stats.prefill_kept == n && c.stats.prefill_tokens == 61);
        assert_true(c.stats.prefill_pairs == n * (n + 1) / 2 * GROUPS[g][0]);
        assert_null(c.prefill.policy->keep(c.prefill.state, &a, &(int64_t){0}));
        case_close(&c);
    }
}

/* A turn without new pictures, after one with: all earlier rows are met. */
static void turns_without_pictures_are_dense(void **state) {
    (void)state;
    layer_case c;
    double want[MAX_COLS];
    case_open(&c, &(case_shape){4, 2, 16, .n_ctx = 120, .n_layers = 5, .use_cpu = true}, 3);
    set_spans(&c, 2);
    case_method(&c, "fastv:mode=attn", "dense");
    for (int layer = 0; layer < 3; layer++) run_layer(&c, layer, 61);
    c.n = c.n_rows = 61;
    for (int layer = 0; layer < 3; layer++) run_layer(&c, layer, 9);
    case_oracle(&c, 69, NULL, NULL, NULL, want);
    case_expect(&c, 8, want, 3e-6);
    case_close(&c);
}

/* What drops out of attention must not matter to what stays: dropping tokens and leaving them out of
 * attention give the prompt's last token the same logits. */
static void dropping_equals_leaving_out(void **state) {
    (void)state;
    sac_model *m = told_model(2);
    sac_model_info info;
    sac_model_get_info(m, &info);
    float logits[3][1024];
    static const char *const lines[] = {"fastv:ratio=0.6", "fastv:ratio=0.6,mode=attn", "dense"};
    for (int i = 0; i < 3; i++) {
        sac_session_config config = told_config(lines[i], NULL, "f32");
        sac_error err;
        sac_session *s;
        sac_part parts[] = {{.kind = SAC_PART_VIDEO, .path = "samples/video0000_16.mp4"},
                            {.kind = SAC_PART_TEXT, .text = "How many numbers appear?"}};
        parts[0].video.num_frames = TOLD_FRAMES;
        sac_message message = {"user", parts, 2, NULL};
        assert_ok(sac_session_create(&s, m, &config, &err), err);
        assert_ok(sac_session_prefill(s, &message, 1, NULL, &err), err);
        memcpy(logits[i], sac_session_logits(s), (size_t)info.vocab * sizeof(float));
        sac_session_free(s);
    }
    double worst = 0, changed = 0;
    for (int i = 0; i < info.vocab; i++) {
        worst = fmax(worst, fabs((double)(logits[0][i] - logits[1][i])));
        changed = fmax(changed, fabs((double)(logits[0][i] - logits[2][i])));
    }
    assert_true(worst < 1e-3 && changed > 100 * worst);
    sac_model_free(m);
}

static void sessions_hold_fewer_rows_and_repeat(void **state) {
    (void)state;
    static told dense, t;
    sac_model *m = told_model(2);
    sac_model_info info;
    sac_model_get_info(m, &info);
    told_as_dense("fastv:ratio=0", NULL);
    told_as_dense("fastv:layer=9", NULL);
    sac_session_config c = told_config(NULL, NULL, NULL);
    tell(m, &c, &dense);
    told_again("fastv", NULL, &t);
    size_t row_bytes = 2 * (size_t)info.n_kv_heads * (size_t)info.head_dim * 2;
    size_t n_dropped = TOLD_FRAMES * (size_t)info.tokens_per_frame / 2;
    assert_int_equal(dense.kv_bytes - t.kv_bytes, (size_t)(info.n_layers - 2) * n_dropped * row_bytes);
    assert_true(t.layer.decode_read < 0.7 && t.layer.prefill_kept < 0.7);
    told_again("fastv", "h2o", &t); /* what is left of the prompt shrinks again */
    assert_true(t.kv_bytes < dense.kv_bytes / 4);
    told_again("fastv", "snapkv:cap=60", &t);
    assert_true(t.kv_bytes < dense.kv_bytes / 2);
    told_again("fastv:mode=attn,ratio=1", NULL, &t);
    assert_int_equal(dense.kv_bytes, t.kv_bytes);
    sac_model_free(m);
}

/* Room on a device for a part of a prompt: in the type of its queries. */
static void a_part_of_halves_takes_half(void **state) {
    static const sac_device device = {.kind = SAC_DEVICE_CUDA};
    static const sac_dtype types[] = {SAC_DTYPE_F32, SAC_DTYPE_BF16};
    size_t n_bytes[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        sac_attention_shape shape = {.n_heads = 8,
                                     .n_kv_heads = 2,
                                     .head_dim = 64,
                                     .n_ctx = 100,
                                     .device = &device,
                                     .dtype = types[i]};
        sac_arena here = sac_arena_measure(), there = sac_arena_measure();
        sac_part_scratch_take(&(sac_part_scratch){.q = NULL}, &shape, &(sac_memory){&here, &there});
        n_bytes[i] = there.used_bytes;
    }
    assert_int_equal(n_bytes[0] - n_bytes[1], 100 * (8 + 2 + 2) * 64 * 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_query_ranks_visual_tokens),
        cmocka_unit_test(a_ratio_of_one_leaves_text),
        cmocka_unit_test(attention_only_leaves_the_rest_at_zero),
        cmocka_unit_test(turns_without_pictures_are_dense),
        cmocka_unit_test(dropping_equals_leaving_out),
        cmocka_unit_test(sessions_hold_fewer_rows_and_repeat),
        cmocka_unit_test(a_part_of_halves_takes_half),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
