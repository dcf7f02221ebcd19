/* One pass over a layer's keys for the prefill and the decode policy: each chooses what it chooses alone, and
 * the window's queries are multiplied once. */
#include "method_session.h"
#include "method_test.h"
#include "window_sums.h"

enum { N = 150, N_CTX = 200, WINDOW = 24 };

static const int GROUPS[][2] = {{4, 4}, {4, 1}, {7, 1}, {8, 1}, {6, 2}};
static const char *const PREFILLS[] = {
    "zipvl:min=0,tau=0.8,recent=24,random=20", "zipvl:min=0,tau=0.7,recent=24,random=0",
    "zipvl:min=0,tau=0.8,recent=24,random=500", "minference:v=40,s=60,last_q=24"};
static const char SNAPKV[] = "snapkv:cap=60,window=24";

static int64_t n_observed;
static sac_status (*sums_op)(const sac_stream *stream, const sac_attention_sums_args *a);

static sac_status count_sums(const sac_stream *stream, const sac_attention_sums_args *a) {
    n_observed += a->probes ? a->n_probes : a->q.rows;
    return sums_op(stream, a);
}

/* What came of a prompt of N tokens. */
typedef struct outcome {
    float out[N * 8 * 16], kv[2 * N_CTX * 8 * 16];
    int32_t important[N];
    int64_t n_important, n_rows, n_observed;
} outcome;

static void run(layer_case *c, const char *prefill, const char *decode, sac_window_sums *shared, outcome *o) {
    memset(o, 0, sizeof *o);
    case_method(c, prefill, decode);
    memset(c->kv, 0, sizeof o->kv[0] * 2 * N_CTX * (size_t)(c->shape.n_kv_heads * c->shape.head_dim));
    c->window_sums = shared;
    if (shared) sac_window_sums_begin(shared);
    n_observed = 0;
    case_prompt(c, N);
    o->n_observed = n_observed;
    o->n_rows = c->n_rows;
    memcpy(o->out, c->out, (size_t)(N * c->shape.n_heads * c->shape.head_dim) * sizeof(float));
    sac_kv_view kv = case_view(c, c->n_rows);
    for (int h = 0; h < kv.n_heads; h++) /* rows that stayed, of each head */
        memcpy(o->kv + h * N_CTX * 16, (const float *)kv.k + h * kv.head_stride,
               (size_t)(c->n_rows * 16) * sizeof(float));
    sac_important important = sac_prefill_important(&c->prefill);
    o->n_important = important.n;
    if (important.rows) memcpy(o->important, important.rows, (size_t)important.n * sizeof *important.rows);
}

static void each_chooses_what_it_chooses_alone(void **state) {
    (void)state;
    static outcome alone, together, snapkv;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t i = 0; i < SAC_COUNT(PREFILLS); i++) {
            layer_case c;
            case_open(&c,
                      &(case_shape){.n_heads = GROUPS[g][0],
                                    .n_kv_heads = GROUPS[g][1],
                                    .head_dim = 16,
                                    .n_ctx = N_CTX,
                                    .use_cpu = i % 2 == 0},
                      7 + g);
            sums_op = c.ops.attention_sums;
            c.ops.attention_sums = count_sums;
            sac_window_sums shared = {0};
            run(&c, PREFILLS[i], "dense", NULL, &alone);
            run(&c, "dense", SNAPKV, NULL, &snapkv);
            assert_int_equal(snapkv.n_observed, WINDOW);
            case_method(&c, PREFILLS[i], SNAPKV);
            shared.window = sac_shared_window(&c.prefill, &c.decode, &c.shape);
            assert_int_equal(shared.window, WINDOW);
            sac_window_sums_take(&shared, &c.shape, c.prefill.policy->observes_diagonals, &c.arena);
            run(&c, PREFILLS[i], SNAPKV, &shared, &together);
            assert_int_equal(together.n_observed, alone.n_observed);
            assert_int_equal(together.n_important, alone.n_important);
            assert_memory_equal(together.important, alone.important, sizeof alone.important);
            assert_memory_equal(together.out, alone.out, sizeof alone.out);
            assert_int_equal(together.n_rows, 60);
            assert_memory_equal(together.kv, snapkv.kv, sizeof snapkv.kv);
            case_close(&c);
        }
}

static void what_cannot_be_shared(void **state) {
    (void)state;
    static const char *const pairs[][2] = {
        {"zipvl:min=0,recent=64", "snapkv:window=32,cap=60"},
        {"dense", "snapkv:window=32,cap=60"},
        {"zipvl:min=0,recent=0", "h2o"},
        {"minference:pattern=a_shape,v=10,s=10", "snapkv:cap=80,window=64"}};
    layer_case c;
    case_open(&c, &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = N_CTX}, 3);
    for (size_t i = 0; i < SAC_COUNT(pairs); i++) {
        case_method(&c, pairs[i][0], pairs[i][1]);
        assert_int_equal(sac_shared_window(&c.prefill, &c.decode, &c.shape), 0);
    }
    case_close(&c);
}

static void session_repeats_itself(void **state) {
    (void)state;
    static told t;
    told_again("zipvl:min=0,tau=0.9", "snapkv:cap=100,window=64", &t);
    assert_true(t.layer.prefill_kept < 0.999 && t.layer.decode_read < 0.9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_chooses_what_it_chooses_alone),
        cmocka_unit_test(what_cannot_be_shared),
        cmocka_unit_test(session_repeats_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
