/* ZipVL: attention over the tokens that matter, as many as a layer's attention says.
 *
 * Source: He et al., "ZipVL", arXiv:2410.08584, sections 4.1, 4.2 and appendix A. A few probe queries (the
 * last ones and some at random) give every key a sum a_j of their softmax weights, over all heads, and a mean
 * a_j / nnz_j over the probes that see it. The budget p is the smallest number of tokens whose largest sums
 * hold tau of all; the set T are the p tokens with the best means. Only T's queries meet T's keys: rows are
 * gathered once and the dense causal op runs on them. The other tokens get no attention output in this layer
 * (zeros, so the residual passes); their keys and values are stored all the same.
 *
 * Ours: probe scores are scaled and masked (appendix A writes neither); heads are summed, as T is one set for
 * a layer; probes are drawn without replacement, by a counter. The last token is always in T, in place of the
 * worst, because its output is what the answer is read from (strict=1: as the paper). T need not hold tau of
 * the weight, since budget and choice look at different scores: budget=cover takes the smallest T that does.
 * side=one lets every query meet T's keys instead. Below `min` tokens the probes cost what the choice saves,
 * and attention is dense.
 *
 * Later turns: what earlier turns left in the cache is read whole; the new tokens compete among themselves
 * for tau of the weight that the probes give to them. */
#include "attend.h"
#include "clock.h"
#include "importance.h"
#include "measure.h"
#include "window_sums.h"

#include <math.h>
#include <string.h>

enum { TAU, RECENT, RANDOM, SEED, SIDE, BUDGET, STRICT, KEEP_SINK, MIN, RATIO };

static const char *const sides[] = {"two", "one", NULL};
static const char *const budgets[] = {"sums", "cover", NULL};
static const sac_method_param params[] = {
    [TAU] = {"tau", 0.975, 0, 1, "share of the probes' attention that the budget holds", NULL},
    [RECENT] = {"recent", 64, 0, 1 << 20, "probes: last queries", SAC_WHOLE},
    [RANDOM] = {"random", 64, 0, 1 << 20, "probes: random queries before them", SAC_WHOLE},
    [SEED] = {"seed", 0, 0, 1e9, "of the random probes", SAC_WHOLE},
    [SIDE] = {"side", 0, 0, 1, "two: important queries meet important keys; one: all queries do", sides},
    [BUDGET] = {"budget", 0, 0, 1, "sums: as many as the largest sums need; cover: as the chosen need",
                budgets},
    [STRICT] = {"strict", 0, 0, 1, "1: the last token may be left out", SAC_WHOLE},
    [KEEP_SINK] = {"keep_sink", 0, 0, 1, "1: the first token is always important", SAC_WHOLE},
    [MIN] = {"min", 4096, 0, 1e9, "shorter sequences are read densely: below it nothing is gained",
             SAC_WHOLE},
    [RATIO] = {"ratio", 0, 0, 1,
               "share of the tokens to keep, whatever the weights say (speed tests); 0 = tau", NULL},
    {0}};

typedef struct zipvl {
    const double *p;
    int64_t recent, random, n_ctx;
    sac_buffer sums, means; /* float [n_ctx] */
    sac_buffer probes;      /* int32_t [recent + random] */
    sac_buffer kept;        /* int32_t [n_ctx] T, counted from the first query */
    sac_buffer rows;        /* int32_t [n_ctx] of the view: earlier ones and T */
    sac_buffer start;       /* int64_t [2] of rows */
    sac_buffer least;       /* a threshold, then how many pass it as int64_t */
    sac_buffer draw;        /* int32_t [n_ctx] drawing probes; which output is whose, -1 = none */
    int64_t n_kept;
    int64_t at_once; /* rows that are moved at a time */
    /* Where ops run: */
    float *k, *v;   /* [n_kv_heads][n_ctx][head_dim] gathered */
    void *part;     /* [probes or at_once][n_heads * head_dim] probes' queries; rows on their way */
    int32_t *count; /* [at_once] 0, 1 .. */
    float *zeros;   /* [n_heads * head_dim] */
} zipvl;

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (p[RECENT] + p[RANDOM] < 1)
        return sac_fail(err, SAC_BAD_ARGUMENT, "prefill policy zipvl: recent=0,random=0 leave no probes");
    if (shape->window && shape->window < shape->n_ctx)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy zipvl gathers tokens, and this model's sliding window of %lld counts "
                        "them: use --ctx %lld or less",
                        (long long)shape->window, (long long)shape->window);
    return SAC_OK;
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    (void)shape;
    return p[RATIO] > 0 ? p[RATIO] >= 1 : p[TAU] >= 1;
}

