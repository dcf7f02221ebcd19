/* XAttention: a block of a prompt's queries meets the blocks of keys that hold most of its attention, as sums
 * along antidiagonals tell.
 *
 * Source: Xu et al., ICML 2025, arXiv:2503.16428, section 2, and its published code. Queries and keys are cut into
 * blocks of 128. Each query head scores units of `stride` queries against units of as many keys, by the
 * products along one antidiagonal of their square: a product in `stride` is computed, and every row and column
 * of a block has some. Softmax over units and sums over blocks estimate what a block of keys holds of a block
 * of queries. The smallest set that holds tau of that is met, in falling order, where the first `sink` blocks and the
 * `local` last ones up to the queries' own are always taken and counted first. No search, and nothing learnt
 * beforehand: tau is one for all heads (the paper's minimum thresholds by head come from a search that it did not
 * publish).
 *
 * Ours: heads that share keys choose for themselves, over keys that are not repeated; blocks of queries begin with
 * the prompt's first query, those of keys with the sequence's, so a second turn's blocks have up to two blocks of
 * their own. Layers with a sliding window stay dense, and so do sequences of fewer than `min` tokens.
 * Decode is not touched.
 *
 * Two ops choose (antidiagonal_sums, cover_blocks), for as many blocks of queries at a time as there is room for.
 * Where a device's attention reads lists of blocks (block_attention), it reads these; else, as for MInference,
 * they become row lists in one op (pattern_rows), which attention reads in another (list_block). */
#include "attend.h"
#include "clock.h"

enum { BLOCK = 128 };
enum {
    LISTS_BYTES = 128 << 20
}; /* room for lists, as much for scores, and enough blocks of queries to fill a card */
enum { SCORES_BYTES = 256 << 20 }; /* room for scores where lists are seldom needed */
enum { TAU, STRIDE, SINK, LOCAL, DENSE_LAYERS, MIN };

static const sac_method_param params[] = {
    [TAU] = {"tau", 0.9, 0, 1, "share of a block's estimated attention that is met, 1 = all", NULL},
    [STRIDE] = {"stride", 16, 4, 64,
                "queries and keys of a unit, of whose pairs one in so many is looked at: 4, 8, "
                "16, 32 or 64",
                SAC_WHOLE},
    [SINK] = {"sink", 1, 0, 1 << 20, "first blocks of 128 keys that are always met", SAC_WHOLE},
    [LOCAL] = {"local", 1, 1, 1 << 20, "last blocks that are always met, the queries' own counted",
               SAC_WHOLE},
    [DENSE_LAYERS] = {"dense_layers", 0, 0, 4096, "layers at the beginning that stay dense", SAC_WHOLE},
    [MIN] = {"min", 4096, 0, 1e9, "shorter sequences are read densely: below it nothing is gained",
             SAC_WHOLE},
    {0}};

typedef struct xattn {
    int n_heads, dense_layers;
    bool reads_blocks; /* whether block_attention is asked first */
    double tau;
    int64_t stride, sink, local;
    int64_t n_ctx, n_columns; /* blocks of n_ctx keys */
    int64_t at_once;          /* blocks of queries that there is room for, but for lists of rows */
    int64_t rows_at_once;     /* for these too */
    /* Where ops run, of as many blocks of queries: */
    float *sums;      /* [at_once][n_heads][n_columns] */
    float *scores;    /* [units][n_heads][units of n_ctx keys] */
    int32_t *columns; /* [at_once][n_heads][n_columns] */
    int32_t *rows;    /* [rows_at_once][n_heads][n_ctx] */
    int64_t *start;   /* [rows_at_once * n_heads + 1] */
    sac_buffer pairs; /* int64_t [blocks of n_ctx queries][n_heads] */
} xattn;

static int64_t n_blocks_of(int64_t n) {
    return (n + BLOCK - 1) / BLOCK;
}
static int64_t min_i64(int64_t a, int64_t b) {
    return a < b ? a : b;
}
static int64_t max_i64(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    long long most = sac_ops_traits_of(shape->device)->pattern_rows_max;
    int64_t stride = (int64_t)p[STRIDE];
    if (BLOCK % stride != 0)
        return sac_fail(err, SAC_BAD_ARGUMENT, "prefill policy xattn: stride=%lld: give 4, 8, 16, 32 or 64",
                        (long long)stride);
    if (shape->n_ctx > most)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy xattn takes up to %lld tokens: use --ctx %lld or less", most, most);
    return SAC_OK;
}

