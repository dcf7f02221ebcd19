#include "gathered.h"

#include "attend.h"

#include <assert.h>

void sac_gathered_take(sac_gathered *s, const sac_attention_shape *shape, int64_t capacity,
                       const sac_memory *memory) {
    size_t n = (size_t)capacity, row = (size_t)shape->n_kv_heads * (size_t)shape->head_dim * sizeof(float);
    s->capacity = capacity;
    s->k = sac_take_device(memory, n * row);
    s->v = sac_take_device(memory, n * row);
    s->turn_keys = sac_take_device(memory, n * sizeof *s->turn_keys);
    s->turn = sac_take_both(memory, n * sizeof(int32_t));
}

sac_kv_view sac_gathered_view(const sac_gathered *s, const sac_layer_attention *a, int64_t n) {
    int64_t d = a->shape->head_dim;
    assert(n <= s->capacity);
    return (sac_kv_view){.k = s->k,
                         .v = s->v,
                         .dtype = a->q.dtype == SAC_DTYPE_F32 ? SAC_DTYPE_F32 : a->kv.dtype,
                         .n_heads = a->shape->n_kv_heads,
                         .head_dim = (int)d,
                         .n_rows = n,
                         .row_stride = d,
                         .head_stride = n * d};
}

sac_status sac_turn_queries(const sac_layer_attention *a, sac_mat q, const int32_t *back) {
    return a->ops->rope(a->stream, &(sac_rope_args){.x = q,
                                                    .n_heads = a->shape->n_heads,
                                                    .head_dim = a->shape->head_dim,
                                                    .rotation = a->rotation,
                                                    .pos = back,
                                                    .back = true});
}

sac_status sac_turn_to_places(const sac_layer_attention *a, sac_mat q, const int32_t *position,
                              const sac_choice_lists *list, sac_gathered *s) {
    int64_t n = sac_choice_begin(list, 1), first = n - q.rows;
    int32_t *turn = s->turn.host;
    bool same = s->n_turned == q.rows; /* as in the layer before */
    assert(list->n_lists == 1 && first >= 0 && a->shape->fixed_rotation);
    s->view = sac_gathered_view(s, a, n);
    for (int64_t i = 0; i < q.rows; i++) {
        int32_t back = position[i] - (int32_t)(first + i);
        same = same && turn[i] == back;
        turn[i] = back;
    }
    s->n_turned = 0; /* should it fail */
    if (!same) SAC_TRY(sac_send(a, s->turn, (size_t)q.rows * sizeof *turn));
    s->n_turned = q.rows;
    return sac_turn_queries(a, q, s->turn.device);
}

sac_status sac_gather_rows(const sac_layer_attention *a, const sac_choice_lists *list,
                           const sac_row_lists *read, sac_gathered *s) {
    const sac_row_lists rows = sac_choice_row_lists(list);
    return a->ops->kv_gather(a->stream, &(sac_kv_gather_args){.dst = s->view,
                                                              .src = a->kv,
                                                              .lists = &rows,
                                                              .turn_back = s->turn_keys,
                                                              .rotation = &a->rotation,
                                                              .read = read});
}

sac_status sac_gather_places(const sac_layer_attention *a, sac_mat q, const int32_t *position,
                             const sac_choice_lists *list, sac_gathered *s) {
    SAC_TRY(sac_turn_to_places(a, q, position, list, s));
    return sac_gather_rows(a, list, NULL, s);
}
