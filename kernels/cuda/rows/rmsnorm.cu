/* rmsnorm.cu - y = x / sqrt(mean x^2 + eps) * w, row by row (norm.cuh). */
#include "norm.cuh"

namespace sac::rows {

template <typename T, int V>
static __global__ void __launch_bounds__(NORM_THREADS, 3)
    rmsnorm_kernel(T *y, const T *x, const float *w, int64_t rows, int n, int64_t y_stride, int64_t x_stride,
                   float eps) {
    __shared__ float part[32];
    int64_t row = norm_row(rows);
    int n_vec = n / V;
    start_next();
    wait_for_last();
    if (row < 0) return;
    const T *xr = x + row * x_stride;
    T *yr = y + row * y_stride;
    raw<T, V> now[NORM_VECTORS];
    load_row<T, V>(now, xr, n_vec);
    float sum = 0;
    for_row<T, V>(now, xr, n_vec, [&](const float *e, int) {
#pragma unroll
        for (int i = 0; i < V; i++) sum += e[i] * e[i];
    });
    float scale = 1.0f / sqrtf(block_sum(sum, part) / (float)n + eps);
    stay_packed<T, V>(now);
    for_row<T, V>(now, xr, n_vec, [&](const float *e, int at) {
        float g[V], o[V];
        load<V>(g, w + at);
#pragma unroll
        for (int i = 0; i < V; i++) o[i] = e[i] * scale * g[i];
        store<V>(yr + at, o);
    });
}

extern "C" sac_status sac_cuda_rmsnorm(const sac_stream *s, const sac_rmsnorm_args *a) {
    if (a->y.dtype != a->x.dtype) return SAC_UNSUPPORTED;
    if (!a->x.rows) return SAC_OK;
    bool wide = mat_aligned(a->x) && mat_aligned(a->y) && (uintptr_t)a->w % 16 == 0;
    if (a->x.cols > 1 << 30 || a->x.rows > 1 << 30) return SAC_UNSUPPORTED;
    dim3 threads = norm_threads(a->x.cols / (wide ? 16 / element_bytes(a->x.dtype) : 1));
    BY_DTYPE(a->x.dtype, return launch(s, early({(unsigned)ceil_div(a->x.rows, threads.y), threads}),
                                       wide ? rmsnorm_kernel<T, 16 / sizeof(T)> : rmsnorm_kernel<T, 1>,
                                       (T *)a->y.data, (const T *)a->x.data, a->w, a->x.rows, (int)a->x.cols,
                                       a->y.stride, a->x.stride, a->eps));
    return SAC_OK;
}

} // namespace sac::rows
