#include "ref.h"

#include <math.h>

sac_status sac_ref_join_attention(const sac_stream *s, const sac_join_attention_args *a) {
    (void)s;
    int64_t d = a->o.cols / a->n_heads;
    assert(sac_ref_is_mat(a->o) && sac_ref_is_mat(a->other) && sac_ref_same_shape(a->o, a->other));
    assert(a->lse && a->other_lse && a->n_heads > 0 && d * a->n_heads == a->o.cols);
    for (int64_t i = 0; i < a->o.rows * a->n_heads; i++) {
        float *x = sac_mat_row_f32(a->o, i / a->n_heads) + i % a->n_heads * d;
        const float *y = sac_mat_row_f32(a->other, i / a->n_heads) + i % a->n_heads * d;
        double max = fmax((double)a->lse[i], (double)a->other_lse[i]);
        if (max == -INFINITY) continue;
        double u = exp((double)a->lse[i] - max), v = exp((double)a->other_lse[i] - max);
        for (int64_t c = 0; c < d; c++) x[c] = (float)((u * (double)x[c] + v * (double)y[c]) / (u + v));
    }
    return SAC_OK;
}
