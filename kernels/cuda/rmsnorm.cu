#include "norm.cuh"

/* Rows in turn, so that the weights stay in the L1 cache; a row is read once and kept in registers. */
template <typename T, int V>
static __global__ void __launch_bounds__(1024) rmsnorm_kernel(T *y, const T *x, const float *w, int64_t rows, int64_t n,
                                      int64_t y_stride, int64_t x_stride, float eps) {
    __shared__ float part[32];
    int64_t n_vec = n / V;
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *xr = x + row * x_stride;
        T *yr = y + row * y_stride;
        float v[NORM_CACHED][V], sum = 0;
        for_row<T, V>(xr, n_vec, v, [&](const float *e, int64_t) {
#pragma unroll
            for (int i = 0; i < V; i++) sum += e[i] * e[i];
        });
        float scale = 1.0f / sqrtf(block_sum(sum, part) / (float)n + eps);
        for_cached<T, V>(xr, n_vec, v, [&](const float *e, int64_t at) {
            float g[V], o[V];
            load<V>(g, w + at);
#pragma unroll
            for (int i = 0; i < V; i++) o[i] = e[i] * scale * g[i];
            store<V>(yr + at, o);
        });
    }
}

extern "C" sac_status sac_cuda_rmsnorm(const sac_stream *s, const sac_rmsnorm_args *a) {
    if (a->y.dtype != a->x.dtype) return SAC_UNSUPPORTED;
    if (!a->x.rows) return SAC_OK;
    bool wide = mat_aligned(a->x) && mat_aligned(a->y) && (uintptr_t)a->w % 16 == 0;
    norm_grid g = norm_plan(s, a->x.rows, a->x.cols / (wide ? 8 : 1));
#define LAUNCH(V)                                                                                            \
    rmsnorm_kernel<T, V><<<g.blocks, g.threads, 0, cuda_stream(s)>>>(                                        \
        (T *)a->y.data, (const T *)a->x.data, a->w, a->x.rows, a->x.cols, a->y.stride, a->x.stride, a->eps)
    BY_DTYPE(a->x.dtype, wide ? LAUNCH(8) : LAUNCH(1));
    return launched();
}
