/* gemv.cuh - streaming of weights that are read once. */
#ifndef SAC_KERNELS_GEMV_CUH
#define SAC_KERNELS_GEMV_CUH

#include "device.cuh"

namespace sac::weights {

enum { LINE = 256 /* elements that a warp loads at once */ };

__device__ __forceinline__ void unpack(const uint4 &v, float x[8], bf16) {
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = __uint_as_float(w[i] << 16);
        x[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}
__device__ __forceinline__ void unpack(const uint4 &v, float x[8], half) {
    const half2 *h = (const half2 *)&v;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = __half22float2(h[i]);
        x[2 * i] = f.x;
        x[2 * i + 1] = f.y;
    }
}

__device__ __forceinline__ uint4 stream(const void *p) { /* read once: nothing else is to leave the caches */
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}

/* What is read in place of what lies behind the end: zeros, which times zeros are zero. */
static __device__ const uint4 zero_line = {0, 0, 0, 0};

} // namespace sac::weights

#endif
