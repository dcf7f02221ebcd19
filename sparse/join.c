#include "join.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void sac_join_scratch_take(sac_join_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                           sac_arena *arena) {
    size_t heads = (size_t)capacity * (size_t)shape->n_heads;
    s->capacity = capacity;
    s->q = sac_arena_take(arena, heads * (size_t)shape->head_dim * sizeof *s->q);
    for (int i = 0; i < 2; i++) s->lse[i] = sac_arena_take(arena, heads * sizeof *s->lse[i]);
    s->position = sac_arena_take(arena, (size_t)capacity * sizeof *s->position);
}

/* Rope turns by positions of its table, forward or back, so rows that turn one way are turned together. */
static sac_status turn_rows(sac_join_scratch *s, const sac_layer_attention *a, int64_t n, bool back) {
    int64_t cols = (int64_t)a->shape->n_heads * a->shape->head_dim;
    sac_rope_args args = {.x = sac_mat_f32(s->q, n, cols),
                          .n_heads = a->shape->n_heads,
                          .head_dim = a->shape->head_dim,
                          .rotation = a->rotation,
                          .pos = s->position,
                          .back = back};
    SAC_TRY(a->ops->rope(a->stream, &args));
    if (back || a->rotation.factor == 1) return SAC_OK;
    for (int64_t i = 0; i < n * cols; i++) s->q[i] /= a->rotation.factor; /* the table holds it, q had it */
    return SAC_OK;
}

sac_status sac_join_copy_queries(sac_join_scratch *s, const sac_layer_attention *a, int64_t first, int64_t n,
                                 const int32_t *to) {
    assert(n <= s->capacity);
    bool any[2] = {false, false};
    for (int64_t i = 0; i < n; i++) {
        memcpy(s->q + i * a->q.cols, sac_mat_row_f32(a->q, first + i), (size_t)a->q.cols * sizeof(float));
        any[to[i] < a->position[first + i]] |= to[i] != a->position[first + i];
    }
    for (int back = 0; back < 2; back++) {
        if (!any[back]) continue;
        for (int64_t i = 0; i < n; i++) {
            int32_t apart = back ? a->position[first + i] - to[i] : to[i] - a->position[first + i];
            s->position[i] = apart > 0 ? apart : 0;
        }
        SAC_TRY(turn_rows(s, a, n, back == 1));
    }
    return SAC_OK;
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
