/* Methods in a whole decoder on a device, without one (closed_device.h): prompts, an appended prompt and
 * steps must give the logits of the same decoder on the CPU, bit for bit. The model is small and drawn at
 * random. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "closed_device.h"
#include "controller.h"
#include "cpu_flags.h"
#include "decoder.h"
#include "test.h"

#include <math.h>
#include <stdlib.h>

enum {
    LAYERS = 3,
    HIDDEN = 64,
    HEADS = 4,
    KV_HEADS = 2,
    DIM = 16,
    WIDE = 96,
    VOCAB = 50,
    N_CTX = 400,
    CHUNK = 64
};
enum { FIRST = 190, SECOND = 70, STEPS = 12 };

typedef struct run {
    sac_decoder_state s;
    sac_arena device, host, scratch;
    sac_arena lent_device, lent_host; /* what runs of the sequence is in, garbage before */
    sac_stream stream;
    sac_pool *pool;
    sac_ops ops;
    sac_device card;
} run;

static sac_arena weights;
static uint64_t seed = 3;

static float *draw(int64_t n, float around, float spread) {
    float *p = sac_arena_take(&weights, (size_t)n * sizeof *p);
    for (int64_t i = 0; i < n; i++) p[i] = around + spread * test_rand_float(&seed);
    return p;
}
static sac_weight matrix(int64_t rows, int64_t cols) {
    return sac_weight_of(
        (sac_tensor){draw(rows * cols, 0, 3 / sqrtf((float)cols)), SAC_DTYPE_F32, 2, {rows, cols}});
}

/* For ADORE. */
enum { STATE = 12 };
static sac_controller make_controller(void) {
    return (sac_controller){.input = HIDDEN,
                            .hidden = STATE,
                            .input_gates = matrix(3 * STATE, HIDDEN),
                            .state_gates = matrix(3 * STATE, STATE),
                            .input_bias = draw(3 * STATE, 0, 1),
                            .state_bias = draw(3 * STATE, 0, 1),
                            .position = draw(STATE, 0, 1),
                            .position_bias = draw(STATE, 0, 1),
                            .inner = matrix(STATE, STATE),
                            .outer = matrix(1, STATE),
                            .inner_bias = draw(STATE, 0, 1),
                            .outer_bias = draw(1, 0, 1)};
}

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
    d.embed = matrix(VOCAB, HIDDEN);
    d.head = matrix(VOCAB, HIDDEN);
    d.final_norm = draw(HIDDEN, 1, 0.2f);
    for (int i = 0; i < LAYERS; i++)
        layers[i] = (sac_decoder_layer){.attn_norm = draw(HIDDEN, 1, 0.2f),
                                        .mlp_norm = draw(HIDDEN, 1, 0.2f),
                                        .q = matrix(HEADS * DIM, HIDDEN),
                                        .k = matrix(KV_HEADS * DIM, HIDDEN),
                                        .v = matrix(KV_HEADS * DIM, HIDDEN),
                                        .o = matrix(HIDDEN, HEADS * DIM),
                                        .gate = matrix(WIDE, HIDDEN),
                                        .up = matrix(WIDE, HIDDEN),
                                        .down = matrix(HIDDEN, WIDE)};
    return d;
}

/* The device's own ops of a step round otherwise than those that they join. */
static sac_status no_qkv_step(const sac_stream *s, const sac_qkv_step_args *a) {
    (void)s, (void)a;
    return SAC_UNSUPPORTED;
}
static sac_status no_gate_up_step(const sac_stream *s, const sac_gate_up_step_args *a) {
    (void)s, (void)a;
    return SAC_UNSUPPORTED;
}
static sac_status no_out_step(const sac_stream *s, const sac_out_step_args *a) {
    (void)s, (void)a;
    return SAC_UNSUPPORTED;
}
static sac_status no_store_many(const sac_stream *s, const sac_store_many_args *a) {
    (void)s, (void)a;
    return SAC_UNSUPPORTED;
}