static int64_t observes(const double *p) {
    return (int64_t)p[RECENT];
}

static bool picks_queries(const double *p) {
    return p[SIDE] == 0;
}

static int64_t break_even(const double *p) {
    return p[RATIO] > 0 ? 0 : (int64_t)p[MIN];
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    zipvl *z = state;
    size_t n = (size_t)shape->n_ctx, row = (size_t)shape->n_kv_heads * (size_t)shape->head_dim;
    *z = (zipvl){.p = p, .recent = (int64_t)p[RECENT], .random = (int64_t)p[RANDOM], .n_ctx = shape->n_ctx};
    size_t n_probes = (size_t)(z->recent + z->random), cols = (size_t)(shape->n_heads * shape->head_dim);
    z->sums = sac_take_both(memory, n * sizeof(float));
    z->means = sac_take_both(memory, n * sizeof(float));
    z->probes = sac_take_both(memory, n_probes * sizeof(int32_t));
    z->draw = sac_take_both(memory, n * sizeof(int32_t));
    z->kept = sac_take_both(memory, n * sizeof(int32_t));
    z->rows = sac_take_both(memory, n * sizeof(int32_t));
    z->start = sac_take_both(memory, 2 * sizeof(int64_t));
    z->least = sac_take_both(memory, 2 * sizeof(int64_t));
    if (p[SIDE] != 0) return;
    z->k = sac_take_device(memory, n * row * sizeof(float));
    z->v = sac_take_device(memory, n * row * sizeof(float));
    z->at_once = sac_queries_at_once(shape);
    size_t n_part = (size_t)z->at_once > n_probes ? (size_t)z->at_once : n < n_probes ? n : n_probes;
    z->part = sac_take_device(memory, n_part * sac_dtype_row_bytes(shape->dtype, (int64_t)cols));
    z->count = sac_take_device(memory, (size_t)z->at_once * sizeof *z->count);
    z->zeros = sac_take_device(memory, cols * sizeof(float)); /* as a session's memory is */
}

/* ---------------------------------------------------------------- scores */

/* Probes' queries to their places in q, where queries have not been made. */
static sac_status make_probes(const zipvl *z, const sac_layer_attention *a, int64_t n_probes) {
    sac_mat part = {z->part, n_probes, a->q.cols, a->q.cols, a->q.dtype};
    if (!a->make_queries.fn) return SAC_OK;
    SAC_TRY(a->make_queries.fn(a->make_queries.ctx, part, z->probes.device));
    return a->ops->scatter_rows(a->stream, &(sac_scatter_rows_args){a->q, part, z->probes.device, false});
}

/* Sums of the first n_probes probes' weights, over all heads. */
static sac_status sum_weights(zipvl *z, const sac_layer_attention *a, int64_t n_probes) {
    if (n_probes == 0) {
        memset(z->sums.host, 0, (size_t)a->kv.n_rows * sizeof(float));
        return SAC_OK;
    }
    return a->ops->attention_sums(a->stream, &(sac_attention_sums_args){.sums = z->sums.device,
                                                                        .stride = z->n_ctx,
                                                                        .n_sums = 1,
                                                                        .q = a->q,
                                                                        .probes = z->probes.device,
                                                                        .n_probes = n_probes,
                                                                        .first = a->past,
                                                                        .kv = a->kv,
                                                                        .n_kv = a->kv.n_rows,
                                                                        .n_heads = a->shape->n_heads,
                                                                        .scale = a->scale});
}

/* The recent ones' from the shared pass. */
static sac_status add_window(zipvl *z, const sac_layer_attention *a) {
    float *sums = z->sums.host;
    SAC_TRY(sac_window_sums_find(a));
    for (int h = 0; h < a->shape->n_heads; h++) {
        const float *from = a->window_sums->sums + h * z->n_ctx;
        for (int64_t j = 0; j < a->kv.n_rows; j++) sums[j] += from[j];
    }
    return SAC_OK;
}