/* Whether every block of a sequence of n tokens is taken without a look at it. */
static bool covers(int64_t sink, int64_t local, int64_t n) {
    return sink + local >= n_blocks_of(n);
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return p[TAU] >= 1 || p[MIN] > (double)shape->n_ctx || (int)p[DENSE_LAYERS] >= shape->n_layers ||
           covers((int64_t)p[SINK], (int64_t)p[LOCAL], shape->n_ctx);
}

static int64_t break_even(const double *p) {
    return (int64_t)p[MIN];
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    xattn *x = state;
    *x = (xattn){.n_heads = shape->n_heads,
                 .dense_layers = (int)p[DENSE_LAYERS],
                 .reads_blocks = sac_ops_traits_of(shape->device)->reads_blocks,
                 .tau = p[TAU],
                 .stride = (int64_t)p[STRIDE],
                 .sink = (int64_t)p[SINK],
                 .local = (int64_t)p[LOCAL],
                 .n_ctx = shape->n_ctx,
                 .n_columns = n_blocks_of(shape->n_ctx)};
    int64_t n_scores =
        BLOCK / x->stride * ((x->n_ctx + x->stride - 1) / x->stride); /* of a block of queries */
    int64_t fit = LISTS_BYTES / (x->n_heads * max_i64(x->n_ctx, n_scores) * (int64_t)sizeof(int32_t));
    int64_t most = max_i64(1, 2 * sac_queries_at_once(shape) / BLOCK);
    x->rows_at_once = min_i64(max_i64(fit, 1), min_i64(most, x->n_columns));
    if (x->reads_blocks) fit = SCORES_BYTES / (x->n_heads * n_scores * (int64_t)sizeof(float));
    x->at_once = max_i64(x->rows_at_once, min_i64(fit, min_i64(most, x->n_columns)));
    size_t lists = (size_t)(x->at_once * x->n_heads), n_columns = (size_t)x->n_columns;
    size_t row_lists = (size_t)(x->rows_at_once * x->n_heads);
    x->sums = sac_take_device(memory, lists * n_columns * sizeof(float));
    x->scores = sac_take_device(memory, lists * (size_t)n_scores * sizeof(float));
    x->columns = sac_take_device(memory, lists * n_columns * sizeof(int32_t));
    x->rows = sac_take_device(memory, row_lists * (size_t)x->n_ctx * sizeof(int32_t));
    x->start = sac_take_device(memory, (row_lists + 1) * sizeof(int64_t));
    x->pairs = sac_take_both(memory, n_columns * (size_t)x->n_heads * sizeof(int64_t));
}

static int64_t *pairs_from(const xattn *x, const sac_layer_attention *a, int64_t begin) {
    return (int64_t *)x->pairs.device + (begin - a->past) / BLOCK * x->n_heads;
}

/* The blocks of keys that queries at rows [begin, end), `count` blocks of them, meet. */
static sac_status choose(const xattn *x, const sac_layer_attention *a, int64_t begin, int64_t end,
                         int64_t count) {
    int64_t n_columns = n_blocks_of(end);
    SAC_TRY(a->ops->antidiagonal_sums(
        a->stream, &(sac_antidiagonal_sums_args){.sums = x->sums,
                                                 .stride = n_columns,
                                                 .scores = x->scores,
                                                 .q = sac_mat_rows(a->q, begin - a->past, end - begin),
                                                 .first = begin,
                                                 .kv = a->kv,
                                                 .n_heads = x->n_heads,
                                                 .scale = a->scale,
                                                 .step = x->stride,
                                                 .block = BLOCK}));
    return a->ops->cover_blocks(a->stream, &(sac_cover_blocks_args){.columns = x->columns,
                                                                     .sums = x->sums,
                                                                     .stride = n_columns,
                                                                     .n_heads = x->n_heads,
                                                                     .first = begin,
                                                                     .block = BLOCK,
                                                                     .n_blocks = count,
                                                                     .n_rows = end,
                                                                     .n_first = x->sink,
                                                                     .n_local = x->local,
                                                                     .cover = x->tau});
}

