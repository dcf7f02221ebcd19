#include "ref.h"

static inline bool is_rows(sac_mat m) {
    return (m.data || m.rows == 0) && m.rows >= 0 && m.cols > 0 && m.stride >= m.cols &&
           (m.dtype == SAC_DTYPE_F32 || m.dtype == SAC_DTYPE_F16 || m.dtype == SAC_DTYPE_BF16);
}

sac_status sac_ref_convert_rows(const sac_stream *s, const sac_convert_rows_args *a) {
    (void)s;
    const sac_mat y = a->y, x = a->x;
    assert(is_rows(y) && is_rows(x) && sac_ref_same_shape(y, x));
    assert(y.data != x.data ||
           (y.stride == x.stride && sac_dtype_row_bytes(y.dtype, 1) == sac_dtype_row_bytes(x.dtype, 1)));
    for (int64_t row = 0; row < y.rows; row++)
        for (int64_t i = 0; i < y.cols; i++)
            sac_ref_store(y.dtype, y.data, row * y.stride + i,
                          sac_ref_load(x.dtype, x.data, row * x.stride + i));
    return SAC_OK;
}
