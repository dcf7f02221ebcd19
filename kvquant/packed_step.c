#include "packed_step.h"

#include "clock.h"
#include "measure.h"

#include <math.h>

void sac_packed_step_take(sac_packed_step *s, const sac_attention_shape *shape, double top_p,
                          sac_arena *arena) {
    size_t heads = (size_t)shape->n_heads, all = heads * (size_t)shape->n_ctx * sizeof(float);
    *s = (sac_packed_step){.top_p = top_p, .n_ctx = shape->n_ctx};
    if (shape->device) return;
    s->out = sac_arena_take(arena, heads * (size_t)shape->head_dim * sizeof(float));
    s->lse_packed = sac_arena_take(arena, heads * sizeof(float));
    s->lse = sac_arena_take(arena, heads * sizeof(float));
    if (top_p >= 1) return;
    s->weights = sac_arena_take(arena, all);
    s->lse_kept = sac_arena_take(arena, heads * sizeof(float));
    s->least = sac_arena_take(arena, heads * sizeof(float));
    s->n_kept = sac_arena_take(arena, heads * sizeof(int64_t));
}

void sac_packed_step_take_device(sac_packed_step *s, const sac_attention_shape *shape, sac_arena *arena) {
    s->lse = sac_arena_take(arena, (size_t)shape->n_heads * sizeof *s->lse);
}

static sac_packed_attention_args packed_args(const sac_packed_step *s, const sac_layer_attention *a,
                                             const sac_packed_rows *parts, int n_parts) {
    return (sac_packed_attention_args){.o = s->out,
                                       .q = sac_mat_row_f32(a->q, 0),
                                       .parts = parts,
                                       .n_parts = n_parts,
                                       .n_heads = a->shape->n_heads,
                                       .scale = a->scale,
                                       .lse = s->lse_packed};
}

/* Rows that any head of a group mixes: their values are read once for the group. */
static int64_t count_union(const sac_packed_step *s, int first_head, int n_heads, int64_t n) {
    int64_t count = 0;
    for (int64_t j = 0; j < n; j++) {
        bool any = false;
        for (int h = first_head; h < first_head + n_heads && !any; h++)
            any = s->weights[h * s->n_ctx + j] >= s->least[h];
        count += any;
    }
    return count;
}

/* Weights first; then, for each head, the smallest set of rows that holds top_p of them (Twilight's rule).
 * Only these rows' values are read; they are what is counted, though all packed keys were. */
static sac_status attend_top_p(sac_packed_step *s, const sac_layer_attention *a, const sac_packed_rows *parts,
                               int n_parts, int64_t n) {
    sac_packed_attention_args args = packed_args(s, a, parts, n_parts);
    int n_heads = a->shape->n_heads;
    double held = 0;
    args.o = NULL;
    args.scores = s->weights;
    args.stride = s->n_ctx;
    args.weights = true;
    SAC_TRY(a->ops->packed_attention(a->stream, &args));
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = s->weights,
                                                       .stride = s->n_ctx,
                                                       .n = n,
                                                       .n_rows = n_heads,
                                                       .p = s->top_p,
                                                       .threshold = s->least,
                                                       .n_kept = s->n_kept}));
    args.o = s->out;
    args.min_score = s->least;
    args.lse = s->lse_kept;
    SAC_TRY(a->ops->packed_attention(a->stream, &args));
    for (int h = 0; h < n_heads; h++) {
        held += exp((double)s->lse_kept[h]);
        s->lse_packed[h] += s->lse_kept[h];
        a->stats->decode_budget += (double)s->n_kept[h];
    }
    int group = n_heads / a->shape->n_kv_heads;
    for (int h = 0; h < n_heads; h += group) a->stats->decode_rows += (double)count_union(s, h, group, n);
    sac_count_decode_mass(a, held / n_heads);
    return SAC_OK;
}

