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
 * values. k_group > 0 gives keys a range a channel for every so many rows, and plain > 0 leaves the newest tokens out of
 * blocks, as KIVI does both. rope=before packs keys as they were before rope (unturned.h). Fewer than 32 rows stay plain
 * until there are more. */
#include "attend.h"
#include "blocks.h"
#include "importance.h"
#include "packed_step.h"

#include <math.h>
#include <string.h>

enum { HIGH, LOW, GAP, TAU, TOP_P, K_GROUP, PLAIN, ROPE };

static const sac_method_param params[] = {
    [HIGH] = {"high", 4, 2, 16, "bits of important rows: 2, 4, 8 (16 for both: nothing is packed)",
              SAC_WHOLE},
    [LOW] = {"low", 2, 0, 16, "bits of the others: 2, 4, 8, or 0 to drop them", SAC_WHOLE},
    [GAP] = {"gap", 100, SAC_KV_BLOCK_MIN, 1 << 16, "new tokens that are packed at a time", SAC_WHOLE},
    [TAU] = {"tau", 0.975, 0, 1, "share of the attention to them that the important ones hold", NULL},
    [TOP_P] = {"top_p", 1, 0, 1, "a step mixes the packed rows that hold this share of a head's weight",
               NULL},
    [K_GROUP] = SAC_KV_BLOCKS_GROUP,
    [PLAIN] = {"plain", 0, 0, 1 << 16, "newest tokens that are never packed", SAC_WHOLE},
    [ROPE] = SAC_KV_BLOCKS_ROPE,
    {0}};

typedef struct mixed {
    sac_kv_blocks blocks;
    sac_packed_step step;
    int64_t gap, plain;
    double tau;
    float *q; /* [n_heads * head_dim] where ops run */
    sac_buffer
        scores; /* float [n_heads][gap] of the tail, then [n_heads] of what all is weighed by: step.lse */
    sac_weighed *weights; /* [gap] of the tail's rows */
    int32_t *best;        /* [gap] */
    /* With plain: */
    int32_t *cut;   /* [n_kv_heads][n_ctx] important tokens of a prompt without its plain ones */
    sac_buffer row; /* int32_t [plain] rows of the tail that stay */
} mixed;

static bool is_bits(double b) {
    return b == 2 || b == 4 || b == 8;
}

static bool is_off(const double *p, const sac_attention_shape *shape) {
    (void)shape;
    return p[HIGH] == 16 && p[LOW] == 16;
}

static bool turns_keys(const double *p) {
    return p[ROPE] != 0;
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
    if (!sac_kv_blocks_takes_group(p[K_GROUP]))
        return sac_fail(err, SAC_BAD_ARGUMENT, "KV format mixed: k_group=%g: give a multiple of 16, or 0",
                        p[K_GROUP]);
    if (p[ROPE] == 0) return SAC_OK;
    if (p[LOW] == 0)
        return sac_fail(err, SAC_BAD_ARGUMENT,
                        "KV format mixed: rope=before turns rows by their numbers, and low=0 drops some: use rope=after");
    return sac_unturned_check("mixed", shape, err);
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    mixed *m = state;
    size_t gap = (size_t)p[GAP], n_heads = (size_t)shape->n_heads;
    m->gap = (int64_t)p[GAP];
    m->plain = (int64_t)p[PLAIN];
    m->tau = p[TAU];
    sac_kv_blocks_take(&m->blocks, shape, (int)p[HIGH], (int)p[LOW], (int64_t)p[K_GROUP], p[ROPE] != 0,
                       memory);
    m->blocks.step_rows = m->gap;
    sac_packed_step_take(&m->step, shape, p[TOP_P], p[ROPE] != 0, memory);
    m->q = sac_take_device(memory, n_heads * (size_t)shape->head_dim * sizeof *m->q);
    m->scores = sac_take_both(memory, n_heads * (gap + 1) * sizeof(float));
    m->step.lse = sac_buffer_from(m->scores, n_heads * gap * sizeof(float));
    m->weights = sac_take_host(memory, gap * sizeof *m->weights);
    m->best = sac_take_host(memory, gap * sizeof *m->best);
    if (m->plain == 0) return;
    m->cut = sac_take_host(memory, (size_t)shape->n_kv_heads * (size_t)shape->n_ctx * sizeof *m->cut);
    m->row = sac_take_both(memory, (size_t)m->plain * sizeof(int32_t));
}

static void begin(void *state) {
    mixed *m = state;
    sac_kv_blocks_begin(&m->blocks);
}

