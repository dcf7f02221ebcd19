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
 * block's mean is over the rows it has, not over padding. Decode is not touched.
 *
 * The pattern becomes row lists in one op (pattern_rows) and attention reads them in another (list_block), as
 * many blocks of queries at a time as there is room for. */
#include "attend.h"
#include "clock.h"
#include "window_sums.h"

#include <math.h>

enum { BLOCK = 64, FIRST_COLUMNS = 30, NEAR_DIAGONALS = 100 };
enum { VERTICAL_SLASH, BLOCK_SPARSE, A_SHAPE };
enum { MIN_V = 30, MIN_S = 50 };
/* Room for lists: of a GPU's enough blocks of queries for several waves, of heads that share keys side by side. */
enum { LISTS_BYTES = 128 << 20, GPU_LISTS_BYTES = 512 << 20 };
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

typedef struct minference {
    int pattern, n_heads, dense_layers;
    int64_t v, s, blocks, last_q, n_ctx;
    int n_lists;     /* for a block of queries: heads'; or one for all, as a_shape is the same for all */
    int64_t at_once; /* blocks of queries whose lists there is room for */
    /* Where ops run: */
    float *columns,
        *diagonals;          /* [n_heads][rows] estimates; of block_sparse scores, [n_heads][n_ctx] of keys or
                                   [at_once][n_heads][blocks of n_ctx] of means */
    float *mean_q, *mean_k;  /* [at_once][n_heads * head_dim]; [n_kv_heads][blocks of n_ctx][head_dim] */
    int32_t *best_columns;   /* [n_heads][v] ascending; of block_sparse [at_once][n_heads][blocks] */
    int32_t *best_diagonals; /* [n_heads][s] ascending */
    int32_t *heads, *zeros;  /* [n_heads] 0, 1 .. and 0, 0 .. */
    int32_t *rows;           /* [at_once][lists][as long as they get] */
    int64_t *start;          /* [at_once * lists + 1] */
    sac_buffer infinite;     /* float [NEAR_DIAGONALS] */
    sac_buffer numbers;      /* int32_t [lists][s] diagonals of a_shape */
    sac_buffer pairs;        /* int64_t [blocks of n_ctx][lists] */
    bool has_constants;
} minference;

static int64_t n_blocks_of(int64_t n) {
    return (n + BLOCK - 1) / BLOCK;
}

/* Rows of the longest list that there may be. */
static int64_t longest(const minference *m) {
    int64_t n = m->pattern == A_SHAPE        ? m->v + m->s + BLOCK
                : m->pattern == BLOCK_SPARSE ? (m->blocks + 2) * BLOCK
                                             : m->v + m->s * BLOCK;
    return min_i64(n, m->n_ctx);
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    long long most = sac_ops_traits_of(shape->device)->pattern_rows_max;
    (void)p;
    if (shape->n_ctx > most)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy minference takes up to %lld tokens: use --ctx %lld or less", most,
                        most);
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
    m->n_lists = m->pattern == A_SHAPE && sac_ops_traits_of(shape->device)->shares_lists ? 1 : m->n_heads;
    bool on_gpu = sac_ops_traits_of(shape->device)->shares_lists;
    int64_t fit = (on_gpu ? GPU_LISTS_BYTES : LISTS_BYTES) / (m->n_lists * longest(m) * (int64_t)sizeof(int32_t));
    int64_t most = max_i64(1, 2 * sac_queries_at_once(shape) / BLOCK);
    m->at_once = min_i64(max_i64(fit, 1), min_i64(most, n_blocks_of(m->n_ctx)));
}

