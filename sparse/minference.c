/* MInference: a prompt's queries meet the keys of a pattern that each head fills in for itself.
 *
 * Source: Jiang et al., NeurIPS 2024, arXiv:2407.02490, section 3, and its published code.
 *   vertical_slash  The last `last_q` queries estimate, by query head, how much attention each column (a key)
 *                   and each diagonal (a distance) gets. The best v columns are met by every query, and the
 *                   best s diagonals in strips as wide as a block of 64 queries. The first 30 columns and the
 *                   100 nearest diagonals are always among the candidates' best.
 *   block_sparse    Queries and keys are averaged over blocks of 64; each block of queries meets the `blocks`
 *                   blocks of keys with the largest product.
 *   a_shape         The first v keys, and the s before each query.
 * The paper gives each head a pattern from an offline search; the configurations it published have
 * vertical_slash everywhere, most often (1000, 6096), the default here. One pattern serves all heads.
 *
 * Ours: strips are exact unions (the published kernel rounds joined strips up to whole blocks); local keys of
 * a_shape reach back from the first query of a block; a block of queries always meets its own keys; the last
 * block's mean is over the rows it has, not over padding. Decode is not touched. */
#include "minference.h"
#include "window_sums.h"

#include "clock.h"

#include <math.h>
#include <string.h>

enum { MIN_V = 30, MIN_S = 50 };
enum { PATTERN, V, S, BLOCKS, LAST_Q, DENSE_LAYERS };

static const char *const patterns[] = {"vertical_slash", "block_sparse", "a_shape", NULL};
static const sac_method_param params[] = {
    [PATTERN] = {"pattern", VERTICAL_SLASH, 0, 2, "vertical_slash, block_sparse, a_shape", patterns},
    [V] = {"v", 1000, 1, 1 << 30, "columns that every query meets (of a_shape: the first keys)", SAC_WHOLE},
    [S] = {"s", 6096, 1, 1 << 30, "diagonals (of a_shape: keys before a query)", SAC_WHOLE},
    [BLOCKS] = {"blocks", 100, 1, 1 << 24, "of block_sparse: blocks of 64 keys that 64 queries meet",
                SAC_WHOLE},
    [LAST_Q] = {"last_q", 64, 1, 4096, "queries at the prompt's end that estimate columns and diagonals",
                SAC_WHOLE},
    [DENSE_LAYERS] = {"dense_layers", 0, 0, 4096, "layers at the beginning that stay dense", SAC_WHOLE},
    {0}};

static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Whether a sequence of n tokens is not worth the pattern, or wholly covered by it. */
static bool covers(int pattern, int64_t v, int64_t s, int64_t blocks, int64_t n) {
    if (pattern == VERTICAL_SLASH) return v >= n || s >= n;
    return pattern == A_SHAPE ? v + s >= n : blocks * BLOCK >= n;
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return covers((int)p[PATTERN], (int64_t)p[V], (int64_t)p[S], (int64_t)p[BLOCKS], shape->n_ctx) ||
           (int)p[DENSE_LAYERS] >= shape->n_layers;
}

static int64_t observes(const double *p) {
    return (int)p[PATTERN] == VERTICAL_SLASH ? (int64_t)p[LAST_Q] : 0;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    (void)p;
    if (shape->device && shape->n_ctx > SAC_MINFERENCE_MAX_DEVICE_ROWS)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy minference takes up to %d tokens on a device: use --ctx %d or less",
                        SAC_MINFERENCE_MAX_DEVICE_ROWS, SAC_MINFERENCE_MAX_DEVICE_ROWS);
    return SAC_OK;
}