static void start(run *r, const sac_decoder *d, const char *prefill, const char *decode, bool there) {
    sac_error err = {0};
    *r = (run){.card = closed_device};
    assert_ok(sac_pool_create(&r->pool, 1, &err), err);
    assert_ok(sac_arena_open(&r->scratch, (size_t)1 << 26, &err), err);
    assert_ok(sac_stream_init(&r->stream, r->pool, &r->scratch, 1 << 22, &err), err);
    sac_ops_init_cpu(&r->ops, sac_cpu_flags());
    if (there) {
        sac_ops plain = r->ops;
        plain.qkv_step = no_qkv_step, plain.gate_up_step = no_gate_up_step, plain.out_step = no_out_step;
        plain.store_many = no_store_many;
        r->ops = closed_ops(&plain);
        r->stream.device = &r->card;
    }
    sac_decoder_options o = {.n_ctx = N_CTX,
                             .chunk = CHUNK,
                             .prefill = prefill,
                             .decode = decode,
                             .kv = "f32",
                             .device = there ? &r->card : NULL};
    assert_ok(sac_decoder_state_open(&r->s, d, &o, &err), err);
    assert_ok(sac_arena_open(&r->host, (size_t)1 << 26, &err), err);
    closed_let_in(true);
    if (there) closed_clear();
    r->device = sac_arena_over(closed_region, CLOSED_BYTES);
    sac_arena *device = there ? &r->device : &r->host;
    assert_ok(sac_decoder_state_take(&r->s, d, device, &r->host, &err), err);
    closed_let_in(false);
    r->lent_device = sac_arena_over(closed_region + CLOSED_BYTES / 2, CLOSED_BYTES / 2);
    assert_ok(sac_arena_open(&r->lent_host, (size_t)1 << 26, &err), err);
    assert_true(r->device.used_bytes <= CLOSED_BYTES / 2);
}

/* What another sequence may have left: no numbers. */
static void lend(run *r, const sac_decoder *d, sac_decoder_use use) {
    sac_error err = {0};
    bool there = r->s.device != NULL;
    sac_decoder_loan loan = sac_decoder_loan_plan(&r->s, d, use);
    size_t n_bytes = sac_decoder_loan_bytes(&loan);
    sac_arena *from = there ? &r->lent_device : &r->lent_host;
    if (there) {
        closed_let_in(true);
        memset(closed_region + CLOSED_BYTES / 2, 0xff, n_bytes);
        closed_let_in(false);
    } else {
        memset(sac_arena_take(&r->lent_host, n_bytes), 0xff, n_bytes);
        sac_arena_release(&r->lent_host, 0);
    }
    assert_ok(sac_decoder_lend(&r->s, d, use, &r->stream, from, &err), err);
    assert_int_equal(from->used_bytes, n_bytes);
}

static void give_back(run *r) {
    sac_decoder_give_back(&r->s);
    sac_arena_release(&r->lent_device, 0);
    sac_arena_release(&r->lent_host, 0);
}

static void stop(run *r) {
    sac_decoder_state_free(&r->s);
    sac_arena_free(&r->host);
    sac_arena_free(&r->lent_host);
    sac_arena_free(&r->scratch);
    sac_pool_free(r->pool);
}

/* As after work of another session, or in a thread that has done none. */
static void leave_device(void) {
    closed_used = NULL;
}
static sac_status leave_between_layers(void *ctx, int layer, int n_layers) {
    (void)ctx, (void)layer, (void)n_layers;
    leave_device();
    return SAC_OK;
}

static void prompt(run *r, const sac_decoder *d, int64_t past, int64_t n, const int32_t *ids,
                   const sac_visual_span *span) {
    sac_error err = {0};
    r->s.visual = span, r->s.n_visual = 1;
    lend(r, d, SAC_FOR_PROMPT);
    leave_device();
    assert_int_equal(sac_decoder_embed(d, &r->s, &r->ops, &r->stream, past, n, ids + past), SAC_OK);
    assert_ok(
        sac_decoder_prefill(d, &r->s, &r->ops, &r->stream, past, n, 1, leave_between_layers, NULL, &err),
        err);
    assert_int_equal(sac_decoder_last_logits(d, &r->s, &r->ops, &r->stream), SAC_OK);
    give_back(r);
}

static void step_once(run *r, const sac_decoder *d, int64_t past, int32_t id) {
    sac_error err = {0};
    lend(r, d, SAC_FOR_STEP);
    leave_device();
    assert_ok(sac_decoder_step(d, &r->s, &r->ops, &r->stream, past, id, &err), err);
    give_back(r);
}

static void expect_same(const run *here, const run *there) {
    assert_memory_equal(here->s.logits, there->s.logits, VOCAB * sizeof(float));
    assert_memory_equal(here->s.cache.layer_rows, there->s.cache.layer_rows, LAYERS * sizeof(int64_t));
}

