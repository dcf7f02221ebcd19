/* half_weights.cuh - weights stored as f16 or bf16, as the products that read them once see them
 * (stream_pairs.cuh, stream_tiles.cuh): from memory past the caches into registers.
 *
 * This is where other formats come in. A product that streams a matrix has the format as a template
 * parameter, a struct like half_weights; another format is another such struct, in a file beside this one. */
#ifndef SAC_KERNELS_HALF_WEIGHTS_CUH
#define SAC_KERNELS_HALF_WEIGHTS_CUH

#include "device.cuh"

namespace sac::weights {

__device__ __forceinline__ void unpack_eight(const uint4 &v, float x[8], bf16) {
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = __uint_as_float(w[i] << 16);
        x[2 * i + 1] = __uint_as_float(w[i] & 0xffff0000u);
    }
}
__device__ __forceinline__ void unpack_eight(const uint4 &v, float x[8], half) {
    const half2 *h = (const half2 *)&v;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float2 f = __half22float2(h[i]);
        x[2 * i] = f.x;
        x[2 * i + 1] = f.y;
    }
}

/* What is read in place of what lies behind the end: zeros, which times zeros are zero. */
static __device__ const uint4 zero_line = {0, 0, 0, 0};

template <typename T> struct half_weights {
    typedef T number;                          /* what activations are in that meet these weights */
    typedef T stored;                          /* what rows of the matrix are an array of */
    typedef uint4 share;                       /* what a lane has of a line */
    static const int LINE = 256;               /* numbers that a warp loads at once */
    static const int LINE_STORED = LINE;       /* how far the next line of a row is */
    static const int SHARE_STORED = LINE / 32; /* how far the next lane's share is */

    /* Asks for a share. It is read once: nothing else is to leave the caches for it. */
    static __device__ __forceinline__ share load(const void *p) {
        uint4 v;
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "l"(p));
        return v;
    }
    static __device__ __forceinline__ void unpack(const share &s, float x[LINE / 32]) {
        unpack_eight(s, x, T());
    }
};

} // namespace sac::weights

#endif