/* The chosen columns, [..][n_heads][n_columns], as rows; then attention over these. */
static sac_status attend_rows(const xattn *x, const sac_layer_attention *a, const int32_t *columns,
                              int64_t n_columns, int64_t begin, int64_t end) {
    const sac_row_lists lists = {x->rows, x->start, x->n_heads};
    sac_mat q = sac_mat_rows(a->q, begin - a->past, end - begin);
    SAC_TRY(a->ops->pattern_rows(a->stream, &(sac_pattern_rows_args){.rows = x->rows,
                                                                     .start = x->start,
                                                                     .pairs = pairs_from(x, a, begin),
                                                                     .columns = columns,
                                                                     .n_columns = n_columns,
                                                                     .width = BLOCK,
                                                                     .first = begin,
                                                                     .block = BLOCK,
                                                                     .n_blocks = n_blocks_of(end - begin),
                                                                     .n_rows = a->kv.n_rows,
                                                                     .n_lists = x->n_heads,
                                                                     .by_block = true}));
    return a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                              .q = q,
                                                              .kv = a->kv,
                                                              .lists = &lists,
                                                              .n_q = q.rows,
                                                              .n_kv = end,
                                                              .first = begin,
                                                              .n_batch = 1,
                                                              .n_heads = x->n_heads,
                                                              .scale = a->scale,
                                                              .causal = true,
                                                              .list_block = BLOCK});
}

static sac_status attend_blocks(const xattn *x, const sac_layer_attention *a, int64_t begin, int64_t end) {
    int64_t n_columns = n_blocks_of(end);
    sac_mat q = sac_mat_rows(a->q, begin - a->past, end - begin);
    sac_status st = SAC_UNSUPPORTED;
    if (x->reads_blocks)
        st = a->ops->block_attention(a->stream, &(sac_block_attention_args){.o = q,
                                                                            .q = q,
                                                                            .kv = a->kv,
                                                                            .columns = x->columns,
                                                                            .pairs = pairs_from(x, a, begin),
                                                                            .stride = n_columns,
                                                                            .block = BLOCK,
                                                                            .first = begin,
                                                                            .n_heads = x->n_heads,
                                                                            .scale = a->scale});
    if (st != SAC_UNSUPPORTED) return st;
    for (int64_t at = begin, to; at < end; at = to) {
        to = min_i64(at + x->rows_at_once * BLOCK, end);
        const int32_t *columns = x->columns + (at - begin) / BLOCK * x->n_heads * n_columns;
        SAC_TRY(attend_rows(x, a, columns, n_columns, at, to));
    }
    return SAC_OK;
}

/* Pairs of all blocks: a query head with a key. */
static sac_status count_pairs(const xattn *x, const sac_layer_attention *a) {
    int64_t n = n_blocks_of(a->q.rows) * x->n_heads;
    const int64_t *pairs = x->pairs.host;
    double sum = 0;
    SAC_TRY(sac_fetch(a, x->pairs, (size_t)n * sizeof *pairs));
    for (int64_t i = 0; i < n; i++) sum += (double)pairs[i];
    sac_count_prefill(a, (double)a->q.rows, sum);
    return SAC_OK;
}

static sac_status attend(void *state, const sac_layer_attention *a) {
    const xattn *x = state;
    int64_t n = a->kv.n_rows, select_ns = 0;
    if (a->q.rows == 1 || a->layer < x->dense_layers || a->window || covers(x->sink, x->local, n))
        return sac_attend_prompt_dense(a);
    for (int64_t begin = a->past, end; begin < n; begin = end) {
        int64_t count = min_i64(x->at_once, n_blocks_of(n - begin)), start_ns = sac_now_ns();
        end = min_i64(begin + count * BLOCK, n);
        SAC_TRY(choose(x, a, begin, end, count));
        select_ns += sac_now_ns() - start_ns;
        SAC_TRY(attend_blocks(x, a, begin, end));
    }
    a->stats->n_selections++;
    a->stats->select_ns += select_ns;
    a->stats->attend_ns -= select_ns;
    return count_pairs(x, a);
}

const sac_prefill_policy sac_prefill_xattn = {
    .name = "xattn",
    .source = "Xu et al., XAttention, ICML 2025, arXiv:2503.16428",
    .params = params,
    .state_bytes = sizeof(xattn),
    .check = check,
    .is_off = is_off,
    .take = take,
    .attend = attend,
    .break_even = break_even,
};
