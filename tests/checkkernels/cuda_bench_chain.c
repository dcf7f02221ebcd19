/* cuda_bench_chain.c - ops that follow each other in a step, timed as one: TokenSelect's choice for one
 * layer. */
#include "cuda_bench.h"
#include "packed_rows.h"

#include <stdlib.h>
#include <string.h>

static void *take(bench *b, size_t n_bytes) {
    void *p = b->arena + b->span;
    b->span += (n_bytes + 255) / 256 * 256;
    return p;
}

static check_case *next(bench *b, check_op op) {
    check_case *c = &b->more[b->n_more++];
    memset(c, 0, sizeof *c);
    c->op = op;
    return c;
}

static sac_kv_view rows_of(bench *b, int64_t n) {
    sac_kv_view kv = {.dtype = SAC_DTYPE_BF16, .n_heads = 4, .head_dim = 128, .n_rows = n};
    kv.row_stride = 512, kv.head_stride = 128;
    kv.k = take(b, (size_t)n * 1024);
    kv.v = take(b, (size_t)n * 1024);
    return kv;
}

/* Scores of all keys, from a copy in 4 bits or as they are, and the sums of their softmaxes. */
static void add_scan(bench *b, int64_t n, int bits, const sac_kv_view *kv, float *q, float *scores,
                     float *lse) {
    if (bits == 4) {
        sac_packed_rows p = {.n = n, .capacity = n, .n_heads = 4, .head_dim = 128, .bits = 4};
        p.k = take(b, sac_packed_key_words(4, 128, 4, n) * 4);
        p.k_scale = take(b, (size_t)n * 8);
        p.k_min = take(b, (size_t)n * 8);
        b->c.op = CHECK_packed_scores;
        b->c.packed_scores = (sac_packed_scores_args){.scores = scores, .stride = n, .n = n, .keys = p};
        b->c.packed_scores.q = (sac_mat){q, 1, 3584, 3584, SAC_DTYPE_F32};
        b->c.packed_scores.n_heads = 28, b->c.packed_scores.scale = 0.1f;
        b->c.packed_scores.n_lists = 1, b->c.packed_scores.lse = lse;
        return;
    }
    b->c.op = CHECK_key_scores;
    b->c.key_scores = (sac_key_scores_args){.scores = scores, .stride = n, .q = q, .kv = *kv};
    b->c.key_scores.n_heads = 28, b->c.key_scores.n = n, b->c.key_scores.scale = 0.1f;
    next(b, CHECK_softmax)->softmax =
        (sac_softmax_args){.scores = scores, .stride = n, .n = n, .n_rows = 28, .lse = lse};
}

/* Attention of the step's query over the chosen rows: put side by side, each turned to its place, or where
 * they lie. */
static void add_attention(bench *b, const sac_kv_view *kv, int64_t k, const int32_t *chosen, bool listed) {
    sac_mat q = {take(b, 7168), 1, 3584, 3584, SAC_DTYPE_BF16}, o = q;
    o.data = take(b, 7168);
    sac_attention_args a = {.o = o, .q = q, .n_q = 1, .n_kv = k, .first = k - 1, .n_batch = 1, .kv = *kv};
    a.n_heads = 28, a.scale = 0.1f, a.causal = true;
    if (listed) {
        int64_t start[2] = {0, k};
        uint8_t *there = b->arena + ARENA_BYTES - SHARED_BYTES;
        b->w->device->upload(&b->w->stream, there, start, sizeof start);
        b->w->device->stream_sync(&b->w->stream, NULL);
        check_case *c = next(b, CHECK_attention);
        c->attention = a;
        c->lists = (sac_row_lists){chosen, (int64_t *)(void *)there, 1};
        c->attention.lists = &c->lists;
        return;
    }
    a.kv = rows_of(b, k);
    float *angles = take(b, (size_t)kv->n_rows * 512);
    next(b, CHECK_choice_step)->choice_step = (sac_choice_step_args){.q = q,
                                                                     .dst = a.kv,
                                                                     .src = *kv,
                                                                     .chosen = chosen,
                                                                     .n_chosen = k,
                                                                     .n_rows = kv->n_rows,
                                                                     .rotation = {angles, 128, false, 1},
                                                                     .n_heads = 28};
    next(b, CHECK_attention)->attention = a;
}

void cuda_bench_selection(bench *b, int64_t n, int64_t k, int bits, bool listed) {
    memset(&b->c, 0, sizeof b->c);
    b->n_more = 0, b->span = 0, b->flops = 0, b->name = "selection";
    snprintf(b->shape, sizeof b->shape, "%lld of %lld, %d bits, %s", (long long)k, (long long)n, bits,
             listed ? "by list" : "gathered");
    float *q = take(b, 3584 * 4), *scores = take(b, (size_t)n * 28 * 4), *lse = take(b, 28 * 4);
    float *votes = take(b, (size_t)n * 4);
    int32_t *chosen = take(b, (size_t)k * 4);
    sac_kv_view kv = rows_of(b, n);
    add_scan(b, n, bits, &kv, q, scores, lse);
    next(b, CHECK_soft_vote)->soft_vote =
        (sac_soft_vote_args){.scores = scores, .stride = n, .n = n, .n_rows = 28, .lse = lse, .votes = votes};
    next(b, CHECK_top_k)->top_k =
        (sac_top_k_args){.scores = votes, .stride = n, .n = n, .n_rows = 1, .k = k, .indices = chosen};
    add_attention(b, &kv, k, chosen, listed);
    b->bytes = (double)n * 4 * (bits == 4 ? 64 + 4 : 256) + 2048.0 * (double)k;
}
