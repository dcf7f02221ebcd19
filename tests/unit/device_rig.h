/* device_rig.h - a small decoder twice, on the CPU and on a device without one (closed_device.h), with sequences of many
 * kinds: for tests of batches and of what a device does wrong. */
#ifndef TEST_DEVICE_RIG_H
#define TEST_DEVICE_RIG_H

#include "decoder_batch.h"

#include "closed_device.h"
#include "test.h"

enum {
    LAYERS = 2,
    HIDDEN = 24,
    HEADS = 6,
    KV_HEADS = 2,
    DIM = 8,
    WIDE = 40,
    VOCAB = 61,
    MOST = 34,
    ADAPTERS = 2,
    CTX = 160,
    LENT_FROM = CLOSED_BYTES / 8 * 7 /* bytes of the closed region that live as long as a sequence */
};

static const sac_decoder_config config = {.n_layers = LAYERS,
                                          .hidden = HIDDEN,
                                          .n_heads = HEADS,
                                          .n_kv_heads = KV_HEADS,
                                          .head_dim = DIM,
                                          .intermediate = WIDE,
                                          .vocab = VOCAB,
                                          .max_position = CTX,
                                          .rms_eps = 1e-5f};

/* How a sequence attends, and how long it is. */
typedef struct guest {
    const char *prefill, *decode, *kv;
    int n_prompt;
} guest;
static const guest guests[] = {
    {"dense", "dense", "f32", 1},
    {"zipvl:min=0,recent=4,random=4,tau=0.8", "dense", "mixed:gap=32", 60},
    {"dense", "dense", "f32", 37},
    {"dense", "dense", "f16", 20},
    {"dense", "tokenselect:k=8,init=2,local=4", "f32", 50},
    {"dense", "dense", "mixed:gap=32", 3},
    {"dense", "dense", "mixed:gap=40", 64},
    {"dense", "streaming:start=2,recent=9", "f32", 30},
    {"dense", "quest:page=3,budget=12,skip=0", "f32", 44},
    {"dense", "quest:page=3,budget=12,skip=1,heads=query", "f32", 41},
    {"dense", "snapkv:cap=16,window=4", "f32", 40},
    {"dense", "h2o:heavy=8,recent=8", "f32", 33},
    {"dense", "tokenselect:k=8,init=2,local=4,pos=orig,theta=2", "f32", 50},
    {"dense", "twilight:base=quest,base.page=3,base.budget=12,base.every=5,base.skip=0,skip=0", "f32", 39},
    {"dense", "dense", "mixed:gap=32,top_p=0.8", 70},
    {"zipvl:min=0,recent=4,random=4,tau=0.8", "dense", "mixed:gap=32,rope=before", 60},
    {"zipcache", "dense", "zipcache:gap=32", 50},
    {"dense", "dense", "kivi:group=16,residual=16", 60},
    {"dense", "dense", "int4", 41},
    {"dense", "adore:m=40,r=0,sigma=attention", "f32", 55},
    {"infllm:init=2,local=12,block=6,topk=2,chunk=8", "infllm:init=2,local=12,block=6,topk=2", "f32", 50},
    {"dense", "dense", "kvarn:first=4", 126},
};

/* Who comes. */
static const guest *party = guests;
static int n_party = sizeof guests / sizeof *guests;

/* Everything twice: here, or with memory, ops and copies of a device. */
typedef struct rig {
    bool there;
    sac_pool *pool;
    sac_arena host, device;
    sac_arena lent_host, lent_device; /* what runs of a prompt is in, garbage before */
    sac_stream stream;
    sac_ops ops;
    sac_decoder d;
    sac_decoder_layer layers[LAYERS];
    sac_adapted_layer adapted[LAYERS][ADAPTERS];
    int row_adapters[MOST];
    int64_t first[MOST + 1];
    int32_t own[MOST];
    sac_decoder_state states[MOST];
    sac_decoder_batch batch;
} rig;

/* Calls of store_many, attention_many, packed_step_many, gate_up_step and out_step with several sequences; products of
 * a group as one, and groups. */
static int n_together[5], n_joined, n_groups;
static int n_listed; /* sequences that read lists in attention_many beside others */
static bool refuse, takes_rows; /* out_step: several, and not one alone as on a card */
static bool adapters; /* every third sequence has one, every third another */

#define COUNT(op, i, n_sequences)                                                                            \
    static sac_status count_##op(const sac_stream *s, const sac_##op##_args *a) {                            \
        if (a->n_sequences > 1) n_together[i]++;                                                             \
        return refuse ? SAC_UNSUPPORTED : closed_##op(s, a);                                                 \
    }
COUNT(store_many, 0, n)
COUNT(packed_step_many, 2, n)
COUNT(gate_up_step, 3, x.rows)

static sac_status count_out_step(const sac_stream *s, const sac_out_step_args *a) {
    if (a->x.rows > 1) n_together[4]++;
    return refuse || (a->x.rows > 1 && !takes_rows) ? SAC_UNSUPPORTED : closed_out_step(s, a);
}

