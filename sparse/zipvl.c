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
#include "importance.h"
#include "window_sums.h"

#include "clock.h"

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
    float *sums, *means;    /* [n_ctx] */
    int32_t *probes, *draw; /* [recent + random], [n_ctx] */
    int32_t *kept;          /* [n_ctx] T, counted from the first query */
    int32_t *rows;          /* [n_ctx] of the view: earlier ones and T */
    float *k, *v;           /* [n_kv_heads][n_ctx][head_dim] gathered */
    int64_t n_kept;
    /* What ops read and write: the same memory as above, or the device's. */
    struct {
        float *sums, *means;
        int32_t *probes, *kept, *rows;
        void *part; /* [.][n_heads * head_dim] probes' queries; on a device [n_ctx], T's queries and outputs
                       too */
        /* the device's alone */
        int32_t *source; /* [n_ctx] which of the part's rows goes here, -1 = none */
        int64_t *start;  /* [2] of rows */
        float *zeros;    /* [n_heads * head_dim] */
        float *least;    /* [1] threshold, then n_kept as int64 */
    } there;
} zipvl;

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (shape->device && p[BUDGET] != 0)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy zipvl with budget=cover runs on the CPU only so far: leave it out");
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

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    zipvl *z = state;
    size_t n = (size_t)shape->n_ctx, row = (size_t)shape->n_kv_heads * (size_t)shape->head_dim;
    *z = (zipvl){.p = p, .recent = (int64_t)p[RECENT], .random = (int64_t)p[RANDOM], .n_ctx = shape->n_ctx};
    z->sums = sac_arena_take(arena, n * sizeof(float));
    z->means = sac_arena_take(arena, n * sizeof(float));
    z->probes = sac_arena_take(arena, (size_t)(z->recent + z->random) * sizeof(int32_t));
    z->draw = sac_arena_take(arena, n * sizeof(int32_t));
    z->kept = sac_arena_take(arena, n * sizeof(int32_t));
    z->rows = sac_arena_take(arena, n * sizeof(int32_t));
    z->there.sums = z->sums, z->there.means = z->means;
    z->there.probes = z->probes, z->there.kept = z->kept, z->there.rows = z->rows;
    if (p[SIDE] != 0 || shape->device) return;
    z->k = sac_arena_take(arena, n * row * sizeof(float));
    z->v = sac_arena_take(arena, n * row * sizeof(float));
    size_t n_probes = (size_t)(z->recent + z->random), cols = (size_t)(shape->n_heads * shape->head_dim);
    z->there.part = sac_arena_take(arena, (n_probes < n ? n_probes : n) * cols * sizeof(float));
}

static void take_device(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    zipvl *z = state;
    size_t n = (size_t)shape->n_ctx, row = (size_t)shape->n_kv_heads * (size_t)shape->head_dim;
    int64_t cols = (int64_t)shape->n_heads * shape->head_dim;
    z->there.sums = sac_arena_take(arena, n * sizeof(float));
    z->there.means = sac_arena_take(arena, n * sizeof(float));
    z->there.probes = sac_arena_take(arena, (size_t)(z->recent + z->random) * sizeof(int32_t));
    z->there.kept = sac_arena_take(arena, n * sizeof(int32_t));
    z->there.rows = sac_arena_take(arena, n * sizeof(int32_t));
    z->there.start = sac_arena_take(arena, 2 * sizeof(int64_t));
    z->there.least = sac_arena_take(arena, 2 * sizeof(int64_t));
    if (p[SIDE] != 0) return;
    z->k = sac_arena_take(arena, n * row * sizeof(float));
    z->v = sac_arena_take(arena, n * row * sizeof(float));
    z->there.source = sac_arena_take(arena, n * sizeof(int32_t));
    z->there.part = sac_arena_take(arena, n * sac_dtype_row_bytes(shape->dtype, cols));
    z->there.zeros = sac_arena_take(arena, (size_t)cols * sizeof(float)); /* a session's memory is zeroed */
}

/* ---------------------------------------------------------------- scores */

