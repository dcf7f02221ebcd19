/* embed.cu - rows of a table of embeddings, by ids. */
#include "rows.cuh"

namespace sac::rows {

template <typename T, int V>
static __global__ void embed_kernel(T *y, const T *table, const int32_t *ids, int64_t rows, int64_t n,
                                    int64_t y_stride) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    start_next();
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y)
        move<V>(y + row * y_stride + at, table + (int64_t)ids[row] * n + at);
}

static __global__ void embed_any_kernel(sac_mat y, sac_dtype t, const void *table, const int32_t *ids,
                                        float scale) {
    int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at >= y.cols) return;
    for (int64_t row = blockIdx.y; row < y.rows; row += gridDim.y)
        store_any(y.dtype, y.data, row * y.stride + at, load_any(t, table, ids[row] * y.cols + at) * scale);
}

extern "C" sac_status sac_cuda_embed(const sac_stream *s, const sac_embed_args *a) {
    sac_dtype t = a->table.tensor.dtype;
    if (sac_dtype_block(t) > 1) return sac_cuda_embed_blocks(s, a);
    if (!is_float(t) || !is_float(a->y.dtype)) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    bool wide = t == a->y.dtype && mat_aligned(a->y) && is_aligned(a->table.tensor.data, a->y.cols);
    rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    if (t != a->y.dtype || a->scale != 0) {
        g = rows_plan(a->y.rows, a->y.cols);
        return launch(s, {g.blocks, g.threads}, embed_any_kernel, a->y, t, a->table.tensor.data, a->ids,
                      a->scale != 0 ? a->scale : 1.0f);
    }
    BY_DTYPE(t, return launch(s, {g.blocks, g.threads}, wide ? embed_kernel<T, 8> : embed_kernel<T, 1>,
                              (T *)a->y.data, (const T *)a->table.tensor.data, a->ids, a->y.rows, a->y.cols,
                              a->y.stride));
    return SAC_OK;
}

} // namespace sac::rows
