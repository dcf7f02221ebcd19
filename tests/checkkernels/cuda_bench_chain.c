/* cuda_bench_chain.c - ops that follow each other, timed as one: TokenSelect's choice for one layer, in a
 * step and for sixteen chunks of a prompt. */
#include "cuda_bench.h"
#include "packed_rows.h"

#include <math.h>
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

/* The vote over all keys: of a copy in 4 bits in one go; of the keys as they are by scores, the sums of their
 * softmaxes, and the vote. */
static void add_vote(bench *b, int64_t n, int bits, const sac_kv_view *kv, float *votes) {
    float *q = take(b, 3584 * 4);
    if (bits == 4) {
        sac_packed_rows p = {.n = n, .capacity = n, .n_heads = 4, .head_dim = 128, .bits = 4};
        p.k = take(b, sac_packed_key_words(4, 128, 4, n) * 4);
        p.k_scale = take(b, (size_t)n * 8);
        p.k_min = take(b, (size_t)n * 8);
        b->c.op = CHECK_packed_vote;
        b->c.packed_vote =
            (sac_packed_vote_args){.votes = votes, .n = n, .keys = p, .n_heads = 28, .scale = 0.1f};
        b->c.packed_vote.q = (sac_mat){q, 1, 3584, 3584, SAC_DTYPE_F32};
        return;
    }
    float *scores = take(b, (size_t)n * 28 * 4), *lse = take(b, 28 * 4);
    b->c.op = CHECK_key_scores;
    b->c.key_scores = (sac_key_scores_args){.scores = scores, .stride = n, .q = q, .kv = *kv};
    b->c.key_scores.n_heads = 28, b->c.key_scores.n = n, b->c.key_scores.scale = 0.1f;
    next(b, CHECK_softmax)->softmax =
        (sac_softmax_args){.scores = scores, .stride = n, .n = n, .n_rows = 28, .lse = lse};
    next(b, CHECK_soft_vote)->soft_vote =
        (sac_soft_vote_args){.scores = scores, .stride = n, .n = n, .n_rows = 28, .lse = lse, .votes = votes};
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
    float *votes = take(b, (size_t)n * 4);
    int32_t *chosen = take(b, (size_t)k * 4);
    sac_kv_view kv = rows_of(b, n);
    add_vote(b, n, bits, &kv, votes);
    next(b, CHECK_top_k)->top_k =
        (sac_top_k_args){.scores = votes, .stride = n, .n = n, .n_rows = 1, .k = k, .indices = chosen};
    add_attention(b, &kv, k, chosen, listed);
    b->bytes = (double)n * 4 * (bits == 4 ? 64 + 4 : 256) + 2048.0 * (double)k;
}

/* ---------------------------------------------------------------- chunks of a prompt */

enum { CHUNKS = 16, CHUNK = 512, INIT = 128, K = 2048, LOCAL = 512, LENGTH = INIT + K + LOCAL };

static void *at_end(bench *b, size_t offset, const void *host, size_t n_bytes) {
    uint8_t *there = b->arena + ARENA_BYTES - SHARED_BYTES + offset;
    b->w->device->upload(&b->w->stream, there, host, n_bytes);
    b->w->device->stream_sync(&b->w->stream, NULL);
    return there;
}

/* Angles of n positions, those of PATTERN again and again. */
static float *angles_of(bench *b, int64_t n) {
    enum { PATTERN = 4096 };
    float *angles = take(b, (size_t)n * 512), *host = malloc((size_t)PATTERN * 512);
    for (int i = 0; i < PATTERN * 64; i++) host[2 * i] = cosf((float)i), host[2 * i + 1] = sinf((float)i);
    for (int64_t i = 0; i < n; i += PATTERN)
        b->w->device->upload(&b->w->stream, angles + i * 128, host,
                             (size_t)(n - i < PATTERN ? n - i : PATTERN) * 512);
    b->w->device->stream_sync(&b->w->stream, NULL);
    free(host);
    return angles;
}

/* All keys turned back once, or all lists put side by side. */
static void add_gather(check_case *c, sac_kv_view src, sac_kv_view dst, const int32_t *rows,
                       const int32_t *turn, const int64_t *start, float *angles) {
    c->op = CHECK_kv_gather;
    c->lists = (sac_row_lists){rows, start, 1};
    c->rotation = (sac_rotation){angles, 128, false, 1};
    c->kv_gather = (sac_kv_gather_args){
        .dst = dst, .src = src, .lists = &c->lists, .turn_back = turn, .rotation = &c->rotation};
}

static sac_kv_view heads_apart(bench *b, int64_t n) {
    sac_kv_view kv = rows_of(b, n);
    kv.row_stride = 128, kv.head_stride = n * 128;
    return kv;
}

static void add_turn(check_case *c, sac_mat x, float *angles, const int32_t *pos) {
    c->op = CHECK_rope;
    c->rope = (sac_rope_args){.x = x,
                              .n_heads = 28,
                              .head_dim = 128,
                              .rotation = {angles, 128, false, 1},
                              .pos = pos,
                              .back = true};
}

