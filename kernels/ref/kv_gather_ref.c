#include "ref.h"

static bool is_read(const sac_kv_gather_args *a, int head, int64_t row) {
    int each = a->read ? a->read->n_lists / a->src.n_heads : 0;
    if (!a->read) return true;
    for (int64_t j = a->read->start[head * each]; j < a->read->start[(head + 1) * each]; j++)
        if (a->read->rows[j] == row) return true;
    return false;
}

sac_status sac_ref_kv_gather(const sac_stream *s, const sac_kv_gather_args *a) {
    const sac_kv_view *src = &a->src, *dst = &a->dst;
    const sac_row_lists *l = a->lists;
    assert(sac_ref_is_kv(src) && sac_ref_is_kv(dst));
    assert(src->n_heads == dst->n_heads && src->head_dim == dst->head_dim);
    assert(sac_ref_is_any_order(l, src, src->n_heads));
    assert(!a->read || a->read->n_lists % src->n_heads == 0);
    assert(!a->turn_back || sac_ref_is_rotation(a->rotation, src->head_dim));
    double *key = sac_stream_thread_scratch(s, 0);
    assert((size_t)src->head_dim * sizeof(double) <= SAC_THREAD_SCRATCH_BYTES);
    for (int head = 0; head < src->n_heads; head++) {
        int list = sac_ref_list_of(l, head, src->n_heads);
        assert(l->start[list + 1] - l->start[list] <= dst->n_rows);
        for (int64_t i = l->start[list]; i < l->start[list + 1]; i++) {
            if (!is_read(a, head, i - l->start[list])) continue;
            int64_t from = l->rows[i] * src->row_stride + head * src->head_stride;
            int64_t to = (i - l->start[list]) * dst->row_stride + head * dst->head_stride;
            assert(!a->turn_back || a->turn_back[i] >= 0);
            sac_ref_load_key(src, l->rows[i], head, a->turn_back ? a->rotation : NULL,
                             a->turn_back ? a->turn_back[i] : 0, key);
            for (int c = 0; c < src->head_dim; c++) {
                sac_ref_store(dst->dtype, dst->k, to + c, (float)key[c]);
                if (!a->keys_only)
                    sac_ref_store(dst->dtype, dst->v, to + c, sac_ref_load(src->dtype, src->v, from + c));
            }
        }
    }
    return SAC_OK;
}
