#include "ref.h"

sac_status sac_ref_rope(const sac_stream *s, const sac_rope_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && a->x.cols == (int64_t)a->n_heads * a->head_dim);
    assert(a->rot_dim > 0 && a->rot_dim % 2 == 0 && a->rot_dim <= a->head_dim && a->cos_sin && a->pos);
    int half = a->rot_dim / 2;
    for (int64_t row = 0; row < a->x.rows; row++) {
        const float *cos_sin = a->cos_sin + (int64_t)a->pos[row] * a->rot_dim;
        for (int head = 0; head < a->n_heads; head++) {
            float *x = sac_mat_row_f32(a->x, row) + (int64_t)head * a->head_dim;
            for (int i = 0; i < half; i++) {
                int first = a->interleaved ? 2 * i : i, second = a->interleaved ? 2 * i + 1 : i + half;
                double c = (double)cos_sin[2 * i], sn = (double)cos_sin[2 * i + 1];
                double u = (double)x[first], v = (double)x[second];
                x[first] = (float)(u * c - v * sn);
                x[second] = (float)(v * c + u * sn);
            }
        }
    }
    return SAC_OK;
}
