/* numbers.cuh - numbers as kernels read and write them: f32, f16 or bf16 in memory, f32 in registers. A
 * template parameter T is the type in memory. */
#ifndef SAC_KERNELS_NUMBERS_CUH
#define SAC_KERNELS_NUMBERS_CUH

#include "cuda_ops.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <math_constants.h>

namespace sac {

typedef __nv_bfloat16 bf16;

__device__ __forceinline__ float to_f32(float x) {
    return x;
}
__device__ __forceinline__ float to_f32(half x) {
    return __half2float(x);
}
__device__ __forceinline__ float to_f32(bf16 x) {
    return __bfloat162float(x);
}
template <typename T> __device__ __forceinline__ T from_f32(float x);
template <> __device__ __forceinline__ float from_f32<float>(float x) {
    return x;
}
template <> __device__ __forceinline__ half from_f32<half>(float x) {
    return __float2half_rn(x);
}
template <> __device__ __forceinline__ bf16 from_f32<bf16>(float x) {
    return __float2bfloat16_rn(x);
}

/* V neighbours at once: 1, or a multiple of 8 on a line of 16 bytes (one access for eight halves, two for
 * f32). */
template <int V, typename T> __device__ __forceinline__ void load(float *x, const T *p) {
    if constexpr (V == 1) {
        x[0] = to_f32(p[0]);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < V; i += 4) {
            float4 v = *(const float4 *)(p + i);
            x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
        }
    } else {
        static_assert(V % 8 == 0, "16 bytes");
#pragma unroll
        for (int i = 0; i < V; i += 8) {
            uint4 v = *(const uint4 *)(p + i);
            const T *e = (const T *)&v;
#pragma unroll
            for (int j = 0; j < 8; j++) x[i + j] = to_f32(e[j]);
        }
    }
}
template <int V, typename T> __device__ __forceinline__ void store(T *p, const float *x) {
    if constexpr (V == 1) {
        p[0] = from_f32<T>(x[0]);
    } else if constexpr (sizeof(T) == 4) {
#pragma unroll
        for (int i = 0; i < V; i += 4) *(float4 *)(p + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
    } else {
#pragma unroll
        for (int i = 0; i < V; i += 8) {
            uint4 v;
            T *e = (T *)&v;
#pragma unroll
            for (int j = 0; j < 8; j++) e[j] = from_f32<T>(x[i + j]);
            *(uint4 *)(p + i) = v;
        }
    }
}

/* One element of a type known at run time: for paths that are not about speed. */
__device__ __forceinline__ float load_any(sac_dtype t, const void *p, int64_t i) {
    return t == SAC_DTYPE_F32   ? ((const float *)p)[i]
           : t == SAC_DTYPE_F16 ? to_f32(((const half *)p)[i])
                                : to_f32(((const bf16 *)p)[i]);
}
__device__ __forceinline__ void store_any(sac_dtype t, void *p, int64_t i, float x) {
    if (t == SAC_DTYPE_F32)
        ((float *)p)[i] = x;
    else if (t == SAC_DTYPE_F16)
        ((half *)p)[i] = from_f32<half>(x);
    else
        ((bf16 *)p)[i] = from_f32<bf16>(x);
}

/* The power of two as the hardware has it: 2 units in the last place off, exp2(-inf) = 0. */
__device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
constexpr float LOG2_E = 1.44269504088896340736f, LN_2 = 0.69314718055994530942f;

static inline bool is_float(sac_dtype t) {
    return t == SAC_DTYPE_F32 || t == SAC_DTYPE_F16 || t == SAC_DTYPE_BF16;
}
static inline bool is_half(sac_dtype t) {
    return t == SAC_DTYPE_F16 || t == SAC_DTYPE_BF16;
}
static inline int64_t element_bytes(sac_dtype t) {
    return t == SAC_DTYPE_F32 ? 4 : 2;
}

} // namespace sac

/* Runs `call` with T as the C type of a float dtype. */
#define BY_DTYPE(dtype, call)                                                                                \
    switch (dtype) {                                                                                         \
    case SAC_DTYPE_F32: {                                                                                    \
        using T = float;                                                                                     \
        call;                                                                                                \
    } break;                                                                                                 \
    case SAC_DTYPE_F16: {                                                                                    \
        using T = half;                                                                                      \
        call;                                                                                                \
    } break;                                                                                                 \
    case SAC_DTYPE_BF16: {                                                                                   \
        using T = bf16;                                                                                      \
        call;                                                                                                \
    } break;                                                                                                 \
    default: return SAC_UNSUPPORTED;                                                                         \
    }

#endif
