/* InfLLM against a plain fp64 memory of blocks and attention at its two kinds of positions. */
#include "method_session.h"
#include "method_test.h"

/* Query heads, key-value heads, head size. */
static const int GROUPS[][3] = {{4, 4, 16}, {4, 1, 16}, {7, 1, 16}, {8, 1, 16},
                                {6, 2, 16}, {2, 1, 64}, {2, 1, 80}, {2, 1, 128}};

enum { MAX_HEADS = 8, MAX_TOKENS = 256, MAX_D = 128, MAX_BLOCKS = 64 };

typedef struct memory {
    int64_t init, local, block, topk, repr, chunk, probe;
    double received[MAX_HEADS][MAX_TOKENS];
    double key[MAX_BLOCKS][MAX_HEADS][MAX_D];
    int64_t n_blocks;
    /* Of each query: blocks there were, and which of them it sees. */
    int64_t n_seen_blocks[MAX_TOKENS];
    bool sees[MAX_TOKENS][MAX_BLOCKS];
} memory;

static void receive(const layer_case *c, memory *m, int64_t query) {
    if (query % m->probe) return;
    for (int h = 0; h < c->shape.n_heads; h++) {
        double w[MAX_TOKENS], sum = 0;
        int64_t low = query >= m->local ? query - m->local + 1 : 0;
        for (int64_t j = low; j <= query; j++) {
            w[j] = exp(case_dot(c, h, query, j, query, j) / sqrt(c->shape.head_dim));
            sum += w[j];
        }
        for (int64_t j = low; j <= query; j++) m->received[h][j] += w[j] / sum;
    }
}

static void make_block(const layer_case *c, memory *m) {
    int64_t first = m->init + m->n_blocks * m->block;
    const sac_attention_shape *s = &c->shape;
    for (int h = 0; h < s->n_heads; h++) {
        bool taken[MAX_TOKENS] = {false};
        double *key = m->key[m->n_blocks][h];
        memset(key, 0, sizeof m->key[0][0]);
        for (int64_t r = 0; r < m->repr; r++) {
            int64_t best = -1;
            for (int64_t j = first; j < first + m->block; j++)
                if (!taken[j] && (best < 0 || m->received[h][j] > m->received[h][best] + 1e-7)) best = j;
            taken[best] = true;
            const float *raw =
                c->raw_k + (best * s->n_kv_heads + h / (s->n_heads / s->n_kv_heads)) * s->head_dim;
            for (int i = 0; i < s->head_dim; i++) key[i] += (double)raw[i] / (double)m->repr;
        }
    }
    m->n_blocks++;
}

/* Blocks that queries [first, end) see. */
static void choose(const layer_case *c, memory *m, int64_t first, int64_t end) {
    double score[MAX_BLOCKS] = {0};
    for (int64_t t = first; t < end; t++)
        for (int h = 0; h < c->shape.n_heads; h++) {
            double q[MAX_D];
            case_rotate(c, c->raw_q + (t * c->shape.n_heads + h) * c->shape.head_dim, m->local - 1, q);
            for (int64_t b = 0; b < m->n_blocks; b++)
                for (int i = 0; i < c->shape.head_dim; i++)
                    score[b] += q[i] * m->key[b][h][i] / (double)(end - first);
        }
    for (int64_t b = 0; b < m->n_blocks; b++) {
        int64_t rank = 0;
        for (int64_t i = 0; i < m->n_blocks; i++)
            rank += score[i] > score[b] + 1e-6 || (score[i] > score[b] - 1e-6 && i < b);
        for (int64_t t = first; t < end; t++) m->sees[t][b] = rank < m->topk;
    }
    for (int64_t t = first; t < end; t++) m->n_seen_blocks[t] = m->n_blocks;
}

/* Chunks of a call's queries: those whose windows reach the beginning apart from the others. */
static void run_oracle(const layer_case *c, memory *m, int64_t first, int64_t n, int64_t chunk) {
    int64_t end = first + n;
    for (int64_t t = first; t < end;) {
        int64_t stop = t + chunk < end ? t + chunk : end;
        if (t < m->local && stop > m->local) stop = m->local;
        while (m->init + (m->n_blocks + 1) * m->block <= t - m->local) make_block(c, m);
        choose(c, m, t, stop);
        for (; t < stop; t++) receive(c, m, t);
    }
}

static bool is_seen(void *ctx, int h, int64_t query, int64_t key) {
    const memory *m = ctx;
    (void)h;
    if (key > query - m->local || key < m->init) return true;
    int64_t block = (key - m->init) / m->block;
    return block >= m->n_seen_blocks[query] || m->sees[query][block];
}
static void stand(void *ctx, int h, int64_t query, int64_t key, int64_t *query_at, int64_t *key_at) {
    const memory *m = ctx;
    (void)h;
    if (key > query - m->local) return;
    *query_at = m->local - 1;
    *key_at = 0;
}

