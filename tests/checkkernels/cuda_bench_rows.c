/* cuda_bench_rows.c - what cuda_bench.c times: real layers, contexts and pictures. */
#include "cuda/weights/code_layout.h"
#include "cuda_bench.h"
#include "even_tiles.h"
#include "pack_rows.h"

#include <stdlib.h>
#include <string.h>

/* The next n elements of the arena: random numbers in [-1, 1) as bf16, which as f16 are numbers too. */
static void *take(bench *b, int64_t n, sac_dtype t) {
    void *p = b->arena + b->span;
    b->span += ((size_t)n * (t == SAC_DTYPE_F32 ? 4 : 2) + 255) / 256 * 256;
    return p;
}
static sac_mat mat(bench *b, int64_t rows, int64_t cols) {
    return (sac_mat){take(b, rows * cols, SAC_DTYPE_BF16), rows, cols, cols, SAC_DTYPE_BF16};
}
static float *floats(bench *b, int64_t n) {
    return take(b, n, SAC_DTYPE_F32);
}
/* Numbers at the end of the arena: calls share them. */
static void *shared_at_end(bench *b, const void *host, size_t n_bytes, size_t offset) {
    void *p = b->arena + ARENA_BYTES - SHARED_BYTES + offset;
    b->w->device->upload(&b->w->stream, p, host, n_bytes);
    b->w->device->stream_sync(&b->w->stream, NULL);
    return p;
}
/* n int32 below `most`. */
static int32_t *indices(bench *b, int64_t n, int64_t most) {
    int32_t *host = malloc((size_t)n * 4);
    for (int64_t i = 0; i < n; i++) host[i] = (int32_t)(i * 7 % most);
    int32_t *p = shared_at_end(b, host, (size_t)n * 4, 0);
    free(host);
    return p;
}
/* A list for every head: each `every`-th of n rows. */
static const sac_row_lists *lists(bench *b, int n_lists, int64_t n, int64_t every) {
    int64_t each = n / every, start[65];
    int32_t *host = malloc((size_t)(each * n_lists) * 4);
    for (int64_t i = 0; i < each * n_lists; i++) host[i] = (int32_t)(i % each * every);
    for (int i = 0; i <= n_lists; i++) start[i] = i * each;
    b->c.lists = (sac_row_lists){shared_at_end(b, host, (size_t)(each * n_lists) * 4, 4096),
                                 shared_at_end(b, start, sizeof start, 0), n_lists};
    free(host);
    return &b->c.lists;
}

static void open_row(bench *b, check_op op, const char *shape) {
    memset(&b->c, 0, sizeof b->c);
    b->n_more = 0;
    b->name = NULL;
    b->c.op = op;
    b->span = 0;
    b->bytes = b->flops = 0;
    snprintf(b->shape, sizeof b->shape, "%s", shape);
}

void cuda_bench_linear(bench *b, int64_t m, int64_t n, int64_t k, sac_activation act, bool bias,
                       bool accumulate) {
    char text[64];
    snprintf(text, sizeof text, "%lldx%lld->%lld%s%s%s", (long long)m, (long long)k, (long long)n,
             bias ? " bias" : "", act ? " act" : "", accumulate ? " +=" : "");
    open_row(b, CHECK_linear, text);
    sac_mat x = mat(b, m, k), y = mat(b, m, n);
    b->c.linear = (sac_linear_args){.y = y, .x = x, .act = act, .accumulate = accumulate};
    b->c.linear.w = sac_weight_of((sac_tensor){take(b, n * k, SAC_DTYPE_BF16), SAC_DTYPE_BF16, 2, {n, k}});
    if (bias) b->c.linear.bias = floats(b, n);
    b->flops = 2.0 * (double)m * (double)n * (double)k;
    b->bytes =
        2.0 * ((double)n * (double)k + (double)m * (double)k + (double)m * (double)n * (accumulate ? 2 : 1));
}

void cuda_bench_blocks(bench *b, sac_dtype t, int64_t m, int64_t n, int64_t k) {
    const size_t n_bytes = sac_block_layout_bytes(t, n, k);
    char text[64];
    snprintf(text, sizeof text, "%s %lldx%lld->%lld", sac_dtype_name(t), (long long)m, (long long)k,
             (long long)n);
    open_row(b, CHECK_linear, text);
    b->name = "blocks";
    b->c.linear = (sac_linear_args){.y = mat(b, m, n), .x = mat(b, m, k)};
    b->c.linear.w = sac_weight_of((sac_tensor){take(b, (int64_t)n_bytes / 2, SAC_DTYPE_BF16), t, 2, {n, k}});
    b->flops = 2.0 * (double)m * (double)n * (double)k;
    b->bytes = (double)n_bytes + 2.0 * ((double)m * (double)k + (double)m * (double)n);
}

