#include "ref.h"

#include <string.h>

/* In f32, in the order of the rows: methods compare such means, so their bits are part of the contract here.
 */
sac_status sac_ref_mean_rows(const sac_stream *s, const sac_mean_rows_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->x) && a->x.rows > 0 && a->y);
    memcpy(a->y, sac_mat_row_f32(a->x, 0), (size_t)a->x.cols * sizeof(float));
    for (int64_t i = 1; i < a->x.rows; i++)
        for (int64_t c = 0; c < a->x.cols; c++) a->y[c] += sac_mat_row_f32(a->x, i)[c];
    for (int64_t c = 0; c < a->x.cols; c++) a->y[c] *= a->scale;
    return SAC_OK;
}
