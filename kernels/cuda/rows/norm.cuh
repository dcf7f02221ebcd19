/* norm.cuh - one row a block, or, where a warp is enough for one, eight; for rmsnorm and layernorm. A row of
 * at most NORM_VECTORS vectors a thread stays in registers, as it was loaded; longer ones are read again
 * (they are still in the L2 cache). */
#ifndef SAC_KERNELS_NORM_CUH
#define SAC_KERNELS_NORM_CUH

#include "device.cuh"

namespace sac::rows {

#define NORM_VECTORS 4
#define NORM_THREADS 512

/* V elements as they lie in memory: 16 bytes or one. */
template <typename T, int V> struct alignas(sizeof(T) * V) raw { T e[V]; };

/* Keeps the compiler from carrying a row's floats over a barrier: they take twice the registers of halves. */
template <typename T, int V> __device__ __forceinline__ void stay_packed(raw<T, V> r[NORM_VECTORS]) {
    if constexpr (V > 1) {
#pragma unroll
        for (int c = 0; c < NORM_VECTORS; c++) {
            uint32_t *w = (uint32_t *)&r[c];
#pragma unroll
            for (int i = 0; i < 4; i++) asm volatile("" : "+r"(w[i]));
        }
    }
}

/* Threads of a block (x of a row, y rows): enough that a row fits in their registers. */
static inline dim3 norm_threads(int64_t n_vec) {
    int64_t threads = min_of(NORM_THREADS, ceil_div(ceil_div(n_vec, NORM_VECTORS), 32) * 32);
    return dim3((unsigned)threads, threads == 32 ? 8 : 1);
}
/* The row of a thread, -1 for none: then the block has no barriers. */
__device__ __forceinline__ int64_t norm_row(int64_t rows) {
    int64_t row = (int64_t)blockIdx.x * blockDim.y + threadIdx.y;
    return row < rows ? row : -1;
}

template <typename T, int V>
__device__ __forceinline__ void load_row(raw<T, V> r[NORM_VECTORS], const T *x, int n_vec) {
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++) {
        int i = threadIdx.x + c * blockDim.x;
        if (i < n_vec) r[c] = *(const raw<T, V> *)(x + i * V);
    }
}

/* Calls f(values, first column) for every vector of this thread. */
template <typename T, int V, typename F>
__device__ __forceinline__ void for_row(const raw<T, V> r[NORM_VECTORS], const T *x, int n_vec, F f) {
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++) {
        int i = threadIdx.x + c * blockDim.x;
        float e[V];
#pragma unroll
        for (int j = 0; j < V; j++) e[j] = to_f32(r[c].e[j]);
        if (i < n_vec) f(e, i * V);
    }
    for (int i = threadIdx.x + NORM_VECTORS * blockDim.x; i < n_vec; i += blockDim.x) {
        float e[V];
        load<V>(e, x + i * V);
        f(e, i * V);
    }
}

} // namespace sac::rows

#endif
