#include "ref.h"

#include <string.h>

sac_status sac_ref_scatter_rows(const sac_stream *s, const sac_scatter_rows_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->y) && a->y.cols == a->x.cols && a->x.rows <= a->y.rows);
    for (int64_t i = 0; i < a->x.rows; i++) {
        const int64_t to = a->target ? a->target[i] : i;
        assert(to >= 0 && to < a->y.rows);
        float *y = sac_mat_row_f32(a->y, to);
        const float *x = sac_mat_row_f32(a->x, i);
        for (int64_t j = 0; j < a->x.cols; j++) y[j] = a->accumulate ? y[j] + x[j] : x[j];
    }
    return SAC_OK;
}