/* As a checkpoint has them that rounds x for each row, or for each 128 elements. */
void cuda_bench_fp8(bench *b, int64_t m, int64_t n, int64_t k, bool by_blocks) {
    char text[64];
    cuda_bench_blocks(b, sac_code_layout_is_plain(b->w->device) ? SAC_DTYPE_E4M3_ROWS : SAC_DTYPE_E4M3_128, m, n, k);
    snprintf(text, sizeof text, "%lldx%lld->%lld%s", (long long)m, (long long)k, (long long)n, by_blocks ? " blocks" : "");
    snprintf(b->shape, sizeof b->shape, "%s", text);
    b->name = "fp8";
    sac_weight *w = &b->c.linear.w;
    w->format = SAC_WEIGHT_FP8, w->group = by_blocks ? 128 : k, w->group_rows = by_blocks ? 128 : 0;
    w->x_rounding = by_blocks ? SAC_X_FP8_GROUPS : SAC_X_FP8_ROWS;
}

void cuda_bench_attention(bench *b, int64_t n_batch, int64_t n_q, int64_t n_kv, int heads, int kv_heads,
                          int d, bool causal) {
    char text[64];
    snprintf(text, sizeof text, "%lldx %lld of %lld, %d/%d x %d%s", (long long)n_batch, (long long)n_q,
             (long long)n_kv, heads, kv_heads, d, causal ? " causal" : "");
    open_row(b, CHECK_attention, text);
    int64_t rows = n_batch * n_kv, cols = (int64_t)kv_heads * d;
    sac_mat q = mat(b, n_batch * n_q, (int64_t)heads * d), o = mat(b, n_batch * n_q, (int64_t)heads * d);
    sac_attention_args *a = &b->c.attention;
    *a = (sac_attention_args){.o = o,
                              .q = q,
                              .n_q = n_q,
                              .n_kv = n_kv,
                              .first = n_kv - n_q,
                              .n_batch = n_batch,
                              .batch_rows = n_batch == 1 ? 0
                                            : causal     ? n_q
                                                         : n_kv,
                              .kv_batch_rows = n_batch > 1 ? n_kv : 0,
                              .n_heads = heads,
                              .scale = 0.1f,
                              .causal = causal};
    a->kv = (sac_kv_view){.dtype = SAC_DTYPE_BF16,
                          .n_heads = kv_heads,
                          .head_dim = d,
                          .n_rows = rows,
                          .row_stride = cols,
                          .head_stride = d};
    a->kv.k = take(b, rows * cols, SAC_DTYPE_BF16);
    a->kv.v = take(b, rows * cols, SAC_DTYPE_BF16);
    double seen = causal ? (double)n_q * ((double)n_kv - (double)n_q / 2 + 0.5) : (double)n_q * (double)n_kv;
    b->flops = 4.0 * (double)n_batch * seen * heads * d;
    b->bytes = 2.0 * (2.0 * (double)(rows * cols) + 2.0 * (double)(n_batch * n_q) * heads * d);
}
void cuda_bench_capped_attention(bench *b, int64_t n_q, int64_t n_kv, int heads, int kv_heads, int d) {
    char text[sizeof b->shape];
    cuda_bench_attention(b, 1, n_q, n_kv, heads, kv_heads, d, true);
    b->c.attention.softcap = 50;
    snprintf(text, sizeof text, "%.40s capped", b->shape);
    snprintf(b->shape, sizeof b->shape, "%s", text);
}