static void compare(const sac_decoder *d, const char *prefill, const char *decode) {
    static const sac_visual_span spans[] = {{20, 140}, {FIRST + 5, 40}};
    run r[2];
    int32_t ids[N_CTX];
    uint64_t random = 9;
    for (int i = 0; i < N_CTX; i++) ids[i] = test_rand_int(&random, 0, VOCAB - 1);
    for (int i = 0; i < 2; i++) start(&r[i], d, prefill, decode, i == 1);
    int64_t past = 0;
    for (int turn = 0; turn < 2; turn++) {
        int64_t n = turn ? SECOND : FIRST;
        for (int i = 0; i < 2; i++) prompt(&r[i], d, past, n, ids, &spans[turn]);
        expect_same(&r[0], &r[1]);
        past += n;
        for (int step = 0; turn && step < STEPS; step++, past++) {
            for (int i = 0; i < 2; i++) step_once(&r[i], d, past, ids[past]);
            expect_same(&r[0], &r[1]);
        }
    }
    for (int i = 0; i < 2; i++) stop(&r[i]);
}

static void methods(void **state) {
    static const char *const lines[][2] = {
        {"dense", "dense"},
        {"fastv:layer=1", "dense"},
        {"fastv:layer=2,ratio=0.8,query=all", "dense"},
        {"fastv:layer=1,mode=attn", "dense"},
        {"dense", "snapkv:cap=60,window=16"},
        {"dense", "snapkv:cap=60,window=16,per_head=1"},
        {"dense", "pyramidkv:cap=60,window=16"},
        {"dense", "pyramidkv:cap=60,window=16,beta=3,per_head=1"},
        {"dense", "h2o"},
        {"fastv:layer=1", "snapkv:cap=60,window=16"},
        {"fastv:layer=1", "h2o:heavy=30,recent=20"},
        {"minference:v=30,s=50", "dense"},
        {"minference:v=30,s=50", "h2o"},
        {"dense", "adore:m=60,r=4"},
        {"dense", "adore:m=60,r=4,pos=compact,feature=rel,recent=5,sink=2"},
        {"dense", "adore:m=250,r=0"},
        {"dense", "adore:m=60,r=3,sigma=attention"},
        {"minference:v=30,s=50", "adore:m=60,r=3,sigma=attention,pos=compact"},
        {"infllm:init=4,local=60,block=16,topk=4,chunk=32", "infllm:init=4,local=60,block=16,topk=4"},
        {"dense", "doublesparse:k=40,skip=1,bits=8"},
    };
    sac_decoder_layer layers[LAYERS];
    sac_decoder d = make_decoder(layers);
    const sac_controller controller = make_controller();
    d.controller = &controller;
    (void)state;
    for (size_t i = 0; i < SAC_COUNT(lines); i++) compare(&d, lines[i][0], lines[i][1]);
}

static bool refuse;
static sac_status may_download(const sac_stream *s, void *to, const void *from, size_t n_bytes) {
    return refuse ? SAC_DEVICE : closed_move(s, to, from, n_bytes);
}

/* Rows read are counted there, steps here: what cannot be fetched at a reset is not mixed with what comes. */
static void counts_that_cannot_be_fetched_stay(void **state) {
    static const sac_visual_span span = {20, 140};
    sac_decoder_layer layers[LAYERS];
    sac_decoder d = make_decoder(layers);
    int32_t ids[N_CTX] = {0};
    run r;
    (void)state;
    start(&r, &d, "dense", "twilight:p=0.99", true);
    r.card.download = may_download;
    prompt(&r, &d, 0, FIRST, ids, &span);
    for (int64_t i = 0; i < 6; i++) {
        step_once(&r, &d, FIRST + i, 0);
        refuse = i == 3;
        if (refuse) sac_decoder_reset_stats(&r.s, &r.stream);
        refuse = false;
    }
    assert_int_equal(sac_decode_counted(&r.s.decode, &r.s.shape, &r.stream, r.s.stats), SAC_OK);
    for (int i = 0; i < LAYERS; i++) {
        assert_true(r.s.stats[i].n_steps == 6);
        assert_true(r.s.stats[i].decode_rows > 0.5 * r.s.stats[i].decode_rows_dense);
        assert_true(r.s.stats[i].decode_rows <= r.s.stats[i].decode_rows_dense);
    }
    sac_decoder_reset_stats(&r.s, &r.stream);
    assert_true(r.s.stats[LAYERS - 1].n_steps == 0);
    stop(&r);
}

/* What would go to the plain kernel of attention, many times slower, is refused; queries are in the type of plain
 * rows. */
