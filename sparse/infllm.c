/* infllm.c - the last tokens as they are, and of what came before them the blocks that the query asks for.
 *
 * InfLLM (Xiao et al., arXiv:2402.04617). Queries see their last `local` tokens at true distances. Older
 * tokens, after the first `init`, form blocks of 128 as soon as no query's window can reach them; a block is
 * known by its `repr` representatives of each head, those that the queries of their windows gave most weight
 * to, as the mean of their keys without positions. A chunk's queries, turned to one position, are averaged;
 * the blocks with the best dot product over all heads, `topk` of them, join the first tokens and those that
 * are in no block yet; all of these stand at distance local - 1 from every query. One softmax covers both
 * parts.
 *
 * As in the released code: representatives by weight received (the paper takes the mean of q . k); the mean
 * query over all heads gives one choice for all; each query head has representatives of its own. Ours:
 * weights are those of a softmax over the window alone, and only every `probe`-th query is asked for them (1:
 * all). Nothing is moved to slower memory. */
#include "attend.h"
#include "block_memory.h"
#include "clock.h"
#include "gathered.h"
#include "join.h"

#include <assert.h>

enum { INIT, LOCAL, BLOCK, TOPK, REPR, CHUNK, PROBE };

static const sac_method_param params[] = {
    {"init", 128, 0, 1 << 24, "first tokens, always read", SAC_WHOLE},
    {"local", 4096, 1, 1 << 24, "last tokens that a query sees at true distances, itself counted", SAC_WHOLE},
    {"block", 128, 1, 65536, "tokens of a block", SAC_WHOLE},
    {"topk", 16, 1, 65536, "blocks that are read", SAC_WHOLE},
    {"repr", 4, 1, 1024, "tokens whose keys stand for a block, for each head", SAC_WHOLE},
    {"chunk", 512, 1, 4096, "tokens of a prompt that choose together", SAC_WHOLE},
    {"probe", 1, 1, 4096, "one query in so many is asked which tokens it attends to", SAC_WHOLE},
    {0}};

typedef struct infllm {
    sac_block_memory memory;
    int64_t init, local, block, topk, chunk;
    /* Where ops run: */
    float *mean;     /* [n_heads * head_dim] */
    float *scores;   /* [blocks] */
    int32_t *chosen; /* [topk] */
    int32_t *rows;   /* [remote.capacity], the rows of the remote part */
    int64_t *start;  /* [2] of that list */
    sac_gathered remote;
    sac_join_scratch join;
} infllm;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[LOCAL] >= (double)shape->n_ctx;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (p[REPR] > p[BLOCK])
        return sac_fail(err, SAC_BAD_ARGUMENT, "infllm: repr=%g of a block of %g: give repr <= block",
                        p[REPR], p[BLOCK]);
    if (is_off(p, shape)) return SAC_OK;
    if (!shape->fixed_rotation)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "infllm needs keys without their positions, and this model's positions (dynamic rope "
                        "scaling, or numbers of their own) cannot "
                        "be taken back: use another method");
    if (p[LOCAL] > (double)shape->max_position)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "infllm: local=%g is more than the %lld that the model was trained on: lower it",
                        p[LOCAL], (long long)shape->max_position);
    return SAC_OK;
}

/* For chunks of so many queries to attend. */
static void take_for(infllm *s, int64_t n_queries, const double *p, const sac_attention_shape *shape,
                     const sac_memory *memory) {
    s->memory = (sac_block_memory){.init = (int64_t)p[INIT],
                                   .local = (int64_t)p[LOCAL],
                                   .block = (int64_t)p[BLOCK],
                                   .repr = (int64_t)p[REPR],
                                   .probe = (int64_t)p[PROBE]};
    s->init = s->memory.init;
    s->local = s->memory.local;
    s->block = s->memory.block;
    s->topk = (int64_t)p[TOPK];
    s->chunk = (int64_t)p[CHUNK];
    sac_block_memory_take(&s->memory, s->chunk, shape, memory);
    s->mean = sac_take_device(memory, (size_t)shape->n_heads * (size_t)shape->head_dim * sizeof(float));
    s->scores = sac_take_device(memory, (size_t)s->memory.max_blocks * sizeof(float));
    s->chosen = sac_take_device(memory, (size_t)s->topk * sizeof *s->chosen);
    s->start = sac_take_device(memory, 2 * sizeof *s->start);
    /* First tokens, blocks, and what is in no block yet. */
    int64_t n_remote = s->init + (s->topk + 1) * s->block + n_queries;
    if (n_remote > shape->n_ctx) n_remote = shape->n_ctx;
    s->rows = sac_take_device(memory, (size_t)n_remote * sizeof *s->rows);
    sac_gathered_take(&s->remote, shape, n_remote, memory);
    sac_join_scratch_take(&s->join, shape, n_queries, memory);
}