void cuda_bench_elementwise(bench *b, check_op op, int64_t rows, int64_t n) {
    char text[64];
    check_case *c = &b->c;
    snprintf(text, sizeof text, "%lldx%lld", (long long)rows, (long long)n);
    open_row(b, op, text);
    sac_mat x = mat(b, rows, n), y = mat(b, rows, n);
    double moved = 2.0 * (double)(rows * n);
    b->bytes = 2 * moved;
    switch ((int)op) {
    case CHECK_rmsnorm: c->rmsnorm = (sac_rmsnorm_args){y, x, floats(b, n), 1e-6f}; break;
    case CHECK_layernorm: c->layernorm = (sac_layernorm_args){y, x, floats(b, n), floats(b, n), 1e-6f}; break;
    case CHECK_swiglu:
        c->swiglu = (sac_swiglu_args){.y = y, .gate = x, .up = mat(b, rows, n)};
        b->bytes = 3 * moved;
        break;
    case CHECK_scale_add:
        c->scale_add = (sac_scale_add_args){.y = y, .x = x, .scale = floats(b, n)};
        b->bytes = 3 * moved;
        break;
    case CHECK_causal_conv:
        c->many.states[0] = (sac_state_rows){rows, floats(b, 3 * n)};
        c->causal_conv = (sac_causal_conv_args){y, x, floats(b, 4 * n), 4, c->many.states, 1};
        break;
    case CHECK_delta_rule: { /* of heads of 128, two to a key head */
        const int64_t heads = n / 128;
        const sac_mat k = mat(b, rows, n / 2), gate = mat(b, rows, heads);
        c->many.states[0] = (sac_state_rows){rows, floats(b, n * 128)};
        c->delta_rule = (sac_delta_rule_args){y, k, k, x, gate, gate, floats(b, heads), floats(b, heads), (int)heads, (int)heads / 2,
                                              1e-6f, c->many.states, 1};
        b->bytes += 8.0 * 128 * (double)n;
        break;
    }
    case CHECK_gather_rows:
        c->gather_rows = (sac_gather_rows_args){y, x, indices(b, rows, rows), NULL};
        break;
    case CHECK_blend_rows:
        c->blend_rows = (sac_blend_rows_args){.y = y,
                                              .x = x,
                                              .source = indices(b, rows * SAC_BLEND_TAPS, rows),
                                              .weight = floats(b, rows * SAC_BLEND_TAPS),
                                              .n_tiles = 1};
        break;
    case CHECK_scatter_rows:
        c->scatter_rows = (sac_scatter_rows_args){y, x, indices(b, rows, rows), true};
        b->bytes = 3 * moved;
        break;
    case CHECK_rope:
        c->rope = (sac_rope_args){
            x, (int)(n / 128), 128, {floats(b, rows * 128), 128, false, 1}, indices(b, rows, rows), false};
        b->bytes = 2 * moved + 4.0 * 128 * (double)rows;
        break;
    case CHECK_kv_store: {
        sac_kv_view kv = {.k = take(b, rows * n, SAC_DTYPE_BF16),
                          .v = take(b, rows * n, SAC_DTYPE_BF16),
                          .dtype = SAC_DTYPE_BF16,
                          .n_heads = (int)(n / 128),
                          .head_dim = 128,
                          .n_rows = rows,
                          .row_stride = n,
                          .head_stride = 128};
        c->kv_store = (sac_kv_store_args){kv, x, y, 0};
        b->bytes = 4 * moved;
        break;
    }
    case CHECK_embed:
        c->embed = (sac_embed_args){.y = y,
                                    .table = sac_weight_of((sac_tensor){x.data, SAC_DTYPE_BF16, 2, {rows, n}}),
                                    .ids = indices(b, rows, rows)};
        break;
    case CHECK_pool_tokens: /* rows = tiles of 24 x 24 */
        y.rows = rows / 576 * 144;
        x.rows = rows / 576 * 576;
        c->pool_tokens = (sac_pool_tokens_args){y, x, rows / 576, 24, 24, 2};
        b->bytes = 1.25 * moved;
        break;
    default: break;
    }
}

static sac_kv_view keys_of(bench *b, int64_t n, int heads, int d) {
    sac_kv_view kv = {
        .dtype = SAC_DTYPE_BF16, .n_heads = heads, .head_dim = d, .n_rows = n, .head_stride = d};
    kv.row_stride = (int64_t)heads * d;
    kv.k = take(b, n * heads * d, SAC_DTYPE_BF16);
    kv.v = take(b, n * heads * d, SAC_DTYPE_BF16);
    return kv;
}

void cuda_bench_scores(bench *b, int64_t n, int n_queries, bool turned) {
    char text[64];
    snprintf(text, sizeof text, "%d x %lld keys%s, 28/4 x 128", n_queries, (long long)n,
             turned ? " turned" : "");
    open_row(b, CHECK_key_scores, text);
    b->c.key_scores = (sac_key_scores_args){.scores = floats(b, n_queries * 28 * n),
                                            .stride = n,
                                            .q = floats(b, n_queries * 3584),
                                            .n_heads = 28,
                                            .n = n,
                                            .scale = 0.1f,
                                            .n_queries = n_queries};
    if (n_queries > 1) b->c.key_scores.lse = floats(b, n_queries * 28);
    b->c.key_scores.kv = keys_of(b, n, 4, 128);
    b->bytes = (double)n * (1024 + n_queries * 28 * 4 + (turned ? 512 : 0));
    b->c.rotation = (sac_rotation){.rot_dim = 128, .factor = 1};
    if (turned) {
        b->c.rotation.cos_sin = floats(b, n * 128);
        b->c.key_scores.back = &b->c.rotation;
    }
    b->flops = 2.0 * 3584 * (double)n * n_queries;
}

