#include "join.h"

#include "attend.h"
#include "gathered.h"

#include <assert.h>

void sac_join_scratch_take(sac_join_scratch *s, const sac_attention_shape *shape, int64_t capacity,
                           const sac_memory *memory) {
    size_t n = (size_t)capacity, heads = n * (size_t)shape->n_heads;
    s->capacity = capacity;
    s->q = sac_take_device(memory, heads * sac_dtype_row_bytes(shape->dtype, shape->head_dim));
    for (int i = 0; i < 2; i++) s->lse[i] = sac_take_device(memory, heads * sizeof *s->lse[i]);
    s->turn = sac_take_both(memory, (size_t)shape->n_ctx * sizeof(int32_t));
    s->rows = sac_take_device(memory, n * sizeof *s->rows);
}

sac_mat sac_join_queries(const sac_join_scratch *s, const sac_attention_shape *shape, int64_t n) {
    int64_t cols = (int64_t)shape->n_heads * shape->head_dim;
    return (sac_mat){s->q, n, cols, cols, shape->dtype};
}

sac_status sac_join_place(sac_join_scratch *s, const sac_layer_attention *a, int64_t first, const int32_t *to,
                          bool one) {
    int32_t *turn = s->turn.host;
    bool same = s->n_turned == a->q.rows; /* as in the layer before */
    for (int64_t i = first; i < a->q.rows; i++) {
        int32_t back = a->position[i] - to[one ? 0 : i];
        assert(back >= 0);
        same = same && turn[i] == back;
        turn[i] = back;
    }
    s->n_turned = 0; /* should it fail */
    if (!same) SAC_TRY(sac_send(a, s->turn, (size_t)a->q.rows * sizeof *turn));
    s->n_turned = a->q.rows;
    return SAC_OK;
}

static sac_status list_rows(sac_join_scratch *s, const sac_layer_attention *a) {
    if (s->is_listed) return SAC_OK;
    SAC_TRY(a->ops->choice_rows(
        a->stream, &(sac_choice_rows_args){.rows = s->rows, .init = s->capacity, .n_rows = s->capacity}));
    s->is_listed = true;
    return SAC_OK;
}

sac_status sac_join_copy_queries(sac_join_scratch *s, const sac_layer_attention *a, int64_t first,
                                 int64_t n) {
    sac_mat to = sac_join_queries(s, a->shape, n);
    assert(n <= s->capacity);
    SAC_TRY(list_rows(s, a));
    SAC_TRY(a->ops->gather_rows(
        a->stream, &(sac_gather_rows_args){.y = to, .x = sac_mat_rows(a->q, first, n), .source = s->rows}));
    return sac_turn_queries(a, to, (int32_t *)s->turn.device + first);
}

sac_status sac_join(const sac_join_scratch *s, const sac_layer_attention *a, sac_mat o) {
    return a->ops->join_attention(a->stream,
                                  &(sac_join_attention_args){.o = o,
                                                             .other = sac_join_queries(s, a->shape, o.rows),
                                                             .lse = s->lse[0],
                                                             .other_lse = s->lse[1],
                                                             .n_heads = a->shape->n_heads});
}
