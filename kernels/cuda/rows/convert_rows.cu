/* convert_rows.cu - rows of numbers in another type, in place where elements keep their size. */
#include "rows.cuh"

namespace sac::rows {

/* A thread has V neighbours of its columns, which it reads before it writes them. */
template <typename TO, typename FROM, int V>
static __global__ void convert_rows_kernel(TO *y, const FROM *x, int64_t rows, int64_t n, int64_t y_stride,
                                           int64_t x_stride) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    start_next();
    wait_for_last();
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float e[V];
        load<V>(e, x + row * x_stride + at);
        store<V>(y + row * y_stride + at, e);
    }
}

template <typename TO, typename FROM>
static sac_status run(const sac_stream *s, const sac_convert_rows_args *a) {
    const bool wide = mat_aligned(a->y) && mat_aligned(a->x);
    const rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    return launch(s, of_step({g.blocks, g.threads}),
                  wide ? convert_rows_kernel<TO, FROM, 8> : convert_rows_kernel<TO, FROM, 1>, (TO *)a->y.data,
                  (const FROM *)a->x.data, a->y.rows, a->y.cols, a->y.stride, a->x.stride);
}

template <typename TO> static sac_status from_any(const sac_stream *s, const sac_convert_rows_args *a) {
    BY_DTYPE(a->x.dtype, return (run<TO, T>(s, a)));
    return SAC_OK;
}

extern "C" sac_status sac_cuda_convert_rows(const sac_stream *s, const sac_convert_rows_args *a) {
    if (!a->y.rows) return SAC_OK;
    BY_DTYPE(a->y.dtype, return from_any<T>(s, a));
    return SAC_OK;
}

} // namespace sac::rows
