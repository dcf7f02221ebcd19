/* MInference on a device: what is chosen stays there, and lists are made for many blocks of queries at once.
 *
 * The pattern becomes row lists in one op (pattern_rows) and attention reads them in another (list_block), as
 * many blocks of queries at a time as there is room for. block_sparse multiplies the queries' means with the
 * keys' means, where the CPU averages the products with every key: the same number but for its last bits. */
#include "minference.h"

#include "clock.h"

#include <math.h>

enum { LISTS_BYTES = 128 << 20 }; /* room for lists, and enough blocks of queries to fill a card */
enum { MOST_AT_ONCE = 64 };

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}
static int64_t n_blocks_of(int64_t n) {
    return (n + BLOCK - 1) / BLOCK;
}

/* As a_shape is the same for all heads, they share lists. */
static int n_lists(const minference *m) {
    return m->pattern == A_SHAPE ? 1 : m->n_heads;
}

/* Rows of the longest list that there may be. */
static int64_t longest(const minference *m) {
    int64_t n = m->pattern == A_SHAPE        ? m->v + m->s + BLOCK
                : m->pattern == BLOCK_SPARSE ? (m->blocks + 2) * BLOCK
                                             : m->v + m->s * BLOCK;
    return min_i64(n, m->n_ctx);
}

void sac_minference_take_host(minference *m, sac_arena *arena) {
    size_t n_all = (size_t)n_blocks_of(m->n_ctx) * (size_t)n_lists(m);
    m->pairs = sac_arena_take(arena, n_all * sizeof *m->pairs);
    if (m->pattern == A_SHAPE)
        m->numbers = sac_arena_take(arena, (size_t)min_i64(m->s, m->n_ctx) * sizeof *m->numbers);
}

static void take_estimates(minference *m, sac_arena *arena) {
    size_t heads = (size_t)m->n_heads, n_ctx = (size_t)m->n_ctx;
    m->there.columns = sac_arena_take(arena, heads * n_ctx * sizeof(float));
    m->there.diagonals = sac_arena_take(arena, heads * n_ctx * sizeof(float));
    m->there.infinite = sac_arena_take(arena, NEAR_DIAGONALS * sizeof(float));
    m->there.best_columns = sac_arena_take(arena, heads * (size_t)min_i64(m->v, m->n_ctx) * sizeof(int32_t));
    m->there.best_diagonals =
        sac_arena_take(arena, heads * (size_t)min_i64(m->s, m->n_ctx) * sizeof(int32_t));
}

static void take_means(minference *m, const sac_attention_shape *shape, sac_arena *arena) {
    size_t n_blocks = (size_t)n_blocks_of(m->n_ctx), d = (size_t)shape->head_dim;
    size_t at_once = (size_t)m->there.at_once, heads = (size_t)m->n_heads;
    size_t most = (size_t)min_i64(m->blocks, (int64_t)n_blocks);
    m->there.columns = sac_arena_take(arena, at_once * heads * n_blocks * sizeof(float));
    m->there.mean_q = sac_arena_take(arena, at_once * heads * d * sizeof(float));
    m->there.mean_k = sac_arena_take(arena, (size_t)shape->n_kv_heads * n_blocks * d * sizeof(float));
    m->there.best_columns = sac_arena_take(arena, at_once * heads * most * sizeof(int32_t));
}

void sac_minference_take_device(minference *m, const sac_attention_shape *shape, sac_arena *arena) {
    int64_t n_all = n_blocks_of(m->n_ctx), lists = n_lists(m);
    int64_t fit = LISTS_BYTES / (lists * longest(m) * (int64_t)sizeof(int32_t));
    m->there.n_lists = (int)lists;
    m->there.at_once = min_i64(max_i64(fit, 1), min_i64(MOST_AT_ONCE, n_all));
    if (m->pattern == VERTICAL_SLASH) take_estimates(m, arena);
    if (m->pattern == BLOCK_SPARSE) take_means(m, shape, arena);
    if (m->pattern == A_SHAPE) {
        m->there.best_columns = sac_arena_take(arena, sizeof(int32_t)); /* 0, as memory of a session is */
        m->there.best_diagonals = sac_arena_take(arena, (size_t)min_i64(m->s, m->n_ctx) * sizeof(int32_t));
    }
    int64_t n_at_once = m->there.at_once * lists;
    m->there.rows = sac_arena_take(arena, (size_t)(n_at_once * longest(m)) * sizeof(int32_t));
    m->there.start = sac_arena_take(arena, (size_t)(n_at_once + 1) * sizeof(int64_t));
    m->there.pairs = sac_arena_take(arena, (size_t)(n_all * lists) * sizeof(int64_t));
}

