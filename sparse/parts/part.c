#include "part.h"

#include "attend.h"

#include <assert.h>
#include <string.h>

void sac_part_scratch_take(sac_part_scratch *s, const sac_attention_shape *shape, const sac_memory *memory) {
    size_t n = (size_t)shape->n_ctx, d_bytes = sac_dtype_row_bytes(shape->dtype, shape->head_dim);
    s->q = sac_take_device(memory, n * (size_t)shape->n_heads * d_bytes);
    s->k = sac_take_device(memory, n * (size_t)shape->n_kv_heads * d_bytes);
    s->v = sac_take_device(memory, n * (size_t)shape->n_kv_heads * d_bytes);
    s->zeros = sac_take_device(memory, (size_t)shape->n_heads * (size_t)shape->head_dim * sizeof(float));
    s->part = sac_take_both(memory, n * sizeof(int32_t));
    s->rows = sac_take_both(memory, n * sizeof(int32_t));
    s->start = sac_take_both(memory, 2 * sizeof(int64_t));
}

/* Keys and values of the rows before the queries and of the part, as one dense view. It has room for all,
 * whatever the part: a GPU's libraries make a plan for every shape. */
static sac_status gather_keys(const sac_layer_attention *a, const int32_t *part, int64_t n_part,
                              sac_part_scratch *s, sac_kv_view *dense) {
    int64_t n = a->past + n_part, d = a->shape->head_dim, room = a->shape->n_ctx, *start = s->start.host;
    int32_t *rows = s->rows.host;
    for (int64_t i = 0; i < a->past; i++) rows[i] = (int32_t)i;
    for (int64_t i = 0; i < n_part; i++) rows[a->past + i] = (int32_t)a->past + part[i];
    start[1] = n;
    SAC_TRY(sac_send(a, s->rows, (size_t)n * sizeof *rows));
    SAC_TRY(sac_send(a, s->start, 2 * sizeof *start));
    *dense = (sac_kv_view){.k = s->k,
                           .v = s->v,
                           .dtype = a->shape->dtype,
                           .n_heads = a->shape->n_kv_heads,
                           .head_dim = (int)d,
                           .n_rows = room,
                           .row_stride = d,
                           .head_stride = room * d};
    const sac_row_lists lists = {s->rows.device, s->start.device, 1};
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = *dense, .src = a->kv, .lists = &lists});
}

/* The part's outputs to their tokens, zeros to the others. */
static sac_status spread(const sac_layer_attention *a, sac_mat part_q, const int32_t *part,
                         sac_part_scratch *s) {
    int32_t *source = s->part.host;
    memset(source, 0xff, (size_t)a->q.rows * sizeof *source); /* -1: a token outside the part */
    for (int64_t i = 0; i < part_q.rows; i++) source[part[i]] = (int32_t)i;
    SAC_TRY(sac_send(a, s->part, (size_t)a->q.rows * sizeof *source));
    return a->ops->gather_rows(
        a->stream,
        &(sac_gather_rows_args){.y = a->q, .x = part_q, .source = s->part.device, .fill = s->zeros});
}

sac_status sac_attend_part(const sac_layer_attention *a, const int32_t *part, int64_t n_part,
                           sac_part_scratch *s) {
    assert(n_part > 0 && n_part <= a->q.rows && a->kv.n_rows <= a->shape->n_ctx);
    sac_mat q = {s->q, n_part, a->q.cols, a->q.cols, a->q.dtype};
    sac_kv_view dense;
    SAC_TRY(gather_keys(a, part, n_part, s, &dense));
    memcpy(s->part.host, part, (size_t)n_part * sizeof *part);
    SAC_TRY(sac_send(a, s->part, (size_t)n_part * sizeof *part));
    SAC_TRY(
        a->ops->gather_rows(a->stream, &(sac_gather_rows_args){.y = q, .x = a->q, .source = s->part.device}));
    SAC_TRY(a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                               .q = q,
                                                               .kv = dense,
                                                               .n_q = n_part,
                                                               .n_kv = a->past + n_part,
                                                               .first = a->past,
                                                               .n_batch = 1,
                                                               .n_heads = a->shape->n_heads,
                                                               .scale = a->scale,
                                                               .causal = true}));
    return spread(a, q, part, s);
}
