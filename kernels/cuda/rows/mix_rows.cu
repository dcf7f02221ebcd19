/* mix_rows.cu - weighted rows of a table added to rows. */
#include "rows.cuh"

namespace sac::rows {

template <typename T, int V>
static __global__ void mix_rows_kernel(T *y, const float *table, const int32_t *source, const float *weight,
                                       int64_t rows, int64_t n, int64_t y_stride, int64_t period,
                                       int n_taps) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        const int64_t first = row % period * n_taps;
        T *to = y + row * y_stride + at;
        float sum[V] = {0}, e[V];
        for (int k = 0; k < n_taps; k++) {
            const float w = weight[first + k];
            load<V>(e, table + source[first + k] * n + at);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += w * e[i];
        }
        load<V>(e, to);
#pragma unroll
        for (int i = 0; i < V; i++) sum[i] += e[i];
        store<V>(to, sum);
    }
}

extern "C" sac_status sac_cuda_mix_rows(const sac_stream *s, const sac_mix_rows_args *a) {
    if (!a->y.rows) return SAC_OK;
    bool wide = mat_aligned(a->y) && (uintptr_t)a->table % 16 == 0 && a->y.cols % 8 == 0;
    rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    BY_DTYPE(a->y.dtype,
             return launch(s, {g.blocks, g.threads}, wide ? mix_rows_kernel<T, 8> : mix_rows_kernel<T, 1>,
                           (T *)a->y.data, a->table, a->source, a->weight, a->y.rows, a->y.cols, a->y.stride,
                           a->period, a->n_taps));
    return SAC_OK;
}

} // namespace sac::rows