/* ---------------------------------------------------------------- columns and diagonals */

static sac_status send_constants(minference *m, const sac_layer_attention *a) {
    float infinite[NEAR_DIAGONALS];
    if (m->there.has_constants) return SAC_OK;
    for (int i = 0; i < NEAR_DIAGONALS; i++) infinite[i] = INFINITY;
    for (int64_t i = 0; m->pattern == A_SHAPE && i < m->s; i++) m->numbers[i] = (int32_t)i;
    if (m->pattern == A_SHAPE)
        SAC_TRY(sac_to_device(a, m->there.best_diagonals, m->numbers, (size_t)m->s * sizeof *m->numbers));
    else
        SAC_TRY(sac_to_device(a, m->there.infinite, infinite, sizeof infinite));
    m->there.has_constants = true;
    return SAC_OK;
}

/* The k best of n estimates of each head, the first `near` of them in any case. */
static sac_status best_of(const minference *m, const sac_layer_attention *a, float *estimates, int64_t n,
                          int64_t near, int64_t k, int32_t *best) {
    size_t n_bytes = (size_t)min_i64(near, n) * sizeof(float);
    for (int h = 0; h < m->n_heads; h++)
        SAC_TRY(a->shape->device->copy(a->stream, estimates + h * n, m->there.infinite, n_bytes));
    return a->ops->top_k(
        a->stream,
        &(sac_top_k_args){
            .scores = estimates, .stride = n, .n = n, .n_rows = m->n_heads, .k = k, .indices = best});
}

static sac_status estimate(const minference *m, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows;
    SAC_TRY(sac_minference_sums(m, a, m->there.columns, m->there.diagonals, n));
    SAC_TRY(best_of(m, a, m->there.columns, n, FIRST_COLUMNS, m->v, m->there.best_columns));
    return best_of(m, a, m->there.diagonals, n, NEAR_DIAGONALS, m->s, m->there.best_diagonals);
}

/* ---------------------------------------------------------------- blocks */

/* Of every whole block of keys. */
static sac_status mean_keys(const minference *m, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows / BLOCK, d = a->shape->head_dim;
    for (int h = 0; h < a->shape->n_kv_heads; h++) {
        size_t offset = (size_t)(h * a->kv.head_stride) * sac_dtype_row_bytes(a->kv.dtype, 1);
        sac_mat keys = {(char *)a->kv.k + offset, n * BLOCK, d, a->kv.row_stride, a->kv.dtype};
        SAC_TRY(a->ops->mean_rows(a->stream,
                                  &(sac_mean_rows_args){m->there.mean_k + h * n * d, keys, 1.0f / BLOCK, n}));
    }
    return SAC_OK;
}

/* The best of the blocks of keys before their own, for `count` blocks of queries from row `begin` on, whole
 * ones or a single one; returns how many each gets, in n_best. */
static sac_status choose_blocks(const minference *m, const sac_layer_attention *a, int64_t begin, int64_t end,
                                int64_t count, int64_t *n_best) {
    int64_t first = begin / BLOCK, last = first + count - 1, d = a->shape->head_dim, n = a->kv.n_rows / BLOCK;
    int64_t n_own = n_blocks_of(min_i64(begin + BLOCK, end)) - first;
    *n_best = min_i64(max_i64(m->blocks - n_own, 0), last);
    if (*n_best == 0) return SAC_OK;
    sac_kv_view means = {
        m->there.mean_k, m->there.mean_k, SAC_DTYPE_F32, a->shape->n_kv_heads, (int)d, n, d, n * d};
    sac_mat q = sac_mat_rows(a->q, begin - a->past, end - begin);
    float share = 1 / (float)min_i64(end - begin, BLOCK);
    SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){m->there.mean_q, q, share, count}));
    SAC_TRY(a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = m->there.columns,
                                                                 .stride = last,
                                                                 .q = m->there.mean_q,
                                                                 .kv = means,
                                                                 .n_heads = m->n_heads,
                                                                 .n = first,
                                                                 .scale = 1,
                                                                 .n_queries = (int)count,
                                                                 .n_more = 1}));
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = m->there.columns,
                                                      .stride = last,
                                                      .n = last,
                                                      .n_rows = (int)count * m->n_heads,
                                                      .k = *n_best,
                                                      .indices = m->there.best_columns});
}