/* Of keys [first, end). None sees them: recent=0. */
static void mean_of(float *means, const float *sums, int64_t first, int64_t end, int64_t seen_by) {
    float n = (float)seen_by;
    for (int64_t j = first; j < end; j++) means[j] = seen_by > 0 ? sums[j] / n : 0;
}

/* Sums of the probes' weights for the new tokens, and their means over the probes that see each. */
static sac_status score(zipvl *z, const sac_layer_attention *a, const float **sums) {
    int64_t end = a->q.rows, n_probes = sac_draw_probes((uint64_t)z->p[SEED], sac_probe_stream(a), a->q.rows,
                                                        z->recent, z->random, z->draw.host, z->probes.host);
    const int32_t *probes = z->probes.host;
    int64_t n_recent = z->recent < a->q.rows ? z->recent : a->q.rows;
    SAC_TRY(sac_send(a, z->probes, (size_t)n_probes * sizeof *probes));
    SAC_TRY(make_probes(z, a, n_probes));
    SAC_TRY(sum_weights(z, a, a->window_sums ? n_probes - n_recent : n_probes));
    if (a->window_sums) SAC_TRY(add_window(z, a));
    SAC_TRY(sac_fetch(a, z->sums, (size_t)a->kv.n_rows * sizeof(float)));
    *sums = (float *)z->sums.host + a->past;
    for (int64_t seen_by = 0; seen_by <= n_probes; seen_by++) { /* keys behind one probe, up to the next */
        int64_t first = seen_by < n_probes ? probes[n_probes - 1 - seen_by] + 1 : 0;
        mean_of(z->means.host, *sums, first, end, seen_by);
        end = first;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- the choice */

static void measure_mass(const zipvl *z, const sac_layer_attention *a, const float *sums) {
    const int32_t *kept = z->kept.host;
    double held = 0, all = 0;
    if (!a->shape->measure_mass) return;
    for (int64_t j = 0; j < a->q.rows; j++) all += (double)sums[j];
    for (int64_t i = 0; i < z->n_kept; i++) held += (double)sums[kept[i]];
    sac_count_prefill_mass(a, held / all);
}

/* The budget. */
static sac_status count(zipvl *z, const sac_layer_attention *a, const float *sums, int64_t n) {
    if (z->p[RATIO] > 0) {
        z->n_kept = (int64_t)ceil(z->p[RATIO] * (double)n);
        return SAC_OK;
    }
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = (float *)z->sums.device + a->past,
                                                       .stride = n,
                                                       .n = n,
                                                       .n_rows = 1,
                                                       .p = z->p[TAU],
                                                       .threshold = z->least.device,
                                                       .n_kept = (int64_t *)z->least.device + 1}));
    SAC_TRY(sac_fetch(a, z->least, 2 * sizeof(int64_t)));
    z->n_kept = sac_importance_count_from(sums, n, z->p[TAU], *(const float *)z->least.host,
                                          ((const int64_t *)z->least.host)[1]);
    return SAC_OK;
}

/* The k best means, ascending. */
static sac_status best(zipvl *z, const sac_layer_attention *a, int64_t n, int64_t k) {
    SAC_TRY(sac_importance_best(a->ops, a->stream, z->means.device, n, k, z->kept.device));
    return sac_fetch(a, z->kept, (size_t)k * sizeof(int32_t));
}

/* budget=cover: the fewest best means that hold the share of the weights. What they hold grows with their
 * number, as each set holds the one before: bisection. */
static sac_status cover(zipvl *z, const sac_layer_attention *a, const float *sums, int64_t n) {
    const int32_t *kept = z->kept.host;
    double target = sac_importance_target(sums, n, z->p[TAU]);
    int64_t low = 1, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        double held = 0;
        SAC_TRY(best(z, a, n, middle));
        for (int64_t i = 0; i < middle; i++) held += (double)sums[kept[i]];
        if (held >= target)
            high = middle;
        else
            low = middle + 1;
    }
    z->n_kept = low;
    return SAC_OK;
}