static void take_prefill(void *state, const double *p, const sac_attention_shape *shape,
                         const sac_memory *memory) {
    take_for(state, (int64_t)p[CHUNK], p, shape, memory);
}
static void take_decode(void *state, const double *p, const sac_attention_shape *shape,
                        const sac_memory *memory) {
    take_for(state, 1, p, shape, memory);
}

static void begin(void *state) {
    sac_block_memory_begin(&((infllm *)state)->memory);
}

static int64_t min_of(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---------------------------------------------------------------- a chunk of queries */

/* The blocks that the mean of the turned queries asks for, ascending, to s->chosen. */
static sac_status choose_blocks(infllm *s, const sac_layer_attention *chunk) {
    int64_t n_blocks = s->memory.n_blocks[chunk->layer], cols = chunk->q.cols, rows = chunk->q.rows;
    SAC_TRY(chunk->ops->mean_rows(chunk->stream,
                                  &(sac_mean_rows_args){.y = s->mean,
                                                        .x = sac_join_queries(&s->join, chunk->shape, rows),
                                                        .scale = 1,
                                                        .divisor = (float)rows}));
    sac_kv_view blocks = {.k = sac_block_memory_key(&s->memory, chunk, 0),
                          .v = sac_block_memory_key(&s->memory, chunk, 0),
                          .dtype = SAC_DTYPE_F32,
                          .n_heads = 1,
                          .head_dim = (int)cols,
                          .n_rows = n_blocks,
                          .row_stride = cols,
                          .head_stride = n_blocks * cols};
    SAC_TRY(chunk->ops->key_scores(chunk->stream, &(sac_key_scores_args){.scores = s->scores,
                                                                         .stride = n_blocks,
                                                                         .q = s->mean,
                                                                         .kv = blocks,
                                                                         .n_heads = 1,
                                                                         .n = n_blocks,
                                                                         .scale = 1}));
    chunk->stats->n_selections++;
    return chunk->ops->top_k(chunk->stream, &(sac_top_k_args){.scores = s->scores,
                                                              .stride = n_blocks,
                                                              .n = n_blocks,
                                                              .n_rows = 1,
                                                              .k = s->topk,
                                                              .indices = s->chosen});
}

/* First tokens, chosen blocks, and tokens in no block that the window of the chunk's last query has left: *n
 * in all. As long as all blocks can be read that is everything. */
static sac_status list_remote(infllm *s, const sac_layer_attention *chunk, int64_t *n) {
    int64_t end = chunk->kv.n_rows - s->local, n_blocks = s->memory.n_blocks[chunk->layer];
    sac_choice_rows_args args = {.rows = s->rows, .init = end, .n_rows = end, .start = s->start};
    if (n_blocks > s->topk) {
        SAC_TRY(choose_blocks(s, chunk));
        args.chosen = s->chosen;
        args.n_chosen = s->topk;
        args.page = s->block;
        args.init = s->init;
        args.local = end - s->init - n_blocks * s->block;
    }
    *n = args.init + args.n_chosen * s->block + args.local;
    assert(*n <= s->remote.capacity && *n >= chunk->q.rows);
    return chunk->ops->choice_rows(chunk->stream, &args);
}

/* Queries at position local - 1 over remote keys at 0. Query i sees those that its own window has left: all
 * but the last rows - 1 - i of the list, whose last rows are neighbours. */
static sac_status attend_remote(infllm *s, const sac_layer_attention *chunk, int64_t n) {
    int64_t rows = chunk->q.rows;
    sac_mat q = sac_join_queries(&s->join, chunk->shape, rows);
    sac_kv_view remote = sac_gathered_view(&s->remote, chunk, n);
    const sac_row_lists list = {s->rows, s->start, 1};
    SAC_TRY(chunk->ops->kv_gather(chunk->stream, &(sac_kv_gather_args){.dst = remote,
                                                                       .src = chunk->kv,
                                                                       .lists = &list,
                                                                       .turn_back = s->rows,
                                                                       .rotation = &chunk->rotation}));
    return chunk->ops->attention(chunk->stream, &(sac_attention_args){.o = q,
                                                                      .q = q,
                                                                      .kv = remote,
                                                                      .lse = s->join.lse[1],
                                                                      .n_q = rows,
                                                                      .n_kv = n,
                                                                      .first = n - rows,
                                                                      .n_batch = 1,
                                                                      .n_heads = chunk->shape->n_heads,
                                                                      .scale = chunk->scale,
                                                                      .causal = true});
}

static sac_status attend_window(infllm *s, const sac_layer_attention *chunk) {
    int64_t window = chunk->window;
    return chunk->ops->attention(
        chunk->stream, &(sac_attention_args){.o = chunk->q,
                                             .q = chunk->q,
                                             .kv = chunk->kv,
                                             .lse = s->join.lse[0],
                                             .n_q = chunk->q.rows,
                                             .n_kv = chunk->kv.n_rows,
                                             .first = chunk->past,
                                             .n_batch = 1,
                                             .n_heads = chunk->shape->n_heads,
                                             .scale = chunk->scale,
                                             .causal = true,
                                             .window = window ? min_of(window, s->local) : s->local});
}

/* A chunk whose windows all begin after the first token; *n_remote rows are seen by its last query. */
static sac_status attend_chunk(infllm *s, const sac_layer_attention *chunk, int64_t *n_remote,
                               int64_t *select_ns) {
    int64_t start = sac_now_ns();
    const int32_t place = (int32_t)(s->local - 1);
    SAC_TRY(sac_block_memory_learn(&s->memory, chunk));
    SAC_TRY(sac_join_place(&s->join, chunk, 0, &place, true));
    SAC_TRY(sac_join_copy_queries(&s->join, chunk, 0, chunk->q.rows));
    SAC_TRY(list_remote(s, chunk, n_remote));
    *select_ns = sac_now_ns() - start;
    SAC_TRY(attend_window(s, chunk));
    SAC_TRY(attend_remote(s, chunk, *n_remote));
    return sac_join(&s->join, chunk, chunk->q);
}

/* ---------------------------------------------------------------- prompts and steps */

static sac_status learn_prompt(void *state, const sac_layer_attention *a) {
    infllm *s = state;
    for (int64_t i = 0; i < a->q.rows; i += s->chunk) {
        sac_layer_attention chunk = sac_prompt_chunk(a, i, min_of(s->chunk, a->q.rows - i));
        SAC_TRY(sac_block_memory_learn(&s->memory, &chunk));
    }
    return SAC_OK;
}

/* Queries whose windows hold everything before them, all at once. */
static sac_status attend_beginning(infllm *s, const sac_layer_attention *a, int64_t n) {
    int64_t start = sac_now_ns();
    sac_layer_attention beginning = sac_prompt_chunk(a, 0, n);
    SAC_TRY(learn_prompt(s, &beginning));
    int64_t spent = sac_now_ns() - start;
    a->stats->select_ns += spent;
    a->stats->attend_ns -= spent;
    return sac_attend_prompt_dense(&beginning);
}

static sac_status attend_prompt(void *state, const sac_layer_attention *a) {
    infllm *s = state;
    int64_t n = a->q.rows, first = min_of(n, a->past < s->local ? s->local - a->past : 0);
    if (first > 0) SAC_TRY(attend_beginning(s, a, first));
    for (int64_t i = first; i < n; i += s->chunk) {
        int64_t n_remote, select_ns;
        sac_layer_attention chunk = sac_prompt_chunk(a, i, min_of(s->chunk, n - i));
        SAC_TRY(attend_chunk(s, &chunk, &n_remote, &select_ns));
        a->stats->select_ns += select_ns;
        a->stats->attend_ns -= select_ns;
        double rows = (double)chunk.q.rows, hidden = rows * (rows - 1) / 2;
        double seen = rows * (double)(n_remote + s->local) - hidden;
        sac_count_prefill(a, seen / (double)chunk.kv.n_rows, seen * a->shape->n_heads);
    }
    return SAC_OK;
}

static sac_status attend_step(void *state, const sac_layer_attention *a) {
    infllm *s = state;
    int64_t start = sac_now_ns(), n_remote, select_ns;
    if (a->kv.n_rows > s->local) {
        SAC_TRY(attend_chunk(s, a, &n_remote, &select_ns));
        sac_count_step(a, (double)(s->local + n_remote));
    } else {
        SAC_TRY(sac_block_memory_learn(&s->memory, a));
        select_ns = sac_now_ns() - start;
        sac_count_step(a, (double)a->kv.n_rows);
        SAC_TRY(sac_attend_dense(a, 0, 1));
    }
    a->stats->select_ns += select_ns;
    a->stats->attend_ns -= select_ns; /* the caller adds the whole */
    return SAC_OK;
}

#define SOURCE "Xiao et al., InfLLM, arXiv:2402.04617"

const sac_prefill_policy sac_prefill_infllm = {
    .name = "infllm",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(infllm),
    .check = check,
    .is_off = is_off,
    .take = take_prefill,
    .begin = begin,
    .attend = attend_prompt,
    .turns_keys = true,
};

const sac_decode_policy sac_decode_infllm = {
    .name = "infllm",
    .source = SOURCE,
    .params = params,
    .state_bytes = sizeof(infllm),
    .check = check,
    .is_off = is_off,
    .take = take_decode,
    .begin = begin,
    .prompt = learn_prompt,
    .attend = attend_step,
    .turns_keys = true,
};
