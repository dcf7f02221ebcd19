/* cuda_bench_step.c - what a layer of Qwen2-7B's shape does in a step, as one chain: of one token, or of one token each of several
 * sequences, without rotation, attention and the store of keys there, which do not depend on how weights are stored. */
#include "cuda/weights/code_layout.h"
#include "cuda_bench.h"

#include <string.h>

enum { HIDDEN = 3584, INTER = 18944, KV = 512, CONTEXT = 1024 };

static void *take(bench *b, size_t n_bytes) {
    void *p = b->arena + b->span;
    b->span += (n_bytes + 255) / 256 * 256;
    return p;
}
static sac_mat mat(bench *b, int64_t rows, int64_t cols) {
    return (sac_mat){take(b, (size_t)(rows * cols) * 2), rows, cols, cols, SAC_DTYPE_BF16};
}
static float *floats(bench *b, int64_t n) {
    return take(b, (size_t)n * 4);
}
/* Of bf16, or FP8 as a checkpoint has it that rounds x for each row, or for each 128 elements. */
static sac_weight weights(bench *b, bench_weights of, int64_t n, int64_t k) {
    const sac_dtype fp8 = sac_code_layout_is_plain(b->w->device) ? SAC_DTYPE_E4M3_ROWS : SAC_DTYPE_E4M3_128,
                    t = of == STEP_BF16 ? SAC_DTYPE_BF16 : fp8;
    const size_t n_bytes = of == STEP_BF16 ? (size_t)(n * k) * 2 : sac_block_layout_bytes(t, n, k);
    sac_weight w = sac_weight_of((sac_tensor){take(b, n_bytes), t, 2, {n, k}});
    b->bytes += (double)n_bytes;
    b->flops += 2.0 * (double)n * (double)k;
    if (of == STEP_BF16) return w;
    const bool by_blocks = of == STEP_FP8_BLOCKS;
    w.format = SAC_WEIGHT_FP8, w.group = by_blocks ? 128 : k, w.group_rows = by_blocks ? 128 : 0;
    w.x_rounding = by_blocks ? SAC_X_FP8_GROUPS : SAC_X_FP8_ROWS;
    return w;
}
static check_case *next(bench *b, check_op op) {
    check_case *c = b->n_more < 0 ? &b->c : &b->more[b->n_more];
    b->n_more++;
    memset(c, 0, sizeof *c);
    c->op = op;
    return c;
}
static void add_product(bench *b, sac_mat y, sac_mat x, sac_weight w) {
    next(b, CHECK_linear)->linear = (sac_linear_args){.y = y, .x = x, .w = w, .accumulate = true};
}
static void add_norm(bench *b, sac_mat y, sac_mat x, const float *norm) {
    next(b, CHECK_rmsnorm)->rmsnorm = (sac_rmsnorm_args){y, x, norm, 1e-6f};
}

/* The product of what attention gives and everything behind it, in one go. */
static void add_out(bench *b, bench_weights of, sac_mat hidden, sac_mat o, sac_mat wide) {
    sac_out_step_args *a = &next(b, CHECK_out_step)->out_step;
    *a = (sac_out_step_args){.x = hidden, .o = o, .wide = wide, .norm = floats(b, HIDDEN), .eps = 1e-6f};
    a->wo = weights(b, of, HIDDEN, HIDDEN);
    a->gate = weights(b, of, INTER, HIDDEN), a->up = weights(b, of, INTER, HIDDEN);
    a->down = weights(b, of, HIDDEN, INTER);
}

static void add_one(bench *b, bench_weights of, sac_mat hidden, bool out_in_one) {
    const sac_mat o = mat(b, 1, HIDDEN), gate = mat(b, 1, INTER);
    const int32_t at = CONTEXT - 1;
    int32_t *pos = (int32_t *)(void *)(b->arena + ARENA_BYTES - SHARED_BYTES); /* calls share it */
    b->w->device->upload(&b->w->stream, pos, &at, sizeof at);
    b->w->device->stream_sync(&b->w->stream, NULL);
    sac_kv_view kv = {.dtype = SAC_DTYPE_BF16, .n_heads = 4, .head_dim = 128, .n_rows = CONTEXT, .row_stride = KV, .head_stride = 128};
    kv.k = take(b, CONTEXT * KV * 2), kv.v = take(b, CONTEXT * KV * 2);
    sac_qkv_step_args *a = &next(b, CHECK_qkv_step)->qkv_step;
    *a = (sac_qkv_step_args){.x = hidden, .eps = 1e-6f, .n_heads = 28, .kv = kv, .first = CONTEXT - 1, .pos = pos};
    a->q = mat(b, 1, HIDDEN);
    a->norm = floats(b, HIDDEN);
    a->wq = weights(b, of, HIDDEN, HIDDEN), a->wk = weights(b, of, KV, HIDDEN), a->wv = weights(b, of, KV, HIDDEN);
    a->q_bias = floats(b, HIDDEN), a->k_bias = floats(b, KV), a->v_bias = floats(b, KV);
    a->rotation = (sac_rotation){.cos_sin = floats(b, CONTEXT * 128), .rot_dim = 128, .factor = 1};
    next(b, CHECK_attention)->attention = (sac_attention_args){.o = o,
                                                               .q = a->q,
                                                               .n_q = 1,
                                                               .n_kv = CONTEXT,
                                                               .first = CONTEXT - 1,
                                                               .n_batch = 1,
                                                               .kv = kv,
                                                               .n_heads = 28,
                                                               .scale = 0.1f,
                                                               .causal = true};
    if (out_in_one) {
        add_out(b, of, hidden, o, gate);
        return;
    }
    add_product(b, hidden, o, weights(b, of, HIDDEN, HIDDEN));
    sac_gate_up_step_args *g = &next(b, CHECK_gate_up_step)->gate_up_step;
    *g = (sac_gate_up_step_args){.y = gate, .x = hidden, .norm = floats(b, HIDDEN), .eps = 1e-6f};
    g->gate = weights(b, of, INTER, HIDDEN), g->up = weights(b, of, INTER, HIDDEN);
    add_product(b, hidden, gate, weights(b, of, HIDDEN, INTER));
}