/* Those of the first n new tokens. Lists of heads stay equally long: of a longer one the last are left out. */
static sac_important cut_list(const mixed *m, const sac_important *important, int64_t n) {
    int64_t least = important->n;
    for (int i = 0; i < important->n_lists; i++) {
        const int32_t *rows = important->rows + i * important->n;
        while (least > 0 && rows[least - 1] >= n) least--;
    }
    for (int i = 0; i < important->n_lists; i++)
        memcpy(m->cut + i * least, important->rows + i * important->n, (size_t)least * sizeof *m->cut);
    return (sac_important){m->cut, least, important->n_lists};
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    mixed *m = state;
    int64_t n = n_old + n_new - m->plain;
    *n_left = n < SAC_KV_BLOCK_MIN ? n_old + n_new : m->plain;
    if (n < SAC_KV_BLOCK_MIN) return SAC_OK;
    sac_important packed = {0};
    if (n_old > n) n_old = n;
    n_new = n - n_old;
    if (m->plain > 0 && important && important->rows) {
        packed = cut_list(m, important, n_new);
        important = &packed;
    }
    return sac_kv_blocks_add(&m->blocks, a, &a->kv, first, n_old, n_new, important);
}

static sac_status unpack(void *state, const sac_layer_attention *a, int64_t *n) {
    return sac_kv_blocks_unpack(&((mixed *)state)->blocks, a, &a->kv, n);
}

/* Scores of the tail's first `gap` keys, from the query that the output is about to replace. */
static sac_status score(mixed *m, const sac_layer_attention *a) {
    SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = m->q, .x = a->q, .scale = 1}));
    return a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = m->scores.device,
                                                                .stride = m->gap,
                                                                .q = m->q,
                                                                .kv = a->kv,
                                                                .n_heads = a->shape->n_heads,
                                                                .n = m->gap,
                                                                .scale = a->scale});
}

/* Of the tail's first `gap` tokens those that hold tau of the attention that the last query gives to these; scores are
 * those of their keys. What is needed of the device comes in one piece: every session stops its batch for it. */
static sac_status choose(mixed *m, const sac_layer_attention *a, sac_important *important) {
    int64_t n = m->gap;
    size_t n_heads = (size_t)a->shape->n_heads;
    const float *scores = m->scores.host, *lse = m->step.lse.host;
    SAC_TRY(sac_fetch(a, m->scores, n_heads * (size_t)(m->gap + 1) * sizeof *scores));
    for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int h = 0; h < a->shape->n_heads; h++)
            sum += exp((double)scores[h * m->gap + j] - (double)lse[h]);
        m->weights[j] = (sac_weighed){(float)sum, (int32_t)j};
    }
    *important = (sac_important){m->best, sac_importance_choose(m->weights, n, m->tau, m->best), 1};
    return SAC_OK;
}

/* The tail's tokens behind the first `gap` to its front. */
static sac_status move_up(const mixed *m, const sac_layer_attention *a) {
    int32_t *row = m->row.host;
    if (m->plain == 0) return SAC_OK;
    for (int64_t i = 0; i < m->plain; i++) row[i] = (int32_t)(m->gap + i);
    SAC_TRY(sac_send(a, m->row, (size_t)m->plain * sizeof *row));
    return a->ops->keep_rows(a->stream, &(sac_keep_rows_args){a->kv, m->row.device, m->plain, 1});
}

static bool is_full_tail(const mixed *m, const sac_layer_attention *a) {
    return a->kv.n_rows >= m->gap + m->plain;
}

static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    mixed *m = state;
    const sac_kv_block_layer *l = &m->blocks.layer[a->layer];
    bool is_full = is_full_tail(m, a);
    *n_tail = a->kv.n_rows;
    if (is_full) SAC_TRY(score(m, a)); /* before the output replaces the query */
    SAC_TRY(sac_packed_step_attend(&m->step, a, l->part, l->turned, l->n_parts));
    if (!is_full) return SAC_OK;
    sac_important important;
    SAC_TRY(choose(m, a, &important));
    *n_tail = m->plain;
    SAC_TRY(sac_kv_blocks_add(&m->blocks, a, &a->kv, 0, 0, m->gap, &important));
    return move_up(m, a);
}

static bool step(void *state, const sac_layer_attention *a, sac_packed_step_args *args) {
    const mixed *m = state;
    const sac_kv_block_layer *l = &m->blocks.layer[a->layer];
    if (is_full_tail(m, a) || m->step.top_p < 1 || m->step.turns) return false;
    *args = sac_packed_step_alone(a, l->part, l->n_parts);
    return true;
}

static int64_t n_tail_max(const double *p) {
    return (int64_t)(p[GAP] + p[PLAIN]);
}

static size_t bytes(const void *state, int layer) {
    return ((const mixed *)state)->blocks.layer[layer].n_bytes;
}

static const sac_kv_packing packing = {.state_bytes = sizeof(mixed),
                                       .check = check,
                                       .is_off = is_off,
                                       .drops_rows = drops_rows,
                                       .turns_keys = turns_keys,
                                       .take = take,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .step = step,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes,
                                       .in_planes = &sac_kv_blocks_in_planes};

const sac_kv_format sac_kv_mixed = {"mixed", "ZipVL: He et al., arXiv:2410.08584", SAC_DTYPE_F16, params,
                                    &packing};