void cuda_bench_pages(bench *b, check_op op, int64_t n_keys) {
    char text[64];
    int64_t n = n_keys / 16;
    snprintf(text, sizeof text, "%lld pages, 28/4 x 128", (long long)n);
    open_row(b, op, text);
    if (op == CHECK_page_bounds) {
        b->c.page_bounds = (sac_page_bounds_args){.page = 16, .n = n};
        b->c.page_bounds.kv = keys_of(b, n_keys, 4, 128);
        b->c.page_bounds.bounds = keys_of(b, n, 4, 256);
        b->bytes = 1024.0 * (double)n_keys + 2048.0 * (double)n;
        return;
    }
    b->c.page_scores = (sac_page_scores_args){.n_sums = 4, .n_heads = 28, .n = n, .stride = n};
    b->c.page_scores.q = mat(b, 1, 3584);
    b->c.page_scores.bounds = keys_of(b, n, 4, 256);
    b->c.page_scores.scores = floats(b, 4 * n);
    b->bytes = (2048.0 + 16) * (double)n;
}

void cuda_bench_channel_sums(bench *b, int64_t n) {
    char text[64];
    snprintf(text, sizeof text, "%lld tokens, 28/4 x 128", (long long)n);
    open_row(b, CHECK_channel_sums, text);
    b->c.channel_sums = (sac_channel_sums_args){.n_heads = 28, .sums = floats(b, 512)};
    b->c.channel_sums.q = mat(b, n, 3584);
    b->c.channel_sums.kv = keys_of(b, n, 4, 128);
    b->bytes = (7168.0 + 1024) * (double)n;
}

/* 16 channels of 128. */
void cuda_bench_labels(bench *b, int64_t n) {
    char text[64];
    snprintf(text, sizeof text, "%lld keys, 16 of 4 x 128", (long long)n);
    open_row(b, CHECK_pick_channels, text);
    b->c.pick_channels = (sac_pick_channels_args){.n_sets = 4, .channels = indices(b, 64, 128), .n = n};
    b->c.pick_channels.src = keys_of(b, n, 4, 128);
    b->c.pick_channels.dst = keys_of(b, n, 4, 16);
    b->bytes = 2 * 128.0 * (double)n; /* of what is asked for: lines are fetched whole */
}

void cuda_bench_vote(bench *b, check_op op, int groups, int64_t n) {
    char text[64];
    snprintf(text, sizeof text, "%d x 28 x %lld", groups, (long long)n);
    open_row(b, op, text);
    float *scores = floats(b, groups * 28 * n), *lse = floats(b, groups * 28), *votes = floats(b, groups * n);
    if (op == CHECK_softmax)
        b->c.softmax = (sac_softmax_args){scores, n, n, NULL, 28 * groups, lse, NULL, NULL};
    else
        b->c.soft_vote = (sac_soft_vote_args){scores, n, n, 28, lse, votes, groups, NULL};
    b->bytes = 4.0 * (double)(groups * n) * (op == CHECK_softmax ? 28 : 29);
}

void cuda_bench_sums(bench *b, int64_t n, int64_t n_q, int n_sums) {
    char text[64];
    snprintf(text, sizeof text, "%lld probes, %lld keys, %d sums", (long long)n_q, (long long)n, n_sums);
    open_row(b, CHECK_attention_sums, text);
    b->c.attention_sums = (sac_attention_sums_args){.sums = floats(b, n_sums * n),
                                                    .stride = n,
                                                    .n_sums = n_sums,
                                                    .q = mat(b, n_q, 3584),
                                                    .first = n - n_q,
                                                    .n_kv = n,
                                                    .n_heads = 28,
                                                    .scale = 0.1f};
    b->c.attention_sums.kv = keys_of(b, n, 4, 128);
    b->flops = 4.0 * 3584 * (double)n_q * (double)n;
}

void cuda_bench_gather(bench *b, int64_t n, int64_t every, int n_lists) {
    char text[64];
    snprintf(text, sizeof text, "%lld of %lld rows, 4 x 128, %d lists", (long long)(n / every), (long long)n,
             n_lists);
    open_row(b, CHECK_kv_gather, text);
    b->c.kv_gather = (sac_kv_gather_args){.dst = keys_of(b, n / every, 4, 128), .src = keys_of(b, n, 4, 128)};
    b->c.kv_gather.lists = lists(b, n_lists, n, every);
    b->bytes = 2.0 * 2048 * (double)(n / every);
}

void cuda_bench_listed_attention(bench *b, int64_t n, int64_t every, int n_lists) {
    char text[64];
    cuda_bench_attention(b, 1, 1, n, 28, 4, 128, true);
    snprintf(text, sizeof text, "1 query, %lld of %lld rows, %d lists", (long long)(n / every), (long long)n,
             n_lists);
    snprintf(b->shape, sizeof b->shape, "%s", text);
    b->c.attention.lists = lists(b, n_lists, n, every);
    b->c.attention.n_kv = n / every;
    b->bytes = 2048.0 * (double)(n / every);
    b->flops /= (double)every;
}