/* Probes' queries to their places in q, where queries have not been made. */
static sac_status make_probes(const zipvl *z, const sac_layer_attention *a, int64_t n_probes) {
    sac_mat part = {z->there.part, n_probes, a->q.cols, a->q.cols, a->q.dtype};
    if (!a->make_queries.fn) return SAC_OK;
    SAC_TRY(a->make_queries.fn(a->make_queries.ctx, part, z->there.probes));
    return a->ops->scatter_rows(a->stream, &(sac_scatter_rows_args){a->q, part, z->there.probes, false});
}

/* Sums of the first n_probes probes' weights, over all heads. */
static sac_status sum_weights(zipvl *z, const sac_layer_attention *a, int64_t n_probes) {
    if (n_probes == 0) {
        memset(z->sums, 0, (size_t)a->kv.n_rows * sizeof *z->sums);
        return SAC_OK;
    }
    return a->ops->attention_sums(a->stream, &(sac_attention_sums_args){.sums = z->there.sums,
                                                                        .stride = z->n_ctx,
                                                                        .n_sums = 1,
                                                                        .q = a->q,
                                                                        .probes = z->there.probes,
                                                                        .n_probes = n_probes,
                                                                        .first = a->past,
                                                                        .kv = a->kv,
                                                                        .n_kv = a->kv.n_rows,
                                                                        .n_heads = a->shape->n_heads,
                                                                        .scale = a->scale});
}

/* The recent ones' from the shared pass. */
static sac_status add_window(zipvl *z, const sac_layer_attention *a) {
    SAC_TRY(sac_window_sums_find(a));
    for (int h = 0; h < a->shape->n_heads; h++) {
        const float *from = a->window_sums->sums + h * z->n_ctx;
        for (int64_t j = 0; j < a->kv.n_rows; j++) z->sums[j] += from[j];
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
                                                        z->recent, z->random, z->draw, z->probes);
    int64_t n_recent = z->recent < a->q.rows ? z->recent : a->q.rows;
    SAC_TRY(sac_to_device(a, z->there.probes, z->probes, (size_t)n_probes * sizeof *z->probes));
    SAC_TRY(make_probes(z, a, n_probes));
    SAC_TRY(sum_weights(z, a, a->window_sums ? n_probes - n_recent : n_probes));
    if (a->window_sums) SAC_TRY(add_window(z, a));
    SAC_TRY(sac_to_host(a, z->sums, z->there.sums, (size_t)a->kv.n_rows * sizeof *z->sums));
    *sums = z->sums + a->past;
    for (int64_t seen_by = 0; seen_by <= n_probes; seen_by++) { /* keys behind one probe, up to the next */
        int64_t first = seen_by < n_probes ? z->probes[n_probes - 1 - seen_by] + 1 : 0;
        mean_of(z->means, *sums, first, end, seen_by);
        end = first;
    }
    return SAC_OK;
}

/* ---------------------------------------------------------------- the choice */

static void measure_mass(const zipvl *z, const sac_layer_attention *a, const float *sums) {
    double held = 0, all = 0;
    if (!a->shape->measure_mass) return;
    for (int64_t j = 0; j < a->q.rows; j++) all += (double)sums[j];
    for (int64_t i = 0; i < z->n_kept; i++) held += (double)sums[z->kept[i]];
    sac_count_prefill_mass(a, held / all);
}

/* The budget. */
static sac_status count(zipvl *z, const sac_layer_attention *a, const float *sums, int64_t n) {
    struct {
        float least;
        int64_t n_least;
    } found[1];
    if (z->p[RATIO] > 0) {
        z->n_kept = (int64_t)ceil(z->p[RATIO] * (double)n);
        return SAC_OK;
    }
    if (!a->shape->device) return sac_importance_count(a->ops, a->stream, sums, n, z->p[TAU], &z->n_kept);
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = z->there.sums + a->past,
                                                       .stride = n,
                                                       .n = n,
                                                       .n_rows = 1,
                                                       .p = z->p[TAU],
                                                       .threshold = z->there.least,
                                                       .n_kept = (int64_t *)(void *)z->there.least + 1}));
    SAC_TRY(sac_to_host(a, found, z->there.least, sizeof found));
    z->n_kept = sac_importance_count_from(sums, n, z->p[TAU], found->least, found->n_least);
    return SAC_OK;
}