static void take_settings(minference *m, const double *p, const sac_attention_shape *shape) {
    *m = (minference){.pattern = (int)p[PATTERN],
                      .n_heads = shape->n_heads,
                      .dense_layers = (int)p[DENSE_LAYERS],
                      .v = (int64_t)p[V],
                      .s = (int64_t)p[S],
                      .blocks = (int64_t)p[BLOCKS],
                      .last_q = (int64_t)p[LAST_Q],
                      .n_ctx = shape->n_ctx};
    if (m->pattern == VERTICAL_SLASH) {
        m->v = max_i64(m->v, MIN_V);
        m->s = max_i64(m->s, MIN_S);
    }
}

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    minference *m = state;
    take_settings(m, p, shape);
    if (shape->device) {
        sac_minference_take_host(m, arena);
        return;
    }
    size_t heads = (size_t)m->n_heads, n_ctx = (size_t)m->n_ctx, n_blocks = n_ctx / BLOCK + 1;
    m->columns = sac_arena_take(arena, heads * n_ctx * sizeof(float));
    m->diagonals = sac_arena_take(arena, heads * n_ctx * sizeof(float));
    m->block_scores = sac_arena_take(arena, heads * n_blocks * sizeof(float));
    m->mean_q = sac_arena_take(arena, heads * (size_t)shape->head_dim * sizeof(float));
    m->best_columns = sac_arena_take(arena, heads * (size_t)min_i64(m->v, m->n_ctx) * sizeof(int32_t));
    m->best_diagonals = sac_arena_take(arena, heads * (size_t)min_i64(m->s, m->n_ctx) * sizeof(int32_t));
    m->best_blocks = sac_arena_take(arena, heads * (size_t)min_i64(max_i64(m->blocks, 2), (int64_t)n_blocks) *
                                               sizeof(int32_t));
    m->rows = sac_arena_take(arena, heads * n_ctx * sizeof(int32_t));
    m->start = sac_arena_take(arena, (heads + 1) * sizeof(int64_t));
}

static void take_device(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    (void)p;
    sac_minference_take_device(state, shape, arena);
}

/* ---------------------------------------------------------------- columns and diagonals */

static sac_status best_of(const minference *m, const sac_layer_attention *a, const float *scores, int64_t n,
                          int64_t k, int32_t *best) {
    return a->ops->top_k(
        a->stream,
        &(sac_top_k_args){
            .scores = scores, .stride = m->n_ctx, .n = n, .n_rows = m->n_heads, .k = k, .indices = best});
}

sac_status sac_minference_sums(const minference *m, const sac_layer_attention *a, float *columns,
                               float *diagonals, int64_t stride) {
    int64_t n = a->kv.n_rows, n_q = min_i64(m->last_q, a->q.rows);
    return a->ops->attention_sums(a->stream,
                                  &(sac_attention_sums_args){.sums = columns,
                                                             .stride = stride,
                                                             .n_sums = m->n_heads,
                                                             .q = sac_mat_rows(a->q, a->q.rows - n_q, n_q),
                                                             .first = n - n_q,
                                                             .kv = a->kv,
                                                             .n_kv = n,
                                                             .n_heads = m->n_heads,
                                                             .scale = a->scale,
                                                             .window = a->shape->window,
                                                             .diagonals = diagonals,
                                                             .n_diagonals = stride});
}

/* Made here, or for several methods at once. */
static sac_status sum_weights(minference *m, const sac_layer_attention *a, int64_t n) {
    if (a->window_sums) {
        const sac_window_sums *shared = a->window_sums;
        SAC_TRY(sac_window_sums_find(a));
        for (int64_t at = 0; at < m->n_heads * m->n_ctx; at += m->n_ctx) {
            memcpy(m->columns + at, shared->sums + at, (size_t)n * sizeof(float));
            memcpy(m->diagonals + at, shared->diagonals + at, (size_t)n * sizeof(float));
        }
        return SAC_OK;
    }
    return sac_minference_sums(m, a, m->columns, m->diagonals, m->n_ctx);
}

