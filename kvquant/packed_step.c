#include "packed_step.h"

#include "attend.h"
#include "clock.h"
#include "measure.h"

#include <math.h>
#include <string.h>

void sac_packed_step_take(sac_packed_step *s, const sac_attention_shape *shape, double top_p, bool turns,
                          const sac_memory *memory) {
    size_t heads = (size_t)shape->n_heads, kv_heads = (size_t)shape->n_kv_heads, n_ctx = (size_t)shape->n_ctx;
    size_t out_bytes = heads * (size_t)shape->head_dim * sizeof(float);
    *s = (sac_packed_step){.top_p = top_p, .turns = turns, .n_ctx = shape->n_ctx};
    s->out = sac_take_device(memory, out_bytes);
    s->lse_packed = sac_take_device(memory, heads * sizeof(float));
    s->lse = sac_take_both(memory, heads * sizeof(float));
    if (top_p >= 1 && !turns) return;
    s->q = sac_take_device(memory, out_bytes);
    s->weights = sac_take_device(memory, heads * n_ctx * sizeof(float));
    s->lse_kept = sac_take_device(memory, heads * sizeof(float));
    s->least = sac_take_device(memory, heads * sizeof(float)); /* zeros, as a session's memory is */
    if (top_p >= 1) return;
    s->n_kept = sac_take_device(memory, heads * sizeof(int64_t));
    s->rows = sac_take_device(memory, kv_heads * n_ctx * sizeof *s->rows);
    s->start = sac_take_device(memory, (kv_heads + 1) * sizeof *s->start);
    s->sums = sac_take_both(memory, 2 * sizeof(int64_t));
    if (!shape->measure_mass || !shape->device) return;
    s->seen_weights = sac_take_host(memory, n_ctx * sizeof(float));
    s->seen_least = sac_take_host(memory, heads * sizeof(float));
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

/* The rows that are mixed are what is counted, though all packed keys were read: a row that any head of a
 * group mixes once for the group, whose heads share its values. */
static sac_status count_mixed(sac_packed_step *s, const sac_layer_attention *a, int64_t n) {
    const int64_t *sums = s->sums.host;
    SAC_TRY(a->ops->kept_rows(a->stream, &(sac_kept_rows_args){.rows = s->rows,
                                                               .start = s->start,
                                                               .values = s->weights,
                                                               .stride = s->n_ctx,
                                                               .n = n,
                                                               .n_rows = a->shape->n_heads,
                                                               .n_lists = a->shape->n_kv_heads,
                                                               .threshold = s->least,
                                                               .sums = s->sums.device}));
    SAC_TRY(sac_fetch(a, s->sums, sizeof s->known));
    a->stats->decode_rows += (double)(sums[0] - s->known[0]);
    a->stats->decode_budget += (double)(sums[1] - s->known[1]);
    memcpy(s->known, sums, sizeof s->known);
    return SAC_OK;
}

/* Scores of a part whose keys are turned, from place `first` on. The query is turned with them. */
static sac_status score_turned(sac_packed_step *s, const sac_layer_attention *a, const sac_packed_rows *part,
                               const sac_turned_part *turned, int64_t first) {
    const sac_mat q = sac_mat_f32(s->q, 1, a->q.cols);
    SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = s->q, .x = a->q, .scale = 1}));
    SAC_TRY(a->ops->rope(a->stream, &(sac_rope_args){.x = q,
                                                     .n_heads = a->shape->n_heads,
                                                     .head_dim = a->shape->head_dim,
                                                     .rotation = a->rotation,
                                                     .pos = turned->query,
                                                     .back = true}));
    return a->ops->packed_scores(a->stream, &(sac_packed_scores_args){.scores = s->weights + first,
                                                                      .stride = s->n_ctx,
                                                                      .n = part->n,
                                                                      .q = q,
                                                                      .keys = *part,
                                                                      .n_lists = turned->n_lists,
                                                                      .turn_back = turned->keys,
                                                                      .rotation = &a->rotation,
                                                                      .n_heads = a->shape->n_heads,
                                                                      .scale = a->scale});
}

static sac_status find_turned_weights(sac_packed_step *s, const sac_layer_attention *a, const sac_packed_rows *parts,
                                      const sac_turned_part *turned, int n_parts, int64_t n) {
    int64_t first = 0;
    for (int i = 0; i < n_parts; first += parts[i++].n)
        SAC_TRY(score_turned(s, a, &parts[i], &turned[i], first));
    return a->ops->softmax(a->stream, &(sac_softmax_args){.scores = s->weights,
                                                          .stride = s->n_ctx,
                                                          .n = n,
                                                          .n_rows = a->shape->n_heads,
                                                          .lse = s->lse_packed,
                                                          .weights = s->weights});
}

/* The weights of all packed rows, to s->weights, and their denominators. */
static sac_status find_weights(sac_packed_step *s, const sac_layer_attention *a, const sac_packed_rows *parts,
                               const sac_turned_part *turned, int n_parts, int64_t n) {
    sac_packed_attention_args args = packed_args(s, a, parts, n_parts);
    if (s->turns) return find_turned_weights(s, a, parts, turned, n_parts, n);
    SAC_TRY(a->ops->mean_rows(a->stream, &(sac_mean_rows_args){.y = s->q, .x = a->q, .scale = 1}));
    args.o = NULL;
    args.q = s->q;
    args.scores = s->weights;
    args.stride = s->n_ctx;
    args.weights = true;
    return a->ops->packed_attention(a->stream, &args);
}

