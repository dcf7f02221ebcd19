/* mixed: the cache of ZipVL. Important tokens in 4 bits, the others in 2.
 *
 * Source: He et al., arXiv:2410.08584, section 4.2 and algorithm 1; the granularity is that of ZipCache (He
 * et al., arXiv:2405.14256), whose published code it builds on. A prompt is packed at the end of each layer's
 * prefill, with the tokens that the prefill method found important (`zipvl`; without one all count as such).
 * New tokens stay plain; every `gap` of them the last query's attention over everything says which matter:
 * the smallest set that holds tau of what the slice gets (the paper's threshold is tau of all, which a slice
 * never reaches). Old blocks are not packed again. A tail that meets a new prompt is packed with it, as
 * important. low=0 does not store the others at all (the evicting variant of the paper's second version).
 *
 * Ours: top_p < 1 lets a step mix only the packed rows that hold this share of each head's weight over them
 * (Twilight's rule, arXiv:2502.02770): the packed keys are their own estimator, and what is saved is reading
 * values. Fewer than 32 rows stay plain until there are more. */
#include "attend.h"
#include "blocks.h"
#include "importance.h"
#include "packed_step.h"

#include <math.h>

enum { HIGH, LOW, GAP, TAU, TOP_P };

static const sac_method_param params[] = {
    [HIGH] = {"high", 4, 2, 16, "bits of important rows: 2, 4, 8 (16 for both: nothing is packed)",
              SAC_WHOLE},
    [LOW] = {"low", 2, 0, 16, "bits of the others: 2, 4, 8, or 0 to drop them", SAC_WHOLE},
    [GAP] = {"gap", 100, SAC_KV_BLOCK_MIN, 1 << 16, "new tokens that are packed at a time", SAC_WHOLE},
    [TAU] = {"tau", 0.975, 0, 1, "share of the attention to them that the important ones hold", NULL},
    [TOP_P] = {"top_p", 1, 0, 1, "a step mixes the packed rows that hold this share of a head's weight",
               NULL},
    {0}};

typedef struct mixed {
    sac_kv_blocks blocks;
    sac_packed_step step;
    int64_t gap;
    double tau;
    float *scores, *weights; /* [n_heads][gap], [gap] of the tail */
    float *lse;              /* [n_heads] of the last step */
    int32_t *best;           /* [gap] */
    /* What ops read and write: the same memory as above, or the device's. */
    struct {
        float *scores, *weights;
        int32_t *best;
        /* the device's alone */
        float *q;     /* [n_heads * head_dim] */
        float *least; /* [1] threshold, then n_kept as int64 */
    } there;
} mixed;

static bool is_bits(double b) {
    return b == 2 || b == 4 || b == 8;
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    (void)shape;
    return p[HIGH] == 16 && p[LOW] == 16;
}

static bool drops_rows(const double *p) {
    return p[LOW] == 0;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (is_off(p, shape)) return SAC_OK;
    if (!is_bits(p[HIGH]) || !(is_bits(p[LOW]) || p[LOW] == 0))
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "KV format mixed: high=%g,low=%g: give 2, 4 or 8 (low also 0), or 16 for both",
                        p[HIGH], p[LOW]);
    if (shape->device && p[TOP_P] < 1)
        return sac_fail(err, SAC_UNSUPPORTED,
                        "KV format mixed with top_p runs on the CPU only so far: leave it out");
    return SAC_OK;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    mixed *m = state;
    size_t gap = (size_t)p[GAP];
    m->gap = (int64_t)p[GAP];
    m->tau = p[TAU];
    sac_kv_blocks_take(&m->blocks, shape, (int)p[HIGH], (int)p[LOW], arena);
    sac_packed_step_take(&m->step, shape, p[TOP_P], arena);
    m->scores = m->there.scores = sac_arena_take(arena, (size_t)shape->n_heads * gap * sizeof(float));
    m->weights = m->there.weights = sac_arena_take(arena, gap * sizeof(float));
    m->best = m->there.best = sac_arena_take(arena, gap * sizeof(int32_t));
    m->lse = shape->device ? sac_arena_take(arena, (size_t)shape->n_heads * sizeof(float)) : m->step.lse;
}

static void take_device(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    mixed *m = state;
    size_t gap = (size_t)p[GAP], n_heads = (size_t)shape->n_heads;
    sac_kv_blocks_take_device(&m->blocks, arena);
    sac_packed_step_take_device(&m->step, shape, arena);
    m->there.scores = sac_arena_take(arena, n_heads * gap * sizeof(float));
    m->there.weights = sac_arena_take(arena, gap * sizeof(float));
    m->there.best = sac_arena_take(arena, gap * sizeof(int32_t));
    m->there.q = sac_arena_take(arena, n_heads * (size_t)shape->head_dim * sizeof(float));
    m->there.least = sac_arena_take(arena, 2 * sizeof(int64_t));
}

