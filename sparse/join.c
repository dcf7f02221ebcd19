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
