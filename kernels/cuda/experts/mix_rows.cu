/* mix_rows.cu - y = the weighted sum of a few rows of x, added up in their order. */
#include "rows.cuh"

namespace sac::experts {

using rows::rows_grid;
using rows::rows_plan;

template <typename T, int V>
static __global__ void mix_rows_kernel(T *y, const T *x, const float *weights, const int32_t *place,
                                       int n_used, int64_t rows, int64_t n, int64_t y_stride,
                                       int64_t x_stride, bool accumulate) {
    const int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    start_next();
    wait_for_last();
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float sum[V] = {}, e[V];
        for (int64_t j = row * n_used; j < (row + 1) * n_used; j++) {
            const float weight = weights[j];
            load<V>(e, x + place[j] * x_stride + at);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += weight * e[i];
        }
        if (accumulate) {
            load<V>(e, y + row * y_stride + at);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += e[i];
        }
        store<V>(y + row * y_stride + at, sum);
    }
}

extern "C" sac_status sac_cuda_mix_rows(const sac_stream *s, const sac_mix_rows_args *a) {
    if (a->x.dtype != a->y.dtype) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    const bool wide = mat_aligned(a->y) && a->x.cols % 8 == 0 && is_aligned(a->x.data, a->x.stride);
    const rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    BY_DTYPE(a->y.dtype, return launch(s, early({g.blocks, g.threads}),
                                       wide ? mix_rows_kernel<T, 8> : mix_rows_kernel<T, 1>, (T *)a->y.data,
                                       (const T *)a->x.data, a->weights, a->place, a->n_used, a->y.rows,
                                       a->y.cols, a->y.stride, a->x.stride, a->accumulate));
    return SAC_OK;
}

} // namespace sac::experts