static void begin(void *state) {
    mixed *m = state;
    sac_kv_blocks_begin(&m->blocks);
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    mixed *m = state;
    *n_left = n_old + n_new < SAC_KV_BLOCK_MIN ? n_old + n_new : 0;
    if (*n_left) return SAC_OK;
    return sac_kv_blocks_add(&m->blocks, a, &a->kv, first, n_old, n_new, important);
}

static int64_t unpack(void *state, int layer, const sac_kv_view *rows) {
    const mixed *m = state;
    return sac_kv_blocks_unpack(&m->blocks, layer, rows);
}

/* Scores of the tail's keys, from the query that the output is about to replace. On a device the query is
 * made f32 first. */
static sac_status score(mixed *m, const sac_layer_attention *a) {
    const float *q = m->there.q;
    if (a->shape->device)
        SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){m->there.q, a->q, 1, 1}));
    else
        q = sac_mat_row_f32(a->q, 0);
    return a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = m->there.scores,
                                                                .stride = m->gap,
                                                                .q = q,
                                                                .kv = a->kv,
                                                                .n_heads = a->shape->n_heads,
                                                                .n = a->kv.n_rows,
                                                                .scale = a->scale});
}

/* How many hold tau of the weights. */
static sac_status count(mixed *m, const sac_layer_attention *a, int64_t n, int64_t *n_best) {
    struct {
        float least;
        int64_t n_least;
    } found[1];
    if (!a->shape->device) return sac_importance_count(a->ops, a->stream, m->weights, n, m->tau, n_best);
    *n_best = n;
    if (m->tau >= 1) return SAC_OK;
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = m->there.weights,
                                                       .stride = n,
                                                       .n = n,
                                                       .n_rows = 1,
                                                       .p = m->tau,
                                                       .threshold = m->there.least,
                                                       .n_kept = (int64_t *)(void *)m->there.least + 1}));
    SAC_TRY(sac_to_host(a, found, m->there.least, sizeof found));
    *n_best = sac_importance_count_from(m->weights, n, m->tau, found->least, found->n_least);
    return SAC_OK;
}

/* The tail's tokens that hold tau of the attention that the last query gives to the tail; scores are those of
 * its keys. */
static sac_status choose(mixed *m, const sac_layer_attention *a, sac_important *important) {
    int64_t n = a->kv.n_rows, n_best;
    size_t n_heads = (size_t)a->shape->n_heads;
    SAC_TRY(sac_to_host(a, m->scores, m->there.scores, n_heads * (size_t)m->gap * sizeof(float)));
    SAC_TRY(sac_to_host(a, m->lse, m->step.lse, n_heads * sizeof(float)));
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int h = 0; h < a->shape->n_heads; h++)
            sum += exp((double)m->scores[h * m->gap + j] - (double)m->lse[h]);
        m->weights[j] = (float)sum;
    }
    SAC_TRY(sac_to_device(a, m->there.weights, m->weights, (size_t)n * sizeof(float)));
    SAC_TRY(count(m, a, n, &n_best));
    SAC_TRY(sac_importance_best(a->ops, a->stream, m->there.weights, n, n_best, m->there.best));
    *important = (sac_important){m->best, n_best, 1};
    return sac_to_host(a, m->best, m->there.best, (size_t)n_best * sizeof *m->best);
}

static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    mixed *m = state;
    const sac_kv_block_layer *l = &m->blocks.layer[a->layer];
    bool is_full = a->kv.n_rows >= m->gap;
    *n_tail = a->kv.n_rows;
    if (is_full) SAC_TRY(score(m, a)); /* before the output replaces the query */
    SAC_TRY(sac_packed_step_attend(&m->step, a, l->part, l->n_parts));
    if (!is_full) return SAC_OK;
    sac_important important;
    SAC_TRY(choose(m, a, &important));
    *n_tail = 0;
    return sac_kv_blocks_add(&m->blocks, a, &a->kv, 0, 0, a->kv.n_rows, &important);
}

/* top_p is 1 on a device. */
static bool step(void *state, const sac_layer_attention *a, sac_packed_step_args *args) {
    const mixed *m = state;
    const sac_kv_block_layer *l = &m->blocks.layer[a->layer];
    if (a->kv.n_rows >= m->gap) return false;
    *args = sac_packed_step_alone(a, l->part, l->n_parts);
    return true;
}

static int64_t n_tail_max(const double *p) {
    return (int64_t)p[GAP];
}

static size_t bytes(const void *state, int layer) {
    return ((const mixed *)state)->blocks.layer[layer].n_bytes;
}

static const sac_kv_packing packing = {.state_bytes = sizeof(mixed),
                                       .check = check,
                                       .is_off = is_off,
                                       .drops_rows = drops_rows,
                                       .take = take,
                                       .take_device = take_device,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .step = step,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes};

const sac_kv_format sac_kv_mixed = {"mixed", "ZipVL: He et al., arXiv:2410.08584", SAC_DTYPE_F16, params,
                                    &packing};