void cuda_bench_choice(bench *b, check_op op, int rows, int64_t n, int64_t k) {
    char text[64];
    bool is_scores = k < 0; /* of top_p */
    if (is_scores) k = -k;
    snprintf(text, sizeof text, op == CHECK_top_k ? "%lld of %d x %lld" : "0.%lld of %d x %lld%s",
             (long long)k, rows, (long long)n, is_scores ? " scores" : "");
    open_row(b, op, text);
    float *scores = floats(b, rows * n);
    int32_t *out = take(b, rows * k + 4 * rows, SAC_DTYPE_F32);
    if (op == CHECK_top_k)
        b->c.top_k = (sac_top_k_args){scores, n, n, rows, k, out, NULL};
    else
        b->c.top_p = (sac_top_p_args){scores,
                                      NULL,
                                      n,
                                      n,
                                      rows,
                                      (double)k / 100,
                                      (float *)(void *)out,
                                      (int64_t *)(void *)(out + 2 * rows),
                                      is_scores};
    b->bytes = 4.0 * (double)(rows * n);
}

void cuda_bench_largest(bench *b, int rows, int64_t n) {
    char text[64];
    snprintf(text, sizeof text, "%d x %lld", rows, (long long)n);
    open_row(b, CHECK_largest, text);
    float *x = floats(b, rows * n);
    b->c.largest = (sac_largest_args){x, n, n, rows, take(b, rows, SAC_DTYPE_F32), floats(b, rows)};
    b->bytes = 4.0 * (double)(rows * n);
}

/* All by a temperature of 1, and a token drawn far down. */
void cuda_bench_weights(bench *b, int rows, int64_t n) {
    float ones[64];
    double u[64];
    char text[64];
    for (int i = 0; i < 64; i++) ones[i] = 1, u[i] = 0.7;
    snprintf(text, sizeof text, "%d x %lld", rows, (long long)n);
    open_row(b, CHECK_weigh_scores, text);
    float *x = floats(b, rows * n);
    const float *of_rows = shared_at_end(b, ones, sizeof ones, 0);
    uint8_t *out = shared_at_end(b, u, sizeof u, 2048); /* what is written is no number for a later call to read */
    b->c.weigh_scores = (sac_weigh_scores_args){.x = x,
                                                .stride = n,
                                                .n = n,
                                                .n_rows = rows,
                                                .best = of_rows,
                                                .scale = of_rows,
                                                .u = shared_at_end(b, u, sizeof u, 1024),
                                                .total = (double *)(void *)out,
                                                .at = (int32_t *)(void *)(out + 1024),
                                                .value = (float *)(void *)(out + 2048)};
    b->bytes = 4.0 * (double)(rows * n);
}

/* The same 300 tokens and a mask of each row, of any bits. */
void cuda_bench_edits(bench *b, int rows, int64_t n) {
    enum { EDITS = 300 };
    sac_score_edit edits[EDITS];
    int32_t counts[64], ones[64];
    char text[64];
    for (int i = 0; i < 64; i++) counts[i] = EDITS, ones[i] = 1;
    for (int i = 0; i < EDITS; i++) edits[i] = (sac_score_edit){(int32_t)(i * 501 % n), 0, 1.1f, 0.5f};
    snprintf(text, sizeof text, "%d x %lld", rows, (long long)n);
    open_row(b, CHECK_edit_scores, text);
    const int64_t words = (n + 31) / 32;
    b->c.edit_scores = (sac_edit_scores_args){.x = floats(b, rows * n),
                                              .stride = n,
                                              .n = n,
                                              .n_rows = rows,
                                              .most = EDITS,
                                              .n_edits = shared_at_end(b, counts, sizeof counts, 0),
                                              .edits = shared_at_end(b, edits, sizeof edits, 1024),
                                              .is_masked = shared_at_end(b, ones, sizeof ones, 512),
                                              .masks = take(b, rows * words, SAC_DTYPE_F32),
                                              .mask_stride = words};
    b->bytes = 4.0 * (double)(rows * n);
}

/* A part of n rows as the mixed cache has it. Its ranges are what the arena holds: any numbers do. */
static sac_packed_rows part_of(bench *b, int64_t n, int bits) {
    sac_packed_rows p = {.n = n, .capacity = n, .n_heads = 4, .head_dim = 128, .bits = bits, .k_group = n};
    p.v_group = 512;
    sac_pack_place(&p, take(b, (int64_t)sac_pack_bytes(&p) / 4 + 1, SAC_DTYPE_F32));
    p.v_channel = take(b, 512, SAC_DTYPE_F16);
    b->bytes += (double)n * (1024.0 * bits / 8 + 4);
    return p;
}

