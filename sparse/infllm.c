/* infllm.c - the last tokens as they are, and of what came before them the blocks that the query asks for.
 *
 * InfLLM (Xiao et al., arXiv:2402.04617). Queries see their last `local` tokens at true distances. Older tokens,
 * after the first `init`, form blocks of 128 as soon as no query's window can reach them; a block is known by
 * its `repr` representatives of each head, those that the queries of their windows gave most weight to, as the
 * mean of their keys without positions. A chunk's queries, turned to one position, are averaged; the blocks with
 * the best dot product over all heads, `topk` of them, join the first tokens and those that are in no block yet;
 * all of these stand at distance local - 1 from every query. One softmax covers both parts.
 *
 * As in the released code: representatives by weight received (the paper takes the mean of q . k); the mean
 * query over all heads gives one choice for all; each query head has representatives of its own. Ours: weights
 * are those of a softmax over the window alone, and only every `probe`-th query is asked for them (1: all).
 * Nothing is moved to slower memory. */
#include "clock.h"
#include "join.h"

#include <assert.h>
#include <string.h>

enum { INIT, LOCAL, BLOCK, TOPK, REPR, CHUNK, PROBE };

static const sac_method_param params[] = {
    {"init", 128, 0, 1 << 24, "first tokens, always read", NULL},
    {"local", 4096, 1, 1 << 24, "last tokens that a query sees at true distances, itself counted", NULL},
    {"block", 128, 1, 65536, "tokens of a block", NULL},
    {"topk", 16, 1, 65536, "blocks that are read", NULL},
    {"repr", 4, 1, 1024, "tokens whose keys stand for a block, for each head", NULL},
    {"chunk", 512, 1, 4096, "tokens of a prompt that choose together", NULL},
    {"probe", 1, 1, 4096, "every how manieth query is asked which tokens it attends to", NULL},
    {0}};

typedef struct infllm {
    int64_t init, local, block, topk, repr, chunk, probe, max_blocks;
    int n_layers;
    int64_t *n_blocks; /* [n_layers] */
    float *received;   /* [n_layers][n_heads][n_ctx]: weight that a token got while in windows */
    float *block_keys; /* [n_layers][max_blocks][n_heads * head_dim] */
    int32_t *probes;   /* [chunk] */
    float *sums;       /* [n_heads][local + chunk] */
    int32_t *best;     /* [n_heads][repr] */
    float *mean;       /* [n_heads * head_dim] */
    float *scores;     /* [max_blocks] */
    int32_t *chosen;   /* [topk] */
    int32_t *rows;     /* [remote.capacity], the rows of the remote part */
    int64_t span[2];
    sac_choice_scratch remote;
    sac_choice_scratch keys; /* of one head's representatives */
    sac_join_scratch join;
} infllm;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[LOCAL] >= (double)shape->n_ctx;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (p[REPR] > p[BLOCK])
        return sac_fail(err, SAC_BAD_ARGUMENT, "infllm: repr=%g of a block of %g: give repr <= block", p[REPR],
                        p[BLOCK]);
    if (is_off(p, shape)) return SAC_OK;
    if (!shape->fixed_rotation)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "infllm needs keys without their positions, and this model's dynamic rope scaling cannot "
                        "be taken back: use another method");
    if (p[LOCAL] > (double)shape->max_position)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "infllm: local=%g is more than the %lld that the model was trained on: lower it", p[LOCAL],
                        (long long)shape->max_position);
    return SAC_OK;
}

static void take_for(infllm *s, int64_t chunk, const double *p, const sac_attention_shape *shape,
                     sac_arena *arena) {
    size_t n_heads = (size_t)shape->n_heads, n_layers = (size_t)shape->n_layers;
    size_t query_bytes = n_heads * (size_t)shape->head_dim * sizeof(float);
    s->init = (int64_t)p[INIT];
    s->local = (int64_t)p[LOCAL];
    s->block = (int64_t)p[BLOCK];
    s->topk = (int64_t)p[TOPK];
    s->repr = (int64_t)p[REPR];
    s->chunk = (int64_t)p[CHUNK];
    s->probe = (int64_t)p[PROBE];
    s->n_layers = shape->n_layers;
    s->max_blocks = shape->n_ctx / s->block + 1;
    s->n_blocks = sac_arena_take(arena, n_layers * sizeof *s->n_blocks);
    s->received = sac_arena_take(arena, n_layers * n_heads * (size_t)shape->n_ctx * sizeof(float));
    s->block_keys = sac_arena_take(arena, n_layers * (size_t)s->max_blocks * query_bytes);
    s->probes = sac_arena_take(arena, (size_t)s->chunk * sizeof *s->probes);
    s->sums = sac_arena_take(arena, n_heads * (size_t)(s->local + s->chunk) * sizeof(float));
    s->best = sac_arena_take(arena, n_heads * (size_t)s->repr * sizeof *s->best);
    s->mean = sac_arena_take(arena, query_bytes);
    s->scores = sac_arena_take(arena, (size_t)s->max_blocks * sizeof(float));
    s->chosen = sac_arena_take(arena, (size_t)s->topk * sizeof *s->chosen);
    int64_t n_remote = s->init + (s->topk + 1) * s->block + chunk; /* first, blocks, and what is in none yet */
    if (n_remote > shape->n_ctx) n_remote = shape->n_ctx;
    s->rows = sac_arena_take(arena, (size_t)n_remote * sizeof *s->rows);
    sac_choice_scratch_take(&s->remote, shape, n_remote, arena);
    sac_choice_scratch_take(&s->keys, shape, s->repr, arena);
    sac_join_scratch_take(&s->join, shape, chunk, arena);
}

static void take_prefill(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    take_for(state, (int64_t)p[CHUNK], p, shape, arena);
}
static void take_decode(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    take_for(state, 1, p, shape, arena);
}

static void begin(void *state) {
    infllm *s = state;
    memset(s->n_blocks, 0, (size_t)s->n_layers * sizeof *s->n_blocks);
}
