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
#include "attend.h"
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
    sac_buffer sums;          /* float [n_kv_heads][rows] of the call at hand, room for n_ctx */
    sac_buffer ranks;         /* the same: sums, infinite for recent rows */
    sac_buffer rows;          /* int32_t [n_kv_heads][budget] kept of a prompt */
    sac_buffer score;         /* float [n_layers][n_kv_heads][capacity] by row; the host looks in a prompt */
    sac_buffer age;           /* int32_t, the same: when the row was stored, counted in rows */
    int32_t *n_stored;        /* [n_layers] rows ever */
    bool in_prompt;
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

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    h2o *s = state;
    int64_t n_recent;
    *s =
        (h2o){.heavy = p[HEAVY], .recent = p[RECENT], .n_kv_heads = shape->n_kv_heads, .n_ctx = shape->n_ctx};
    budgets(s, shape->n_ctx, &s->capacity, &n_recent);
    s->capacity = (s->capacity < s->n_ctx ? s->capacity : s->n_ctx) + 1; /* and a step's own */
    size_t heads = (size_t)s->n_kv_heads, n_ctx = (size_t)s->n_ctx, n_rows = heads * (size_t)s->capacity;
    size_t n_layers = (size_t)shape->n_layers;
    s->sums = sac_take_both(memory, heads * n_ctx * sizeof(float));
    s->ranks = sac_take_both(memory, heads * n_ctx * sizeof(float));
    s->rows = sac_take_both(memory, n_rows * sizeof(int32_t));
    s->score = sac_take_both(memory, n_layers * n_rows * sizeof(float));
    s->age = sac_take_both(memory, n_layers * n_rows * sizeof(int32_t));
    s->n_stored = sac_take_host(memory, n_layers * sizeof(int32_t));
}

static void begin(void *state) {
    h2o *s = state;
    s->budget = s->n_recent = 0;
    s->in_prompt = true;
}

/* A layer's scores and ages, and bytes of either. */
static size_t layer_bytes(const h2o *s) {
    return (size_t)(s->n_kv_heads * s->capacity) * sizeof(float);
}
static sac_buffer scores_of(const h2o *s, int layer) {
    return sac_buffer_from(s->score, (size_t)layer * layer_bytes(s));
}
static sac_buffer ages_of(const h2o *s, int layer) {
    return sac_buffer_from(s->age, (size_t)layer * layer_bytes(s));
}

/* The weights that the queries at hand give to each row, by key-value head. */
static sac_status sum_weights(h2o *s, const sac_layer_attention *a) {
    a->stats->n_selections++;
    return a->ops->attention_sums(a->stream, &(sac_attention_sums_args){.sums = s->sums.device,
                                                                        .stride = a->kv.n_rows,
                                                                        .n_sums = s->n_kv_heads,
                                                                        .q = a->q,
                                                                        .first = a->past,
                                                                        .kv = a->kv,
                                                                        .n_kv = a->kv.n_rows,
                                                                        .n_heads = a->shape->n_heads,
                                                                        .scale = a->scale,
                                                                        .window = a->window});
}

/* ---------------------------------------------------------------- a prompt */

/* One head's sums and ages of all rows; ages of rows beyond the capacity are told by their place. */
static int32_t age_of(const int32_t *age, int64_t past, int32_t n_stored, int64_t row) {
    return row < past ? age[row] : n_stored + (int32_t)(row - past);
}

static void rank_head(h2o *s, const sac_layer_attention *a, int head) {
    int64_t n = a->kv.n_rows;
    int32_t n_stored = s->n_stored[a->layer];
    int32_t newest_old = n_stored + (int32_t)(a->q.rows - s->n_recent); /* ages below it are not recent */
    const float *score = (float *)scores_of(s, a->layer).host + head * s->capacity;
    const int32_t *age = (int32_t *)ages_of(s, a->layer).host + head * s->capacity;
    float *sums = (float *)s->sums.host + head * n, *ranks = (float *)s->ranks.host + head * n;
    for (int64_t i = 0; i < n; i++) {
        if (i < a->past) sums[i] += score[i];
        bool is_recent = age_of(age, a->past, n_stored, i) >= newest_old;
        ranks[i] = is_recent ? INFINITY : sums[i];
    }
}