void cuda_bench_prefill_selection(bench *b, int64_t n) {
    static int32_t turns[CHUNKS * CHUNK];
    const int64_t start[2] = {0, CHUNKS * LENGTH}, first = n - (CHUNKS - 1) * CHUNK,
                  n_first = first - INIT - LOCAL, n_last = n_first + (CHUNKS - 1) * CHUNK;
    memset(&b->c, 0, sizeof b->c);
    b->n_more = 0, b->span = 0, b->name = "prefill_selection";
    snprintf(b->shape, sizeof b->shape, "%d chunks of %d, %d of %lld", CHUNKS, CHUNK, LENGTH, (long long)n);
    for (int i = 0; i < CHUNKS * CHUNK; i++) turns[i] = i;
    const int32_t *turn = at_end(b, 0, turns, sizeof turns);
    const int64_t *starts = at_end(b, sizeof turns, start, sizeof start);
    float *means = take(b, CHUNKS * 3584 * 4), *scores = take(b, (size_t)(CHUNKS * 28 * n) * 4);
    float *votes = take(b, (size_t)(CHUNKS * n) * 4), *lse = take(b, CHUNKS * 28 * 4);
    float *angles = angles_of(b, n);
    int32_t *chosen = take(b, CHUNKS * K * 4), *rows = take(b, CHUNKS * LENGTH * 4);
    int32_t *turn_keys = take(b, CHUNKS * LENGTH * 4);
    sac_mat q = {take(b, CHUNKS * CHUNK * 7168), CHUNKS * CHUNK, 3584, 3584, SAC_DTYPE_BF16};
    sac_kv_view kv = heads_apart(b, n), keys = heads_apart(b, n), lists = heads_apart(b, CHUNKS * LENGTH);
    sac_mat o = q;
    o.data = take(b, CHUNKS * CHUNK * 7168);
    if (b->span <= FAR_BYTES)
        b->span = FAR_BYTES + 256; /* one place: an op alone finds what the chain left */
    b->c.op = CHECK_mean_rows;
    b->c.mean_rows = (sac_mean_rows_args){means, q, 1.0f / CHUNK, .n_groups = CHUNKS};
    add_turn(next(b, CHECK_rope), (sac_mat){means, CHUNKS, 3584, 3584, SAC_DTYPE_F32}, angles, turn);
    next(b, CHECK_key_scores)->key_scores = (sac_key_scores_args){.scores = scores,
                                                                  .stride = n,
                                                                  .q = means,
                                                                  .kv = keys,
                                                                  .n_heads = 28,
                                                                  .first = INIT,
                                                                  .n = n_first,
                                                                  .scale = 1,
                                                                  .n_queries = CHUNKS,
                                                                  .n_more = CHUNK,
                                                                  .lse = lse};
    next(b, CHECK_soft_vote)->soft_vote = (sac_soft_vote_args){.scores = scores,
                                                               .stride = n,
                                                               .n = n_last,
                                                               .n_rows = 28,
                                                               .lse = lse,
                                                               .votes = votes,
                                                               .n_groups = CHUNKS};
    next(b, CHECK_top_k)->top_k = (sac_top_k_args){
        .scores = votes, .stride = n, .n = n_last, .n_rows = CHUNKS, .k = K, .indices = chosen};
    next(b, CHECK_choice_rows)->choice_rows = (sac_choice_rows_args){.rows = rows,
                                                                     .turn_back = turn_keys,
                                                                     .chosen = chosen,
                                                                     .n_chosen = K,
                                                                     .init = INIT,
                                                                     .local = LOCAL,
                                                                     .n_rows = first,
                                                                     .n_lists = CHUNKS,
                                                                     .n_more = CHUNK};
    add_gather(next(b, CHECK_kv_gather), kv, lists, rows, turn_keys, starts, angles);
    add_turn(next(b, CHECK_rope), q, angles, turn);
    next(b, CHECK_attention)->attention = (sac_attention_args){.o = o,
                                                               .q = q,
                                                               .kv = lists,
                                                               .n_q = CHUNK,
                                                               .n_kv = LENGTH,
                                                               .first = LENGTH - CHUNK,
                                                               .n_batch = CHUNKS,
                                                               .batch_rows = CHUNK,
                                                               .kv_batch_rows = LENGTH,
                                                               .n_heads = 28,
                                                               .scale = 0.088388f,
                                                               .causal = true};
    b->bytes = (double)n * 1024 + CHUNKS * (LENGTH * 4096.0 + CHUNK * 7168.0 * 2);
    b->flops = 4.0 * 3584 * CHUNKS * CHUNK * (LENGTH - CHUNK / 2);
}

/* What a layer does once before its chunks: its keys without positions. */
void cuda_bench_unturn(bench *b, int64_t n) {
    memset(&b->c, 0, sizeof b->c);
    b->n_more = 0, b->span = 0, b->flops = 0, b->name = "prefill_selection";
    snprintf(b->shape, sizeof b->shape, "%lld keys turned back", (long long)n);
    const int64_t start[2] = {0, n};
    const int64_t *starts = at_end(b, 0, start, sizeof start);
    int32_t *rows = malloc((size_t)n * sizeof *rows);
    for (int64_t i = 0; i < n; i++) rows[i] = (int32_t)i;
    const int32_t *all = at_end(b, 256, rows, (size_t)n * sizeof *rows);
    free(rows);
    float *angles = angles_of(b, n);
    sac_kv_view kv = heads_apart(b, n), keys = heads_apart(b, n);
    add_gather(&b->c, kv, keys, all, all, starts, angles);
    b->c.kv_gather.keys_only = true;
    b->bytes = (double)n * 2560;
}
