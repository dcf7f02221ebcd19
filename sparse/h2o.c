/* H2O: a cache of fixed size holds the newest rows and those that were looked at most.
 *
 * Source: Zhang et al., arXiv:2306.14048, and its published code. Every row accumulates the softmax weights
 * it is given, by all queries of the prompt and then by each step (over the rows present at that step). After
 * the prompt, `recent` newest rows stay and, of the older ones, the `heavy` with the largest sums; each step
 * then adds its row and evicts the older row with the smallest sum, which never returns. Both budgets are
 * shares of the prompt (0.1 each in the paper) or numbers of rows.
 *
 * Ours: weights are summed over the query heads of a key-value head, which keeps one set (the published code
 * knows no grouped heads); all heads hold equally many rows, so a layer has one row count. Keys keep their
 * true positions. An evicted row is overwritten by the newest one, so rows are not in order of position:
 * nothing reads their order, since every query comes after all of them; which are recent is kept beside. A
 * later prompt of the conversation adds its weights to the sums and sets the budgets by the whole length. */
#include "sparse.h"

#include "clock.h"

#include <assert.h>
#include <math.h>

enum { HEAVY, RECENT };

static const sac_method_param params[] = {
    [HEAVY] = {"heavy", 0.1, 0, 1 << 30, "most attended rows kept: a share of the prompt, or above 1 rows",
               NULL},
    [RECENT] = {"recent", 0.1, 0, 1 << 30, "newest rows kept: a share of the prompt, or above 1 rows", NULL},
    {0}};

typedef struct h2o {
    double heavy, recent; /* as set */
    int n_kv_heads;
    int64_t n_ctx, capacity;
    int64_t budget, n_recent; /* rows, of the sequence at hand */
    float *sums;              /* [n_kv_heads][rows] of the call at hand, room for n_ctx */
    float *ranks;             /* the same: sums, infinite for recent rows */
    int32_t *rows;            /* [n_kv_heads][budget] kept of a prompt */
    float *score;             /* [n_layers][n_kv_heads][capacity] by row; on a device of the prompt's layer */
    int32_t *age;             /* the same: when the row was stored, counted in rows */
    int32_t *n_stored;        /* [n_layers] rows ever */
    bool in_prompt;
    struct { /* what ops read and write: the same memory, or the device's, all layers' */
        float *sums, *ranks, *score;
        int32_t *rows, *age;
    } there;
} h2o;

static double rows_of(double setting, double n) {
    return floor(setting > 1 ? setting : setting * n);
}

/* The newest row stays in any case: it has not been looked at yet. */
static void budgets(const h2o *s, int64_t n, int64_t *budget, int64_t *n_recent) {
    *n_recent = (int64_t)fmax(1, rows_of(s->recent, (double)n));
    *budget = *n_recent + (int64_t)rows_of(s->heavy, (double)n);
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    (void)shape;
    for (int i = HEAVY; i <= RECENT; i++)
        if (p[i] > 1 && p[i] != floor(p[i]))
            return sac_fail(err, SAC_BAD_ARGUMENT,
                            "decode policy h2o: %s=%.10g: give a share up to 1, or above 1 whole rows",
                            params[i].name, p[i]);
    return SAC_OK;
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    return rows_of(p[HEAVY], 0) + rows_of(p[RECENT], 0) >= (double)shape->n_ctx;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    h2o *s = state;
    int64_t n_recent;
    *s =
        (h2o){.heavy = p[HEAVY], .recent = p[RECENT], .n_kv_heads = shape->n_kv_heads, .n_ctx = shape->n_ctx};
    budgets(s, shape->n_ctx, &s->capacity, &n_recent);
    s->capacity = (s->capacity < s->n_ctx ? s->capacity : s->n_ctx) + 1; /* and a step's own */
    size_t heads = (size_t)s->n_kv_heads, n_ctx = (size_t)s->n_ctx, n_rows = heads * (size_t)s->capacity;
    size_t n_layers = shape->device ? 1 : (size_t)shape->n_layers;
    s->sums = s->there.sums = sac_arena_take(arena, heads * n_ctx * sizeof(float));
    s->ranks = s->there.ranks = sac_arena_take(arena, heads * n_ctx * sizeof(float));
    s->rows = s->there.rows = sac_arena_take(arena, n_rows * sizeof(int32_t));
    s->score = s->there.score = sac_arena_take(arena, n_layers * n_rows * sizeof(float));
    s->age = s->there.age = sac_arena_take(arena, n_layers * n_rows * sizeof(int32_t));
    s->n_stored = sac_arena_take(arena, (size_t)shape->n_layers * sizeof(int32_t));
}

