/* zipcache: salient tokens in 4 bits, the others in 2, a fixed share of each.
 *
 * Source: He et al., arXiv:2405.14256, and its published code. Which tokens of a prompt are salient comes
 * from the prefill method (`zipcache` ranks them by key-value head; with none all are). New tokens stay
 * plain; every `gap` of them the last query's weights, summed over each key-value head's group, rank the
 * slice. As the published code does, requantise=1 then brings the whole cache back to floats and packs it
 * anew with the slice, so that rounding adds up and ranges are those of all rows; requantise=0 appends a
 * block, as ZipVL. Ours: k_group > 0 gives keys a range a channel for every so many rows, as KIVI does,
 * and rope=before packs keys as they were before rope (unturned.h). */
#include "attend.h"
#include "blocks.h"
#include "packed_step.h"
#include "starts.h"

#include <math.h>
#include <string.h>

enum { HIGH, LOW, GAP, SALIENT, REQUANTISE, K_GROUP, ROPE };

static const sac_method_param params[] = {
    [HIGH] = {"high", 4, 2, 8, "bits of salient rows: 2, 4, 8", SAC_WHOLE},
    [LOW] = {"low", 2, 2, 8, "bits of the others: 2, 4, 8", SAC_WHOLE},
    [GAP] = {"gap", 100, SAC_KV_BLOCK_MIN, 1 << 16, "new tokens that are packed at a time", SAC_WHOLE},
    [SALIENT] = {"salient", 0.6, 0, 1, "share of new tokens that are salient", NULL},
    [REQUANTISE] = {"requantise", 1, 0, 1, "1: pack the whole cache anew each time, as the published code",
                    SAC_WHOLE},
    [K_GROUP] = SAC_KV_BLOCKS_GROUP,
    [ROPE] = SAC_KV_BLOCKS_ROPE,
    {0}};

typedef struct zipcache {
    sac_kv_blocks blocks;
    sac_packed_step step;
    int64_t gap, n_ctx;
    double salient;
    float *q;                   /* [n_heads * head_dim] where ops run */
    sac_buffer scores, weights; /* float [n_heads][gap], [n_kv_heads][gap] of the tail */
    sac_buffer best;            /* int32_t [n_kv_heads][gap] */
    /* To pack anew. */
    uint16_t *all;     /* K, V [n_kv_heads][n_ctx][head_dim] halves where ops run, or NULL */
    int32_t *lists;    /* [n_kv_heads][n_ctx] */
    sac_buffer rows;   /* int32_t [gap] the tail's: 0, 1 .. */
    sac_starts starts; /* of that list */
} zipcache;

static bool is_bits(double b) {
    return b == 2 || b == 4 || b == 8;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    if (!is_bits(p[HIGH]) || !is_bits(p[LOW]))
        return sac_fail(err, SAC_BAD_ARGUMENT, "KV format zipcache: high=%g,low=%g: give 2, 4 or 8", p[HIGH],
                        p[LOW]);
    if (!sac_kv_blocks_takes_group(p[K_GROUP]))
        return sac_fail(err, SAC_BAD_ARGUMENT, "KV format zipcache: k_group=%g: give a multiple of 16, or 0",
                        p[K_GROUP]);
    return p[ROPE] != 0 ? sac_unturned_check("zipcache", shape, err) : SAC_OK;
}

