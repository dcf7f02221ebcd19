/* blend_rows.cu - weighted sums of rows by a table: a grid of visual tokens, or of positions, resized. */
#include "rows.cuh"

namespace sac::rows {

struct blend {
    const int32_t *source; /* [table][SAC_BLEND_TAPS] */
    const float *weight, *fill;
    int64_t rows, table, n;
    int64_t x_rows; /* from one tile's rows of x to the next's */
    int64_t y_stride, x_stride;
    bool accumulate;
};

/* X: the type of x, which is T or float. */
template <typename T, typename X, int V>
static __global__ void blend_rows_kernel(T *y, const X *x, const blend b) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    if (at >= b.n) return;
    for (int64_t row = blockIdx.y; row < b.rows; row += gridDim.y) {
        const int32_t *from = b.source + row % b.table * SAC_BLEND_TAPS;
        const float *by = b.weight + row % b.table * SAC_BLEND_TAPS;
        float sum[V] = {0}, e[V];
        for (int k = 0; k < SAC_BLEND_TAPS && from[0] >= 0; k++) {
            load<V>(e, x + (row / b.table * b.x_rows + from[k]) * b.x_stride + at);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += by[k] * e[i];
        }
        if (from[0] < 0) {
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] = b.fill[at + i];
        }
        T *to = y + row * b.y_stride + at;
        if (b.accumulate) {
            load<V>(e, to);
#pragma unroll
            for (int i = 0; i < V; i++) sum[i] += e[i];
        }
        store<V>(to, sum);
    }
}

template <typename T, typename X>
static sac_status run_from(const sac_stream *s, const sac_blend_rows_args *a, const blend *b) {
    bool wide = mat_aligned(a->y) && mat_aligned(a->x);
    rows_grid g = rows_plan(b->rows, b->n / (wide ? 8 : 1));
    return launch(s, {g.blocks, g.threads}, wide ? blend_rows_kernel<T, X, 8> : blend_rows_kernel<T, X, 1>,
                  (T *)a->y.data, (const X *)a->x.data, *b);
}

template <typename T>
static sac_status run(const sac_stream *s, const sac_blend_rows_args *a, const blend *b) {
    return a->x.dtype == a->y.dtype ? run_from<T, T>(s, a, b) : run_from<T, float>(s, a, b);
}

extern "C" sac_status sac_cuda_blend_rows(const sac_stream *s, const sac_blend_rows_args *a) {
    if (a->x.dtype != a->y.dtype && a->x.dtype != SAC_DTYPE_F32) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    const blend b = {.source = a->source,
                     .weight = a->weight,
                     .fill = a->fill,
                     .rows = a->y.rows,
                     .table = a->y.rows / a->n_tiles,
                     .n = a->y.cols,
                     .x_rows = a->shared ? 0 : a->x.rows / a->n_tiles,
                     .y_stride = a->y.stride,
                     .x_stride = a->x.stride,
                     .accumulate = a->accumulate};
    BY_DTYPE(a->y.dtype, return run<T>(s, a, &b));
    return SAC_OK;
}

} // namespace sac::rows