/* ---------------------------------------------------------------- attention */

/* Blocks of queries from row `begin` on that go together: block_sparse wants whole ones that have something
 * before them, or one. */
static int64_t count_together(const minference *m, int64_t begin, int64_t n) {
    int64_t count = min_i64(m->there.at_once, n_blocks_of(n - begin));
    if (m->pattern != BLOCK_SPARSE) return count;
    return begin < BLOCK ? 1 : max_i64(1, min_i64(count, (n - begin) / BLOCK));
}

static sac_status list_rows(const minference *m, const sac_layer_attention *a, int64_t begin, int64_t end,
                            int64_t count) {
    bool by_block = m->pattern == BLOCK_SPARSE;
    sac_pattern_rows_args args = {.rows = m->there.rows,
                                  .start = m->there.start,
                                  .pairs = m->there.pairs + (begin - a->past) / BLOCK * m->there.n_lists,
                                  .columns = m->there.best_columns,
                                  .diagonals = m->there.best_diagonals,
                                  .n_columns = m->pattern == A_SHAPE ? 1 : m->v,
                                  .n_diagonals = by_block ? 0 : m->s,
                                  .width = by_block                ? BLOCK
                                           : m->pattern == A_SHAPE ? m->v
                                                                   : 1,
                                  .first = begin,
                                  .block = BLOCK,
                                  .n_blocks = count,
                                  .n_rows = a->kv.n_rows,
                                  .n_lists = m->there.n_lists,
                                  .by_block = by_block,
                                  .own = by_block};
    if (by_block) SAC_TRY(choose_blocks(m, a, begin, end, count, &args.n_columns));
    return a->ops->pattern_rows(a->stream, &args);
}

static sac_status attend_blocks(const minference *m, const sac_layer_attention *a, int64_t begin,
                                int64_t end) {
    const sac_row_lists lists = {m->there.rows, m->there.start, m->there.n_lists};
    sac_mat q = sac_mat_rows(a->q, begin - a->past, end - begin);
    return a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                              .q = q,
                                                              .kv = a->kv,
                                                              .lists = &lists,
                                                              .n_q = q.rows,
                                                              .n_kv = longest(m),
                                                              .first = begin,
                                                              .n_batch = 1,
                                                              .n_heads = m->n_heads,
                                                              .scale = a->scale,
                                                              .causal = true,
                                                              .window = a->shape->window,
                                                              .list_block = BLOCK});
}

/* Pairs of all blocks: a query head with a key. */
static sac_status count_pairs(const minference *m, const sac_layer_attention *a) {
    int64_t n = n_blocks_of(a->q.rows) * m->there.n_lists;
    double sum = 0;
    SAC_TRY(sac_to_host(a, m->pairs, m->there.pairs, (size_t)n * sizeof *m->pairs));
    for (int64_t i = 0; i < n; i++) sum += (double)m->pairs[i];
    sac_count_prefill(a, (double)a->q.rows, sum * (m->n_heads / m->there.n_lists));
    return SAC_OK;
}

sac_status sac_minference_attend_on_device(minference *m, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows, start_ns = sac_now_ns(), select_ns;
    if (m->pattern != BLOCK_SPARSE) SAC_TRY(send_constants(m, a));
    if (m->pattern == VERTICAL_SLASH) SAC_TRY(estimate(m, a));
    if (m->pattern == BLOCK_SPARSE) SAC_TRY(mean_keys(m, a));
    select_ns = sac_now_ns() - start_ns;
    for (int64_t begin = a->past, end; begin < n; begin = end) {
        int64_t count = count_together(m, begin, n);
        end = min_i64(begin + count * BLOCK, n);
        start_ns = sac_now_ns();
        SAC_TRY(list_rows(m, a, begin, end, count));
        select_ns += sac_now_ns() - start_ns;
        SAC_TRY(attend_blocks(m, a, begin, end));
    }
    a->stats->n_selections++;
    a->stats->select_ns += select_ns;
    a->stats->attend_ns -= select_ns;
    return count_pairs(m, a);
}
