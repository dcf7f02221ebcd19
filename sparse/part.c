/* A part of a prompt's tokens attends to itself: compact, then dense. */
#include "sparse.h"

#include <assert.h>
#include <string.h>

void sac_part_scratch_take(sac_part_scratch *s, const sac_attention_shape *shape, sac_arena *arena) {
    size_t n = (size_t)shape->n_ctx, d = (size_t)shape->head_dim;
    s->q = sac_arena_take(arena, n * (size_t)shape->n_heads * d * sizeof(float));
    s->k = sac_arena_take(arena, n * (size_t)shape->n_kv_heads * d * sizeof(float));
    s->v = sac_arena_take(arena, n * (size_t)shape->n_kv_heads * d * sizeof(float));
    s->zeros = sac_arena_take(arena, (size_t)shape->n_heads * d * sizeof(float));
    s->rows = sac_arena_take(arena, n * sizeof(int32_t));
    if (s->zeros) memset(s->zeros, 0, (size_t)shape->n_heads * d * sizeof(float));
}

/* Keys and values of the rows before the queries and of the part, as one dense view. */
static sac_status gather_keys(const sac_layer_attention *a, const int32_t *part, int64_t n_part,
                              sac_part_scratch *s, sac_kv_view *dense) {
    int64_t n = a->past + n_part, d = a->shape->head_dim, start[2] = {0, n};
    for (int64_t i = 0; i < a->past; i++) s->rows[i] = (int32_t)i;
    for (int64_t i = 0; i < n_part; i++) s->rows[a->past + i] = (int32_t)a->past + part[i];
    *dense = (sac_kv_view){.k = s->k,
                           .v = s->v,
                           .dtype = SAC_DTYPE_F32,
                           .n_heads = a->shape->n_kv_heads,
                           .head_dim = (int)d,
                           .n_rows = n,
                           .row_stride = d,
                           .head_stride = n * d};
    return a->ops->kv_gather(
        a->stream,
        &(sac_kv_gather_args){.dst = *dense, .src = a->kv, .lists = &(sac_row_lists){s->rows, start, 1}});
}

sac_status sac_attend_part(const sac_layer_attention *a, const int32_t *part, int64_t n_part,
                           sac_part_scratch *s) {
    assert(n_part > 0 && n_part <= a->q.rows && a->kv.n_rows <= a->shape->n_ctx);
    sac_mat q = sac_mat_f32(s->q, n_part, a->q.cols);
    sac_kv_view dense;
    SAC_TRY(gather_keys(a, part, n_part, s, &dense));
    SAC_TRY(a->ops->gather_rows(a->stream, &(sac_gather_rows_args){.y = q, .x = a->q, .source = part}));
    SAC_TRY(a->ops->attention(a->stream, &(sac_attention_args){.o = q,
                                                               .q = q,
                                                               .kv = dense,
                                                               .n_q = n_part,
                                                               .n_kv = dense.n_rows,
                                                               .first = a->past,
                                                               .n_batch = 1,
                                                               .n_heads = a->shape->n_heads,
                                                               .scale = a->scale,
                                                               .causal = true}));
    memset(s->rows, 0xff, (size_t)a->q.rows * sizeof *s->rows); /* -1: a token outside the part */
    for (int64_t i = 0; i < n_part; i++) s->rows[part[i]] = (int32_t)i;
    return a->ops->gather_rows(
        a->stream, &(sac_gather_rows_args){.y = a->q, .x = q, .source = s->rows, .fill = s->zeros});
}
