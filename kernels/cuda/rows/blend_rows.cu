/* blend_rows.cu - weighted sums of rows by a table: a grid of visual tokens resized. */
#include "rows.cuh"

namespace sac::rows {

template <typename T, int V>
static __global__ void blend_rows_kernel(T *y, const T *x, const int32_t *source, const float *weight,
                                         const float *fill, int64_t rows, int64_t table, int64_t x_rows,
                                         int64_t n, int64_t y_stride, int64_t x_stride) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        const int32_t *from = source + row % table * SAC_BLEND_TAPS;
        const float *by = weight + row % table * SAC_BLEND_TAPS;
        float sum[V] = {0};
        for (int k = 0; k < SAC_BLEND_TAPS && from[0] >= 0; k++) {
            float e[V];
            load<V>(e, x + (row / table * x_rows + from[k]) * x_stride + at);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += by[k] * e[i];
        }
        if (from[0] < 0) {
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] = fill[at + i];
        }
        store<V>(y + row * y_stride + at, sum);
    }
}

extern "C" sac_status sac_cuda_blend_rows(const sac_stream *s, const sac_blend_rows_args *a) {
    if (a->x.dtype != a->y.dtype) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    bool wide = mat_aligned(a->y) && mat_aligned(a->x);
    rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    BY_DTYPE(a->y.dtype,
             return launch(s, {g.blocks, g.threads}, wide ? blend_rows_kernel<T, 8> : blend_rows_kernel<T, 1>,
                           (T *)a->y.data, (const T *)a->x.data, a->source, a->weight, a->fill, a->y.rows,
                           a->y.rows / a->n_tiles, a->x.rows / a->n_tiles, a->y.cols, a->y.stride,
                           a->x.stride));
    return SAC_OK;
}

} // namespace sac::rows
