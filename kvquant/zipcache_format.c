/* zipcache: salient tokens in 4 bits, the others in 2, a fixed share of each.
 *
 * Source: He et al., arXiv:2405.14256, and its published code. Which tokens of a prompt are salient comes
 * from the prefill method (`zipcache` ranks them by key-value head; with none all are). New tokens stay
 * plain; every `gap` of them the last query's weights, summed over each key-value head's group, rank the
 * slice. As the published code does, requantise=1 then brings the whole cache back to floats and packs it
 * anew with the slice, so that rounding adds up and ranges are those of all rows; requantise=0 appends a
 * block, as ZipVL. */
#include "blocks.h"
#include "packed_step.h"

#include <math.h>

enum { HIGH, LOW, GAP, SALIENT, REQUANTISE };

static const sac_method_param params[] = {
    [HIGH] = {"high", 4, 2, 8, "bits of salient rows: 2, 4, 8", SAC_WHOLE},
    [LOW] = {"low", 2, 2, 8, "bits of the others: 2, 4, 8", SAC_WHOLE},
    [GAP] = {"gap", 100, SAC_KV_BLOCK_MIN, 1 << 16, "new tokens that are packed at a time", SAC_WHOLE},
    [SALIENT] = {"salient", 0.6, 0, 1, "share of new tokens that are salient", NULL},
    [REQUANTISE] = {"requantise", 1, 0, 1, "1: pack the whole cache anew each time, as the published code",
                    SAC_WHOLE},
    {0}};

typedef struct zipcache {
    sac_kv_blocks blocks;
    sac_packed_step step;
    int64_t gap, n_ctx;
    double salient;
    uint16_t *all;           /* K, V [n_kv_heads][n_ctx][head_dim] halves, to pack anew */
    float *scores, *weights; /* [n_heads][gap], [n_kv_heads][gap] of the tail */
    int32_t *best;           /* [n_kv_heads][gap] */
    int32_t *lists;          /* [n_kv_heads][n_ctx] */
} zipcache;

static bool is_bits(double b) {
    return b == 2 || b == 4 || b == 8;
}

static sac_status check(const double *p, const sac_attention_shape *shape, sac_error *err) {
    (void)shape;
    if (!is_bits(p[HIGH]) || !is_bits(p[LOW]))
        return sac_fail(err, SAC_BAD_ARGUMENT, "KV format zipcache: high=%g,low=%g: give 2, 4 or 8", p[HIGH],
                        p[LOW]);
    return SAC_OK;
}

static void take(void *state, const double *p, const sac_attention_shape *shape, const sac_memory *memory) {
    zipcache *z = state;
    size_t gap = (size_t)p[GAP], n_ctx = (size_t)shape->n_ctx, heads = (size_t)shape->n_kv_heads;
    z->gap = (int64_t)p[GAP];
    z->n_ctx = shape->n_ctx;
    z->salient = p[SALIENT];
    sac_kv_blocks_take(&z->blocks, shape, (int)p[HIGH], (int)p[LOW], memory);
    sac_packed_step_take(&z->step, shape, 1, memory);
    z->scores = sac_take_host(memory, (size_t)shape->n_heads * gap * sizeof(float));
    z->weights = sac_take_host(memory, heads * gap * sizeof(float));
    z->best = sac_take_host(memory, heads * gap * sizeof(int32_t));
    z->all = NULL;
    if (p[REQUANTISE] == 0) return;
    z->all = sac_take_host(memory, 2 * heads * n_ctx * (size_t)shape->head_dim * sizeof *z->all);
    z->lists = sac_take_host(memory, heads * n_ctx * sizeof *z->lists);
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

static int64_t unpack(void *state, int layer, const sac_kv_view *rows) {
    const zipcache *z = state;
    return sac_kv_blocks_unpack(&z->blocks, layer, rows);
}

/* Each key-value head's most salient tokens of the tail; scores are those of its keys. */
static sac_status choose(zipcache *z, const sac_layer_attention *a, sac_important *important) {
    int64_t n = a->kv.n_rows;
    int kv_heads = a->shape->n_kv_heads, group = a->shape->n_heads / kv_heads;
    for (int head = 0; head < kv_heads; head++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int h = head * group; h < (head + 1) * group; h++)
                sum += exp((double)z->scores[h * z->gap + j] - (double)((const float *)z->step.lse.host)[h]);
            z->weights[head * z->gap + j] = (float)sum;
        }
    *important = (sac_important){z->best, n - (int64_t)((1 - z->salient) * (double)n), kv_heads};
    return a->ops->top_k(a->stream, &(sac_top_k_args){.scores = z->weights,
                                                      .stride = z->gap,
                                                      .n = n,
                                                      .n_rows = kv_heads,
                                                      .k = important->n,
                                                      .indices = z->best});
}