static void expect(const layer_case *c, memory *m, int64_t first, int64_t n) {
    double want[MAX_HEADS * MAX_D];
    for (int64_t i = 0; i < n; i++) {
        case_oracle(c, first + i, is_seen, stand, m, want);
        case_expect(c, i, want, 2e-5);
    }
}

static void print_settings(const memory *m, char *line, size_t capacity) {
    snprintf(line, capacity, "infllm:init=%d,local=%d,block=%d,topk=%d,repr=%d,chunk=%d,probe=%d",
             (int)m->init, (int)m->local, (int)m->block, (int)m->topk, (int)m->repr, (int)m->chunk,
             (int)m->probe);
}

static void prompts_equal_the_oracle(void **state) {
    (void)state;
    static memory m;
    static const memory settings[] = {
        {.init = 5, .local = 30, .block = 8, .topk = 3, .repr = 2, .chunk = 13, .probe = 1},
        {.init = 0, .local = 17, .block = 6, .topk = 2, .repr = 2, .chunk = 17, .probe = 3},
        {.init = 40, .local = 20, .block = 5, .topk = 100, .repr = 1, .chunk = 50, .probe = 1},
    };
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++)
        for (size_t i = 0; i < SAC_COUNT(settings); i++) {
            layer_case c;
            char line[200];
            m = settings[i];
            print_settings(&m, line, sizeof line);
            case_open(&c,
                      &(case_shape){GROUPS[g][0], GROUPS[g][1], g == 1 ? 32 : GROUPS[g][2],
                                    .n_ctx = MAX_TOKENS, .use_cpu = g % 2},
                      g + 31);
            case_method(&c, line, "dense");
            case_prompt(&c, 201);
            run_oracle(&c, &m, 0, 201, m.chunk);
            expect(&c, &m, 0, 201);
            assert_true((m.n_blocks > m.topk) == (i < 2) && (c.stats.n_selections > 0) == (i < 2));
            double pairs = 0;
            for (int64_t q = 0; q < 201; q++)
                for (int64_t k = 0; k <= q; k++) pairs += is_seen(&m, 0, q, k);
            assert_true(c.stats.prefill_pairs == pairs * c.shape.n_heads);
            case_prompt(&c, 20); /* a second turn */
            run_oracle(&c, &m, 201, 20, m.chunk);
            expect(&c, &m, 201, 20);
            case_close(&c);
        }
}

static void steps_equal_the_oracle(void **state) {
    (void)state;
    static memory m;
    for (size_t g = 0; g < SAC_COUNT(GROUPS); g++) {
        layer_case c;
        char line[200];
        m = (memory){.init = 5, .local = 23, .block = 8, .topk = 3, .repr = 2, .chunk = 13, .probe = 1};
        print_settings(&m, line, sizeof line);
        case_open(
            &c,
            &(case_shape){GROUPS[g][0], GROUPS[g][1], GROUPS[g][2], .n_ctx = MAX_TOKENS, .use_cpu = g % 2},
            g + 1);
        case_method(&c, "dense", line);
        case_prompt(&c, 17);
        for (int64_t t = 0; t < 17; t += 13) /* a prompt learns by chunks, steps one by one */
            run_oracle(&c, &m, t, t + 13 < 17 ? 13 : 17 - t, 13);
        for (int step = 0; step < 120; step++) {
            case_step(&c);
            run_oracle(&c, &m, c.n - 1, 1, 1);
            expect(&c, &m, c.n - 1, 1);
        }
        assert_true(m.n_blocks > 2 * m.topk && c.stats.n_selections > 50);
        assert_true(c.stats.decode_rows < c.stats.decode_rows_dense);
        case_prompt(&c, 40);
        run_oracle(&c, &m, 137, 40, 13);
        case_step(&c);
        run_oracle(&c, &m, 177, 1, 1);
        expect(&c, &m, 177, 1);
        case_close(&c);
    }
}

static void run_all(layer_case *c, const char *line, float *outputs) {
    case_method(c, line, line);
    case_prompt(c, 70);
    memcpy(outputs, c->out, 70 * 96 * sizeof(float));
    for (size_t step = 0; step < 5; step++) {
        case_step(c);
        memcpy(outputs + (70 + step) * 96, c->out, 96 * sizeof(float));
    }
}

static void off_and_short_are_dense_bit_by_bit(void **state) {
    (void)state;
    static float dense[75 * 96], got[75 * 96];
    layer_case c;
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 100, .use_cpu = true}, 5);
    run_all(&c, "dense", dense);
    run_all(&c, "infllm:local=100", got);
    assert_true(c.decode.policy == &sac_decode_dense && c.prefill.policy == &sac_prefill_dense);
    assert_memory_equal(got, dense, sizeof got);
    run_all(&c, "infllm:local=75,chunk=9,block=8", got);
    assert_true(c.decode.policy != &sac_decode_dense && c.prefill.policy != &sac_prefill_dense);
    assert_memory_equal(got, dense, sizeof got);
    assert_true(c.stats.decode_rows == c.stats.decode_rows_dense);
    case_close(&c);
}