static void take_device(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    h2o *s = state;
    size_t heads = (size_t)s->n_kv_heads, n_ctx = (size_t)s->n_ctx, n_layers = (size_t)shape->n_layers;
    size_t n_rows = heads * (size_t)s->capacity;
    (void)p;
    s->there.sums = sac_arena_take(arena, heads * n_ctx * sizeof(float));
    s->there.ranks = sac_arena_take(arena, heads * n_ctx * sizeof(float));
    s->there.rows = sac_arena_take(arena, n_rows * sizeof(int32_t));
    s->there.score = sac_arena_take(arena, n_layers * n_rows * sizeof(float));
    s->there.age = sac_arena_take(arena, n_layers * n_rows * sizeof(int32_t));
}

static void begin(void *state) {
    h2o *s = state;
    s->budget = s->n_recent = 0;
    s->in_prompt = true;
}

/* Where a layer's scores and ages begin. */
static int64_t at(const h2o *s, int layer) {
    return (int64_t)layer * s->n_kv_heads * s->capacity;
}

/* One head's, where a prompt looks at them. */
static int64_t base_of(const h2o *s, const sac_layer_attention *a, int head) {
    return (a->shape->device ? 0 : at(s, a->layer)) + head * s->capacity;
}

/* The weights that the queries at hand give to each row, by key-value head. */
static sac_status sum_weights(h2o *s, const sac_layer_attention *a) {
    a->stats->n_selections++;
    return a->ops->attention_sums(a->stream, &(sac_attention_sums_args){.sums = s->there.sums,
                                                                        .stride = a->kv.n_rows,
                                                                        .n_sums = s->n_kv_heads,
                                                                        .q = a->q,
                                                                        .first = a->past,
                                                                        .kv = a->kv,
                                                                        .n_kv = a->kv.n_rows,
                                                                        .n_heads = a->shape->n_heads,
                                                                        .scale = a->scale,
                                                                        .window = a->shape->window});
}

/* ---------------------------------------------------------------- a prompt */

/* One head's sums and ages of all rows; ages of rows beyond the capacity are told by their place. */
static int32_t age_of(const int32_t *age, int64_t past, int32_t n_stored, int64_t row) {
    return row < past ? age[row] : n_stored + (int32_t)(row - past);
}

static void rank_head(h2o *s, const sac_layer_attention *a, int head) {
    int64_t n = a->kv.n_rows, base = base_of(s, a, head);
    int32_t n_stored = s->n_stored[a->layer];
    int32_t newest_old = n_stored + (int32_t)(a->q.rows - s->n_recent); /* ages below it are not recent */
    float *sums = s->sums + head * n, *ranks = s->ranks + head * n;
    for (int64_t i = 0; i < n; i++) {
        if (i < a->past) sums[i] += s->score[base + i];
        bool is_recent = age_of(s->age + base, a->past, n_stored, i) >= newest_old;
        ranks[i] = is_recent ? INFINITY : sums[i];
    }
}

/* Scores and ages of the rows that stay, in their new places. */
static void remember(h2o *s, const sac_layer_attention *a, int head, const int32_t *rows, int64_t n) {
    int64_t base = base_of(s, a, head);
    for (int64_t i = 0; i < n; i++) { /* rows only move up: old entries are read before they are written */
        int64_t row = rows ? rows[i] : i;
        s->age[base + i] = age_of(s->age + base, a->past, s->n_stored[a->layer], row);
        s->score[base + i] = s->sums[head * a->kv.n_rows + row];
    }
}

/* A layer's scores and ages between the host, which looks at them in a prompt, and the device. */
static sac_status fetch_scores(const h2o *s, const sac_layer_attention *a) {
    size_t n = (size_t)(s->n_kv_heads * s->capacity);
    if (!a->shape->device) return SAC_OK;
    SAC_TRY(sac_to_host(a, s->score, s->there.score + at(s, a->layer), n * sizeof *s->score));
    return sac_to_host(a, s->age, s->there.age + at(s, a->layer), n * sizeof *s->age);
}
static sac_status send_scores(const h2o *s, const sac_layer_attention *a) {
    size_t n = (size_t)(s->n_kv_heads * s->capacity);
    if (!a->shape->device) return SAC_OK;
    SAC_TRY(sac_to_device(a, s->there.score + at(s, a->layer), s->score, n * sizeof *s->score));
    return sac_to_device(a, s->there.age + at(s, a->layer), s->age, n * sizeof *s->age);
}

