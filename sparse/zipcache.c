/* ZipCache's salience: which tokens of a prompt deserve more bits. The attention itself is dense.
 *
 * Source: He et al., arXiv:2405.14256, section 4.2, and its published code: the last 5 % of the queries and 5
 * % at random give every key a sum of softmax weights, which is divided by the number of queries that see it
 * in the whole matrix (n - j). Each key-value head has its own ranking, summed over its query heads; the
 * best `salient` share of the tokens are important. Ours: random probes are drawn without replacement. */
#include "attend.h"
#include "clock.h"
#include "importance.h"

#include <math.h>

enum { SALIENT, RECENT, RANDOM, SEED };

static const sac_method_param params[] = {
    [SALIENT] = {"salient", 0.6, 0, 1, "share of a prompt's tokens that are important", NULL},
    [RECENT] = {"recent", 0.05, 0, 1, "probes: last queries, share of all", NULL},
    [RANDOM] = {"random", 0.05, 0, 1, "probes: random queries before them, share of all", NULL},
    [SEED] = {"seed", 0, 0, 1e9, "of the random probes", SAC_WHOLE},
    {0}};

typedef struct zipcache {
    const double *p;
    int n_sets;
    int64_t n_ctx, n_salient;
    sac_buffer sums;    /* float [n_kv_heads][n_ctx] */
    sac_buffer probes;  /* int32_t [n_ctx] */
    sac_buffer salient; /* int32_t [n_kv_heads][n_ctx] as top_k writes it */
    int32_t *draw;      /* [n_ctx] */
} zipcache;

static bool is_off(const double *p, const sac_attention_shape *shape) {
    (void)shape;
    return p[SALIENT] >= 1;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    zipcache *z = state;
    size_t n = (size_t)shape->n_ctx, sets = (size_t)shape->n_kv_heads;
    *z = (zipcache){.p = p, .n_sets = shape->n_kv_heads, .n_ctx = shape->n_ctx};
    z->sums = sac_take_both(memory, sets * n * sizeof(float));
    z->probes = sac_take_both(memory, n * sizeof(int32_t));
    z->salient = sac_take_both(memory, sets * n * sizeof(int32_t));
    z->draw = sac_take_host(memory, n * sizeof(int32_t));
}

static sac_status choose(zipcache *z, const sac_layer_attention *a) {
    int64_t n = a->q.rows, recent = (int64_t)ceil(z->p[RECENT] * (double)n);
    int64_t random = (int64_t)ceil(z->p[RANDOM] * (double)n);
    if (recent + random == 0) recent = 1;
    int64_t n_probes = sac_draw_probes((uint64_t)z->p[SEED], sac_probe_stream(a), n, recent, random, z->draw,
                                       z->probes.host);
    size_t sums_bytes = (size_t)(z->n_sets * z->n_ctx) * sizeof(float);
    SAC_TRY(sac_send(a, z->probes, (size_t)n_probes * sizeof(int32_t)));
    SAC_TRY(a->ops->attention_sums(a->stream, &(sac_attention_sums_args){.sums = z->sums.device,
                                                                         .stride = z->n_ctx,
                                                                         .n_sums = z->n_sets,
                                                                         .q = a->q,
                                                                         .probes = z->probes.device,
                                                                         .n_probes = n_probes,
                                                                         .first = a->past,
                                                                         .kv = a->kv,
                                                                         .n_kv = a->kv.n_rows,
                                                                         .n_heads = a->shape->n_heads,
                                                                         .scale = a->scale,
                                                                         .window = a->window}));
    SAC_TRY(sac_fetch(a, z->sums, sums_bytes));
    float *sums = z->sums.host;
    for (int set = 0; set < z->n_sets; set++)
        for (int64_t j = 0; j < n; j++) sums[set * z->n_ctx + a->past + j] /= (float)(n - j);
    SAC_TRY(sac_send(a, z->sums, sums_bytes));
    z->n_salient = n - (int64_t)((1 - z->p[SALIENT]) * (double)n);
    a->stats->n_selections++;
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = (float *)z->sums.device + a->past,
                                                       .stride = z->n_ctx,
                                                       .n = n,
                                                       .n_rows = z->n_sets,
                                                       .k = z->n_salient,
                                                       .indices = z->salient.device}));
    return sac_fetch(a, z->salient, (size_t)(z->n_sets * z->n_salient) * sizeof(int32_t));
}

static sac_status attend(void *state, const sac_layer_attention *a) {
    int64_t start = sac_now_ns();
    SAC_TRY(choose(state, a));
    int64_t chosen = sac_now_ns() - start;
    a->stats->select_ns += chosen;
    a->stats->attend_ns -= chosen; /* the caller adds all */
    return sac_attend_prompt_dense(a);
}

static sac_important important(void *state) {
    const zipcache *z = state;
    return (sac_important){z->salient.host, z->n_salient, z->n_sets};
}

const sac_prefill_policy sac_prefill_zipcache = {.name = "zipcache",
                                                 .source = "He et al., arXiv:2405.14256",
                                                 .params = params,
                                                 .state_bytes = sizeof(zipcache),
                                                 .is_off = is_off,
                                                 .take = take,
                                                 .attend = attend,
                                                 .important = important};