static void slow_attention_is_refused(void **state) {
    static const struct {
        const char *kv;
        sac_dtype activations;
        int head_dim;
        bool there;
        const char *refusal; /* NULL: it fits, with queries in this type */
        sac_dtype queries;
        const char *prefill, *decode;
        float softcap;
    } rows[] = {
        {"f16", SAC_DTYPE_BF16, 64, true, NULL, SAC_DTYPE_F16, NULL, NULL, 0},
        {"bf16", SAC_DTYPE_F16, 64, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 0},
        {"bf16", SAC_DTYPE_BF16, 64, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 0},
        {"f16", SAC_DTYPE_F16, 128, true, NULL, SAC_DTYPE_F16, NULL, NULL, 0},
        {NULL, SAC_DTYPE_BF16, 64, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 0},
        {"f16", SAC_DTYPE_F32, 64, false, NULL, SAC_DTYPE_F32, NULL, NULL, 0},
        {"int4", SAC_DTYPE_BF16, 64, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 0},
        {"kvarn", SAC_DTYPE_BF16, 128, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 0},
        {"f32", SAC_DTYPE_BF16, 64, true, "use --kv bf16", 0, NULL, NULL, 0},
        {NULL, SAC_DTYPE_BF16, 136, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 0},
        {"f16", SAC_DTYPE_BF16, 256, true, NULL, SAC_DTYPE_F16, NULL, NULL, 0},
        {NULL, SAC_DTYPE_BF16, 264, true, "up to 256", 0, NULL, NULL, 0},
        {NULL, SAC_DTYPE_BF16, 68, true, "multiple of 8", 0, NULL, NULL, 0},
        {NULL, SAC_DTYPE_BF16, 12, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 0},
        {NULL, SAC_DTYPE_BF16, 12, true, "a multiple of 8", 0, NULL, "quest:budget=112,skip=0", 0},
        {NULL, SAC_DTYPE_F32, 136, true, NULL, SAC_DTYPE_F32, NULL, NULL, 0},
        /* over more than 128 channels only attention to all rows is fast */
        {"int4", SAC_DTYPE_BF16, 256, true, "KV format int4 is slow on a device over heads of 256", 0, NULL, NULL, 0},
        {NULL, SAC_DTYPE_BF16, 256, true, "prefill policy streaming is slow", 0, "streaming:recent=100", NULL, 0},
        {NULL, SAC_DTYPE_BF16, 136, true, "decode policy quest is slow", 0, NULL, "quest:budget=112,skip=0", 0},
        {NULL, SAC_DTYPE_BF16, 128, true, NULL, SAC_DTYPE_BF16, NULL, "quest:budget=112,skip=0", 0},
        {NULL, SAC_DTYPE_F32, 256, true, NULL, SAC_DTYPE_F32, NULL, "quest:budget=112,skip=0", 0},
        /* capped scores: dense attention over plain rows */
        {NULL, SAC_DTYPE_BF16, 256, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 50},
        {NULL, SAC_DTYPE_BF16, 64, true, NULL, SAC_DTYPE_BF16, NULL, NULL, 50},
        {NULL, SAC_DTYPE_BF16, 64, true, "does not know scores of attention that are capped", 0, NULL,
         "quest:budget=112,skip=0", 50},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sac_decoder_layer layers[LAYERS];
        sac_decoder d = make_decoder(layers);
        d.config.head_dim = rows[i].head_dim;
        d.config.softcap = rows[i].softcap;
        sac_decoder_options o = {.n_ctx = N_CTX,
                                 .chunk = CHUNK,
                                 .kv = rows[i].kv,
                                 .prefill = rows[i].prefill,
                                 .decode = rows[i].decode,
                                 .activations = rows[i].activations,
                                 .device = rows[i].there ? &closed_device : NULL};
        sac_decoder_state s;
        sac_error err = {0};
        sac_status st = sac_decoder_state_open(&s, &d, &o, &err);
        assert_int_equal(st, rows[i].refusal ? SAC_UNSUPPORTED : SAC_OK);
        if (st == SAC_OK) assert_int_equal(s.shape.dtype, rows[i].queries);
        if (st == SAC_OK) sac_decoder_state_free(&s);
        if (st != SAC_OK) assert_non_null(strstr(err.text, rows[i].refusal));
    }
}

int main(void) {
    sac_error err;
    if (!closed_open() || sac_arena_open(&weights, (size_t)1 << 24, &err) != SAC_OK) return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(methods), cmocka_unit_test(slow_attention_is_refused),
                                       cmocka_unit_test(counts_that_cannot_be_fetched_stay)};
    int n_failed = cmocka_run_group_tests_name("a decoder on a device", tests, NULL, NULL);
    sac_arena_free(&weights);
    return n_failed;
}
