/* A part of a prompt's tokens attends to itself: compact, then dense. */
#include "sparse.h"

#include <assert.h>
#include <string.h>

/* Of queries, and of keys and values: a prompt's are made in it, whatever the cache holds. */
static sac_dtype type_of(const sac_attention_shape *shape) {
    return shape->device ? shape->dtype : SAC_DTYPE_F32;
}

/* What ops read and write. */
static void take_there(sac_part_scratch *s, const sac_attention_shape *shape, sac_arena *arena) {
    size_t n = (size_t)shape->n_ctx, d_bytes = sac_dtype_row_bytes(type_of(shape), shape->head_dim);
    s->q = sac_arena_take(arena, n * (size_t)shape->n_heads * d_bytes);
    s->k = sac_arena_take(arena, n * (size_t)shape->n_kv_heads * d_bytes);
    s->v = sac_arena_take(arena, n * (size_t)shape->n_kv_heads * d_bytes);
    s->zeros = sac_arena_take(arena, (size_t)shape->n_heads * (size_t)shape->head_dim * sizeof(float));
}

void sac_part_scratch_take(sac_part_scratch *s, const sac_attention_shape *shape, sac_arena *arena) {
    if (!shape->device) take_there(s, shape, arena);
    s->rows = s->there.rows = sac_arena_take(arena, (size_t)shape->n_ctx * sizeof(int32_t));
    if (s->zeros) memset(s->zeros, 0, (size_t)shape->n_heads * (size_t)shape->head_dim * sizeof(float));
}

void sac_part_scratch_take_device(sac_part_scratch *s, const sac_attention_shape *shape, sac_arena *arena) {
    take_there(s, shape, arena); /* a session's memory is zeroed */
    s->there.part = sac_arena_take(arena, (size_t)shape->n_ctx * sizeof(int32_t));
    s->there.rows = sac_arena_take(arena, (size_t)shape->n_ctx * sizeof(int32_t));
    s->there.start = sac_arena_take(arena, 2 * sizeof(int64_t));
}

/* Keys and values of the rows before the queries and of the part, as one dense view. A device's has room for
 * all, whatever the part: its libraries make a plan for every shape. */
static sac_status gather_keys(const sac_layer_attention *a, const int32_t *part, int64_t n_part,
                              sac_part_scratch *s, sac_kv_view *dense) {
    int64_t n = a->past + n_part, d = a->shape->head_dim, start[2] = {0, n};
    sac_row_lists lists = {s->there.rows, a->shape->device ? s->there.start : start, 1};
    for (int64_t i = 0; i < a->past; i++) s->rows[i] = (int32_t)i;
    for (int64_t i = 0; i < n_part; i++) s->rows[a->past + i] = (int32_t)a->past + part[i];
    SAC_TRY(sac_to_device(a, s->there.rows, s->rows, (size_t)n * sizeof *s->rows));
    if (a->shape->device) SAC_TRY(sac_to_device(a, s->there.start, start, sizeof start));
    int64_t room = a->shape->device ? a->shape->n_ctx : n;
    *dense = (sac_kv_view){.k = s->k,
                           .v = s->v,
                           .dtype = type_of(a->shape),
                           .n_heads = a->shape->n_kv_heads,
                           .head_dim = (int)d,
                           .n_rows = room,
                           .row_stride = d,
                           .head_stride = room * d};
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = *dense, .src = a->kv, .lists = &lists});
}

/* The part's outputs to their tokens, zeros to the others. */
static sac_status spread(const sac_layer_attention *a, sac_mat part_q, const int32_t *part,
                         sac_part_scratch *s) {
    memset(s->rows, 0xff, (size_t)a->q.rows * sizeof *s->rows); /* -1: a token outside the part */
    for (int64_t i = 0; i < part_q.rows; i++) s->rows[part[i]] = (int32_t)i;
    SAC_TRY(sac_to_device(a, s->there.rows, s->rows, (size_t)a->q.rows * sizeof *s->rows));
    return a->ops->gather_rows(
        a->stream,
        &(sac_gather_rows_args){.y = a->q, .x = part_q, .source = s->there.rows, .fill = s->zeros});
}

sac_status sac_attend_part(const sac_layer_attention *a, const int32_t *part, int64_t n_part,
                           sac_part_scratch *s) {
    assert(n_part > 0 && n_part <= a->q.rows && a->kv.n_rows <= a->shape->n_ctx);
    sac_mat q = {s->q, n_part, a->q.cols, a->q.cols, a->q.dtype};
    const int32_t *source = a->shape->device ? s->there.part : part;
    sac_kv_view dense;
    SAC_TRY(gather_keys(a, part, n_part, s, &dense));
    if (a->shape->device) SAC_TRY(sac_to_device(a, s->there.part, part, (size_t)n_part * sizeof *part));
    SAC_TRY(a->ops->gather_rows(a->stream, &(sac_gather_rows_args){.y = q, .x = a->q, .source = source}));
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
