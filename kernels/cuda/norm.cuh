/* norm.cuh - one row a block at a time, for rmsnorm and layernorm. The first NORM_CACHED vectors of a thread
 * stay in registers; longer rows are read again (they are still in the L2 cache). */
#ifndef SAC_KERNELS_NORM_CUH
#define SAC_KERNELS_NORM_CUH

#include "device.cuh"

#define NORM_CACHED 4

typedef struct norm_grid {
    unsigned blocks, threads;
} norm_grid;

/* Enough threads that a row fits in their registers; enough blocks to fill the card. */
static inline norm_grid norm_plan(const sac_stream *s, int64_t rows, int64_t n_vec) {
    int64_t threads = ceil_div(ceil_div(n_vec, NORM_CACHED), 32) * 32;
    threads = threads > 1024 ? 1024 : threads;
    int64_t resident = s->device->n_processors * max_of(1, 2048 / threads);
    return norm_grid{(unsigned)min_of(rows, resident), (unsigned)threads};
}

/* Calls f(values, first column) for every vector of this thread, filling v with the first of them. */
template <typename T, int V, typename F>
__device__ __forceinline__ void for_row(const T *x, int64_t n_vec, float v[NORM_CACHED][V], F f) {
#pragma unroll
    for (int c = 0; c < NORM_CACHED; c++) {
        int64_t i = threadIdx.x + (int64_t)c * blockDim.x;
        if (i < n_vec) load<V>(v[c], x + i * V);
    }
#pragma unroll
    for (int c = 0; c < NORM_CACHED; c++) {
        int64_t i = threadIdx.x + (int64_t)c * blockDim.x;
        if (i < n_vec) f(v[c], i * V);
    }
    for (int64_t i = threadIdx.x + (int64_t)NORM_CACHED * blockDim.x; i < n_vec; i += blockDim.x) {
        float e[V];
        load<V>(e, x + i * V);
        f(e, i * V);
    }
}
/* The same over what for_row has kept. */
template <typename T, int V, typename F>
__device__ __forceinline__ void for_cached(const T *x, int64_t n_vec, const float v[NORM_CACHED][V], F f) {
#pragma unroll
    for (int c = 0; c < NORM_CACHED; c++) {
        int64_t i = threadIdx.x + (int64_t)c * blockDim.x;
        if (i < n_vec) f(v[c], i * V);
    }
    for (int64_t i = threadIdx.x + (int64_t)NORM_CACHED * blockDim.x; i < n_vec; i += blockDim.x) {
        float e[V];
        load<V>(e, x + i * V);
        f(e, i * V);
    }
}

#endif