static sac_status estimate(minference *m, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows;
    SAC_TRY(sum_weights(m, a, n));
    for (int h = 0; h < m->n_heads; h++) {
        for (int64_t j = 0; j < min_i64(FIRST_COLUMNS, n); j++) m->columns[h * m->n_ctx + j] = INFINITY;
        for (int64_t c = 0; c < min_i64(NEAR_DIAGONALS, n); c++) m->diagonals[h * m->n_ctx + c] = INFINITY;
    }
    SAC_TRY(best_of(m, a, m->columns, n, m->v, m->best_columns));
    return best_of(m, a, m->diagonals, n, m->s, m->best_diagonals);
}

/* a_shape is the same pattern with columns and diagonals that are known. */
static void fix_shape(minference *m) {
    for (int h = 0; h < m->n_heads; h++) {
        for (int64_t j = 0; j < m->v; j++) m->best_columns[h * m->v + j] = (int32_t)j;
        for (int64_t c = 0; c < m->s; c++) m->best_diagonals[h * m->s + c] = (int32_t)c;
    }
}

/* The keys of one head for queries at rows [begin, end): columns before `end`, and the strips that the
 * diagonals cut, [begin - c, begin + BLOCK - c), as if the block were full. Strips come from the farthest
 * diagonal to the nearest, so they ascend; columns are merged in. */
static int64_t list_head(const minference *m, int head, int64_t begin, int64_t end, int32_t *rows) {
    const int32_t *column = m->best_columns + head * m->v, *last_column = column + m->v;
    const int32_t *diagonal = m->best_diagonals + head * m->s;
    int64_t n = 0, next = 0; /* rows below `next` are decided */
    for (int64_t i = m->s; i-- > 0;) {
        int64_t to = min_i64(end, begin + BLOCK - diagonal[i]);
        if (to <= next) continue;
        int64_t from = max_i64(next, begin - diagonal[i]);
        while (column < last_column && *column < from) {
            if (*column >= next) rows[n++] = *column;
            column++;
        }
        for (int64_t row = from; row < to; row++) rows[n++] = (int32_t)row;
        next = to;
    }
    for (; column < last_column && *column < end; column++)
        if (*column >= next) rows[n++] = *column;
    return n;
}

/* ---------------------------------------------------------------- blocks */

/* How many blocks of keys the queries at rows [begin, end) meet: their own at least, which are two where
 * blocks of queries begin within one of keys. */
static int64_t n_blocks_met(const minference *m, int64_t begin, int64_t end) {
    int64_t n_blocks = (end + BLOCK - 1) / BLOCK, n_own = n_blocks - begin / BLOCK;
    return min_i64(max_i64(m->blocks, n_own), n_blocks);
}

/* The mean product of a block of queries at rows [begin, end) with each block of keys that it may see. */
static sac_status score_blocks(minference *m, const sac_layer_attention *a, int64_t begin, int64_t end) {
    int64_t cols = a->q.cols, n_blocks = (end + BLOCK - 1) / BLOCK, stride = m->n_ctx / BLOCK + 1;
    for (int64_t c = 0; c < cols; c++) {
        double sum = 0;
        for (int64_t i = begin; i < end; i++) sum += (double)sac_mat_row_f32(a->q, i - a->past)[c];
        m->mean_q[c] = (float)(sum / (double)(end - begin));
    }
    SAC_TRY(a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = m->columns,
                                                                 .stride = m->n_ctx,
                                                                 .q = m->mean_q,
                                                                 .kv = a->kv,
                                                                 .n_heads = m->n_heads,
                                                                 .n = end,
                                                                 .scale = 1}));
    for (int h = 0; h < m->n_heads; h++)
        for (int64_t b = 0; b < n_blocks; b++) {
            int64_t first = b * BLOCK, last = min_i64(first + BLOCK, end);
            double sum = 0;
            for (int64_t j = first; j < last; j++) sum += (double)m->columns[h * m->n_ctx + j];
            bool own = last > begin;
            m->block_scores[h * stride + b] = own ? INFINITY : (float)(sum / (double)(last - first));
        }
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = m->block_scores,
                                                      .stride = stride,
                                                      .n = n_blocks,
                                                      .n_rows = m->n_heads,
                                                      .k = n_blocks_met(m, begin, end),
                                                      .indices = m->best_blocks});
}