/* The output over the tail stands in a->q: both in proportion to their denominators. */
static void join(sac_packed_step *s, const sac_layer_attention *a) {
    int d = a->shape->head_dim;
    float *o = sac_mat_row_f32(a->q, 0);
    for (int h = 0; h < a->shape->n_heads; h++) {
        float max = fmaxf(s->lse[h], s->lse_packed[h]);
        float tail = expf(s->lse[h] - max), packed = expf(s->lse_packed[h] - max), sum = tail + packed;
        for (int c = 0; c < d; c++) o[h * d + c] = (o[h * d + c] * tail + s->out[h * d + c] * packed) / sum;
        s->lse[h] = max + logf(sum);
    }
}

/* Both, one after the other. */
static sac_status attend_here(sac_packed_step *s, const sac_layer_attention *a, const sac_packed_rows *parts,
                              int n_parts, int64_t n) {
    const sac_attention_shape *shape = a->shape;
    int64_t n_tail = a->kv.n_rows;
    if (n > 0 && s->top_p < 1) {
        SAC_TRY(attend_top_p(s, a, parts, n_parts, n));
    } else if (n > 0) {
        sac_packed_attention_args args = packed_args(s, a, parts, n_parts);
        SAC_TRY(a->ops->packed_attention(a->stream, &args));
    }
    SAC_TRY(a->ops->attention(a->stream, &(sac_attention_args){.o = a->q,
                                                               .q = a->q,
                                                               .kv = a->kv,
                                                               .lse = s->lse,
                                                               .n_q = 1,
                                                               .n_kv = n_tail,
                                                               .first = n_tail - 1,
                                                               .n_batch = 1,
                                                               .n_heads = shape->n_heads,
                                                               .scale = a->scale}));
    if (n > 0) join(s, a);
    return SAC_OK;
}

/* n_all rows stand in parts and tail. */
static void count(const sac_layer_attention *a, int64_t n_all, int64_t n_read, bool all_mixed) {
    const sac_attention_shape *shape = a->shape;
    if (all_mixed && n_all == a->n_seen) sac_count_decode_mass(a, 1);
    a->stats->n_steps += 1;
    a->stats->decode_rows += (double)(n_read * shape->n_kv_heads);
    a->stats->decode_budget += (double)(n_read * shape->n_heads);
    a->stats->decode_rows_dense += (double)(a->n_seen * shape->n_kv_heads);
}

static int64_t count_rows(const sac_packed_rows *parts, int n_parts) {
    int64_t n = 0;
    for (int i = 0; i < n_parts; i++) n += parts[i].n;
    return n;
}

static sac_packed_step_args step_args(const sac_layer_attention *a, const sac_packed_rows *parts,
                                      int n_parts) {
    return (sac_packed_step_args){.q = a->q,
                                  .parts = parts,
                                  .n_parts = n_parts,
                                  .tail = a->kv,
                                  .n_heads = a->shape->n_heads,
                                  .scale = a->scale};
}

sac_packed_step_args sac_packed_step_alone(const sac_layer_attention *a, const sac_packed_rows *parts,
                                           int n_parts) {
    int64_t n = count_rows(parts, n_parts) + a->kv.n_rows;
    count(a, n, n, true);
    return step_args(a, parts, n_parts);
}

sac_status sac_packed_step_attend(sac_packed_step *s, const sac_layer_attention *a,
                                  const sac_packed_rows *parts, int n_parts) {
    int64_t start = sac_now_ns(), n = count_rows(parts, n_parts), n_read = a->kv.n_rows;
    if (s->top_p >= 1) n_read += n; /* else counted where rows are left out */
    if (a->shape->device) {
        sac_packed_step_args args = step_args(a, parts, n_parts);
        args.lse = s->lse;
        SAC_TRY(a->ops->packed_step(a->stream, &args));
    } else {
        SAC_TRY(attend_here(s, a, parts, n_parts, n));
    }
    count(a, n + a->kv.n_rows, n_read, n == 0 || s->top_p >= 1);
    a->stats->attend_ns += sac_now_ns() - start;
    return SAC_OK;
}