static sac_status choose(zipvl *z, const sac_layer_attention *a) {
    const float *sums;
    int64_t n = a->q.rows, n_forced = 0;
    SAC_TRY(score(z, a, &sums));
    float *means = z->means.host;
    if (z->p[KEEP_SINK] != 0 && z->p[STRICT] == 0 && a->n_before == 0) {
        means[0] = INFINITY;
        n_forced++;
    }
    if (z->p[STRICT] == 0) {
        n_forced += means[n - 1] < INFINITY;
        means[n - 1] = INFINITY;
    }
    SAC_TRY(sac_send(a, z->means, (size_t)n * sizeof *means));
    SAC_TRY(z->p[BUDGET] != 0 ? cover(z, a, sums, n) : count(z, a, sums, n));
    if (z->n_kept < n_forced) z->n_kept = n_forced;
    SAC_TRY(best(z, a, n, z->n_kept));
    if (z->n_kept < n) measure_mass(z, a, sums);
    a->stats->n_selections++;
    if (a->past == 0) return SAC_OK; /* rows are T */
    const int32_t *kept = z->kept.host;
    int32_t *rows = z->rows.host;
    for (int64_t i = 0; i < a->past; i++) rows[i] = (int32_t)i;
    for (int64_t i = 0; i < z->n_kept; i++) rows[a->past + i] = (int32_t)(a->past + kept[i]);
    return sac_send(a, z->rows, (size_t)(a->past + z->n_kept) * sizeof *rows);
}

/* ---------------------------------------------------------------- attention */

/* Rows of q that stand at source[i], or zeros for -1, to its rows [first, first + n), by way of the part. */
static sac_status move_rows(const zipvl *z, const sac_layer_attention *a, const int32_t *source,
                            int64_t first, int64_t n) {
    sac_mat part = {z->part, n, a->q.cols, a->q.cols, a->q.dtype};
    SAC_TRY(a->ops->gather_rows(a->stream, &(sac_gather_rows_args){part, a->q, source + first, z->zeros}));
    return a->ops->gather_rows(a->stream,
                               &(sac_gather_rows_args){sac_mat_rows(a->q, first, n), part, z->count, NULL});
}

/* T's queries side by side in the first rows of q: none goes where one stands that is still wanted. */
static sac_status pick_queries(const zipvl *z, const sac_layer_attention *a) {
    SAC_TRY(a->ops->choice_rows(
        a->stream, &(sac_choice_rows_args){.rows = z->count, .init = z->at_once, .n_rows = z->at_once}));
    for (int64_t i = 0, n; i < z->n_kept; i += n) {
        n = z->n_kept - i < z->at_once ? z->n_kept - i : z->at_once;
        SAC_TRY(move_rows(z, a, z->kept.device, i, n));
    }
    return SAC_OK;
}

/* Their outputs, standing there, to their places, zeros elsewhere: from the last on, since a row only ever
 * moves down. */
static sac_status spread(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    int32_t *source = z->draw.host;
    for (int64_t i = 0; i < a->q.rows; i++) source[i] = -1;
    for (int64_t i = 0; i < z->n_kept; i++) source[kept[i]] = (int32_t)i;
    SAC_TRY(sac_send(a, z->draw, (size_t)a->q.rows * sizeof *source));
    for (int64_t end = a->q.rows, n; end > 0; end -= n) {
        n = end < z->at_once ? end : z->at_once;
        SAC_TRY(move_rows(z, a, z->draw.device, end - n, n));
    }
    return SAC_OK;
}

/* So many queries that plans are shared with other layers, which keep other numbers: the last ones are
 * nobody's. */
static int64_t padded(const sac_layer_attention *a, int64_t first, int64_t n) {
    int64_t step = sac_ops_traits_of(a->shape->device)->query_step;
    int64_t begin = a->past + first, more = (step - (begin + n) % step) % step;
    return n >= step && first + n + more <= a->q.rows ? n + more : n;
}

/* Queries q are T's from the first-th on. Behind them, and behind the rows of kv that they see, is room. */
static sac_status attend_gathered(const zipvl *z, const sac_layer_attention *a, sac_mat q, int64_t first,
                                  const sac_kv_view *kv) {
    sac_kv_view room = *kv;
    room.n_rows = z->n_ctx;
    q.rows = padded(a, first, q.rows);
    return a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                              .q = q,
                                                              .kv = room,
                                                              .n_q = q.rows,
                                                              .n_kv = a->past + first + q.rows,
                                                              .first = a->past + first,
                                                              .n_batch = 1,
                                                              .n_heads = a->shape->n_heads,
                                                              .scale = a->scale,
                                                              .causal = true});
}