/* The n_kept best means. */
static sac_status best(zipvl *z, const sac_layer_attention *a, int64_t n) {
    SAC_TRY(sac_to_device(a, z->there.means, z->means, (size_t)n * sizeof *z->means));
    SAC_TRY(sac_importance_best(a->ops, a->stream, z->there.means, n, z->n_kept, z->there.kept));
    return sac_to_host(a, z->kept, z->there.kept, (size_t)z->n_kept * sizeof *z->kept);
}

static sac_status choose(zipvl *z, const sac_layer_attention *a) {
    const float *sums;
    int64_t n = a->q.rows, n_forced = 0;
    SAC_TRY(score(z, a, &sums));
    if (z->p[KEEP_SINK] != 0 && z->p[STRICT] == 0 && a->n_before == 0) {
        z->means[0] = INFINITY;
        n_forced++;
    }
    if (z->p[STRICT] == 0) {
        n_forced += z->means[n - 1] < INFINITY;
        z->means[n - 1] = INFINITY;
    }
    if (z->p[BUDGET] != 0) {
        SAC_TRY(sac_importance_cover(a->ops, a->stream, z->means, sums, n, z->p[TAU], z->kept, &z->n_kept));
    } else {
        SAC_TRY(count(z, a, sums, n));
    }
    if (z->n_kept < n_forced) z->n_kept = n_forced;
    SAC_TRY(best(z, a, n));
    if (z->n_kept < n) measure_mass(z, a, sums);
    a->stats->n_selections++;
    if (a->past == 0) return SAC_OK; /* rows are T */
    for (int64_t i = 0; i < a->past; i++) z->rows[i] = (int32_t)i;
    for (int64_t i = 0; i < z->n_kept; i++) z->rows[a->past + i] = (int32_t)(a->past + z->kept[i]);
    return sac_to_device(a, z->there.rows, z->rows, (size_t)(a->past + z->n_kept) * sizeof *z->rows);
}

/* ---------------------------------------------------------------- attention */

/* Where outputs are wanted in q: those of T, standing in the first rows, to their places; zeros elsewhere.
 * From the last on, since a row only ever moves down. */
static void spread(const zipvl *z, sac_mat o) {
    size_t row_bytes = (size_t)o.cols * sizeof(float);
    int64_t end = o.rows;
    for (int64_t i = z->n_kept - 1; i >= 0; i--) {
        int64_t to = z->kept[i];
        if (to != i) memcpy(sac_mat_row_f32(o, to), sac_mat_row_f32(o, i), row_bytes);
        for (int64_t r = to + 1; r < end; r++) memset(sac_mat_row_f32(o, r), 0, row_bytes);
        end = to;
    }
    for (int64_t r = 0; r < end; r++) memset(sac_mat_row_f32(o, r), 0, row_bytes);
}

/* A device's libraries make a plan for every shape, which takes longer than a layer: there queries go in
 * steps of this many, the last ones of which are nobody's, so that layers that keep different numbers share
 * plans. */
enum { STEP = 1024 };