static sac_mat columns(sac_mat m, int64_t first, int64_t n) {
    m.data = (uint8_t *)m.data + first * 2;
    m.cols = n;
    return m;
}
/* Whether norm, gate and up of more rows are one op, too. */
static bool is_fused(const bench *b, bench_weights of, int64_t rows) {
    const sac_device *d = b->w->device;
    return of == STEP_BF16 && rows > STEP_FUSED_ROWS && rows <= 32 && d->compute == 90 && !d->no_few_rows;
}
static void add_gates(bench *b, bench_weights of, sac_mat gate, sac_mat hidden) {
    sac_gate_up_step_args *f = &next(b, CHECK_gate_up_step)->gate_up_step;
    *f = (sac_gate_up_step_args){.y = gate, .x = hidden, .norm = floats(b, HIDDEN), .eps = 1e-6f};
    f->gate = weights(b, of, INTER, HIDDEN), f->up = weights(b, of, INTER, HIDDEN);
    add_product(b, hidden, gate, weights(b, of, HIDDEN, INTER));
}

/* Outputs of products of the same rows lie side by side, as in a batch. */
static void add_some(bench *b, bench_weights of, sac_mat hidden, bool out_in_one) {
    const int64_t n = hidden.rows;
    const sac_mat x = mat(b, n, HIDDEN), qkv = mat(b, n, HIDDEN + 2 * KV), both = mat(b, n, 2 * INTER), q = columns(qkv, 0, HIDDEN),
                  k = columns(qkv, HIDDEN, KV), v = columns(qkv, HIDDEN + KV, KV), gate = columns(both, 0, INTER),
                  up = columns(both, INTER, INTER);
    add_norm(b, x, hidden, floats(b, HIDDEN));
    sac_linear_group_args *g = &next(b, CHECK_linear_group)->linear_group;
    *g = (sac_linear_group_args){.n = 3, .x = x, .y = {q, k, v}};
    g->w[0] = weights(b, of, HIDDEN, HIDDEN), g->w[1] = weights(b, of, KV, HIDDEN), g->w[2] = weights(b, of, KV, HIDDEN);
    if (out_in_one) {
        add_out(b, of, hidden, q, gate);
        return;
    }
    add_product(b, hidden, q, weights(b, of, HIDDEN, HIDDEN));
    if (is_fused(b, of, n)) {
        add_gates(b, of, gate, hidden);
        return;
    }
    const sac_weight w_gate = weights(b, of, INTER, HIDDEN), w_up = weights(b, of, INTER, HIDDEN);
    if (n <= (w_gate.tensor.dtype == SAC_DTYPE_E4M3_ROWS ? STEP_E4M3_ROWS : STEP_FUSED_ROWS)) {
        sac_gate_up_step_args *f = &next(b, CHECK_gate_up_step)->gate_up_step;
        *f = (sac_gate_up_step_args){.y = gate, .x = hidden, .norm = floats(b, HIDDEN), .eps = 1e-6f, .gate = w_gate, .up = w_up};
    } else {
        add_norm(b, x, hidden, floats(b, HIDDEN));
        g = &next(b, CHECK_linear_group)->linear_group;
        *g = (sac_linear_group_args){.n = 2, .x = x, .y = {gate, up}, .w = {w_gate, w_up}};
        next(b, CHECK_swiglu)->swiglu = (sac_swiglu_args){.y = gate, .gate = gate, .up = up};
    }
    add_product(b, hidden, gate, weights(b, of, HIDDEN, INTER));
}

void cuda_bench_step(bench *b, bench_weights of, int64_t rows, bool out_in_one) {
    static const char *const names[] = {"bf16", "fp8", "fp8 blocks"};
    memset(&b->c, 0, sizeof b->c);
    b->n_more = -1, b->span = 0, b->flops = b->bytes = 0, b->name = "step";
    snprintf(b->shape, sizeof b->shape, "%s, %lld row%s%s", names[of], (long long)rows, rows == 1 ? "" : "s",
             out_in_one ? ", out in one" : "");
    const sac_mat hidden = mat(b, rows, HIDDEN);
    if (rows == 1)
        add_one(b, of, hidden, out_in_one);
    else
        add_some(b, of, hidden, out_in_one);
    b->flops *= (double)rows;
}