/* With queries made for it: those of T whose outputs will be read. */
static sac_status attend_made(const zipvl *z, const sac_layer_attention *a, const sac_kv_view *kv) {
    const int32_t *kept = z->kept.host, *made = z->kept.device;
    int64_t first = 0;
    while (first < z->n_kept && kept[first] < a->n_unread) first++;
    sac_mat q = sac_mat_rows(a->q, 0, z->n_kept - first);
    *a->attended = (sac_attended){q, made + first};
    if (q.rows == 0) return SAC_OK;
    SAC_TRY(a->make_queries.fn(a->make_queries.ctx, q, made + first));
    return attend_gathered(z, a, q, first, kv);
}

static sac_status attend_two_sided(const zipvl *z, const sac_layer_attention *a, const sac_row_lists *lists) {
    int d = a->shape->head_dim;
    int64_t n = a->past + z->n_kept;
    sac_mat q = sac_mat_rows(a->q, 0, z->n_kept);
    sac_kv_view kv = {.k = z->k,
                      .v = z->v,
                      .dtype = a->kv.dtype,
                      .n_heads = a->shape->n_kv_heads,
                      .head_dim = d,
                      .n_rows = n,
                      .row_stride = d,
                      .head_stride = z->n_ctx * d};
    SAC_TRY(a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = kv, .src = a->kv, .lists = lists}));
    if (a->make_queries.fn) return attend_made(z, a, &kv);
    SAC_TRY(pick_queries(z, a));
    SAC_TRY(attend_gathered(z, a, q, 0, &kv));
    if (!a->attended) return spread(z, a);
    *a->attended = (sac_attended){q, z->kept.device};
    return SAC_OK;
}

static sac_status attend_one_sided(const sac_layer_attention *a, const sac_row_lists *lists) {
    return a->ops->attention(a->stream, &(sac_attention_args){.o = a->q,
                                                              .q = a->q,
                                                              .kv = a->kv,
                                                              .lists = lists,
                                                              .n_q = a->q.rows,
                                                              .n_kv = a->past + a->q.rows,
                                                              .first = a->past,
                                                              .n_batch = 1,
                                                              .n_heads = a->shape->n_heads,
                                                              .scale = a->scale,
                                                              .causal = true});
}

/* Query-key pairs for each head. */
static double n_pairs(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    double n = (double)z->n_kept, past = (double)a->past, pairs = 0;
    if (z->p[SIDE] == 0) return n * (n + 1) / 2 + n * past;
    for (int64_t i = 0; i < z->n_kept; i++) pairs += (double)(a->q.rows - kept[i]);
    return pairs + (double)a->q.rows * past;
}

static void tell(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    int32_t *positions = z->draw.host;
    if (!a->observer.fn) return;
    for (int64_t i = 0; i < z->n_kept; i++) positions[i] = a->position[kept[i]];
    a->observer.fn(a->observer.ctx, a->layer, positions, z->n_kept, a->n_seen);
}

static sac_status attend(void *state, const sac_layer_attention *a) {
    zipvl *z = state;
    int64_t start = sac_now_ns();
    SAC_TRY(choose(z, a));
    int64_t chosen = sac_now_ns() - start;
    a->stats->select_ns += chosen;
    a->stats->attend_ns -= chosen; /* the caller adds all */
    tell(z, a);
    if (z->n_kept == a->q.rows) return sac_attend_prompt_dense(a);
    sac_count_prefill(a, (double)z->n_kept, n_pairs(z, a) * a->shape->n_heads);
    ((int64_t *)z->start.host)[1] = a->past + z->n_kept;
    SAC_TRY(sac_send(a, z->start, 2 * sizeof(int64_t)));
    const sac_row_lists lists = {a->past > 0 ? z->rows.device : z->kept.device, z->start.device, 1};
    return z->p[SIDE] == 0 ? attend_two_sided(z, a, &lists) : attend_one_sided(a, &lists);
}

static sac_important important(void *state) {
    const zipvl *z = state;
    return (sac_important){z->kept.host, z->n_kept, 1};
}

const sac_prefill_policy sac_prefill_zipvl = {.name = "zipvl",
                                              .source = "He et al., arXiv:2410.08584",
                                              .params = params,
                                              .state_bytes = sizeof(zipvl),
                                              .check = check,
                                              .is_off = is_off,
                                              .take = take,
                                              .attend = attend,
                                              .picks_queries = picks_queries,
                                              .important = important,
                                              .observes = observes,
                                              .break_even = break_even};