/* Qwen2-7B's: 28 and 4 heads of 128, 3584 channels, 18944 in the middle. */
static sac_weight step_weights(bench *b, int64_t n) {
    return sac_weight_of((sac_tensor){take(b, n * 3584, SAC_DTYPE_BF16), SAC_DTYPE_BF16, 2, {n, 3584}});
}
void cuda_bench_qkv_step(bench *b) {
    open_row(b, CHECK_qkv_step, "3584->28+4+4 heads of 128");
    sac_qkv_step_args *a = &b->c.qkv_step;
    *a = (sac_qkv_step_args){.x = mat(b, 1, 3584), .eps = 1e-6f, .n_heads = 28, .kv = keys_of(b, 8, 4, 128)};
    a->q = mat(b, 1, 3584);
    a->norm = floats(b, 3584);
    a->wq = step_weights(b, 3584), a->wk = step_weights(b, 512), a->wv = step_weights(b, 512);
    a->q_bias = floats(b, 3584), a->k_bias = floats(b, 512), a->v_bias = floats(b, 512);
    a->rotation = (sac_rotation){.cos_sin = floats(b, 8 * 128), .rot_dim = 128, .factor = 1};
    a->pos = indices(b, 1, 8);
    b->bytes = 2.0 * 4608 * 3584;
}
void cuda_bench_gate_up_step(bench *b, int64_t rows) {
    char text[64];
    snprintf(text, sizeof text, "%lldx3584->2x18944", (long long)rows);
    open_row(b, CHECK_gate_up_step, text);
    sac_gate_up_step_args *a = &b->c.gate_up_step;
    *a = (sac_gate_up_step_args){.y = mat(b, rows, 18944), .x = mat(b, rows, 3584), .eps = 1e-6f};
    a->norm = floats(b, 3584);
    a->gate = step_weights(b, 18944), a->up = step_weights(b, 18944);
    b->bytes = 2.0 * 2 * 18944 * 3584;
}

/* ---------------------------------------------------------------- a step of Llama-3.1-8B in GGUF's blocks */

static sac_weight block_weights(bench *b, sac_dtype t, int64_t n, int64_t k) {
    const size_t n_bytes = sac_block_layout_bytes(t, n, k);
    b->bytes += (double)n_bytes;
    return sac_weight_of((sac_tensor){take(b, (int64_t)n_bytes / 2, SAC_DTYPE_BF16), t, 2, {n, k}});
}
void cuda_bench_qkv_blocks(bench *b, sac_dtype t, sac_dtype of_values, bool interleaved) {
    char text[64];
    snprintf(text, sizeof text, "%s/%s 4096->32+8+8x128%s", sac_dtype_name(t), sac_dtype_name(of_values),
             interleaved ? " interleaved" : "");
    open_row(b, CHECK_qkv_step, text);
    sac_qkv_step_args *a = &b->c.qkv_step;
    *a = (sac_qkv_step_args){.x = mat(b, 1, 4096), .eps = 1e-6f, .n_heads = 32, .kv = keys_of(b, 8, 8, 128)};
    b->bytes = 0;
    a->q = mat(b, 1, 4096);
    a->norm = floats(b, 4096);
    a->wq = block_weights(b, t, 4096, 4096), a->wk = block_weights(b, t, 1024, 4096);
    a->wv = block_weights(b, of_values, 1024, 4096);
    a->rotation = (sac_rotation){.cos_sin = floats(b, 8 * 128), .rot_dim = 128, .interleaved = interleaved, .factor = 1};
    a->pos = indices(b, 1, 8);
}
void cuda_bench_gate_blocks(bench *b, sac_dtype t) {
    char text[64];
    snprintf(text, sizeof text, "%s 4096->2x14336", sac_dtype_name(t));
    open_row(b, CHECK_gate_up_step, text);
    sac_gate_up_step_args *a = &b->c.gate_up_step;
    *a = (sac_gate_up_step_args){.y = mat(b, 1, 14336), .x = mat(b, 1, 4096), .eps = 1e-6f};
    a->norm = floats(b, 4096);
    a->gate = block_weights(b, t, 14336, 4096), a->up = block_weights(b, t, 14336, 4096);
}

