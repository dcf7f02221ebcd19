/* method_test.h - one layer of attention with random numbers, for tests of methods: a prompt, then steps,
 * driven as the decoder drives them, beside a plain fp64 attention over whatever rows and positions a test
 * says.
 *
 *   layer_case c;
 *   case_open(&c, &(case_shape){.n_heads = 4, .n_kv_heads = 2, .head_dim = 8, .n_ctx = 64}, 1);
 *   case_method(&c, "zipvl:tau=0.9", "dense");
 *   case_prompt(&c, 40);     the policies run; outputs in c.out, [40][n_heads * head_dim]
 *   case_step(&c);           one token more; output in c.out, [1][..]
 *   case_oracle(&c, query, visible, NULL, want);
 *   case_close(&c);
 *
 * Raw (unrotated) queries, keys and values of every token are kept, so an oracle may use any positions. */
#ifndef SAC_METHOD_TEST_H
#define SAC_METHOD_TEST_H

#include "cpu_flags.h"
#include "kvquant.h"
#include "measure.h"
#include "test.h"

#include <math.h>

typedef struct case_shape {
    int n_heads, n_kv_heads, head_dim;
    int64_t n_ctx, chunk, max_position, window;
    int n_layers, layer; /* 1, 0 when not given */
    bool use_cpu;        /* the fast ops and two threads; otherwise the reference */
    bool as_device;      /* methods take the way they take on a device, whose memory is the host's */
    bool measure_mass;
} case_shape;

typedef struct layer_case {
    sac_attention_shape shape;
    sac_device device;
    int layer;
    sac_pool *pool;
    sac_arena arena, method_arena;
    sac_stream stream;
    sac_ops ops;
    sac_rotation rotation;
    float *cos_sin;
    uint64_t random;
    float *raw_q, *raw_k, *raw_v; /* [n_ctx][heads * head_dim] before rope */
    float *q;                     /* [n_ctx][n_heads * head_dim] work: queries, then outputs */
    float *out;                   /* outputs of the last call: q of its first row */
    uint8_t *kv;                  /* K [n_kv_heads][n_ctx][head_dim], then V */
    int32_t *position;            /* [n_ctx] */
    int64_t n, n_rows;            /* tokens seen; rows the layer holds */
    sac_prefill prefill;
    sac_decode decode;
    sac_layer_stats stats;
    sac_mass mass;
    sac_visual_span visual[4];
    int n_visual;
    sac_kept_observer observer;
    sac_window_sums *window_sums; /* shared by the policies, when a test gives it */
    /* As a decoder whose method picks queries: they are in `made` [n_ctx][n_heads * head_dim], where ops
     * read, and q holds nothing until the method asks. NULL: they are in q. */
    float *made;
    const sac_ops *make_ops; /* NULL: ops */
    int64_t n_made;          /* queries asked for */
    sac_attended attended;
} layer_case;

static inline float *case_floats(layer_case *c, int64_t n) {
    float *p = sac_arena_take(&c->arena, (size_t)n * sizeof(float));
    assert_non_null(p);
    return p;
}

static inline sac_status case_move(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    (void)s;
    memcpy(to, from, n_bytes);
    return SAC_OK;
}
static inline sac_status case_sync(const sac_stream *s, sac_error *err) {
    (void)s;
    (void)err;
    return SAC_OK;
}