/* And, for each head, the smallest of the set that holds top_p of them (Twilight's rule). */
static sac_status weigh(sac_packed_step *s, const sac_layer_attention *a, const sac_packed_rows *parts,
                        const sac_turned_part *turned, int n_parts, int64_t n) {
    SAC_TRY(find_weights(s, a, parts, turned, n_parts, n));
    if (s->top_p >= 1) return SAC_OK;
    SAC_TRY(a->ops->top_p(a->stream, &(sac_top_p_args){.weights = s->weights,
                                                       .stride = s->n_ctx,
                                                       .n = n,
                                                       .n_rows = a->shape->n_heads,
                                                       .p = s->top_p,
                                                       .threshold = s->least,
                                                       .n_kept = s->n_kept}));
    return count_mixed(s, a, n);
}

/* Values of the rows that `weigh` has found. */
static sac_status attend_weighed(sac_packed_step *s, const sac_layer_attention *a,
                                 sac_packed_attention_args args) {
    int n_heads = a->shape->n_heads;
    double held = 0;
    args.scores = s->weights;
    args.stride = s->n_ctx;
    args.weights = true;
    args.min_score = s->least;
    args.lse = s->lse_kept;
    SAC_TRY(a->ops->packed_attention(a->stream, &args));
    for (int h = 0; h < n_heads; h++) {
        held += exp((double)s->lse_kept[h]);
        s->lse_packed[h] += s->lse_kept[h];
    }
    if (s->top_p < 1) sac_count_decode_mass(a, held / n_heads);
    return SAC_OK;
}

/* The output over the tail stands in a->q: both in proportion to their denominators. */
static void join(sac_packed_step *s, const sac_layer_attention *a) {
    int d = a->shape->head_dim;
    float *o = sac_mat_row_f32(a->q, 0), *lse = s->lse.device;
    for (int h = 0; h < a->shape->n_heads; h++) {
        float max = fmaxf(lse[h], s->lse_packed[h]);
        float tail = expf(lse[h] - max), packed = expf(s->lse_packed[h] - max), sum = tail + packed;
        for (int c = 0; c < d; c++) o[h * d + c] = (o[h * d + c] * tail + s->out[h * d + c] * packed) / sum;
        lse[h] = max + logf(sum);
    }
}

static bool is_weighed(const sac_packed_step *s) {
    return s->top_p < 1 || s->turns;
}

/* Packed rows and tail, one after the other, by a backend whose ops leave what the host may read. */
static sac_status attend_apart(sac_packed_step *s, const sac_layer_attention *a, const sac_packed_rows *parts,
                               int n_parts, int64_t n) {
    const sac_attention_shape *shape = a->shape;
    const sac_packed_attention_args args = packed_args(s, a, parts, n_parts);
    int64_t n_tail = a->kv.n_rows;
    if (n > 0)
        SAC_TRY(is_weighed(s) ? attend_weighed(s, a, args) : a->ops->packed_attention(a->stream, &args));
    SAC_TRY(a->ops->attention(a->stream, &(sac_attention_args){.o = a->q,
                                                               .q = a->q,
                                                               .kv = a->kv,
                                                               .lse = s->lse.device,
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

/* What the mixed rows hold of the weights of n packed ones, where only ops have both. */
static sac_status measure(const sac_packed_step *s, const sac_layer_attention *a, int64_t n) {
    const int n_heads = a->shape->n_heads;
    float *weights = s->seen_weights;
    double held = 0;
    if (!weights) return SAC_OK;
    SAC_TRY(sac_to_host(a, s->seen_least, s->least, (size_t)n_heads * sizeof *s->least));
    for (int h = 0; h < n_heads; h++) {
        SAC_TRY(sac_to_host(a, weights, s->weights + h * s->n_ctx, (size_t)n * sizeof *weights));
        for (int64_t j = 0; j < n; j++) held += weights[j] >= s->seen_least[h] ? (double)weights[j] : 0;
    }
    sac_count_decode_mass(a, held / n_heads);
    return SAC_OK;
}

/* Both in one go. */
static sac_status attend_together(sac_packed_step *s, const sac_layer_attention *a,
                                  const sac_packed_rows *parts, int n_parts, bool weighed) {
    sac_packed_step_args args = step_args(a, parts, n_parts);
    args.lse = s->lse.device;
    if (weighed) {
        args.weights = s->weights;
        args.stride = s->n_ctx;
        args.least = s->least;
        args.lse_parts = s->lse_packed;
        SAC_TRY(measure(s, a, count_rows(parts, n_parts)));
    }
    return a->ops->packed_step(a->stream, &args);
}

sac_status sac_packed_step_attend(sac_packed_step *s, const sac_layer_attention *a,
                                  const sac_packed_rows *parts, const sac_turned_part *turned, int n_parts) {
    int64_t start = sac_now_ns(), n = count_rows(parts, n_parts), n_read = a->kv.n_rows;
    bool weighed = n > 0 && is_weighed(s);
    if (s->top_p >= 1) n_read += n; /* else counted where rows are left out */
    if (weighed) SAC_TRY(weigh(s, a, parts, turned, n_parts, n));
    SAC_TRY(a->ops->fuses ? attend_together(s, a, parts, n_parts, weighed)
                          : attend_apart(s, a, parts, n_parts, n));
    count(a, n + a->kv.n_rows, n_read, n == 0 || s->top_p >= 1);
    a->stats->attend_ns += sac_now_ns() - start;
    return SAC_OK;
}