/* The rows that stay, by head, to `rows`. */
static sac_status choose(const h2o *s, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows;
    size_t n_all = (size_t)(s->n_kv_heads * n), n_rows = (size_t)(s->n_kv_heads * s->budget);
    SAC_TRY(sac_to_device(a, s->there.ranks, s->ranks, n_all * sizeof *s->ranks));
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->there.ranks,
                                                       .stride = n,
                                                       .n = n,
                                                       .n_rows = s->n_kv_heads,
                                                       .k = s->budget,
                                                       .indices = s->there.rows}));
    return sac_to_host(a, s->rows, s->there.rows, n_rows * sizeof *s->rows);
}

static sac_status prompt(void *state, const sac_layer_attention *a) {
    h2o *s = state;
    int64_t start_ns = sac_now_ns(), n = a->kv.n_rows;
    s->in_prompt = true;
    if (a->past == 0) s->n_stored[a->layer] = 0;
    budgets(s, a->n_seen, &s->budget, &s->n_recent);
    if (s->budget > s->n_ctx) s->budget = s->n_ctx;
    SAC_TRY(sum_weights(s, a));
    SAC_TRY(sac_to_host(a, s->sums, s->there.sums, (size_t)(s->n_kv_heads * n) * sizeof *s->sums));
    if (a->past > 0) SAC_TRY(fetch_scores(s, a));
    for (int h = 0; h < s->n_kv_heads; h++) rank_head(s, a, h);
    if (n > s->budget) SAC_TRY(choose(s, a));
    for (int h = 0; h < s->n_kv_heads; h++)
        remember(s, a, h, n > s->budget ? s->rows + h * s->budget : NULL, n > s->budget ? s->budget : n);
    SAC_TRY(send_scores(s, a));
    s->n_stored[a->layer] += (int32_t)a->q.rows;
    a->stats->select_ns += sac_now_ns() - start_ns;
    return SAC_OK;
}

/* ---------------------------------------------------------------- a step */

/* All rows that are left, and the step's own; what it gives them is added up when it settles. */
static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    h2o *s = state;
    assert(a->kv.n_rows <= s->capacity);
    s->in_prompt = false;
    choice->all = true;
    return sum_weights(s, a);
}

/* A step's sums meet those of its rows; with a row too many, the lightest that is not recent leaves. */
static sac_status settle_step(h2o *s, const sac_layer_attention *a, bool evict) {
    int32_t age = s->n_stored[a->layer]++;
    return a->ops->evict_row(a->stream, &(sac_evict_row_args){.kv = a->kv,
                                                              .score = s->there.score + at(s, a->layer),
                                                              .ages = s->there.age + at(s, a->layer),
                                                              .stride = s->capacity,
                                                              .weights = s->there.sums,
                                                              .weights_stride = a->kv.n_rows,
                                                              .age = age,
                                                              .recent_from = age + 1 - (int32_t)s->n_recent,
                                                              .evict = evict});
}

static sac_status settle(void *state, const sac_layer_attention *a, int64_t *n_left) {
    h2o *s = state;
    bool is_full = a->kv.n_rows > s->budget;
    *n_left = !is_full ? a->kv.n_rows : s->in_prompt ? s->budget : a->kv.n_rows - 1;
    if (!s->in_prompt) return settle_step(s, a, is_full);
    if (!is_full) return SAC_OK;
    return a->ops->keep_rows(a->stream,
                             &(sac_keep_rows_args){a->kv, s->there.rows, s->budget, s->n_kv_heads});
}

const sac_decode_policy sac_decode_h2o = {
    .name = "h2o",
    .source = "Zhang et al., NeurIPS 2023, arXiv:2306.14048",
    .params = params,
    .state_bytes = sizeof(h2o),
    .check = check,
    .is_off = is_off,
    .take = take,
    .take_device = take_device,
    .begin = begin,
    .prompt = prompt,
    .select = select_rows,
    .settle = settle,
};