static bool turns_keys(const double *p) {
    return p[ROPE] != 0;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    zipcache *z = state;
    size_t gap = (size_t)p[GAP], n_ctx = (size_t)shape->n_ctx, heads = (size_t)shape->n_kv_heads;
    z->gap = (int64_t)p[GAP];
    z->n_ctx = shape->n_ctx;
    z->salient = p[SALIENT];
    sac_kv_blocks_take(&z->blocks, shape, (int)p[HIGH], (int)p[LOW], (int64_t)p[K_GROUP], p[ROPE] != 0,
                       memory);
    z->blocks.step_rows = z->gap;
    sac_packed_step_take(&z->step, shape, 1, p[ROPE] != 0, memory);
    z->q = sac_take_device(memory, (size_t)(shape->n_heads * shape->head_dim) * sizeof *z->q);
    z->scores = sac_take_both(memory, (size_t)shape->n_heads * gap * sizeof(float));
    z->weights = sac_take_both(memory, heads * gap * sizeof(float));
    z->best = sac_take_both(memory, heads * gap * sizeof(int32_t));
    z->all = NULL;
    if (p[REQUANTISE] == 0) return;
    z->all = sac_take_device(memory, 2 * heads * n_ctx * (size_t)shape->head_dim * sizeof *z->all);
    z->lists = sac_take_host(memory, heads * n_ctx * sizeof *z->lists);
    z->rows = sac_take_both(memory, gap * sizeof(int32_t));
    sac_starts_take(&z->starts, 1, memory);
}

static void begin(void *state) {
    zipcache *z = state;
    sac_kv_blocks_begin(&z->blocks);
}

static sac_status seal(void *state, const sac_layer_attention *a, int64_t first, int64_t n_old, int64_t n_new,
                       const sac_important *important, int64_t *n_left) {
    zipcache *z = state;
    *n_left = n_old + n_new < SAC_KV_BLOCK_MIN ? n_old + n_new : 0;
    if (*n_left) return SAC_OK;
    return sac_kv_blocks_add(&z->blocks, a, &a->kv, first, n_old, n_new, important);
}

static sac_status unpack(void *state, const sac_layer_attention *a, int64_t *n) {
    return sac_kv_blocks_unpack(&((zipcache *)state)->blocks, a, &a->kv, n);
}

/* Scores of the tail's keys, from the query that the output is about to replace. */
static sac_status score(zipcache *z, const sac_layer_attention *a) {
    SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = z->q, .x = a->q, .scale = 1}));
    return a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = z->scores.device,
                                                                .stride = z->gap,
                                                                .q = z->q,
                                                                .kv = a->kv,
                                                                .n_heads = a->shape->n_heads,
                                                                .n = a->kv.n_rows,
                                                                .scale = a->scale});
}

/* Each key-value head's most salient tokens of the tail; scores are those of its keys. */
static sac_status choose(zipcache *z, const sac_layer_attention *a, sac_important *important) {
    int64_t n = a->kv.n_rows;
    int n_heads = a->shape->n_heads, kv_heads = a->shape->n_kv_heads, group = n_heads / kv_heads;
    const float *scores = z->scores.host, *lse = z->step.lse.host;
    float *weights = z->weights.host;
    SAC_TRY(sac_fetch(a, z->scores, (size_t)(n_heads * z->gap) * sizeof *scores));
    SAC_TRY(sac_fetch(a, z->step.lse, (size_t)n_heads * sizeof *lse));
    for (int head = 0; head < kv_heads; head++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int h = head * group; h < (head + 1) * group; h++)
                sum += exp((double)scores[h * z->gap + j] - (double)lse[h]);
            weights[head * z->gap + j] = (float)sum;
        }
    SAC_TRY(sac_send(a, z->weights, (size_t)(kv_heads * z->gap) * sizeof *weights));
    *important = (sac_important){z->best.host, n - (int64_t)((1 - z->salient) * (double)n), kv_heads};
    SAC_TRY(a->ops->top_k(a->stream, &(sac_top_k_args){.scores = z->weights.device,
                                                       .stride = z->gap,
                                                       .n = n,
                                                       .n_rows = kv_heads,
                                                       .k = important->n,
                                                       .indices = z->best.device}));
    return sac_fetch(a, z->best, (size_t)(kv_heads * important->n) * sizeof(int32_t));
}