void cuda_bench_packed_step(bench *b, int64_t n) {
    char text[64];
    snprintf(text, sizeof text, "%lld rows, 42 %% in 4 bits, 28/4 x 128", (long long)n);
    open_row(b, CHECK_packed_step, text);
    sac_packed_step_args *a = &b->c.packed_step;
    b->c.parts[0] = part_of(b, n * 42 / 100, 4);
    b->c.parts[1] = part_of(b, n - n * 42 / 100, 2);
    *a = (sac_packed_step_args){.parts = b->c.parts, .n_parts = 2, .n_heads = 28, .scale = 0.01f};
    a->q = mat(b, 1, 3584);
    a->tail = keys_of(b, 50, 4, 128);
    b->bytes += 50 * 2048;
    b->flops = 4.0 * 3584 * (double)n;
}

/* Tiles of so many rows, of keys in 4 bits and values in 2. */
static sac_even_tiles tiles_of(bench *b, int64_t n, int bits) {
    sac_even_tiles t = {.n = n / SAC_EVEN_TILE, .n_heads = 4, .head_dim = 128, .k_bits = bits, .v_bits = bits == 4 ? 2 : bits};
    const size_t n_bytes = (size_t)t.n * sac_even_tile_bytes(4, 128, t.k_bits, t.v_bits);
    t.at = take(b, (int64_t)n_bytes / 4, SAC_DTYPE_F32);
    b->bytes += (double)n_bytes;
    return t;
}

void cuda_bench_even_step(bench *b, int64_t n) {
    char text[64];
    snprintf(text, sizeof text, "%lld rows, 4 and 2 bits, 28/4 x 128", (long long)n);
    open_row(b, CHECK_even_step, text);
    sac_even_step_args *a = &b->c.even_step;
    *a = (sac_even_step_args){.n_heads = 28, .scale = 0.01f};
    a->tiles[0] = tiles_of(b, SAC_EVEN_TILE, 8);
    a->tiles[1] = tiles_of(b, n - SAC_EVEN_TILE, 4);
    a->q = mat(b, 1, 3584);
    a->tail = keys_of(b, 50, 4, 128);
    b->bytes += 50 * 2048;
    b->flops = 4.0 * 3584 * (double)n;
}

void cuda_bench_pack_even(bench *b, int64_t n, bool factors) {
    char text[64];
    snprintf(text, sizeof text, "%lld rows, 4 x 128", (long long)n);
    open_row(b, factors ? CHECK_even_factors : CHECK_pack_even, text);
    const sac_even_tiles t = tiles_of(b, n, 4);
    const sac_kv_view kv = keys_of(b, n, 4, 128);
    if (factors)
        b->c.even_factors = (sac_even_factors_args){t, kv, 0};
    else
        b->c.pack_even = (sac_pack_even_args){t, kv, 0};
    b->bytes = 2048.0 * (double)n;
}

void cuda_bench_attention_many(bench *b, int n, int64_t rows) {
    char text[64];
    snprintf(text, sizeof text, "%d x 1 of %lld, 28/4 x 128", n, (long long)rows);
    open_row(b, CHECK_attention_many, text);
    sac_mat q = mat(b, n, 3584);
    for (int i = 0; i < n; i++)
        b->c.many.attention[i] = (sac_attention_args){.o = sac_mat_rows(q, i, 1),
                                                      .q = sac_mat_rows(q, i, 1),
                                                      .kv = keys_of(b, rows, 4, 128),
                                                      .n_q = 1,
                                                      .n_kv = rows,
                                                      .first = rows - 1,
                                                      .n_batch = 1,
                                                      .n_heads = 28,
                                                      .scale = 0.1f,
                                                      .causal = true};
    b->c.attention_many = (sac_attention_many_args){b->c.many.attention, n};
    b->bytes = 2048.0 * (double)rows * n;
    b->flops = 4.0 * 3584 * (double)rows * n;
}

void cuda_bench_packed_step_many(bench *b, int n, int64_t rows) {
    char text[64];
    snprintf(text, sizeof text, "%d x %lld rows, 42 %% in 4 bits", n, (long long)rows);
    open_row(b, CHECK_packed_step_many, text);
    sac_mat q = mat(b, n, 3584);
    for (int i = 0; i < n; i++) {
        b->c.parts[2 * i] = part_of(b, rows * 42 / 100, 4);
        b->c.parts[2 * i + 1] = part_of(b, rows - rows * 42 / 100, 2);
        b->c.many.packed_step[i] = (sac_packed_step_args){.q = sac_mat_rows(q, i, 1),
                                                          .parts = b->c.parts + 2 * i,
                                                          .n_parts = 2,
                                                          .tail = keys_of(b, 50, 4, 128),
                                                          .n_heads = 28,
                                                          .scale = 0.01f};
    }
    b->c.packed_step_many = (sac_packed_step_many_args){b->c.many.packed_step, n};
    b->bytes += 50.0 * 2048 * n;
    b->flops = 4.0 * 3584 * (double)rows * n;
}

