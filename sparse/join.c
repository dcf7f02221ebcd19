#include "join.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void take_outputs(sac_join_scratch *s, const sac_attention_shape *shape, sac_arena *arena) {
    size_t heads = (size_t)s->capacity * (size_t)shape->n_heads;
    sac_dtype t = shape->device ? shape->dtype : SAC_DTYPE_F32;
    s->q = sac_arena_take(arena, heads * sac_dtype_row_bytes(t, shape->head_dim));
    for (int i = 0; i < 2; i++) s->lse[i] = sac_arena_take(arena, heads * sizeof *s->lse[i]);
}

void sac_join_scratch_take(sac_join_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                           sac_arena *arena) {
    s->capacity = capacity;
    if (!shape->device) take_outputs(s, shape, arena);
    size_t n_turns = (size_t)(shape->device ? shape->n_ctx : capacity);
    s->position = sac_arena_take(arena, n_turns * sizeof *s->position);
}

void sac_join_scratch_take_device(sac_join_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                                  sac_arena *arena) {
    s->capacity = capacity;
    take_outputs(s, shape, arena);
    s->device_turn = sac_arena_take(arena, (size_t)shape->n_ctx * sizeof *s->device_turn);
    s->device_rows = sac_arena_take(arena, (size_t)capacity * sizeof *s->device_rows);
    s->device_start = sac_arena_take(arena, 2 * sizeof *s->device_start);
}

sac_mat sac_join_queries(const sac_join_scratch *s, const sac_attention_shape *shape, int64_t n) {
    int64_t cols = (int64_t)shape->n_heads * shape->head_dim;
    return (sac_mat){s->q, n, cols, cols, shape->device ? shape->dtype : SAC_DTYPE_F32};
}

sac_status sac_join_send_place(sac_join_scratch *s, const sac_layer_attention *a, int32_t place) {
    bool same = s->n_sent == a->q.rows; /* as in the layer before */
    for (int64_t i = 0; i < a->q.rows; i++) {
        int32_t turn =
            a->position[i] > place ? a->position[i] - place : 0; /* those before it are not asked for */
        same = same && s->position[i] == turn;
        s->position[i] = turn;
    }
    s->n_sent = 0; /* until it is there */
    if (!same) SAC_TRY(sac_to_device(a, s->device_turn, s->position, (size_t)a->q.rows * sizeof(int32_t)));
    s->n_sent = a->q.rows;
    return SAC_OK;
}

/* Rows 0 .. n - 1 as a list. */
static sac_status list_all(sac_join_scratch *s, const sac_layer_attention *a, int64_t n) {
    if (s->n_listed == n) return SAC_OK;
    s->n_listed = n;
    return a->ops->choice_rows(
        a->stream,
        &(sac_choice_rows_args){.rows = s->device_rows, .start = s->device_start, .init = n, .n_rows = n});
}

/* A query's heads as a view's keys. */
static sac_kv_view as_keys(sac_mat q, const sac_attention_shape *shape) {
    return (sac_kv_view){.k = q.data,
                         .v = q.data,
                         .dtype = q.dtype,
                         .n_heads = shape->n_heads,
                         .head_dim = shape->head_dim,
                         .n_rows = q.rows,
                         .row_stride = q.stride,
                         .head_stride = shape->head_dim};
}

sac_status sac_join_gather_queries(sac_join_scratch *s, const sac_layer_attention *a, int64_t first,
                                   int64_t n, bool turn) {
    sac_mat to = sac_join_queries(s, a->shape, n);
    assert(n <= s->capacity);
    SAC_TRY(list_all(s, a, n));
    return a->ops->kv_gather(
        a->stream, &(sac_kv_gather_args){.dst = as_keys(to, a->shape),
                                         .src = as_keys(sac_mat_rows(a->q, first, n), a->shape),
                                         .lists = &(sac_row_lists){s->device_rows, s->device_start, 1},
                                         .turn_back = turn ? s->device_turn + first : NULL,
                                         .rotation = &a->rotation,
                                         .keys_only = true});
}

sac_status sac_join_copy_queries(sac_join_scratch *s, const sac_layer_attention *a, int64_t n,
                                 const int32_t *to) {
    assert(n <= s->capacity);
    for (int64_t i = 0; i < n; i++) {
        memcpy(s->q + i * a->q.cols, sac_mat_row_f32(a->q, i), (size_t)a->q.cols * sizeof(float));
        s->position[i] = a->position[i] - to[i];
        assert(s->position[i] >= 0);
    }
    return a->ops->rope(a->stream, &(sac_rope_args){.x = sac_mat_f32(s->q, n, a->q.cols),
                                                    .n_heads = a->shape->n_heads,
                                                    .head_dim = a->shape->head_dim,
                                                    .rotation = a->rotation,
                                                    .pos = s->position,
                                                    .back = true});
}

void sac_join(const sac_join_scratch *s, const sac_attention_shape *shape, sac_mat o) {
    int d = shape->head_dim, n_heads = shape->n_heads;
    for (int64_t i = 0; i < o.rows * n_heads; i++) {
        float *x = sac_mat_row_f32(o, i / n_heads) + i % n_heads * d;
        const float *y = s->q + i * d;
        float max = fmaxf(s->lse[0][i], s->lse[1][i]);
        if (max == -INFINITY) continue; /* neither sees a key: both are zeros */
        float u = expf(s->lse[0][i] - max), v = expf(s->lse[1][i] - max), sum = u + v;
        u /= sum;
        v /= sum;
        for (int c = 0; c < d; c++) x[c] = u * x[c] + v * y[c];
    }
}
