/* Activations in one 16-bit type over rows in the other, in a whole decoder whose ops look at types alone: attention
 * meets one type, products meet the other, in prompts, lone steps and batches. */
#include "decoder.h"
#include "decoder_batch.h"
#include "test.h"

#include <stdlib.h>

enum {
    LAYERS = 2,
    HIDDEN = 64,
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 16,
    WIDE = 96,
    VOCAB = 50,
    N_CTX = 400,
    CHUNK = 64
};
enum { PROMPT = 150, STEPS = 3, SESSIONS = 3 };

static sac_dtype activations, rows[SESSIONS]; /* of the sequences, in the order of their calls */
static bool mixed_rows;                       /* of a batch: its sequences' types are looked up */
static int n_attended, n_converted;
static bool fuses;

static sac_status expect(bool fits) {
    assert_true(fits);
    return SAC_OK;
}
static bool is_row_type(sac_dtype t) {
    return mixed_rows ? t != SAC_DTYPE_F32 : t == rows[0];
}

/* ---------------------------------------------------------------- ops */

static sac_status see_linear(const sac_stream *s, const sac_linear_args *a) {
    (void)s;
    return expect(a->x.dtype == activations && (a->y.dtype == activations || a->y.cols == VOCAB));
}
static sac_status see_linear_group(const sac_stream *s, const sac_linear_group_args *a) {
    (void)s;
    for (int i = 0; i < a->n; i++) expect(a->y[i].dtype == activations);
    return expect(a->x.dtype == activations);
}
static sac_status see_rope(const sac_stream *s, const sac_rope_args *a) {
    (void)s;
    return expect(a->x.dtype == activations);
}
static sac_status see_kv_store(const sac_stream *s, const sac_kv_store_args *a) {
    (void)s;
    return expect(a->k.dtype == activations && is_row_type(a->kv.dtype));
}
static sac_status see_store_many(const sac_stream *s, const sac_store_many_args *a) {
    (void)s;
    for (int i = 0; i < a->n; i++)
        expect(a->each[i].q.dtype == activations && a->each[i].kv.dtype == rows[i]);
    return SAC_OK;
}
static sac_status see_qkv_step(const sac_stream *s, const sac_qkv_step_args *a) {
    (void)s;
    return fuses ? expect(a->x.dtype == activations && a->q.dtype == rows[0] && a->kv.dtype == rows[0])
                 : SAC_UNSUPPORTED;
}
static sac_status see_out_step(const sac_stream *s, const sac_out_step_args *a) {
    (void)s;
    return fuses ? expect(a->x.dtype == activations && a->o.dtype == activations &&
                          a->wide.dtype == activations)
                 : SAC_UNSUPPORTED;
}
static sac_status see_attention(const sac_stream *s, const sac_attention_args *a) {
    (void)s;
    n_attended++;
    return expect(a->q.dtype == a->kv.dtype && a->o.dtype == a->kv.dtype && is_row_type(a->kv.dtype));
}
static sac_status see_attention_many(const sac_stream *s, const sac_attention_many_args *a) {
    (void)s;
    for (int i = 0; i < a->n; i++) see_attention(s, &a->each[i]);
    return SAC_OK;
}
static sac_status see_convert_rows(const sac_stream *s, const sac_convert_rows_args *a) {
    (void)s;
    n_converted += (int)a->x.rows;
    return expect(a->x.data == a->y.data && a->x.dtype != a->y.dtype &&
                  (a->x.dtype == activations || a->y.dtype == activations));
}
#define X(op)                                                                                                \
    static sac_status pass_##op(const sac_stream *s, const sac_##op##_args *a) {                             \
        (void)s, (void)a;                                                                                    \
        return SAC_OK;                                                                                       \
    }
SAC_OPS(X)
#undef X

static sac_ops seeing_ops(void) {
    sac_ops t = {.backend = "types",
                 .fuses = true,
#define X(op) .op = pass_##op,
                 SAC_OPS(X)
#undef X
    };
    t.linear = see_linear, t.linear_group = see_linear_group, t.rope = see_rope, t.kv_store = see_kv_store;
    t.store_many = see_store_many, t.qkv_step = see_qkv_step, t.out_step = see_out_step;
    t.attention = see_attention, t.attention_many = see_attention_many, t.convert_rows = see_convert_rows;
    return t;
}

/* ---------------------------------------------------------------- the device: the host's memory */

static sac_status move(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    (void)s;
    memmove(to, from, n_bytes);
    return SAC_OK;
}
static sac_status zero(const sac_stream *s, void *to, size_t n_bytes) {
    (void)s;
    memset(to, 0, n_bytes);
    return SAC_OK;
}
static sac_status use(const sac_device *d) {
    (void)d;
    return SAC_OK;
}
static sac_status wait(const sac_stream *s, sac_error *err) {
    (void)s, (void)err;
    return SAC_OK;
}
static sac_status host_alloc(const sac_device *d, size_t n_bytes, void **out, sac_error *err) {
    (void)d, (void)err;
    *out = calloc(1, n_bytes);
    return *out ? SAC_OK : SAC_NO_MEMORY;
}
static void host_free(const sac_device *d, void *p) {
    (void)d;
    free(p);
}
static const sac_device device = {.kind = SAC_DEVICE_CUDA,
                                  .name = "types",
                                  .host_alloc = host_alloc,
                                  .host_free = host_free,
                                  .use = use,
                                  .upload = move,
                                  .download = move,
                                  .copy = move,
                                  .zero = zero,
                                  .stream_sync = wait};

/* ---------------------------------------------------------------- the decoder */

typedef struct sequence {
    sac_decoder_state s;
    sac_arena device, host, lent;
} sequence;