static inline void case_open(layer_case *c, const case_shape *s, uint64_t seed) {
    sac_error err;
    *c = (layer_case){.layer = s->layer, .random = seed};
    c->shape = (sac_attention_shape){.n_layers = s->n_layers ? s->n_layers : 1,
                                     .n_heads = s->n_heads,
                                     .n_kv_heads = s->n_kv_heads,
                                     .head_dim = s->head_dim,
                                     .hidden = s->n_heads * s->head_dim,
                                     .n_ctx = s->n_ctx,
                                     .chunk = s->chunk ? s->chunk : s->n_ctx,
                                     .max_position = s->max_position ? s->max_position : 1 << 20,
                                     .window = s->window,
                                     .measure_mass = s->measure_mass,
                                     .fixed_rotation = true};
    c->device = (sac_device){.kind = SAC_DEVICE_CUDA, .upload = case_move, .download = case_move, .stream_sync = case_sync};
    if (s->as_device) c->shape.device = &c->device;
    assert_ok(sac_pool_create(&c->pool, s->use_cpu ? 2 : 1, &err), err);
    assert_ok(sac_arena_open(&c->arena, (size_t)1 << 28, &err), err);
    assert_ok(sac_stream_init(&c->stream, c->pool, &c->arena, 1 << 22, &err), err);
    if (s->use_cpu)
        sac_ops_init_cpu(&c->ops, sac_cpu_flags());
    else
        sac_ops_init_ref(&c->ops);
    int64_t n = s->n_ctx, q_cols = (int64_t)s->n_heads * s->head_dim,
            kv_cols = (int64_t)s->n_kv_heads * s->head_dim;
    c->raw_q = case_floats(c, n * q_cols);
    c->raw_k = case_floats(c, n * kv_cols);
    c->raw_v = case_floats(c, n * kv_cols);
    c->q = case_floats(c, n * q_cols);
    c->cos_sin = case_floats(c, n * s->head_dim);
    sac_mass_take(&c->mass, &c->shape, &(sac_memory){&c->arena, &c->arena});
    c->kv = sac_arena_take(&c->arena, 2 * (size_t)n * (size_t)kv_cols * sizeof(float));
    c->position = sac_arena_take(&c->arena, (size_t)n * sizeof(int32_t));
    for (int64_t i = 0; i < n * q_cols; i++) c->raw_q[i] = 2 * test_rand_float(&c->random);
    for (int64_t i = 0; i < n * kv_cols; i++) c->raw_k[i] = 2 * test_rand_float(&c->random);
    for (int64_t i = 0; i < n * kv_cols; i++) c->raw_v[i] = test_rand_float(&c->random);
    for (int64_t p = 0; p < n; p++)
        for (int i = 0; i < s->head_dim / 2; i++) {
            double angle = (double)p * pow(100.0, -2.0 * i / s->head_dim);
            c->cos_sin[p * s->head_dim + 2 * i] = (float)cos(angle);
            c->cos_sin[p * s->head_dim + 2 * i + 1] = (float)sin(angle);
        }
    for (int64_t p = 0; p < n; p++) c->position[p] = (int32_t)p;
    c->rotation = (sac_rotation){c->cos_sin, s->head_dim, false, 1};
}

static inline void case_free_methods(layer_case *c) {
    if (c->prefill.policy) sac_prefill_free(&c->prefill);
    if (c->decode.policy) sac_decode_free(&c->decode);
    sac_arena_free(&c->method_arena);
}

/* Policies by their lines; forgets what was run. */
static inline void case_method(layer_case *c, const char *prefill, const char *decode) {
    sac_error err = {0};
    case_free_methods(c);
    assert_ok(sac_prefill_open(&c->prefill, prefill, &c->shape, &err), err);
    assert_ok(sac_decode_open(&c->decode, decode, &c->shape, &err), err);
    sac_arena plan = sac_arena_measure();
    sac_memory memory = {&plan, &plan};
    sac_prefill_take(&c->prefill, &c->shape, &memory);
    sac_decode_take(&c->decode, &c->shape, &memory);
    assert_ok(sac_arena_open(&c->method_arena, plan.used_bytes, &err), err);
    memory = (sac_memory){&c->method_arena, &c->method_arena};
    sac_prefill_take(&c->prefill, &c->shape, &memory);
    sac_decode_take(&c->decode, &c->shape, &memory);
    assert_int_equal(c->method_arena.used_bytes, plan.used_bytes);
    if (c->prefill.policy->begin) c->prefill.policy->begin(c->prefill.state);
    sac_decode_begin(&c->decode);
    c->n = c->n_rows = 0;
    c->stats = (sac_layer_stats){0};
}

static inline void case_close(layer_case *c) {
    case_free_methods(c);
    sac_arena_free(&c->arena);
    sac_pool_free(c->pool);
}

static inline sac_kv_view case_view(const layer_case *c, int64_t n_rows) {
    int64_t d = c->shape.head_dim;
    return (sac_kv_view){.k = c->kv,
                         .v = c->kv +
                              (size_t)c->shape.n_ctx * (size_t)(c->shape.n_kv_heads * d) * sizeof(float),
                         .dtype = SAC_DTYPE_F32,
                         .n_heads = c->shape.n_kv_heads,
                         .head_dim = c->shape.head_dim,
                         .n_rows = n_rows,
                         .row_stride = d,
                         .head_stride = c->shape.n_ctx * d};
}

