/* x_rounding.cuh - elements of x rounded to 8 bits as ref/weights/x_rounding.c does: of rows in memory (rounded_rows.cu), and of the
 * row that a product's blocks have in theirs (block_stream.cuh). */
#ifndef SAC_KERNELS_X_ROUNDING_CUH
#define SAC_KERNELS_X_ROUNDING_CUH

#include "weight.h"

#include <stdint.h>

namespace sac::blocks {

/* To the nearest number of e4m3, of magnitudes up to 448 (sac_round_to_e4m3). */
__device__ __forceinline__ float nearest_e4m3(float v) {
    if (fabsf(v) < 0x1p-6f) return rintf(v * 0x1p9f) * 0x1p-9f;
    const uint32_t u = __float_as_uint(v);
    return __uint_as_float((u + 0x7ffffu + (u >> 20 & 1u)) & ~0xfffffu);
}
__device__ __forceinline__ float rounded(float x, float scale, bool is_int8) {
    float v = scale != 0 ? __fdiv_rn(x, scale) : 0;
    if (is_int8) {
        v = rintf(v) > 127 ? 127 : rintf(v) < -128 ? -128 : rintf(v);
        return v * scale;
    }
    return nearest_e4m3(v > 448.0f ? 448.0f : v < -448.0f ? -448.0f : v) * scale;
}
/* Magnitudes as bits: those of a NaN are the largest. */
__device__ __forceinline__ uint32_t magnitude(float x) {
    return __float_as_uint(x) & 0x7fffffffu;
}

/* The largest of one magnitude a thread of a block. */
__device__ __forceinline__ uint32_t block_largest(uint32_t x, uint32_t *part) {
    x = __reduce_max_sync(~0u, x);
    if (blockDim.x == 32) return x; /* rows of other warps may be in this block */
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    return __reduce_max_sync(~0u, threadIdx.x % 32 < blockDim.x / 32 ? part[threadIdx.x % 32] : 0);
}
/* What a scale is made of the largest magnitude. */
__device__ __forceinline__ float scale_of(uint32_t largest, bool is_int8) {
    return __fdiv_rn(__uint_as_float(largest), is_int8 ? 127.5f : 448.0f);
}

__device__ __forceinline__ bool is_static(sac_x_rounding how) {
    return how == SAC_X_FP8_STATIC || how == SAC_X_INT8_STATIC;
}
__device__ __forceinline__ bool rounds_to_int8(sac_x_rounding how) {
    return how == SAC_X_INT8_ROWS || how == SAC_X_INT8_STATIC;
}

} // namespace sac::blocks

#endif