/* Everything back to halves, the tail behind it, and all of it packed as one block. */
static sac_status pack_anew(zipcache *z, const sac_layer_attention *a, const sac_important *slice) {
    const sac_kv_view *tail = &a->kv;
    int d = tail->head_dim, kv_heads = tail->n_heads, n_lists;
    int64_t n_high, n_tail = tail->n_rows;
    sac_kv_view all = {.k = z->all,
                       .v = z->all + kv_heads * z->n_ctx * d,
                       .dtype = SAC_DTYPE_F16,
                       .n_heads = kv_heads,
                       .head_dim = d,
                       .row_stride = d,
                       .head_stride = z->n_ctx * d};
    int64_t first = sac_kv_blocks_unpack(&z->blocks, a->layer, &all);
    const int32_t *old = sac_kv_blocks_important(&z->blocks, a->layer, &n_high, &n_lists);
    all.n_rows = first + n_tail;
    for (int head = 0; head < kv_heads; head++) {
        size_t to = (size_t)(head * all.head_stride + first * d), from = (size_t)(head * tail->head_stride);
        size_t n_bytes = (size_t)(n_tail * d) * sizeof(uint16_t);
        memcpy((uint16_t *)all.k + to, (const uint16_t *)tail->k + from, n_bytes);
        memcpy((uint16_t *)all.v + to, (const uint16_t *)tail->v + from, n_bytes);
        int32_t *list = z->lists + head * (n_high + slice->n);
        memcpy(list, old + (n_lists > 1 ? head * n_high : 0), (size_t)n_high * sizeof *list);
        for (int64_t i = 0; i < slice->n; i++)
            list[n_high + i] = (int32_t)first + slice->rows[head * slice->n + i];
    }
    sac_kv_blocks_clear(&z->blocks, a->layer);
    const sac_important important = {z->lists, n_high + slice->n, kv_heads};
    return sac_kv_blocks_add(&z->blocks, a, &all, 0, 0, all.n_rows, &important);
}

static sac_status attend(void *state, const sac_layer_attention *a, int64_t *n_tail) {
    zipcache *z = state;
    const sac_kv_block_layer *l = &z->blocks.layer[a->layer];
    bool is_full = a->kv.n_rows >= z->gap;
    *n_tail = a->kv.n_rows;
    if (is_full) /* before the output replaces the query */
        SAC_TRY(a->ops->key_scores(a->stream, &(sac_key_scores_args){.scores = z->scores,
                                                                     .stride = z->gap,
                                                                     .q = sac_mat_row_f32(a->q, 0),
                                                                     .kv = a->kv,
                                                                     .n_heads = a->shape->n_heads,
                                                                     .n = a->kv.n_rows,
                                                                     .scale = a->scale}));
    SAC_TRY(sac_packed_step_attend(&z->step, a, l->part, l->n_parts));
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
                                       .take = take,
                                       .cpu_only = true,
                                       .begin = begin,
                                       .seal = seal,
                                       .unpack = unpack,
                                       .attend = attend,
                                       .n_tail_max = n_tail_max,
                                       .bytes = bytes};

const sac_kv_format sac_kv_zipcache = {"zipcache", "He et al., arXiv:2405.14256", SAC_DTYPE_F16, params,
                                       &packing};
