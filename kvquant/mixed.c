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
    int32_t *best;           /* [gap] */
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
    return SAC_OK;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, sac_arena *arena) {
    mixed *m = state;
    size_t gap = (size_t)p[GAP];
    m->gap = (int64_t)p[GAP];
    m->tau = p[TAU];
    sac_kv_blocks_take(&m->blocks, shape, (int)p[HIGH], (int)p[LOW], arena);
    sac_packed_step_take(&m->step, shape, p[TOP_P], arena);
    m->scores = sac_arena_take(arena, (size_t)shape->n_heads * gap * sizeof(float));
    m->weights = sac_arena_take(arena, gap * sizeof(float));
    m->best = sac_arena_take(arena, gap * sizeof(int32_t));
}

static void begin(void *state) {
    mixed *m = state;
    sac_kv_blocks_begin(&m->blocks);
}

static sac_status seal(void *state, int layer, const sac_kv_view *rows, int64_t first, int64_t n_old,
                       int64_t n_new, const sac_important *important, int64_t *n_left) {
    mixed *m = state;
    *n_left = n_old + n_new < SAC_KV_BLOCK_MIN ? n_old + n_new : 0;
    if (*n_left) return SAC_OK;
    return sac_kv_blocks_add(&m->blocks, layer, rows, first, n_old, n_new, important);
}

static int64_t unpack(void *state, int layer, const sac_kv_view *rows) {
    const mixed *m = state;
    return sac_kv_blocks_unpack(&m->blocks, layer, rows);
}

/* The tail's tokens that hold tau of the attention that the last query gives to the tail; scores are those of
 * its keys. */
static sac_status choose(mixed *m, const sac_layer_attention *a, sac_important *important) {
    int64_t n = a->kv.n_rows;
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int h = 0; h < a->shape->n_heads; h++)
            sum += exp((double)m->scores[h * m->gap + j] - (double)m->step.lse[h]);
        m->weights[j] = (float)sum;
    }
    *important = (sac_important){m->best, n, 1};
    SAC_TRY(sac_importance_count(a->ops, a->stream, m->weights, n, m->tau, &important->n));
    return sac_importance_best(a->ops, a->stream, m->weights, n, important->n, m->best);
}

static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    mixed *m = state;
    const sac_kv_block_layer *l = &m->blocks.layer[a->layer];
    bool is_full = a->kv.n_rows >= m->gap;
    *n_tail = a->kv.n_rows;
    if (is_full) /* before the output replaces the query */
        SAC_TRY(a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = m->scores,
                                                                     .stride = m->gap,
                                                                     .q = sac_mat_row_f32(a->q, 0),
                                                                     .kv = a->kv,
                                                                     .n_heads = a->shape->n_heads,
                                                                     .n = a->kv.n_rows,
                                                                     .scale = a->scale}));
    SAC_TRY(sac_packed_step_attend(&m->step, a, l->part, l->n_parts));
    if (!is_full) return SAC_OK;
    sac_important important;
    SAC_TRY(choose(m, a, &important));
    *n_tail = 0;
    return sac_kv_blocks_add(&m->blocks, a->layer, &a->kv, 0, 0, a->kv.n_rows, &important);
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
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes};

const sac_kv_format sac_kv_mixed = {"mixed", "ZipVL: He et al., arXiv:2410.08584", SAC_DTYPE_F16, params,
                                    &packing};
