/* activation.cuh - the activation functions between two layers of an MLP. */
#ifndef SAC_KERNELS_ACTIVATION_CUH
#define SAC_KERNELS_ACTIVATION_CUH

#include "numbers.cuh"

namespace sac {

/* As the reference computes it, as exactly as f32 can. */
__device__ __forceinline__ float activate(sac_activation act, float x) {
    switch (act) {
    case SAC_ACT_NONE: break;
    case SAC_ACT_GELU: return 0.5f * x * erfcf(-x * 0.70710678118654752440f); /* no cancellation far left */
    case SAC_ACT_GELU_TANH: return x / (1 + expf(-1.5957691216057308f * (x + 0.044715f * x * x * x)));
    case SAC_ACT_QUICK_GELU: return x / (1 + expf(-1.702f * x));
    case SAC_ACT_SILU: return x / (1 + expf(-x));
    case SAC_ACT_SIGMOID: return 1 / (1 + expf(-x));
    }
    return x;
}

/* 1 / (1 + exp(-x)) for values that will be rounded to halves: 2^-20 off, by the hardware's exponential and
 * reciprocal. */
__device__ __forceinline__ float sigmoid_fast(float x) {
    float e, r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(-LOG2_E * x));
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(1 + e));
    return r;
}
template <typename T> __device__ __forceinline__ float activate_as(sac_activation act, float x) {
    if constexpr (sizeof(T) == 2) {
        if (act == SAC_ACT_QUICK_GELU) return x * sigmoid_fast(1.702f * x);
        if (act == SAC_ACT_SILU) return x * sigmoid_fast(x);
        if (act == SAC_ACT_SIGMOID) return sigmoid_fast(x);
        if (act == SAC_ACT_GELU_TANH)
            return x * sigmoid_fast(1.5957691216057308f * (x + 0.044715f * x * x * x));
    }
    return activate(act, x);
}

} // namespace sac

#endif