static sac_decoder make_decoder(sac_decoder_layer layers[LAYERS]) {
    sac_decoder d = {.config = {.n_layers = LAYERS,
                                .hidden = HIDDEN,
                                .n_heads = HEADS,
                                .n_kv_heads = KV_HEADS,
                                .head_dim = DIM,
                                .intermediate = WIDE,
                                .vocab = VOCAB,
                                .max_position = 4096,
                                .rms_eps = 1e-6f},
                     .layers = layers};
    sac_rope_config_default(&d.config.rope, DIM);
    memset(layers, 0, LAYERS * sizeof *layers);
    return d;
}

static void start(sequence *q, const sac_decoder *d, const char *kv, const char *prefill) {
    sac_error err = {0};
    const sac_decoder_options o = {.n_ctx = N_CTX,
                                   .chunk = CHUNK,
                                   .kv = kv,
                                   .prefill = prefill,
                                   .activations = activations,
                                   .device = &device};
    assert_ok(sac_decoder_state_open(&q->s, d, &o, &err), err);
    assert_ok(sac_arena_open(&q->device, (size_t)1 << 26, &err), err);
    assert_ok(sac_arena_open(&q->host, (size_t)1 << 26, &err), err);
    assert_ok(sac_arena_open(&q->lent, (size_t)1 << 26, &err), err);
    assert_ok(sac_decoder_state_take(&q->s, d, &q->device, &q->host, &err), err);
}
static void stop(sequence *q) {
    sac_decoder_state_free(&q->s);
    sac_arena_free(&q->device);
    sac_arena_free(&q->host);
    sac_arena_free(&q->lent);
}

static const sac_stream stream = {.device = &device};

static void prompt(sequence *q, const sac_decoder *d, const sac_ops *ops) {
    sac_error err = {0};
    assert_ok(sac_decoder_lend(&q->s, d, SAC_FOR_PROMPT, &stream, &q->lent, &err), err);
    assert_ok(sac_decoder_prefill(d, &q->s, ops, &stream, 0, PROMPT, 1, NULL, NULL, &err), err);
    sac_decoder_give_back(&q->s);
    sac_arena_release(&q->lent, 0);
}
static void step(sequence *q, const sac_decoder *d, const sac_ops *ops) {
    sac_error err = {0};
    assert_ok(sac_decoder_lend(&q->s, d, SAC_FOR_STEP, &stream, &q->lent, &err), err);
    assert_ok(sac_decoder_step(d, &q->s, ops, &stream, q->s.cache.n_rows, 1, &err), err);
    sac_decoder_give_back(&q->s);
    sac_arena_release(&q->lent, 0);
}

/* ---------------------------------------------------------------- tests */

static const struct {
    sac_dtype activations, rows;
    const char *kv, *prefill;
} pairs[] = {{SAC_DTYPE_BF16, SAC_DTYPE_F16, "f16", "dense"},
             {SAC_DTYPE_F16, SAC_DTYPE_BF16, "bf16", "dense"},
             {SAC_DTYPE_BF16, SAC_DTYPE_BF16, "bf16", "dense"},
             {SAC_DTYPE_BF16, SAC_DTYPE_F16, "f16", "minference"},
             {SAC_DTYPE_BF16, SAC_DTYPE_F16, "f16", "zipvl:min=16"}};

static void lone_sequences(void **state) {
    const sac_ops ops = seeing_ops();
    sac_decoder_layer layers[LAYERS];
    const sac_decoder d = make_decoder(layers);
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(pairs); i++) {
        sequence q;
        activations = pairs[i].activations, rows[0] = pairs[i].rows;
        n_attended = n_converted = 0;
        start(&q, &d, pairs[i].kv, pairs[i].prefill);
        prompt(&q, &d, &ops);
        assert_true(n_attended >= LAYERS || strcmp(pairs[i].prefill, "dense"));
        for (int k = 0; k < 2 * STEPS; k++) {
            fuses = k < STEPS;
            step(&q, &d, &ops);
        }
        assert_true((n_converted > 0) == (activations != rows[0]));
        stop(&q);
    }
}

/* Sequences with rows of either type in one batch. */
static void batches(void **state) {
    static const char *const kv[SESSIONS] = {"f16", "f16", "bf16"};
    const sac_ops ops = seeing_ops();
    sac_decoder_layer layers[LAYERS];
    const sac_decoder d = make_decoder(layers);
    sequence q[SESSIONS];
    sac_decoder_state *states[SESSIONS];
    sac_decoder_batch b;
    sac_arena arena;
    sac_error err = {0};
    (void)state;
    activations = SAC_DTYPE_BF16;
    assert_ok(sac_arena_open(&arena, (size_t)1 << 26, &err), err);
    sac_decoder_batch_take(&b, &d, SESSIONS, 0, &device, activations, &arena);
    for (int i = 0; i < SESSIONS; i++) {
        start(&q[i], &d, kv[i], NULL);
        rows[0] = q[i].s.cache.dtype;
        prompt(&q[i], &d, &ops);
        states[i] = &q[i].s;
    }
    for (int i = 0; i < SESSIONS; i++) rows[i] = q[i].s.cache.dtype;
    mixed_rows = true;
    n_attended = n_converted = 0;
    assert_ok(
        sac_decoder_batch_step(&d, &b, &ops, &stream, states, (int32_t[SESSIONS]){1, 2, 3}, SESSIONS, &err),
        err);
    assert_int_equal(n_attended, SESSIONS * LAYERS);
    assert_int_equal(n_converted, 2 * 2 * LAYERS); /* two of the three, there and back */
    mixed_rows = false;
    for (int i = 0; i < SESSIONS; i++) stop(&q[i]);
    sac_arena_free(&arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(lone_sequences), cmocka_unit_test(batches)};
    return cmocka_run_group_tests_name("types of queries", tests, NULL, NULL);
}
