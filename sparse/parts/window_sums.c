#include "window_sums.h"

int64_t sac_shared_window(const sac_prefill *prefill, const sac_decode *decode,
                          const sac_attention_shape *shape) {
    const sac_prefill_policy *p = prefill->policy;
    const sac_decode_policy *d = decode->policy;
    if (!sac_ops_traits_of(shape->device)->shares_sums || !p->observes || !d->observes) return 0;
    int64_t n = p->observes(prefill->p);
    return n == d->observes(decode->p) ? n : 0;
}

void sac_window_sums_take(sac_window_sums *w, const sac_attention_shape *shape, bool diagonals,
                          sac_arena *arena) {
    size_t n = (size_t)shape->n_heads * (size_t)shape->n_ctx;
    w->sums = sac_arena_take(arena, n * sizeof(float));
    w->diagonals = diagonals ? sac_arena_take(arena, n * sizeof(float)) : NULL;
}

sac_status sac_window_sums_find(const sac_layer_attention *a) {
    sac_window_sums *w = a->window_sums;
    if (w->is_done) return SAC_OK;
    w->is_done = true;
    int64_t n_q = w->window < a->q.rows ? w->window : a->q.rows, n = a->kv.n_rows;
    return a->ops->attention_sums(
        a->stream, &(sac_attention_sums_args){.sums = w->sums,
                                              .stride = a->shape->n_ctx,
                                              .n_sums = a->shape->n_heads,
                                              .q = sac_mat_rows(a->q, a->q.rows - n_q, n_q),
                                              .first = n - n_q,
                                              .kv = a->kv,
                                              .n_kv = n,
                                              .n_heads = a->shape->n_heads,
                                              .scale = a->scale,
                                              .window = a->window,
                                              .diagonals = w->diagonals,
                                              .n_diagonals = w->diagonals ? a->shape->n_ctx : 0});
}