static void take_estimates(minference *m, const sac_memory *memory) {
    size_t heads = (size_t)m->n_heads, n_ctx = (size_t)m->n_ctx;
    m->columns = sac_take_device(memory, heads * n_ctx * sizeof(float));
    m->diagonals = sac_take_device(memory, heads * n_ctx * sizeof(float));
    m->infinite = sac_take_both(memory, NEAR_DIAGONALS * sizeof(float));
    m->heads = sac_take_device(memory, heads * sizeof(int32_t));
    m->zeros = sac_take_device(memory, heads * sizeof(int32_t)); /* as memory of a session is */
    m->best_columns = sac_take_device(memory, heads * (size_t)min_i64(m->v, m->n_ctx) * sizeof(int32_t));
    m->best_diagonals = sac_take_device(memory, heads * (size_t)min_i64(m->s, m->n_ctx) * sizeof(int32_t));
}

static void take_blocks(minference *m, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n_blocks = (size_t)n_blocks_of(m->n_ctx), d = (size_t)shape->head_dim;
    size_t heads = (size_t)m->at_once * (size_t)m->n_heads;
    size_t most = (size_t)min_i64(max_i64(m->blocks, 2), (int64_t)n_blocks);
    m->mean_q = sac_take_device(memory, heads * d * sizeof(float));
    m->mean_k = sac_take_device(memory, (size_t)shape->n_kv_heads * n_blocks * d * sizeof(float));
    m->columns = sac_take_device(memory, heads * n_blocks * sizeof(float));
    m->best_columns = sac_take_device(memory, heads * most * sizeof(int32_t));
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    minference *m = state;
    take_settings(m, p, shape);
    if (m->pattern == VERTICAL_SLASH) take_estimates(m, memory);
    if (m->pattern == BLOCK_SPARSE) take_blocks(m, shape, memory);
    if (m->pattern == A_SHAPE) {
        size_t n_lists = (size_t)m->n_lists, n = (size_t)min_i64(m->s, m->n_ctx);
        m->best_columns =
            sac_take_device(memory, n_lists * sizeof(int32_t)); /* 0, as memory of a session is */
        m->numbers = sac_take_both(memory, n_lists * n * sizeof(int32_t));
        m->best_diagonals = m->numbers.device;
    }
    int64_t n_at_once = m->at_once * m->n_lists;
    m->rows = sac_take_device(memory, (size_t)(n_at_once * longest(m)) * sizeof(int32_t));
    m->start = sac_take_device(memory, (size_t)(n_at_once + 1) * sizeof(int64_t));
    m->pairs = sac_take_both(memory, (size_t)(n_blocks_of(m->n_ctx) * m->n_lists) * sizeof(int64_t));
}

/* ---------------------------------------------------------------- columns and diagonals */

static sac_status send_constants(minference *m, const sac_layer_attention *a) {
    if (m->has_constants) return SAC_OK;
    if (m->pattern == A_SHAPE) {
        int32_t *numbers = m->numbers.host;
        for (int64_t i = 0; i < m->s * m->n_lists; i++) numbers[i] = (int32_t)(i % m->s);
        SAC_TRY(sac_send(a, m->numbers, (size_t)(m->s * m->n_lists) * sizeof *numbers));
    } else {
        float *infinite = m->infinite.host;
        for (int i = 0; i < NEAR_DIAGONALS; i++) infinite[i] = INFINITY;
        SAC_TRY(sac_send(a, m->infinite, NEAR_DIAGONALS * sizeof *infinite));
        SAC_TRY(a->ops->choice_rows(
            a->stream, &(sac_choice_rows_args){.rows = m->heads, .init = m->n_heads, .n_rows = m->n_heads}));
    }
    m->has_constants = true;
    return SAC_OK;
}

/* What the last queries give to columns and diagonals, by head: [n_heads][n]. */
static sac_status sum_weights(minference *m, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows, n_q = min_i64(m->last_q, a->q.rows);
    return a->ops->attention_sums(a->stream,
                                  &(sac_attention_sums_args){.sums = m->columns,
                                                             .stride = n,
                                                             .n_sums = m->n_heads,
                                                             .q = sac_mat_rows(a->q, a->q.rows - n_q, n_q),
                                                             .first = n - n_q,
                                                             .kv = a->kv,
                                                             .n_kv = n,
                                                             .n_heads = m->n_heads,
                                                             .scale = a->scale,
                                                             .window = a->window,
                                                             .diagonals = m->diagonals,
                                                             .n_diagonals = n});
}

