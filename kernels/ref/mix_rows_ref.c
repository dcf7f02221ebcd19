#include "ref.h"

sac_status sac_ref_mix_rows(const sac_stream *s, const sac_mix_rows_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->y) && a->table && a->source && a->weight && a->period > 0 && a->n_taps > 0);
    for (int64_t i = 0; i < a->y.rows; i++) {
        const int64_t first = i % a->period * a->n_taps;
        float *y = sac_mat_row_f32(a->y, i);
        for (int k = 0; k < a->n_taps; k++)
            assert(a->source[first + k] >= 0 && a->source[first + k] < a->table_rows);
        for (int64_t j = 0; j < a->y.cols; j++) {
            double sum = 0;
            for (int k = 0; k < a->n_taps; k++)
                sum += (double)a->weight[first + k] * (double)a->table[a->source[first + k] * a->y.cols + j];
            y[j] = (float)((double)y[j] + sum);
        }
    }
    return SAC_OK;
}