static sac_status count_attention_many(const sac_stream *s, const sac_attention_many_args *a) {
    if (a->n > 1) n_together[1]++;
    for (int i = 0; i < a->n; i++) n_listed += a->n > 1 && a->each[i].lists;
    return refuse ? SAC_UNSUPPORTED : closed_attention_many(s, a);
}

/* As a card does it: one product where the weights lie so. */
static sac_status join_linear_group(const sac_stream *s, const sac_linear_group_args *a) {
    sac_linear_args all;
    n_groups++;
    if (!sac_linear_group_join(a, &all)) return closed_linear_group(s, a);
    n_joined++;
    return closed_linear(s, &all);
}

static float *numbers(sac_arena *a, uint64_t *seed, int64_t n, float size) {
    float *x = sac_arena_take(a, (size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = size * test_rand_float(seed);
    return x;
}
static sac_weight matrix(sac_arena *a, uint64_t *seed, int64_t rows, int64_t cols) {
    return sac_weight_of((sac_tensor){numbers(a, seed, rows * cols, 0.4f), SAC_DTYPE_F32, 2, {rows, cols}});
}

/* Vectors of n[i] numbers behind one another in one block, as a device's weights lie; with a gap after the first
 * where they are to lie apart. */
static void rows_of_block(sac_arena *a, uint64_t *seed, const float *to[3], const int64_t n[3], float size,
                          bool apart) {
    int64_t gap = apart ? 16 : 0;
    const float *block = numbers(a, seed, n[0] + gap + n[1] + n[2], size);
    to[0] = block;
    to[1] = block + n[0] + gap;
    to[2] = to[1] + n[1];
}

static void draw_layer(sac_decoder_layer *l, sac_arena *a, uint64_t *seed, bool apart) {
    const int64_t q = HEADS * DIM, kv = KV_HEADS * DIM, wide = WIDE;
    const float *w[3], *bias[3], *mlp[3];
    rows_of_block(a, seed, w, (int64_t[3]){q * HIDDEN, kv * HIDDEN, kv * HIDDEN}, 0.4f, apart);
    rows_of_block(a, seed, mlp, (int64_t[3]){wide * HIDDEN, wide * HIDDEN, 0}, 0.4f, apart);
    rows_of_block(a, seed, bias, (int64_t[3]){q, kv, kv}, 0.3f, false);
    l->q = sac_weight_of((sac_tensor){w[0], SAC_DTYPE_F32, 2, {q, HIDDEN}});
    l->k = sac_weight_of((sac_tensor){w[1], SAC_DTYPE_F32, 2, {kv, HIDDEN}});
    l->v = sac_weight_of((sac_tensor){w[2], SAC_DTYPE_F32, 2, {kv, HIDDEN}});
    l->gate = sac_weight_of((sac_tensor){mlp[0], SAC_DTYPE_F32, 2, {wide, HIDDEN}});
    l->up = sac_weight_of((sac_tensor){mlp[1], SAC_DTYPE_F32, 2, {wide, HIDDEN}});
    l->q_bias = bias[0], l->k_bias = bias[1], l->v_bias = bias[2];
    l->o = matrix(a, seed, HIDDEN, q);
    l->down = matrix(a, seed, HIDDEN, wide);
    l->attn_norm = numbers(a, seed, HIDDEN, 1);
    l->mlp_norm = numbers(a, seed, HIDDEN, 1);
}

static sac_low_rank low_rank(sac_arena *a, uint64_t *seed, int64_t rank, const sac_weight *w) {
    return (sac_low_rank){matrix(a, seed, rank, w->tensor.dim[1]), matrix(a, seed, w->tensor.dim[0], rank)};
}

/* One of all matrices, one of some. */
static void draw_adapters(rig *r, sac_arena *a, uint64_t *seed) {
    for (int i = 0; i < LAYERS; i++) {
        sac_decoder_layer *l = &r->layers[i];
        sac_adapted_layer *to = r->adapted[i];
        to[0] = (sac_adapted_layer){low_rank(a, seed, 3, &l->q),    low_rank(a, seed, 3, &l->k),
                                    low_rank(a, seed, 3, &l->v),    low_rank(a, seed, 3, &l->o),
                                    low_rank(a, seed, 3, &l->gate), low_rank(a, seed, 3, &l->up),
                                    low_rank(a, seed, 3, &l->down)};
        to[1] = (sac_adapted_layer){.v = low_rank(a, seed, 5, &l->v), .down = low_rank(a, seed, 1, &l->down)};
        l->adapted = to;
    }
    r->d.n_adapters = ADAPTERS;
    r->d.most_rank = 5;
}

static void draw_model(rig *r, bool apart) {
    sac_arena *a = r->there ? &r->device : &r->host;
    uint64_t seed = 3;
    r->d = (sac_decoder){.config = config, .layers = r->layers};
    sac_rope_config_default(&r->d.config.rope, DIM);
    r->d.embed = matrix(a, &seed, VOCAB, HIDDEN);
    r->d.head = r->d.embed;
    r->d.final_norm = numbers(a, &seed, HIDDEN, 1);
    for (int i = 0; i < LAYERS; i++) draw_layer(&r->layers[i], a, &seed, apart);
    if (adapters) draw_adapters(r, a, &seed);
}

static void rig_open(rig *r, bool there, bool apart) {
    sac_error err;
    memset(r, 0, sizeof *r);
    r->there = there;
    assert_ok(sac_pool_create(&r->pool, 1, &err), err);
    assert_ok(sac_arena_open(&r->host, (size_t)1 << 27, &err), err);
    assert_ok(sac_arena_open(&r->lent_host, (size_t)1 << 24, &err), err);
    r->device = sac_arena_over(closed_region, LENT_FROM);
    r->lent_device = sac_arena_over(closed_region + LENT_FROM, CLOSED_BYTES - LENT_FROM);
    assert_ok(sac_stream_init(&r->stream, r->pool, &r->host, 1 << 22, &err), err);
    r->stream.device = there ? &closed_device : NULL;
    sac_ops_init_ref(&r->ops);
    if (there) {
        closed_let_in(true);
        closed_clear();
        r->ops = closed_ops(&r->ops);
        r->ops.store_many = count_store_many;
        r->ops.attention_many = count_attention_many;
        r->ops.packed_step_many = count_packed_step_many;
        r->ops.gate_up_step = count_gate_up_step;
        r->ops.out_step = count_out_step;
        r->ops.linear_group = join_linear_group;
    }
    draw_model(r, apart);
    sac_decoder_batch_take(&r->batch, &r->d, MOST, 0, there ? &closed_device : NULL, SAC_DTYPE_F32,
                           there ? &r->device : &r->host);
    r->batch.adapters = r->row_adapters;
    r->batch.first = r->first, r->batch.own = r->own;
    if (there) closed_let_in(false);
}

/* For a prompt, what another may have left: no numbers. */
static void lend(rig *r, sac_decoder_state *s) {
    sac_error err = {0};
    sac_arena *from = r->there ? &r->lent_device : &r->lent_host;
    sac_decoder_loan loan = sac_decoder_loan_plan(s, &r->d, SAC_FOR_PROMPT);
    size_t n = sac_decoder_loan_bytes(&loan);
    assert_true(n <= CLOSED_BYTES - LENT_FROM);
    closed_let_in(r->there);
    memset(sac_arena_take(from, n), 0xff, n);
    closed_let_in(false);
    sac_arena_release(from, 0);
    assert_ok(sac_decoder_lend(s, &r->d, SAC_FOR_PROMPT, &r->stream, from, &err), err);
    assert_int_equal(from->used_bytes, n);
    closed_let_in(r->there);
    for (size_t i = 0; r->there && i < loan.staging_bytes;
         i++) /* what a GPU may multiply by 0 before it is written */
        assert_true(!s->cache.staging || i >= s->cache.layer_bytes || s->cache.staging[i] == 0);
    closed_let_in(false);
}

static void give_back(rig *r, sac_decoder_state *s) {
    sac_decoder_give_back(s);
    sac_arena_release(&r->lent_device, 0);
    sac_arena_release(&r->lent_host, 0);
}

/* What the sequence holds goes; its prompt is run. */
static sac_status run_prompt(rig *r, int i, sac_error *err) {
    sac_decoder_state *s = &r->states[i];
    const int n = party[i % n_party].n_prompt;
    int32_t ids[CTX];
    for (int k = 0; k < n; k++) ids[k] = (k * 7 + i * 5) % VOCAB;
    sac_decoder_rewind(s, 0);
    lend(r, s);
    sac_status st = sac_decoder_embed(&r->d, s, &r->ops, &r->stream, 0, n, ids);
    if (st == SAC_OK) st = sac_decoder_prefill(&r->d, s, &r->ops, &r->stream, 0, n, 1, NULL, NULL, err);
    if (st == SAC_OK) st = sac_decoder_last_logits(&r->d, s, &r->ops, &r->stream);
    give_back(r, s);
    return st;
}

static void begin(rig *r, int i) {
    sac_error err = {0};
    const guest *g = &party[i % n_party];
    sac_decoder_state *s = &r->states[i];
    sac_decoder_options o = {.n_ctx = CTX,
                             .chunk = 16,
                             .prefill = g->prefill,
                             .decode = g->decode,
                             .kv = g->kv,
                             .device = r->there ? &closed_device : NULL};
    assert_ok(sac_decoder_state_open(s, &r->d, &o, &err), err);
    assert_ok(sac_decoder_state_take(s, &r->d, r->there ? &r->device : &r->host, &r->host, &err), err);
    assert_true(r->device.used_bytes <= LENT_FROM);
    s->adapter = adapters ? i % (ADAPTERS + 1) : 0;
    assert_ok(run_prompt(r, i, &err), err);
}

static void close_rig(rig *r) {
    for (int i = 0; i < MOST; i++)
        if (r->states[i].logits) sac_decoder_state_free(&r->states[i]);
    sac_arena_free(&r->host);
    sac_arena_free(&r->lent_host);
    sac_pool_free(r->pool);
}

#endif