/* Found for several methods at once, [n_heads][n_ctx]. */
static sac_status copy_shared(const minference *m, const sac_layer_attention *a, float *to, float *from) {
    int64_t n = a->kv.n_rows;
    sac_mat shared = {from, m->n_heads, n, m->n_ctx, SAC_DTYPE_F32};
    return a->ops->gather_rows(
        a->stream,
        &(sac_gather_rows_args){.y = sac_mat_f32(to, m->n_heads, n), .x = shared, .source = m->heads});
}

/* The k best of n estimates of each head, the first `near` of them in any case. */
static sac_status best_of(const minference *m, const sac_layer_attention *a, float *estimates, int64_t near,
                          int64_t k, int32_t *best) {
    int64_t n = a->kv.n_rows, n_near = min_i64(near, n);
    sac_mat first = {estimates, m->n_heads, n_near, n, SAC_DTYPE_F32};
    SAC_TRY(a->ops->gather_rows(
        a->stream, &(sac_gather_rows_args){
                       .y = first, .x = sac_mat_f32(m->infinite.device, 1, n_near), .source = m->zeros}));
    return a->ops->top_k(
        a->stream,
        &(sac_top_k_args){
            .scores = estimates, .stride = n, .n = n, .n_rows = m->n_heads, .k = k, .indices = best});
}

static sac_status estimate(minference *m, const sac_layer_attention *a) {
    if (a->window_sums) {
        SAC_TRY(sac_window_sums_find(a));
        SAC_TRY(copy_shared(m, a, m->columns, a->window_sums->sums));
        SAC_TRY(copy_shared(m, a, m->diagonals, a->window_sums->diagonals));
    } else {
        SAC_TRY(sum_weights(m, a));
    }
    SAC_TRY(best_of(m, a, m->columns, FIRST_COLUMNS, m->v, m->best_columns));
    return best_of(m, a, m->diagonals, NEAR_DIAGONALS, m->s, m->best_diagonals);
}

/* ---------------------------------------------------------------- blocks */

/* The mean product of a block's queries with a block's keys is the product of their means. Of every whole
 * block of keys: */
static sac_status mean_keys(const minference *m, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows / BLOCK, d = a->shape->head_dim;
    for (int h = 0; h < a->shape->n_kv_heads; h++) {
        size_t offset = (size_t)(h * a->kv.head_stride) * sac_dtype_row_bytes(a->kv.dtype, 1);
        sac_mat keys = {(char *)a->kv.k + offset, n * BLOCK, d, a->kv.row_stride, a->kv.dtype};
        SAC_TRY(a->ops->mean_rows(
            a->stream, &(sac_mean_rows_args){m->mean_k + h * n * d, keys, 1.0f / BLOCK, .n_groups = n}));
    }
    return SAC_OK;
}

/* The best of the blocks of keys before their own (of which there are two where blocks of queries begin within
 * one of keys), for `count` blocks of queries from row `begin` on, whole
 * ones or a single one; returns how many each gets, in n_best. */
static sac_status choose_blocks(const minference *m, const sac_layer_attention *a, int64_t begin, int64_t end,
                                int64_t count, int64_t *n_best) {
    int64_t first = begin / BLOCK, last = first + count - 1, d = a->shape->head_dim, n = a->kv.n_rows / BLOCK;
    int64_t n_own = n_blocks_of(min_i64(begin + BLOCK, end)) - first;
    *n_best = min_i64(max_i64(m->blocks - n_own, 0), last);
    if (*n_best == 0) return SAC_OK;
    sac_kv_view means = {.k = m->mean_k,
                         .v = m->mean_k,
                         .dtype = SAC_DTYPE_F32,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = (int)d,
                         .n_rows = n,
                         .row_stride = d,
                         .head_stride = n * d};
    sac_mat q = sac_mat_rows(a->q, begin - a->past, end - begin);
    float share = 1 / (float)min_i64(end - begin, BLOCK);
    SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){m->mean_q, q, share, .n_groups = count}));
    SAC_TRY(a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = m->columns,
                                                                 .stride = last,
                                                                 .q = m->mean_q,
                                                                 .kv = means,
                                                                 .n_heads = m->n_heads,
                                                                 .n = first,
                                                                 .scale = 1,
                                                                 .n_queries = (int)count,
                                                                 .n_more = 1}));
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = m->columns,
                                                      .stride = last,
                                                      .n = last,
                                                      .n_rows = (int)count * m->n_heads,
                                                      .k = *n_best,
                                                      .indices = m->best_columns});
}