/* The tail to the rows of `to`, which has its own type. */
static sac_status copy_tail(zipcache *z, const sac_layer_attention *a, const sac_kv_view *to) {
    int32_t *rows = z->rows.host;
    const sac_row_lists list = {z->rows.device, z->starts.at.device, 1};
    for (int64_t i = 0; i < a->kv.n_rows; i++) rows[i] = (int32_t)i;
    SAC_TRY(sac_send(a, z->rows, (size_t)a->kv.n_rows * sizeof *rows));
    SAC_TRY(sac_starts_set(&z->starts, a, 1, a->kv.n_rows));
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = *to, .src = a->kv, .lists = &list});
}

/* The important rows of all, by key-value head: n_high of what was packed, then those of the slice, whose
 * first row is `first`. */
static sac_important join_lists(zipcache *z, const sac_layer_attention *a, int64_t first,
                                const sac_important *slice) {
    int64_t n_high;
    int n_lists;
    const int32_t *old = sac_kv_blocks_important(&z->blocks, a->layer, &n_high, &n_lists);
    for (int head = 0; head < slice->n_lists; head++) {
        int32_t *list = z->lists + head * (n_high + slice->n);
        memcpy(list, old + (n_lists > 1 ? head * n_high : 0), (size_t)n_high * sizeof *list);
        for (int64_t i = 0; i < slice->n; i++)
            list[n_high + i] = (int32_t)first + slice->rows[head * slice->n + i];
    }
    return (sac_important){z->lists, n_high + slice->n, slice->n_lists};
}

/* Everything back to halves, the tail behind it, and all of it packed as one block. */
static sac_status pack_anew(zipcache *z, const sac_layer_attention *a, const sac_important *slice) {
    int d = a->kv.head_dim, kv_heads = a->kv.n_heads;
    int64_t first;
    sac_kv_view all = {.k = z->all,
                       .v = z->all + kv_heads * z->n_ctx * d,
                       .dtype = SAC_DTYPE_F16,
                       .n_heads = kv_heads,
                       .head_dim = d,
                       .row_stride = d,
                       .head_stride = z->n_ctx * d};
    SAC_TRY(sac_kv_blocks_unpack(&z->blocks, a, &all, &first));
    sac_kv_view behind = all;
    behind.k = z->all + first * d;
    behind.v = (uint16_t *)all.v + first * d;
    behind.n_rows = a->kv.n_rows;
    SAC_TRY(copy_tail(z, a, &behind));
    const sac_important important = join_lists(z, a, first, slice);
    all.n_rows = first + a->kv.n_rows;
    sac_kv_blocks_clear(&z->blocks, a->layer);
    return sac_kv_blocks_add(&z->blocks, a, &all, 0, 0, all.n_rows, &important);
}

static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    zipcache *z = state;
    const sac_kv_block_layer *l = &z->blocks.layer[a->layer];
    bool is_full = a->kv.n_rows >= z->gap;
    *n_tail = a->kv.n_rows;
    if (is_full) SAC_TRY(score(z, a)); /* before the output replaces the query */
    SAC_TRY(sac_packed_step_attend(&z->step, a, l->part, l->turned, l->n_parts));
    if (!is_full) return SAC_OK;
    sac_important important;
    SAC_TRY(choose(z, a, &important));
    *n_tail = 0;
    if (z->all) return pack_anew(z, a, &important);
    return sac_kv_blocks_add(&z->blocks, a, &a->kv, 0, 0, a->kv.n_rows, &important);
}

static int64_t n_tail_max(const double *p) {
    return (int64_t)p[GAP];
}

static size_t bytes(const void *state, int layer) {
    return ((const zipcache *)state)->blocks.layer[layer].n_bytes;
}

static const sac_kv_packing packing = {.state_bytes = sizeof(zipcache),
                                       .check = check,
                                       .turns_keys = turns_keys,
                                       .take = take,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes,
                                       .in_planes = &sac_kv_blocks_in_planes};

const sac_kv_format sac_kv_zipcache = {"zipcache", "He et al., arXiv:2405.14256", SAC_DTYPE_F16, params,
                                       &packing};
