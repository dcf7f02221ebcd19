#include "ref.h"

sac_status sac_ref_rope(const sac_stream *s, const sac_rope_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && a->x.cols == (int64_t)a->n_heads * a->head_dim);
    assert(sac_ref_is_rotation(&a->rotation, a->head_dim) && a->pos);
    for (int64_t row = 0; row < a->x.rows; row++)
        for (int head = 0; head < a->n_heads; head++) {
            float *x = sac_mat_row_f32(a->x, row) + (int64_t)head * a->head_dim;
            for (int i = 0; i < a->rotation.rot_dim / 2; i++) {
                sac_ref_pair p = sac_ref_pair_at(&a->rotation, i);
                double u = (double)x[p.first], v = (double)x[p.second];
                sac_ref_turn(&a->rotation, a->pos[row], i, a->back, &u, &v);
                x[p.first] = (float)u;
                x[p.second] = (float)v;
            }
        }
    return SAC_OK;
}
