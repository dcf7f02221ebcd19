#include "ref.h"

sac_status sac_ref_choice_step(const sac_stream *s, const sac_choice_step_args *a) {
    const sac_rotation *r = &a->rotation;
    int64_t n_first = a->init + a->n_chosen, n = n_first + a->local, old = a->n_rows - a->local,
            d = a->src.head_dim;
    double *key = sac_stream_thread_scratch(s, 0);
    assert(sac_ref_is_mat(a->q) && a->q.rows == 1 && a->q.cols == a->n_heads * d &&
           sac_ref_is_rotation(r, (int)d));
    assert(sac_ref_is_kv(&a->dst) && sac_ref_is_kv(&a->src) && a->dst.n_heads == a->src.n_heads);
    assert(a->dst.head_dim == d && a->dst.n_rows >= n && a->src.n_rows >= a->n_rows && a->n_rows >= n);
    for (int64_t i = a->kept ? n_first : 0; i < n; i++) {
        int64_t row = i < a->init ? i : i < n_first ? a->init + a->chosen[i - a->init] : old + i - n_first;
        for (int h = 0; h < a->src.n_heads; h++) {
            int64_t from = row * a->src.row_stride + h * a->src.head_stride,
                    to = i * a->dst.row_stride + h * a->dst.head_stride;
            sac_ref_load_key(&a->src, row, h, r, row - i, key);
            for (int64_t c = 0; c < d; c++) {
                sac_ref_store(a->dst.dtype, a->dst.k, to + c, (float)key[c]);
                sac_ref_store(a->dst.dtype, a->dst.v, to + c, sac_ref_load(a->src.dtype, a->src.v, from + c));
            }
        }
    }
    int32_t back = (int32_t)(a->n_rows - n);
    return sac_ref_rope(s, &(sac_rope_args){a->q, a->n_heads, (int)d, *r, &back, true});
}
