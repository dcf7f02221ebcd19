/* swiglu.cu - y = act(gate) * up, or act(gate) alone. */
#include "rows.cuh"

namespace sac::rows {

template <typename T, int V>
static __global__ void swiglu_kernel(T *y, const T *gate, const T *up, int64_t rows, int64_t n,
                                     int64_t y_stride, int64_t gate_stride, int64_t up_stride,
                                     sac_activation act) {
    int64_t at = ((int64_t)blockIdx.x * blockDim.x + threadIdx.x) * V;
    start_next();
    wait_for_last();
    if (at >= n) return;
    for (int64_t row = blockIdx.y; row < rows; row += gridDim.y) {
        float g[V], u[V];
        load<V>(g, gate + row * gate_stride + at);
        if (up) load<V>(u, up + row * up_stride + at);
#pragma unroll
        for (int i = 0; i < V; i++) g[i] = activate_as<T>(act, g[i]) * (up ? u[i] : 1);
        store<V>(y + row * y_stride + at, g);
    }
}

extern "C" sac_status sac_cuda_swiglu(const sac_stream *s, const sac_swiglu_args *a) {
    const bool has_up = a->up.data != NULL;
    if (a->gate.dtype != a->y.dtype || (has_up && a->up.dtype != a->y.dtype)) return SAC_UNSUPPORTED;
    if (!a->y.rows) return SAC_OK;
    bool wide = mat_aligned(a->y) && mat_aligned(a->gate) && (!has_up || mat_aligned(a->up));
    rows_grid g = rows_plan(a->y.rows, a->y.cols / (wide ? 8 : 1));
    BY_DTYPE(a->y.dtype,
             return launch(s, early({g.blocks, g.threads}), wide ? swiglu_kernel<T, 8> : swiglu_kernel<T, 1>,
                           (T *)a->y.data, (const T *)a->gate.data, (const T *)a->up.data, a->y.rows,
                           a->y.cols, a->y.stride, a->gate.stride, a->up.stride,
                           sac_gate_activation(a->act)));
    return SAC_OK;
}

} // namespace sac::rows