static int64_t list_blocks(const minference *m, int head, int64_t begin, int64_t end, int32_t *rows) {
    int64_t k = n_blocks_met(m, begin, end), n = 0;
    for (int64_t i = 0; i < k; i++) {
        int64_t first = (int64_t)m->best_blocks[head * k + i] * BLOCK;
        for (int64_t row = first; row < min_i64(first + BLOCK, end); row++) rows[n++] = (int32_t)row;
    }
    return n;
}

/* ---------------------------------------------------------------- attention */

/* Pairs of a block's queries, at rows [begin, end), with the keys of its list. */
static double count_pairs(const int32_t *rows, int64_t n, int64_t begin, int64_t end) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)(rows[i] <= begin ? end - begin : end - rows[i]);
    return sum;
}

static sac_status list_rows(minference *m, const sac_layer_attention *a, int64_t begin, int64_t end,
                            double *n_pairs) {
    if (m->pattern == BLOCK_SPARSE) SAC_TRY(score_blocks(m, a, begin, end));
    m->start[0] = 0;
    for (int h = 0; h < m->n_heads; h++) {
        int32_t *rows = m->rows + m->start[h];
        int64_t n = m->pattern == BLOCK_SPARSE ? list_blocks(m, h, begin, end, rows)
                                               : list_head(m, h, begin, end, rows);
        *n_pairs += count_pairs(rows, n, begin, end);
        m->start[h + 1] = m->start[h] + n;
    }
    return SAC_OK;
}

static sac_status attend_block(minference *m, const sac_layer_attention *a, int64_t begin, int64_t end) {
    sac_mat q = sac_mat_rows(a->q, begin - a->past, end - begin);
    return a->ops->attention(a->stream,
                             &(sac_attention_args){.o = q,
                                                   .q = q,
                                                   .kv = a->kv,
                                                   .lists = &(sac_row_lists){m->rows, m->start, m->n_heads},
                                                   .n_q = q.rows,
                                                   .first = begin,
                                                   .n_batch = 1,
                                                   .n_heads = m->n_heads,
                                                   .scale = a->scale,
                                                   .causal = true,
                                                   .window = a->shape->window});
}

static sac_status attend(void *state, const sac_layer_attention *a) {
    minference *m = state;
    int64_t n = a->kv.n_rows, start_ns = sac_now_ns(), select_ns;
    double n_pairs = 0;
    if (a->q.rows == 1 || a->layer < m->dense_layers || covers(m->pattern, m->v, m->s, m->blocks, n))
        return sac_attend_prompt_dense(a);
    if (a->shape->device) return sac_minference_attend_on_device(m, a);
    if (m->pattern == VERTICAL_SLASH) SAC_TRY(estimate(m, a));
    if (m->pattern == A_SHAPE) fix_shape(m);
    select_ns = sac_now_ns() - start_ns;
    for (int64_t begin = a->past; begin < n; begin += BLOCK) {
        int64_t end = min_i64(begin + BLOCK, n);
        start_ns = sac_now_ns();
        SAC_TRY(list_rows(m, a, begin, end, &n_pairs));
        select_ns += sac_now_ns() - start_ns;
        SAC_TRY(attend_block(m, a, begin, end));
    }
    sac_count_prefill(a, (double)a->q.rows, n_pairs);
    a->stats->n_selections++;
    a->stats->select_ns += select_ns;
    a->stats->attend_ns -= select_ns;
    return SAC_OK;
}

const sac_prefill_policy sac_prefill_minference = {
    .name = "minference",
    .source = "Jiang et al., NeurIPS 2024, arXiv:2407.02490",
    .params = params,
    .state_bytes = sizeof(minference),
    .check = check,
    .is_off = is_off,
    .take = take,
    .take_device = take_device,
    .attend = attend,
    .observes = observes,
    .observes_diagonals = true,
};
