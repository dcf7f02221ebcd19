/* rows.cuh - moving rows: a grid of (blocks of columns, rows), V columns a thread. */
#ifndef SAC_KERNELS_ROWS_CUH
#define SAC_KERNELS_ROWS_CUH

#include "device.cuh"

namespace sac::rows {

typedef struct rows_grid {
    dim3 blocks;
    unsigned threads;
} rows_grid;

static inline rows_grid rows_plan(int64_t rows, int64_t n_vec) {
    unsigned threads = (unsigned)min_of(256, ceil_div(n_vec, 32) * 32);
    return rows_grid{dim3((unsigned)ceil_div(n_vec, threads), (unsigned)min_of(rows, 32768)), threads};
}

/* V elements from one type to another; V is 8 for equal types on 16-byte lines, else 1. */
template <int V, typename T> __device__ __forceinline__ void move(T *to, const T *from) {
    if constexpr (V == 1)
        to[0] = from[0];
    else if constexpr (sizeof(T) == 4) {
        ((float4 *)to)[0] = ((const float4 *)from)[0];
        ((float4 *)to)[1] = ((const float4 *)from)[1];
    } else
        *(uint4 *)to = *(const uint4 *)from;
}

} // namespace sac::rows

#endif