/* Scores and ages of the rows that stay, in their new places. */
static void remember(h2o *s, const sac_layer_attention *a, int head, const int32_t *rows, int64_t n) {
    float *score = (float *)scores_of(s, a->layer).host + head * s->capacity;
    int32_t *age = (int32_t *)ages_of(s, a->layer).host + head * s->capacity;
    const float *sums = (float *)s->sums.host + head * a->kv.n_rows;
    for (int64_t i = 0; i < n; i++) { /* rows only move up: old entries are read before they are written */
        int64_t row = rows ? rows[i] : i;
        age[i] = age_of(age, a->past, s->n_stored[a->layer], row);
        score[i] = sums[row];
    }
}

/* The rows that stay, by head, to `rows`. */
static sac_status choose(const h2o *s, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows;
    SAC_TRY(sac_send(a, s->ranks, (size_t)(s->n_kv_heads * n) * sizeof(float)));
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = s->ranks.device,
                                                       .stride = n,
                                                       .n = n,
                                                       .n_rows = s->n_kv_heads,
                                                       .k = s->budget,
                                                       .indices = s->rows.device}));
    return sac_fetch(a, s->rows, (size_t)(s->n_kv_heads * s->budget) * sizeof(int32_t));
}

/* The prompt's weights join the scores of the rows, of which as many stay as may. */
static sac_status rank_rows(h2o *s, const sac_layer_attention *a) {
    int64_t n = a->kv.n_rows, n_left = n < s->budget ? n : s->budget;
    const int32_t *rows = s->rows.host;
    sac_buffer score = scores_of(s, a->layer), age = ages_of(s, a->layer);
    SAC_TRY(sac_fetch(a, s->sums, (size_t)(s->n_kv_heads * n) * sizeof(float)));
    if (a->past > 0) {
        SAC_TRY(sac_fetch(a, score, layer_bytes(s)));
        SAC_TRY(sac_fetch(a, age, layer_bytes(s)));
    }
    for (int h = 0; h < s->n_kv_heads; h++) rank_head(s, a, h);
    if (n_left < n) SAC_TRY(choose(s, a));
    for (int h = 0; h < s->n_kv_heads; h++) remember(s, a, h, n_left < n ? rows + h * n_left : NULL, n_left);
    SAC_TRY(sac_send(a, score, layer_bytes(s)));
    return sac_send(a, age, layer_bytes(s));
}

static sac_status prompt(void *state, const sac_layer_attention *a) {
    h2o *s = state;
    int64_t start_ns = sac_now_ns();
    s->in_prompt = true;
    if (a->past == 0) s->n_stored[a->layer] = 0;
    budgets(s, a->n_seen, &s->budget, &s->n_recent);
    if (s->budget > s->n_ctx) s->budget = s->n_ctx;
    SAC_TRY(sum_weights(s, a));
    SAC_TRY(rank_rows(s, a));
    s->n_stored[a->layer] += (int32_t)a->q.rows;
    a->stats->select_ns += sac_now_ns() - start_ns;
    return SAC_OK;
}

/* ---------------------------------------------------------------- a step */

/* All rows that are left, and the step's own; what it gives them is added up when it settles. */
static sac_status select_rows(void *state, const sac_layer_attention *a, sac_choice *choice) {
    h2o *s = state;
    assert(a->kv.n_rows <= s->capacity);
    (void)choice; /* all */
    s->in_prompt = false;
    return sum_weights(s, a);
}

/* A step's sums meet those of its rows; with a row too many, the lightest that is not recent leaves. */
static sac_status settle_step(h2o *s, const sac_layer_attention *a, bool evict) {
    int32_t age = s->n_stored[a->layer]++;
    return a->ops->evict_row(a->stream, &(sac_evict_row_args){.kv = a->kv,
                                                              .score = scores_of(s, a->layer).device,
                                                              .ages = ages_of(s, a->layer).device,
                                                              .stride = s->capacity,
                                                              .weights = s->sums.device,
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
                             &(sac_keep_rows_args){a->kv, s->rows.device, s->budget, s->n_kv_heads});
}

const sac_decode_policy sac_decode_h2o = {
    .name = "h2o",
    .source = "Zhang et al., NeurIPS 2023, arXiv:2306.14048",
    .params = params,
    .state_bytes = sizeof(h2o),
    .check = check,
    .is_off = is_off,
    .take = take,
    .begin = begin,
    .prompt = prompt,
    .select = select_rows,
    .settle = settle,
};
