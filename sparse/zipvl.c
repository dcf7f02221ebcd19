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
 * side=one lets every query meet T's keys instead; side=near lets it meet the newest keys up to its own as well,
 * since a key that only its neighbours look at is seen by a probe only by chance. side=band lets T meet T as in the paper, and every other
 * query the `band` newest keys up to its own, so that no output is zero. A softmax over these alone gives a layer's
 * full output to queries that look at nothing, which they do by looking at the first tokens (Xiao et al.,
 * arXiv:2309.17453): with `sink` they meet so many of those as well. The first `skip` layers stay dense:
 * they choose nothing, and a packed cache takes all of their tokens for important. Below `min` tokens the probes cost
 * what the choice saves, and attention is dense.
 *
 * Later turns: what earlier turns left in the cache is read whole; the new tokens compete among themselves
 * for tau of the weight that the probes give to them. */
#include "zipvl.h"

#include "attend.h"
#include "clock.h"
#include "importance.h"
#include "measure.h"
#include "window_sums.h"

#include <math.h>
#include <string.h>

enum { TAU, RECENT, RANDOM, SEED, SIDE, BUDGET, STRICT, KEEP_SINK, MIN, RATIO, SKIP, BAND, SINK };

static const char *const sides[] = {"two", "one", "band", "near", NULL}; /* as sac_zipvl_side */
static const char *const budgets[] = {"sums", "cover", NULL};
static const sac_method_param params[] = {
    [TAU] = {"tau", 0.975, 0, 1, "share of the probes' attention that the budget holds", NULL},
    [RECENT] = {"recent", 64, 0, 1 << 20, "probes: last queries", SAC_WHOLE},
    [RANDOM] = {"random", 64, 0, 1 << 20, "probes: random queries before them", SAC_WHOLE},
    [SEED] = {"seed", 0, 0, 1e9, "of the random probes", SAC_WHOLE},
    [SIDE] =
        {"side", SAC_ZIPVL_TWO, 0, 3,
         "two: important queries meet important keys; one: all queries do; band: the others meet the keys "
         "next to them; near: all meet both",
         sides},
    [BUDGET] = {"budget", 0, 0, 1, "sums: as many as the largest sums need; cover: as the chosen need",
                budgets},
    [STRICT] = {"strict", 0, 0, 1, "1: the last token may be left out", SAC_WHOLE},
    [KEEP_SINK] = {"keep_sink", 0, 0, 1, "1: the first token is always important", SAC_WHOLE},
    [MIN] = {"min", 4096, 0, 1e9, "shorter sequences are read densely: below it nothing is gained",
             SAC_WHOLE},
    [RATIO] = {"ratio", 0, 0, 1,
               "share of the tokens to keep, whatever the weights say (speed tests); 0 = tau", NULL},
    [SKIP] = {"skip", 0, 0, 1 << 20, "first layers, which stay dense", SAC_WHOLE},
    [BAND] = {"band", 16, 1, 1 << 30,
              "newest keys that a query meets: of side=band one that is not important, of side=near any",
              SAC_WHOLE},
    [SINK] = {"sink", 0, 0, 1 << 20, "side=band: first tokens that such a query meets beside them",
              SAC_WHOLE},
    {0}};

typedef sac_zipvl zipvl;

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (p[SINK] > 0 && p[SIDE] != SAC_ZIPVL_BAND)
        return sac_fail(
            err, SAC_BAD_ARGUMENT,
            "prefill policy zipvl: sink=%g is of side=band, where queries are left out and see some keys",
            p[SINK]);
    long long most = sac_ops_traits_of(shape->device)->pattern_rows_max;
    if (p[SIDE] == SAC_ZIPVL_NEAR && shape->n_ctx > most)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "prefill policy zipvl with side=near takes up to %lld tokens: use --ctx %lld or less",
                        most, most);
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
    return p[SKIP] >= (double)shape->n_layers || (p[RATIO] > 0 ? p[RATIO] >= 1 : p[TAU] >= 1);
}

static int64_t observes(const double *p) {
    return (int64_t)p[RECENT];
}

static bool picks_queries(const double *p) {
    return p[SIDE] == SAC_ZIPVL_TWO;
}

static int64_t break_even(const double *p) {
    return p[RATIO] > 0 ? 0 : (int64_t)p[MIN];
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    zipvl *z = state;
    size_t n = (size_t)shape->n_ctx;
    *z = (zipvl){.p = p,
                 .side = (sac_zipvl_side)p[SIDE],
                 .band = (int64_t)p[BAND],
                 .sink = (int64_t)p[SINK],
                 .recent = (int64_t)p[RECENT],
                 .random = (int64_t)p[RANDOM],
                 .n_ctx = shape->n_ctx};
    z->sums = sac_take_both(memory, n * sizeof(float));
    z->means = sac_take_both(memory, n * sizeof(float));
    z->probes = sac_take_both(memory, (size_t)(z->recent + z->random) * sizeof(int32_t));
    z->draw = sac_take_both(memory, n * sizeof(int32_t));
    z->kept = sac_take_both(memory, n * sizeof(int32_t));
    z->rows = sac_take_both(memory, n * sizeof(int32_t));
    z->start = sac_take_both(memory, 2 * sizeof(int64_t));
    z->least = sac_take_both(memory, 2 * sizeof(int64_t));
    if (z->side != SAC_ZIPVL_ONE) sac_zipvl_take_rooms(z, shape, memory);
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

static void tell(const zipvl *z, const sac_layer_attention *a) {
    const int32_t *kept = z->kept.host;
    int32_t *positions = z->draw.host;
    if (!a->observer.fn) return;
    for (int64_t i = 0; i < z->n_kept; i++) positions[i] = a->position[kept[i]];
    a->observer.fn(a->observer.ctx, a->layer, positions, z->n_kept, a->n_seen);
}

/* A layer that stays dense: all of its tokens are important. */
static sac_status stay_dense(zipvl *z, const sac_layer_attention *a) {
    int32_t *kept = z->kept.host;
    z->n_kept = a->q.rows;
    for (int64_t i = 0; i < z->n_kept; i++) kept[i] = (int32_t)i;
    tell(z, a);
    return sac_attend_prompt_dense(a);
}

static sac_status attend(void *state, const sac_layer_attention *a) {
    zipvl *z = state;
    if ((double)a->layer < z->p[SKIP]) return stay_dense(z, a);
    int64_t start = sac_now_ns();
    SAC_TRY(choose(z, a));
    int64_t chosen = sac_now_ns() - start;
    a->stats->select_ns += chosen;
    a->stats->attend_ns -= chosen; /* the caller adds all */
    tell(z, a);
    return z->n_kept == a->q.rows ? sac_attend_prompt_dense(a) : sac_zipvl_attend(z, a);
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
