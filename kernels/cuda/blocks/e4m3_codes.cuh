/* e4m3_codes.cuh - elements of x as codes of e4m3, and what a scale needs: for kernels that do nothing else (linear_e4m3.cu), and for a product's
 * own threads (row_e4m3.cuh). */
#ifndef SAC_KERNELS_E4M3_CODES_CUH
#define SAC_KERNELS_E4M3_CODES_CUH

#include "norm.cuh"
#include "x_rounding.cuh"

#include <cuda_fp8.h>

namespace sac::blocks {

using namespace sac::rows;

/* Elements that share a scale where a row has several, and lanes that have them. */
enum { E4M3_UNIT = 128, UNIT_LANES = E4M3_UNIT / 8 };

/* The threads that have a row: all of a block, or others with the same functions. */
struct whole_block {
    __device__ __forceinline__ static int threads(void) { return blockDim.x; }
    __device__ __forceinline__ static void meet(void) { __syncthreads(); }
};

/* Sums and largest of one number a thread; part [32], free before the call. */
template <typename TEAM> __device__ __forceinline__ float team_sum(float x, uint32_t *part) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = TEAM::threads() / 32;
    x = warp_sum(x);
    if (n == 1) return x;
    if (lane == 0) part[warp] = __float_as_uint(x);
    TEAM::meet();
    x = warp_sum(lane < n ? __uint_as_float(part[lane]) : 0.0f);
    TEAM::meet();
    return x;
}
template <typename TEAM> __device__ __forceinline__ uint32_t team_largest(uint32_t x, uint32_t *part) {
    const int n = TEAM::threads() / 32;
    x = __reduce_max_sync(~0u, x);
    if (n == 1) return x; /* rows of other warps may be in this block */
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    TEAM::meet();
    return __reduce_max_sync(~0u, threadIdx.x % 32 < n ? part[threadIdx.x % 32] : 0);
}

__device__ __forceinline__ uint2 eight_codes(const float e[8], float scale) {
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = scale != 0 ? __fdiv_rn(e[i], scale) : 0;
    uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        two[i] = __nv_cvt_float2_to_fp8x2(make_float2(v[2 * i], v[2 * i + 1]), __NV_SATFINITE, __NV_E4M3);
    return make_uint2(two[0] | two[1] << 16, two[2] | two[3] << 16);
}

template <typename T> __device__ __forceinline__ void unpack_eight(float e[8], const raw<T, 8> &r) {
#pragma unroll
    for (int i = 0; i < 8; i++) e[i] = to_f32(r.e[i]);
}
__device__ __forceinline__ uint32_t largest_of_eight(const float e[8], uint32_t largest) {
#pragma unroll
    for (int i = 0; i < 8; i++) largest = max(largest, magnitude(e[i]));
    return largest;
}

} // namespace sac::blocks

#endif
