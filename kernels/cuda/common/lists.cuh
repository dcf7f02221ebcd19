/* lists.cuh - row lists and rotations inside a kernel. */
#ifndef SAC_KERNELS_LISTS_CUH
#define SAC_KERNELS_LISTS_CUH

#include "device.cuh"

namespace sac {

/* Channel c of a key turned back by `pos` positions; `at` is the key's channel 0. */
__device__ __forceinline__ float turned_back(sac_dtype t, const void *k, int64_t at, int c,
                                             const sac_rotation &r, int64_t pos) {
    float x = load_any(t, k, at + c);
    if (c >= r.rot_dim) return x;
    int half = r.rot_dim / 2, i = r.interleaved ? c / 2 : c % half;
    bool first = r.interleaved ? c % 2 == 0 : c < half;
    float y = load_any(t, k, at + (r.interleaved ? c ^ 1 : first ? c + half : c - half));
    float cos = r.cos_sin[pos * r.rot_dim + 2 * i] / r.factor;
    float sin = -r.cos_sin[pos * r.rot_dim + 2 * i + 1] / r.factor;
    return first ? x * cos - y * sin : x * cos + y * sin;
}

/* Over a block of WARPS warps, the same in every thread. part [WARPS] is free again after the next barrier.
 */
template <int WARPS, typename X> __device__ __forceinline__ X block_total(X x, X *part) {
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(0xffffffffu, x, i);
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = 0;
#pragma unroll
    for (int i = 0; i < WARPS; i++) x += part[i];
    return x;
}

} // namespace sac

#endif
