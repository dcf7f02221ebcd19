/* reduce.cuh - sums, maxima and running sums over the lanes of a warp and the threads of a block. All of
 * them add in a fixed order, so a result's bits do not depend on which warp was faster. */
#ifndef SAC_KERNELS_REDUCE_CUH
#define SAC_KERNELS_REDUCE_CUH

#include "numbers.cuh"

namespace sac {

/* ---------------------------------------------------------------- a warp: the result is in every lane */

template <typename X> __device__ __forceinline__ X warp_sum(X x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
    return x;
}
__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, i));
    return x;
}
/* The largest of one number a lane and the sum of another. */
__device__ __forceinline__ void warp_max_and_sum(float &max, float &sum) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, i));
        sum += __shfl_xor_sync(0xffffffffu, sum, i);
    }
}
/* The smallest of one number a lane and the largest of another. */
__device__ __forceinline__ float2 warp_range(float min, float max) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) {
        min = fminf(min, __shfl_xor_sync(0xffffffffu, min, i));
        max = fmaxf(max, __shfl_xor_sync(0xffffffffu, max, i));
    }
    return make_float2(min, max);
}

/* The sum of the lanes up to and with this one. */
__device__ __forceinline__ int warp_sum_to(int x) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 1; i < 32; i *= 2) {
        int before = __shfl_up_sync(0xffffffffu, x, i);
        if (lane >= i) x += before;
    }
    return x;
}

/* ---------------------------------------------------------------- four neighbouring lanes, which share a
 * row of a tensor-core product (mma.cuh) */

__device__ __forceinline__ float quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    x += __shfl_xor_sync(0xffffffffu, x, 2);
    return x;
}
__device__ __forceinline__ float quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
    return x;
}

/* ---------------------------------------------------------------- a block of whole warps: the result is
 * in every thread. `part` is shared memory that is free again after the next barrier. */

/* Any number of warps; part [32]. */
__device__ __forceinline__ float block_sum(float x, float *part) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = blockDim.x / 32;
    x = warp_sum(x);
    if (n == 1) return x;
    __syncthreads(); /* the last sum has been read by all */
    if (lane == 0) part[warp] = x;
    __syncthreads();
    return warp_sum(lane < n ? part[lane] : 0.0f);
}
__device__ __forceinline__ float block_max(float x, float *part) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = blockDim.x / 32;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0) part[warp] = x;
    __syncthreads();
    return warp_max(lane < n ? part[lane] : -CUDART_INF_F);
}

/* WARPS warps; part [WARPS]. */
template <int WARPS, typename X> __device__ __forceinline__ X block_sum_of(X x, X *part) {
    x = warp_sum(x);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) x += part[i];
    return x;
}
template <int WARPS> __device__ __forceinline__ float block_max_of(float x, float *part) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0) part[warp] = x;
    __syncthreads();
    x = part[0];
#pragma unroll
    for (int i = 1; i < WARPS; i++) x = fmaxf(x, part[i]);
    return x;
}

/* The sum of the threads before this one, and of all; part [33]. */
__device__ __forceinline__ int block_sum_before(int x, int *total, int *part) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32, sum = warp_sum_to(x);
    __syncthreads();
    if (lane == 31) part[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int y = lane < n_warps ? part[lane] : 0, z = warp_sum_to(y);
        part[lane] = z - y;
        if (lane == 31) part[32] = z;
    }
    __syncthreads();
    *total = part[32];
    return part[warp] + sum - x;
}
/* The same for 32 warps and without the total: one barrier. part [32] is not to be in use by the sum
 * before. */
__device__ __forceinline__ int block_sum_before(int x, int *part) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, sum = warp_sum_to(x);
    if (lane == 31) part[warp] = sum;
    __syncthreads();
    return __reduce_add_sync(0xffffffffu, lane < warp ? part[lane] : 0) + sum - x;
}

/* ---------------------------------------------------------------- blocks */

/* One of n that come: how many came before. The counter is 0 again after the last, which sees what those
 * before it wrote (lighter than __threadfence() on both sides). */
__device__ __forceinline__ unsigned count_in(unsigned *counter, unsigned n) {
#ifdef __CUDA_ARCH__
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(counter), "r"(n - 1)
                 : "memory");
    return before;
#else
    (void)counter;
    return n;
#endif
}

} // namespace sac

#endif