/* Tokens [c->n, c->n + n) rotated and stored, as the decoder's projection leaves them. */
static inline sac_layer_attention case_tokens(layer_case *c, int64_t n) {
    const sac_attention_shape *s = &c->shape;
    int64_t q_cols = (int64_t)s->n_heads * s->head_dim, kv_cols = (int64_t)s->n_kv_heads * s->head_dim;
    assert_true(c->n + n <= s->n_ctx);
    sac_mat q = sac_mat_f32(c->q, n, q_cols);
    memcpy(c->q, c->raw_q + c->n * q_cols, (size_t)(n * q_cols) * sizeof(float));
    float *k = malloc((size_t)(n * kv_cols) * sizeof(float));
    memcpy(k, c->raw_k + c->n * kv_cols, (size_t)(n * kv_cols) * sizeof(float));
    const int32_t *position = c->position + c->n;
    sac_mat km = sac_mat_f32(k, n, kv_cols), vm = sac_mat_f32(c->raw_v + c->n * kv_cols, n, kv_cols);
    c->ops.rope(&c->stream, &(sac_rope_args){q, s->n_heads, s->head_dim, c->rotation, position, false});
    c->ops.rope(&c->stream, &(sac_rope_args){km, s->n_kv_heads, s->head_dim, c->rotation, position, false});
    sac_kv_view kv = case_view(c, c->n_rows + n);
    c->ops.kv_store(&c->stream, &(sac_kv_store_args){kv, km, vm, c->n_rows});
    free(k);
    return (sac_layer_attention){.ops = &c->ops,
                                 .stream = &c->stream,
                                 .shape = s,
                                 .layer = c->layer,
                                 .q = q,
                                 .kv = kv,
                                 .past = c->n_rows,
                                 .position = position,
                                 .n_before = c->n,
                                 .n_seen = c->n + n,
                                 .scale = 1.0f / sqrtf((float)s->head_dim),
                                 .window = s->window,
                                 .rotation = c->rotation,
                                 .visual = c->visual,
                                 .n_visual = c->n_visual,
                                 .window_sums = c->window_sums,
                                 .observer = c->observer,
                                 .stats = &c->stats};
}

static inline sac_status case_make_queries(void *ctx, sac_mat q, const int32_t *rows) {
    layer_case *c = ctx;
    const sac_ops *ops = c->make_ops ? c->make_ops : &c->ops;
    c->n_made += q.rows;
    if (rows)
        return ops->gather_rows(
            &c->stream, &(sac_gather_rows_args){q, sac_mat_f32(c->made, c->shape.n_ctx, q.cols), rows, NULL});
    size_t n_bytes = (size_t)(q.rows * q.cols) * sizeof(float);
    if (c->shape.device) return c->shape.device->copy(&c->stream, q.data, c->made, n_bytes);
    memcpy(q.data, c->made, n_bytes);
    return SAC_OK;
}

