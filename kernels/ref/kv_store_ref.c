#include "ref.h"

sac_status sac_ref_kv_store(const sac_stream *s, const sac_kv_store_args *a) {
    (void)s;
    const sac_kv_view *kv = &a->kv;
    assert(sac_ref_is_mat(a->k) && sac_ref_is_mat(a->v) && sac_ref_same_shape(a->k, a->v));
    assert(a->k.cols == (int64_t)kv->n_heads * kv->head_dim);
    assert(kv->dtype == SAC_DTYPE_F32 || kv->dtype == SAC_DTYPE_F16 || kv->dtype == SAC_DTYPE_BF16);
    assert(a->first >= 0 && a->first + a->k.rows <= kv->n_rows);
    for (int64_t row = 0; row < a->k.rows; row++) {
        for (int head = 0; head < kv->n_heads; head++) {
            int64_t to = (a->first + row) * kv->row_stride + head * kv->head_stride;
            int64_t from = (int64_t)head * kv->head_dim;
            for (int c = 0; c < kv->head_dim; c++) {
                sac_ref_store(kv->dtype, kv->k, to + c, sac_mat_row_f32(a->k, row)[from + c]);
                sac_ref_store(kv->dtype, kv->v, to + c, sac_mat_row_f32(a->v, row)[from + c]);
            }
        }
    }
    return SAC_OK;
}