static int64_t padded(const sac_layer_attention *a, int64_t first, int64_t n) {
    int64_t begin = a->past + first, more = (STEP - (begin + n) % STEP) % STEP;
    return a->shape->device && n >= STEP && first + n + more <= a->q.rows ? n + more : n;
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

static sac_status spread_on_device(const zipvl *z, const sac_layer_attention *a, sac_mat part) {
    for (int64_t i = 0; i < a->q.rows; i++) z->draw[i] = -1;
    for (int64_t i = 0; i < z->n_kept; i++) z->draw[z->kept[i]] = (int32_t)i;
    SAC_TRY(sac_to_device(a, z->there.source, z->draw, (size_t)a->q.rows * sizeof *z->draw));
    return a->ops->gather_rows(a->stream,
                               &(sac_gather_rows_args){a->q, part, z->there.source, z->there.zeros});
}

/* T's queries side by side: moved to the first rows or, on a device, to a place of their own. */
static sac_status pick_queries(const zipvl *z, const sac_layer_attention *a, sac_mat *q) {
    *q = sac_mat_rows(a->q, 0, z->n_kept);
    if (a->shape->device) {
        *q = (sac_mat){z->there.part, z->n_kept, a->q.cols, a->q.cols, a->q.dtype};
        return a->ops->gather_rows(a->stream, &(sac_gather_rows_args){*q, a->q, z->there.kept, NULL});
    }
    for (int64_t i = 0; i < z->n_kept; i++) /* kept[i] >= i: nothing that is still wanted is overwritten */
        if (z->kept[i] != i)
            memcpy(sac_mat_row_f32(*q, i), sac_mat_row_f32(a->q, z->kept[i]),
                   (size_t)q->cols * sizeof(float));
    return SAC_OK;
}

/* The same, made: those whose outputs will be read. */
static sac_status attend_made(const zipvl *z, const sac_layer_attention *a, const sac_kv_view *kv) {
    int64_t first = 0;
    while (first < z->n_kept && z->kept[first] < a->n_unread) first++;
    sac_mat q = sac_mat_rows(a->q, 0, z->n_kept - first);
    *a->attended = (sac_attended){q, z->there.kept + first};
    if (q.rows == 0) return SAC_OK;
    SAC_TRY(a->make_queries.fn(a->make_queries.ctx, q, z->there.kept + first));
    return attend_gathered(z, a, q, first, kv);
}

static sac_status attend_two_sided(const zipvl *z, const sac_layer_attention *a, const sac_row_lists *lists) {
    int d = a->shape->head_dim;
    int64_t n = a->past + z->n_kept;
    sac_mat q;
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
    SAC_TRY(pick_queries(z, a, &q));
    SAC_TRY(attend_gathered(z, a, q, 0, &kv));
    if (a->attended) {
        *a->attended = (sac_attended){q, z->there.kept};
        return SAC_OK;
    }
    if (a->shape->device) return spread_on_device(z, a, q);
    spread(z, a->q);
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
    double n = (double)z->n_kept, past = (double)a->past, pairs = 0;
    if (z->p[SIDE] == 0) return n * (n + 1) / 2 + n * past;
    for (int64_t i = 0; i < z->n_kept; i++) pairs += (double)(a->q.rows - z->kept[i]);
    return pairs + (double)a->q.rows * past;
}

static void tell(const zipvl *z, const sac_layer_attention *a) {
    if (!a->observer.fn) return;
    for (int64_t i = 0; i < z->n_kept; i++) z->draw[i] = a->position[z->kept[i]];
    a->observer.fn(a->observer.ctx, a->layer, z->draw, z->n_kept, a->n_seen);
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
    const int64_t start_of[2] = {0, a->past + z->n_kept};
    const int32_t *rows = a->past > 0 ? z->there.rows : z->there.kept;
    const sac_row_lists lists = {rows, a->shape->device ? z->there.start : start_of, 1};
    if (a->shape->device) SAC_TRY(sac_to_device(a, z->there.start, start_of, sizeof start_of));
    return z->p[SIDE] == 0 ? attend_two_sided(z, a, &lists) : attend_one_sided(a, &lists);
}

static sac_important important(void *state) {
    const zipvl *z = state;
    return (sac_important){z->kept, z->n_kept, 1};
}

const sac_prefill_policy sac_prefill_zipvl = {.name = "zipvl",
                                              .source = "He et al., arXiv:2410.08584",
                                              .params = params,
                                              .state_bytes = sizeof(zipvl),
                                              .check = check,
                                              .is_off = is_off,
                                              .take = take,
                                              .take_device = take_device,
                                              .attend = attend,
                                              .picks_queries = picks_queries,
                                              .important = important,
                                              .observes = observes,
                                              .break_even = break_even};
