/* Experts: a row's bits are those that it has alone, and answers of a model with experts do not depend on what runs
 * beside them, whatever the method. */
#include "cpu_flags.h"
#include "experts.h"
#include "step_test.h"

#include <stdlib.h>

/* ---------------------------------------------------------------- rows */

enum { HIDDEN = 24, N_EXPERTS = 7, N_USED = 3, WIDTH = 19, ROWS = 50 };

static const sac_expert_shape
    softmax = {.n = N_EXPERTS, .n_used = N_USED, .intermediate = WIDTH, .normed = true},
    sigmoid = {.n = N_EXPERTS, .n_used = N_USED, .intermediate = WIDTH, .sigmoid = true, .factor = 1.5f};
static const float bias[N_EXPERTS] = {0.2f, -0.1f, 0, 0.05f, -0.3f, 0.1f, 0};
static uint16_t numbers[N_EXPERTS * (3 * WIDTH + 1) * HIDDEN];
static float input[ROWS * HIDDEN];

/* A matrix of the next numbers, in bf16. */
static sac_weight matrix(const uint16_t **at, int64_t rows, int64_t cols) {
    const sac_weight w = sac_weight_of((sac_tensor){*at, SAC_DTYPE_BF16, 2, {rows, cols}});
    *at += rows * cols;
    return w;
}

static void draw(void) {
    uint32_t x = 1;
    for (size_t i = 0; i < SAC_COUNT(numbers) + SAC_COUNT(input); i++) {
        x = x * 1664525u + 1013904223u;
        const float f = (float)(x >> 8) * 0x1p-23f - 1;
        if (i < SAC_COUNT(numbers))
            numbers[i] = sac_f32_to_bf16(f);
        else
            input[i - SAC_COUNT(numbers)] = f;
    }
}

/* All rows, so many at a time, with so many threads. */
static void run(const sac_expert_shape *shape, float *out, int64_t at_once, int n_threads) {
    const uint16_t *at = numbers;
    sac_expert experts[N_EXPERTS];
    const sac_weight router = matrix(&at, N_EXPERTS, HIDDEN);
    for (int e = 0; e < N_EXPERTS; e++) {
        experts[e].gate = matrix(&at, WIDTH, HIDDEN);
        experts[e].up = matrix(&at, WIDTH, HIDDEN);
        experts[e].down = matrix(&at, HIDDEN, WIDTH);
    }
    sac_error err;
    sac_pool *pool;
    sac_arena arena;
    sac_stream stream;
    sac_ops ops;
    sac_ops_init_cpu(&ops, sac_cpu_flags());
    const size_t scratch = ops.linear_scratch_bytes(ROWS, HIDDEN) + 64;
    assert_ok(sac_pool_create(&pool, n_threads, &err), err);
    sac_arena measure = sac_arena_measure();
    sac_expert_rows_take(shape, HIDDEN, ROWS, SAC_DTYPE_F32, &measure);
    assert_ok(sac_arena_open(&arena, measure.used_bytes + sac_stream_bytes(n_threads, scratch), &err), err);
    const sac_expert_rows rows = sac_expert_rows_take(shape, HIDDEN, ROWS, SAC_DTYPE_F32, &arena);
    assert_ok(sac_stream_init(&stream, pool, &arena, scratch, &err), err);
    memcpy(out, input, sizeof input);
    for (int64_t i = 0, n; i < ROWS; i += n) {
        n = ROWS - i < at_once ? ROWS - i : at_once;
        const sac_mat x = sac_mat_f32(out + i * HIDDEN, n, HIDDEN); /* in place */
        const sac_experts_call call = {.ops = &ops,
                                       .stream = &stream,
                                       .shape = shape,
                                       .rows = &rows,
                                       .router = &router,
                                       .router_bias = shape->sigmoid ? bias : NULL,
                                       .experts = experts,
                                       .y = x,
                                       .x = x,
                                       .accumulate = true};
        assert_int_equal(sac_experts_run(&call), SAC_OK);
    }
    sac_arena_free(&arena);
    sac_pool_free(pool);
}

static void rows_do_not_depend_on_one_another(void **state) {
    (void)state;
    static float first[ROWS * HIDDEN], alone[ROWS * HIDDEN], together[ROWS * HIDDEN];
    static const int64_t at_once[] = {2, 7, 8, 9, 31, ROWS};
    draw();
    memcpy(first, input, sizeof input);
    for (int k = 0; k < 2; k++) {
        const sac_expert_shape *shape = k ? &sigmoid : &softmax;
        run(shape, alone, 1, 1);
        assert_memory_not_equal(alone, input, sizeof input);
        assert_memory_not_equal(alone, first, sizeof first);
        memcpy(first, alone, sizeof first);
        for (size_t i = 0; i < SAC_COUNT(at_once); i++)
            for (int n_threads = 1; n_threads <= 3; n_threads++) {
                run(shape, together, at_once[i], n_threads);
                assert_memory_equal(alone, together, sizeof alone);
            }
    }
}

/* ---------------------------------------------------------------- answers */

