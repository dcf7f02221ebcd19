#include "ref.h"

sac_status sac_ref_page_bounds(const sac_stream *s, const sac_page_bounds_args *a) {
    (void)s;
    const sac_kv_view *kv = &a->kv, *b = &a->bounds;
    assert(sac_ref_is_kv(kv) && sac_ref_is_kv(b) && b->n_heads == kv->n_heads);
    assert(b->head_dim == 2 * kv->head_dim && a->page > 0 && a->first >= 0 && a->n >= 0);
    assert(a->first + a->n <= b->n_rows && (a->first + a->n) * a->page <= kv->n_rows);
    for (int64_t p = a->first; p < a->first + a->n; p++)
        for (int64_t at = 0; at < (int64_t)kv->n_heads * kv->head_dim; at++) {
            int64_t head = at / kv->head_dim, c = at % kv->head_dim;
            int64_t from = p * a->page * kv->row_stride + head * kv->head_stride + c;
            int64_t to = p * b->row_stride + head * b->head_stride + c;
            float max = sac_ref_load(kv->dtype, kv->k, from), min = max;
            for (int64_t i = 1; i < a->page; i++) {
                float x = sac_ref_load(kv->dtype, kv->k, from + i * kv->row_stride);
                max = x > max ? x : max;
                min = x < min ? x : min;
            }
            sac_ref_store(b->dtype, b->k, to, max);
            sac_ref_store(b->dtype, b->k, to + kv->head_dim, min);
        }
    return SAC_OK;
}
