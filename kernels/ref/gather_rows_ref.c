#include "ref.h"

#include <string.h>

sac_status sac_ref_gather_rows(const sac_stream *s, const sac_gather_rows_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->y) && a->y.cols == a->x.cols && a->source);
    for (int64_t i = 0; i < a->y.rows; i++) {
        int32_t from = a->source[i];
        assert(from >= -1 && from < a->x.rows && (from >= 0 || a->fill));
        const float *row = from < 0 ? a->fill : sac_mat_row_f32(a->x, from);
        memcpy(sac_mat_row_f32(a->y, i), row, (size_t)a->y.cols * sizeof(float));
    }
    return SAC_OK;
}