typedef struct guest {
    const char *prefill, *decode, *kv;
} guest;
static const guest guests[] = {
    {NULL, NULL, "f32"},
    {NULL, NULL, "bf16"},
    {"zipvl:min=0", NULL, NULL},
    {NULL, "tokenselect:k=32", NULL},
    {NULL, "twilight", NULL},
    {NULL, "quest:budget=32", NULL},
    {NULL, "h2o", NULL},
    {NULL, NULL, "mixed"},
    {NULL, NULL, "kivi:group=16,residual=16"},
};
enum { N_GUESTS = (int)SAC_COUNT(guests) };
static const char *const questions[] = {"Say something about owls, and about the mouse that saw them.",
                                        "Was it there?",
                                        "the owl and the mouse saw that this one was on the wire."};

static sac_sampling sampling(void) {
    sac_sampling o = step_sampling(24);
    o.ignore_eos = true;
    o.logprobs = true;
    return o;
}

/* All at once in a batch, then each in a session of its own. */
static void answers_together_are_those_alone(void **state) {
    static heard alone, together[N_GUESTS];
    sac_session *sessions[N_GUESTS];
    sac_batch_item items[N_GUESTS];
    sac_events events[N_GUESTS];
    sac_model *m;
    sac_batch *b;
    sac_error err;
    asked q;
    const sac_sampling o = sampling();
    assert_ok(sac_model_open(&m, *state, NULL, &err), err);
    assert_ok(sac_batch_create(&b, m, N_GUESTS, &err), err);
    for (int i = 0; i < N_GUESTS; i++) {
        sessions[i] = step_session(m, guests[i].prefill, guests[i].decode, guests[i].kv, 256);
        events[i] = hear(&together[i]);
        items[i] = (sac_batch_item){.session = sessions[i], .events = &events[i]};
        assert_ok(
            sac_session_begin(sessions[i], ask_about(&q, NULL, 0, questions[i % 3]), 1, &o, &events[i], &err),
            err);
    }
    for (int n_done = 0; n_done < N_GUESTS;) {
        n_done = 0;
        assert_ok(sac_batch_step(b, items, N_GUESTS, &err), err);
        for (int i = 0; i < N_GUESTS; i++) n_done += items[i].done;
    }
    for (int i = 0; i < N_GUESTS; i++) {
        sac_result r;
        assert_ok(items[i].status, items[i].error);
        sac_session_end(sessions[i], &r);
        hear_end(&together[i], sessions[i], m, &r);
        sac_session_free(sessions[i]);
        sac_session *s = step_session(m, guests[i].prefill, guests[i].decode, guests[i].kv, 256);
        hear_alone(&alone, m, s, ask_about(&q, NULL, 0, questions[i % 3]), &o);
        heard_equal(&alone, &together[i]);
        sac_session_free(s);
    }
    sac_batch_free(b);
    sac_model_free(m);
}

/* A session that holds the beginning of a question answers as a fresh one. */
static void kept_beginnings_change_nothing(void **state) {
    static heard first, again, fresh;
    sac_model *m;
    sac_error err;
    asked q;
    const sac_sampling o = sampling();
    assert_ok(sac_model_open(&m, *state, NULL, &err), err);
    sac_session *s = step_session(m, NULL, NULL, "f32", 256),
                *other = step_session(m, NULL, NULL, "f32", 256);
    hear_alone(&first, m, s, ask_about(&q, NULL, 0, questions[0]), &o);
    hear_alone(&again, m, s, ask_about(&q, NULL, 0, "Say something about owls, and about me."), &o);
    hear_alone(&fresh, m, other, ask_about(&q, NULL, 0, "Say something about owls, and about me."), &o);
    assert_true(again.n_reused > 10);
    assert_string_equal(again.text, fresh.text);
    sac_session_free(s);
    sac_session_free(other);
    sac_model_free(m);
}

#define OF_MODEL(test, path)                                                                                 \
    { #test " " path, test, NULL, NULL, path }
int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_do_not_depend_on_one_another),
        OF_MODEL(answers_together_are_those_alone, "tests/golden/models/qwen3_moe"),
        OF_MODEL(kept_beginnings_change_nothing, "tests/golden/models/qwen3_moe"),
        OF_MODEL(answers_together_are_those_alone, "tests/golden/models/olmoe"),
        OF_MODEL(answers_together_are_those_alone, "tests/golden/models/granitemoe"),
        OF_MODEL(answers_together_are_those_alone, "tests/golden/models/granitemoeshared"),
        OF_MODEL(answers_together_are_those_alone, "tests/golden/models/glm4_moe"),
        OF_MODEL(kept_beginnings_change_nothing, "tests/golden/models/glm4_moe"),
        OF_MODEL(answers_together_are_those_alone, "tests/golden/models/qwen3_5_moe_text"),
        OF_MODEL(answers_together_are_those_alone, "tests/golden/models/deepseek_v3"),
        OF_MODEL(kept_beginnings_change_nothing, "tests/golden/models/deepseek_v3"),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
