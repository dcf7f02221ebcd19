/* scale_add.cu - y += x, each column of x times its scale, or all times one factor. */
#include "rows.cuh"

namespace sac::rows {

template <typename T, int V>
static __global__ void scale_add_kernel(T *y, const T *x, const float *scale, int64_t rows, int64_t n,
                                        int64_t y_stride, int64_t x_stride, float factor) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float sum[V], e[V];
        load<V>(sum, y + row * y_stride + at);
        load<V>(e, x + row * x_stride + at);
#pragma unroll
        for (int i = 0; i < V; i++) sum[i] += e[i] * (scale ? scale[at + i] : factor);
        store<V>(y + row * y_stride + at, sum);
    }
}

extern "C" sac_status sac_cuda_scale_add(const sac_stream *s, const sac_scale_add_args *a) {
    if (a->x.dtype != a->y.dtype) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    bool wide = mat_aligned(a->y) && mat_aligned(a->x);
    rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    BY_DTYPE(a->y.dtype,
             return launch(s, {g.blocks, g.threads}, wide ? scale_add_kernel<T, 8> : scale_add_kernel<T, 1>,
                           (T *)a->y.data, (const T *)a->x.data, a->scale, a->y.rows, a->y.cols, a->y.stride,
                           a->x.stride, a->factor != 0 ? a->factor : 1.0f));
    return SAC_OK;
}

} // namespace sac::rows