/* The queries go to `made`, and what stands in their place must not be read. */
static inline void case_hide_queries(layer_case *c, sac_layer_attention *a) {
    int64_t n = a->q.rows * a->q.cols;
    memcpy(c->made, a->q.data, (size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++) ((float *)a->q.data)[i] = NAN;
    c->attended = (sac_attended){0};
    a->attended = &c->attended;
    a->make_queries = (sac_query_maker){case_make_queries, c};
}

/* Outputs of some tokens to their places, zeros elsewhere. */
static inline void case_spread(layer_case *c, int64_t n) {
    const sac_attended *some = &c->attended;
    size_t cols = (size_t)c->shape.n_heads * (size_t)c->shape.head_dim;
    if (!some->rows) return;
    float *o = calloc((size_t)n * cols, sizeof *o);
    for (int64_t i = 0; i < some->o.rows; i++)
        memcpy(o + (size_t)some->rows[i] * cols, sac_mat_row_f32(some->o, i), cols * sizeof *o);
    memcpy(c->q, o, (size_t)n * cols * sizeof *o);
    free(o);
}

static inline void case_finish(layer_case *c, const sac_layer_attention *a, int64_t n) {
    const sac_decode_policy *d = c->decode.policy;
    c->n_rows += n;
    if (d->settle) assert_int_equal(d->settle(c->decode.state, a, &c->n_rows), SAC_OK);
    c->n += n;
    c->out = c->q;
}

static inline void case_prompt(layer_case *c, int64_t n) {
    sac_layer_attention a = case_tokens(c, n);
    if (c->made) case_hide_queries(c, &a);
    if (c->decode.policy->prompt) assert_int_equal(c->decode.policy->prompt(c->decode.state, &a), SAC_OK);
    assert_int_equal(sac_prefill_attend(&c->prefill, &a), SAC_OK);
    if (c->made) case_spread(c, n);
    case_finish(c, &a, n);
}

/* What ops have counted to the stats. */
static inline void case_count(layer_case *c) {
    sac_layer_stats *all = calloc((size_t)c->shape.n_layers, sizeof *all), *mine = &all[c->layer];
    assert_int_equal(sac_decode_counted(&c->decode, &c->shape, &c->stream, all), SAC_OK);
    c->stats.decode_rows += mine->decode_rows;
    c->stats.decode_budget += mine->decode_budget;
    c->stats.n_selections += mine->n_selections;
    c->stats.n_cache_hits += mine->n_cache_hits;
    free(all);
}

static inline void case_step(layer_case *c) {
    sac_layer_attention a = case_tokens(c, 1);
    assert_int_equal(sac_decode_attend(&c->decode, &a, &c->mass), SAC_OK);
    case_count(c);
    case_finish(c, &a, 1);
}

/* What a step reads, in lists of rows; it does not attend. */
static inline sac_choice case_choose(layer_case *c) {
    sac_layer_attention a = case_tokens(c, 1);
    sac_choice choice = {.wants_rows = true};
    assert_int_equal(c->decode.policy->select(c->decode.state, &a, &choice), SAC_OK);
    case_count(c);
    c->n++;
    c->n_rows++;
    return choice;
}

/* Where its lists begin. */
static inline const int64_t *case_starts(const sac_choice *choice) {
    return choice->lists.start.host;
}

/* ---------------------------------------------------------------- the oracle */

/* Whether head h of the query (a token's number) sees the key (a token's number). */
typedef bool (*case_visible_fn)(void *ctx, int h, int64_t query, int64_t key);
/* Positions at which head h's query meets the key. */
typedef void (*case_position_fn)(void *ctx, int h, int64_t query, int64_t key, int64_t *query_at,
                                 int64_t *key_at);

static inline void case_rotate(const layer_case *c, const float *x, int64_t position, double *y) {
    int half = c->shape.head_dim / 2;
    const float *t = c->cos_sin + position * c->shape.head_dim;
    for (int i = 0; i < half; i++) {
        y[i] = (double)x[i] * (double)t[2 * i] - (double)x[i + half] * (double)t[2 * i + 1];
        y[i + half] = (double)x[i + half] * (double)t[2 * i] + (double)x[i] * (double)t[2 * i + 1];
    }
}

/* Dot product of a query head and a key at given positions, not scaled. */
static inline double case_dot(const layer_case *c, int h, int64_t query, int64_t key, int64_t query_at,
                              int64_t key_at) {
    const sac_attention_shape *s = &c->shape;
    int d = s->head_dim, kv_head = h / (s->n_heads / s->n_kv_heads);
    double q[512], k[512], dot = 0;
    case_rotate(c, c->raw_q + (query * s->n_heads + h) * d, query_at, q);
    case_rotate(c, c->raw_k + (key * s->n_kv_heads + kv_head) * d, key_at, k);
    for (int i = 0; i < d; i++) dot += q[i] * k[i];
    return dot;
}

/* Attention of one token's query over the tokens that `visible` allows among 0 .. query (NULL: all of them),
 * at true positions or those that `position` gives: want [n_heads * head_dim]; zeros where nothing is
 * visible. */
static inline void case_oracle(const layer_case *c, int64_t query, case_visible_fn visible,
                               case_position_fn position, void *ctx, double *want) {
    const sac_attention_shape *s = &c->shape;
    int d = s->head_dim, group = s->n_heads / s->n_kv_heads;
    for (int h = 0; h < s->n_heads; h++) {
        double sum = 0, *o = want + h * d;
        for (int i = 0; i < d; i++) o[i] = 0;
        for (int64_t key = 0; key <= query; key++) {
            if (visible && !visible(ctx, h, query, key)) continue;
            int64_t query_at = query, key_at = key;
            if (position) position(ctx, h, query, key, &query_at, &key_at);
            double w = exp(case_dot(c, h, query, key, query_at, key_at) / sqrt((double)d));
            const float *v = c->raw_v + (key * s->n_kv_heads + h / group) * d;
            sum += w;
            for (int i = 0; i < d; i++) o[i] += w * (double)v[i];
        }
        for (int i = 0; i < d && sum > 0; i++) o[i] /= sum;
    }
}

/* Row `row` of the last outputs equals want within tolerance. */
static inline void case_expect(const layer_case *c, int64_t row, const double *want, double tolerance) {
    int64_t cols = (int64_t)c->shape.n_heads * c->shape.head_dim;
    for (int64_t i = 0; i < cols; i++) {
        double got = (double)c->out[row * cols + i];
        if (!(fabs(got - want[i]) <= tolerance))
            fail_msg("row %lld, head %lld, channel %lld: %.9g, expected %.9g", (long long)row,
                     (long long)(i / c->shape.head_dim), (long long)(i % c->shape.head_dim), got, want[i]);
    }
}

#endif
