/* scatter_rows.cu - rows put to, or added to, rows by their numbers. */
#include "rows.cuh"

namespace sac::rows {

template <typename T, int V, bool ADD>
static __global__ void scatter_rows_kernel(T *y, const T *x, const int32_t *target, int64_t rows, int64_t n,
                                           int64_t y_stride, int64_t x_stride) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        T *to = y + (target ? target[row] : row) * y_stride + at;
        const T *from = x + row * x_stride + at;
        if constexpr (ADD) {
            float e[V], f[V];
            load<V>(e, to);
            load<V>(f, from);
#pragma unroll
            for (int i = 0; i < V; i++) e[i] += f[i];
            store<V>(to, e);
        } else {
            move<V>(to, from);
        }
    }
}

template <typename T> static auto kernel_for(bool wide, bool add) {
    if (add) return wide ? scatter_rows_kernel<T, 8, true> : scatter_rows_kernel<T, 1, true>;
    return wide ? scatter_rows_kernel<T, 8, false> : scatter_rows_kernel<T, 1, false>;
}

extern "C" sac_status sac_cuda_scatter_rows(const sac_stream *s, const sac_scatter_rows_args *a) {
    if (a->x.dtype != a->y.dtype) return SAC_UNSUPPORTED;
    if (!a->x.rows) return SAC_OK;
    bool wide = mat_aligned(a->y) && mat_aligned(a->x);
    rows_grid g = rows_plan(a->x.rows, a->x.cols / (wide ? 8 : 1));
    BY_DTYPE(a->y.dtype,
             return launch(s, {g.blocks, g.threads}, kernel_for<T>(wide, a->accumulate), (T *)a->y.data,
                           (const T *)a->x.data, a->target, a->x.rows, a->x.cols, a->y.stride, a->x.stride));
    return SAC_OK;
}

} // namespace sac::rows
