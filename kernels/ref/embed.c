#include "quants.h"
#include "ref.h"

sac_status sac_ref_embed(const sac_stream *s, const sac_embed_args *a) {
    (void)s;
    assert(sac_ref_is_mat(a->y) && a->ids);
    assert(a->table.tensor.data && a->table.tensor.n_dims == 2 && a->table.tensor.dim[1] == a->y.cols);
    assert(a->y.cols % sac_dtype_block(a->table.tensor.dtype) == 0);
    size_t row_bytes = sac_dtype_row_bytes(a->table.tensor.dtype, a->y.cols);
    for (int64_t i = 0; i < a->y.rows; i++) {
        int32_t id = a->ids[i];
        assert(id >= 0 && id < a->table.tensor.dim[0]);
        const char *row = (const char *)a->table.tensor.data + (size_t)id * row_bytes;
        sac_dequantize_row(a->table.tensor.dtype, row, sac_mat_row_f32(a->y, i), a->y.cols);
    }
    return SAC_OK;
}