/* Later tokens change nothing for the chunks before them. */
static void later_tokens_change_no_earlier_output(void **state) {
    (void)state;
    layer_case c;
    static float first[82 * 96];
    const char *line = "infllm:init=3,local=30,block=8,topk=2,chunk=13";
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 160, .use_cpu = true}, 3);
    case_method(&c, line, "dense");
    case_prompt(&c, 82); /* 30 and four chunks */
    memcpy(first, c.out, sizeof first);
    case_method(&c, line, "dense");
    case_prompt(&c, 150);
    for (size_t i = 0; i < 82 * 96; i++) assert_true(fabsf(c.out[i] - first[i]) < 1e-6f);
    case_close(&c);
}

static void a_new_sequence_remembers_nothing(void **state) {
    (void)state;
    layer_case c;
    static float fresh[150 * 96];
    const char *line = "infllm:init=3,local=30,block=8,topk=2,chunk=13";
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 160}, 3);
    case_method(&c, line, line);
    case_prompt(&c, 150);
    memcpy(fresh, c.out, sizeof fresh);
    for (int64_t i = 0; i < 150 * 96; i++) c.raw_q[i] = -c.raw_q[i];
    for (int again = 0; again < 2; again++) {
        c.prefill.policy->begin(c.prefill.state);
        c.decode.policy->begin(c.decode.state);
        c.n = c.n_rows = 0;
        case_prompt(&c, 150);
        for (int64_t i = 0; i < 150 * 96; i++) c.raw_q[i] = -c.raw_q[i];
    }
    assert_memory_equal(c.out, fresh, sizeof fresh);
    case_close(&c);
}

/* Prompts around an answer that another method wrote; the second one's outputs. */
static void run_around_an_answer(layer_case *c, float *outputs) {
    c->prefill.policy->begin(c->prefill.state);
    c->n = c->n_rows = 0;
    case_prompt(c, 60);
    for (int step = 0; step < 30; step++) case_step(c);
    case_prompt(c, 60);
    memcpy(outputs, c->out, 60 * 96 * sizeof *outputs);
}

/* Rows of the answer have received nothing, whatever an earlier sequence left in their place. */
static void another_methods_answer_has_received_nothing(void **state) {
    (void)state;
    layer_case c;
    static float fresh[60 * 96], again[60 * 96];
    case_open(&c, &(case_shape){6, 2, 16, .n_ctx = 160}, 3);
    case_method(&c, "infllm:init=3,local=30,block=8,topk=2,chunk=13", "dense");
    run_around_an_answer(&c, fresh);
    c.n = c.n_rows = 0;
    c.prefill.policy->begin(c.prefill.state);
    case_prompt(&c, 150);
    run_around_an_answer(&c, again);
    assert_memory_equal(again, fresh, sizeof fresh);
    case_close(&c);
}

static void senseless_settings_are_refused(void **state) {
    (void)state;
    sac_attention_shape shape = {
        .n_layers = 1, .n_heads = 4, .n_kv_heads = 2, .head_dim = 16, .n_ctx = 10000, .max_position = 1000};
    sac_error err = {0};
    sac_decode d;
    assert_int_equal(sac_decode_open(&d, "infllm", &shape, &err), SAC_UNSUPPORTED);
    shape.fixed_rotation = true;
    assert_int_equal(sac_decode_open(&d, "infllm:local=1001", &shape, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "trained on"));
    assert_int_equal(sac_decode_open(&d, "infllm:local=1000,repr=9,block=8", &shape, &err), SAC_BAD_ARGUMENT);
    assert_non_null(strstr(err.text, "repr <= block"));
}

static void the_demo_model_answers_alike(void **state) {
    (void)state;
    static told t;
    told_as_dense("infllm:local=1000", "infllm");
    told_as_dense("infllm:local=500", "infllm:local=500");
    const char *line = "infllm:init=4,local=64,block=16,topk=4,chunk=64";
    told_again(line, line, &t);
    assert_true(t.layer.prefill_work < 1 && t.layer.decode_read < 1 && t.layer.selections > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_equal_the_oracle),
        cmocka_unit_test(steps_equal_the_oracle),
        cmocka_unit_test(off_and_short_are_dense_bit_by_bit),
        cmocka_unit_test(later_tokens_change_no_earlier_output),
        cmocka_unit_test(a_new_sequence_remembers_nothing),
        cmocka_unit_test(another_methods_answer_has_received_nothing),
        cmocka_unit_test(senseless_settings_are_refused),
        cmocka_unit_test(the_demo_model_answers_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
