#include "ref.h"

sac_status sac_ref_pick_channels(const sac_stream *s, const sac_pick_channels_args *a) {
    (void)s;
    const sac_kv_view *to = &a->dst, *from = &a->src;
    assert(sac_ref_is_kv(to) && sac_ref_is_kv(from) && to->n_heads == from->n_heads && a->n_sets > 0);
    assert(to->n_heads % a->n_sets == 0 && a->first >= 0 && a->n >= 0);
    assert(a->first + a->n <= to->n_rows && a->first + a->n <= from->n_rows);
    for (int64_t row = a->first; row < a->first + a->n; row++)
        for (int h = 0; h < to->n_heads; h++) {
            const int32_t *channels = a->channels + h / (to->n_heads / a->n_sets) * to->head_dim;
            for (int c = 0; c < to->head_dim; c++) {
                assert(channels[c] >= 0 && channels[c] < from->head_dim);
                float x = sac_ref_load(from->dtype, from->k,
                                       row * from->row_stride + h * from->head_stride + channels[c]);
                sac_ref_store(to->dtype, to->k, row * to->row_stride + h * to->head_stride + c, x);
            }
        }
    return SAC_OK;
}