void cuda_bench_pack_rows(bench *b, int64_t n) {
    char text[64];
    snprintf(text, sizeof text, "%lld rows, 4 x 128, 4 bits", (long long)n);
    open_row(b, CHECK_pack_rows, text);
    b->c.pack_rows = (sac_pack_rows_args){part_of(b, n, 4), keys_of(b, n, 4, 128), {NULL, n, 0, 1}, 0};
    b->bytes += 2048.0 * (double)n;
}

/* Keys alone, with a range a row, in 4 bits. */
static sac_packed_rows key_copy_of(bench *b, int64_t n) {
    sac_packed_rows p = {.n = n, .capacity = n, .n_heads = 4, .head_dim = 128, .bits = 4};
    p.k = take(b, (int64_t)sac_packed_key_words(4, 128, 4, n), SAC_DTYPE_F32);
    p.k_scale = take(b, 4 * n, SAC_DTYPE_F16);
    p.k_min = take(b, 4 * n, SAC_DTYPE_F16);
    b->bytes += (double)n * 4 * (64 + 4);
    return p;
}

void cuda_bench_pack_keys(bench *b, int64_t n, int64_t n_new) {
    char text[64];
    snprintf(text, sizeof text, "%lld keys of %lld, 4 x 128", (long long)n_new, (long long)n);
    open_row(b, CHECK_pack_rows, text);
    b->c.pack_rows = (sac_pack_rows_args){
        key_copy_of(b, n), keys_of(b, n, 4, 128), {NULL, n_new, n - n_new, 1}, n - n_new};
    b->bytes = (double)n_new * 4 * (64 + 4 + 256);
}

void cuda_bench_packed_scores(bench *b, int64_t n, int64_t n_listed) {
    char text[64];
    snprintf(text, sizeof text, "%lld of %lld, 28/4 x 128", (long long)(n_listed ? n_listed : n),
             (long long)n);
    open_row(b, CHECK_packed_scores, text);
    sac_packed_scores_args *a = &b->c.packed_scores;
    *a = (sac_packed_scores_args){.scores = floats(b, 28 * n), .stride = n, .n_heads = 28, .scale = 0.1f};
    a->q = mat(b, 1, 3584);
    a->keys = key_copy_of(b, n);
    a->n = n_listed ? n_listed : n;
    a->n_lists = 1;
    if (n_listed) a->rows = indices(b, n_listed, n);
    b->bytes = (double)a->n * (4 * (64 + 4) + 28 * 4);
    b->flops = 2.0 * 3584 * (double)a->n;
}

void cuda_bench_packed_vote(bench *b, int64_t n) {
    char text[64];
    snprintf(text, sizeof text, "%lld, 28/4 x 128", (long long)n);
    open_row(b, CHECK_packed_vote, text);
    sac_packed_vote_args *a = &b->c.packed_vote;
    *a = (sac_packed_vote_args){.votes = floats(b, n), .n = n, .n_heads = 28, .scale = 0.1f};
    a->q = mat(b, 1, 3584);
    a->keys = key_copy_of(b, n);
    b->bytes = (double)n * (4 * (64 + 4) + 4);
    b->flops = 2.0 * 3584 * (double)n;
}

/* Random numbers in (-1, 1): a tenth of each row passes. */
void cuda_bench_kept_rows(bench *b, int64_t n, int n_lists) {
    char text[64];
    snprintf(text, sizeof text, "28 x %lld to %d lists", (long long)n, n_lists);
    open_row(b, CHECK_kept_rows, text);
    float threshold[28];
    for (int i = 0; i < 28; i++) threshold[i] = 0.8f;
    b->c.kept_rows = (sac_kept_rows_args){.rows = take(b, n_lists * n, SAC_DTYPE_F32),
                                          .start = take(b, 2 * (n_lists + 1), SAC_DTYPE_F32),
                                          .values = floats(b, 28 * n),
                                          .stride = n,
                                          .n = n,
                                          .n_rows = 28,
                                          .n_lists = n_lists,
                                          .threshold = shared_at_end(b, threshold, sizeof threshold, 0)};
    b->bytes = 28.0 * 4 * (double)n;
}

void cuda_bench_patchify(bench *b, int64_t n_tiles) {
    open_row(b, CHECK_patchify, "pictures of 336, patch 14");
    sac_mat y = mat(b, n_tiles * 576, 588);
    uint8_t *tiles = take(b, n_tiles * 336 * 336 * 3 / 2, SAC_DTYPE_BF16);
    b->c.patchify = (sac_patchify_args){y, tiles, {0.5f, 0.5f, 0.5f}, {0.3f, 0.3f, 0.3f}};
    b->bytes = 3.0 * 336 * 336 * 3 * (double)n_tiles;
}