/* ---------------------------------------------------------------- attention */

/* Blocks of queries from row `begin` on that go together: block_sparse wants whole ones that have something
 * before them, or one. */
static int64_t count_together(const minference *m, int64_t begin, int64_t n) {
    int64_t count = min_i64(m->at_once, n_blocks_of(n - begin));
    if (m->pattern != BLOCK_SPARSE) return count;
    return begin < BLOCK ? 1 : max_i64(1, min_i64(count, (n - begin) / BLOCK));
}

static sac_status list_rows(const minference *m, const sac_layer_attention *a, int64_t begin, int64_t end,
                            int64_t count) {
    bool by_block = m->pattern == BLOCK_SPARSE;
    sac_pattern_rows_args args = {.rows = m->rows,
                                  .start = m->start,
                                  .pairs =
                                      (int64_t *)m->pairs.device + (begin - a->past) / BLOCK * m->n_lists,
                                  .columns = m->best_columns,
                                  .diagonals = m->best_diagonals,
                                  .n_columns = m->pattern == A_SHAPE ? 1 : m->v,
                                  .n_diagonals = by_block ? 0 : m->s,
                                  .width = by_block                ? BLOCK
                                           : m->pattern == A_SHAPE ? m->v
                                                                   : 1,
                                  .first = begin,
                                  .block = BLOCK,
                                  .n_blocks = count,
                                  .n_rows = a->kv.n_rows,
                                  .n_lists = m->n_lists,
                                  .by_block = by_block,
                                  .own = by_block};
    if (by_block) SAC_TRY(choose_blocks(m, a, begin, end, count, &args.n_columns));
    return a->ops->pattern_rows(a->stream, &args);
}

static sac_status attend_blocks(const minference *m, const sac_layer_attention *a, int64_t begin,
                                int64_t end) {
    const sac_row_lists lists = {m->rows, m->start, m->n_lists};
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
                                                              .window = a->window,
                                                              .list_block = BLOCK});
}

/* Pairs of all blocks: a query head with a key. */
static sac_status count_pairs(const minference *m, const sac_layer_attention *a) {
    int64_t n = n_blocks_of(a->q.rows) * m->n_lists;
    const int64_t *pairs = m->pairs.host;
    double sum = 0;
    SAC_TRY(sac_fetch(a, m->pairs, (size_t)n * sizeof *pairs));
    for (int64_t i = 0; i < n; i++) sum += (double)pairs[i];
    sac_count_prefill(a, (double)a->q.rows, sum * (m->n_heads / m->n_lists));
    return SAC_OK;
}

static sac_status attend(void *state, const sac_layer_attention *a) {
    minference *m = state;
    int64_t n = a->kv.n_rows, start_ns = sac_now_ns(), select_ns;
    if (a->q.rows == 1 || a->layer < m->dense_layers || covers(m->pattern, m->v, m->s, m->blocks, n))
        return sac_attend_prompt_dense(a);
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

const sac_prefill_policy sac_prefill_minference = {
    .name = "minference",
    .source = "Jiang et al., NeurIPS 2024, arXiv:2407.02490",
    .params = params,
    .state_bytes = sizeof(minference),
    .check = check,
    .is_off = is_off,
    .take = take,
    .attend = attend,
    .observes = observes,
    .observes_diagonals = true,
};
