/* pool_tokens.cu - means over squares of a grid of visual tokens. */
#include "rows.cuh"

namespace sac::rows {

template <typename T, int V>
static __global__ void pool_tokens_kernel(T *y, const T *x, int64_t rows, int64_t n, int64_t y_stride,
                                          int64_t x_stride, int h, int w, int stride) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= n) return;
    int out_h = h / stride, out_w = w / stride;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        int64_t tile = row / (out_h * out_w), oy = row / out_w % out_h, ox = row % out_w;
        float sum[V] = {0};
        for (int dy = 0; dy < stride; dy++)
            for (int dx = 0; dx < stride; dx++) {
                float e[V];
                load<V>(e, x + ((tile * h + oy * stride + dy) * w + ox * stride + dx) * x_stride + at);
#pragma unroll
                for (int i = 0; i < V; i++) sum[i] += e[i];
            }
#pragma unroll
        for (int i = 0; i < V; i++) sum[i] /= (float)(stride * stride);
        store<V>(y + row * y_stride + at, sum);
    }
}

extern "C" sac_status sac_cuda_pool_tokens(const sac_stream *s, const sac_pool_tokens_args *a) {
    if (a->x.dtype != a->y.dtype) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    bool wide = mat_aligned(a->y) && mat_aligned(a->x);
    rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    BY_DTYPE(a->y.dtype, return launch(s, {g.blocks, g.threads},
                                       wide ? pool_tokens_kernel<T, 8> : pool_tokens_kernel<T, 1>,
                                       (T *)a->y.data, (const T *)a->x.data, a->y.rows, a->y.cols,
                                       a->y.stride, a->x.stride, a->h, a->w, a->stride));
    return SAC_OK;
}

} // namespace sac::rows
