/* gather_rows.cu - rows by their numbers, put one behind the other; a row of `fill` where there is none. */
#include "rows.cuh"

namespace sac::rows {

template <typename T, int V>
static __global__ void gather_rows_kernel(T *y, const T *x, const int32_t *source, const float *fill,
                                          int64_t rows, int64_t n, int64_t y_stride, int64_t x_stride) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        int32_t from = source[row];
        if (from >= 0) {
            move<V>(y + row * y_stride + at, x + from * x_stride + at);
            continue;
        }
        float f[V];
#pragma unroll
        for (int i = 0; i < V; i++) f[i] = fill[at + i];
        store<V>(y + row * y_stride + at, f);
    }
}

extern "C" sac_status sac_cuda_gather_rows(const sac_stream *s, const sac_gather_rows_args *a) {
    if (a->x.dtype != a->y.dtype) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    bool wide = mat_aligned(a->y) && a->x.cols % 8 == 0 && is_aligned(a->x.data, a->x.stride);
    rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    BY_DTYPE(a->y.dtype, return launch(s, {g.blocks, g.threads},
                                       wide ? gather_rows_kernel<T, 8> : gather_rows_kernel<T, 1>,
                                       (T *)a->y.data, (const T *)a->x.data, a->source, a->fill, a->y.rows,
                                       a->y.cols, a->y.stride, a->x.stride));
    return SAC_OK;
}

} // namespace sac::rows
