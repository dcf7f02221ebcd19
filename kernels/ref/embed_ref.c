#include "ref.h"
#include "weights/ref_weights.h"

sac_status sac_ref_embed(const sac_stream *s, const sac_embed_args *a) {
    const sac_ref_weight *format = sac_ref_weight_of(&a->table);
    (void)s;
    assert(sac_ref_is_mat(a->y) && a->ids);
    assert(format->holds(&a->table, a->table.tensor.dim[0], a->y.cols));
    for (int64_t i = 0; i < a->y.rows; i++) {
        int32_t id = a->ids[i];
        assert(id >= 0 && id < a->table.tensor.dim[0]);
        float *y = sac_mat_row_f32(a->y, i);
        format->row(&a->table, id, a->y.cols, y);
        for (int64_t c = 0; c < a->y.cols && a->scale != 0; c++) y[c] *= a->scale;
    }
    return SAC_OK;
}
