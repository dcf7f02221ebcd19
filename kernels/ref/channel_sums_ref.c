#include "ref.h"

#include <math.h>

sac_status sac_ref_channel_sums(const sac_stream *s, const sac_channel_sums_args *a) {
    (void)s;
    const sac_kv_view *kv = &a->kv;
    int d = kv->head_dim, group = a->n_heads / kv->n_heads;
    assert(a->sums && sac_ref_is_mat(a->q) && sac_ref_is_kv(kv) && a->n_heads % kv->n_heads == 0);
    assert(a->q.cols == (int64_t)a->n_heads * d && a->first >= 0 && a->first + a->q.rows <= kv->n_rows);
    for (int64_t at = 0; at < (int64_t)kv->n_heads * d; at++) {
        int64_t head = at / d, c = at % d;
        double sum = 0;
        for (int64_t i = 0; i < a->q.rows; i++) {
            const float *q = sac_mat_row_f32(a->q, i) + head * group * d + c;
            double k = (double)sac_ref_load(kv->dtype, kv->k,
                                            (a->first + i) * kv->row_stride + head * kv->head_stride + c);
            for (int h = 0; h < group; h++) sum += fabs((double)q[h * d] * k);
        }
        a->sums[at] = (float)sum;
    }
    return SAC_OK;
}
