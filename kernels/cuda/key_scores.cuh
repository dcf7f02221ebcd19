/* key_scores.cuh - queries in f32 as operands of tensor cores: cut into three halves, q = a + b + c, whose
 * products with a half are exact in f32. For f16 keys a query is first brought near 1 by a power of two, so
 * that the parts are numbers that f16 has. */
#ifndef SAC_KERNELS_KEY_SCORES_CUH
#define SAC_KERNELS_KEY_SCORES_CUH

#include "mma.cuh"

/* The three parts of two neighbours of the query, packed. */
template <typename T>
__device__ __forceinline__ void cut(float x, float y, uint32_t &a, uint32_t &b, uint32_t &c) {
    float xa = to_f32(from_f32<T>(x)), ya = to_f32(from_f32<T>(y));
    float xb = to_f32(from_f32<T>(x - xa)), yb = to_f32(from_f32<T>(y - ya));
    a = pack<T>(xa, ya);
    b = pack<T>(xb, yb);
    c = pack<T>(x - xa - xb, y - ya - yb);
}

/* The power of two that brings `top`, the largest of a head's |q|, to [1, 2). */
__device__ __forceinline__ float unit_below(float top) {
    top = warp_max(top);
    return top > 0 && top < CUDART_INF_F ? exp2f(floorf(log2f(top))) : 1;
}
/* The same of a head, by a warp; 1 for bf16, whose exponents are f32's. */
template <typename T> __device__ __forceinline__ float unit_of(const float *q, int d, int lane) {
    if constexpr (sizeof(T) == 2 && !__is_same(T, half)) {
        return 1;
    } else {
        float top = 0;
        for (int c = lane; c < d; c += 32) top = fmaxf(top, fabsf(q[c]));
        return unit_below(top);
    }
}
/* The same of a head whose lanes have four numbers each. */
template <typename T> __device__ __forceinline__ float unit_of(float4 q) {
    if constexpr (sizeof(T) == 2 && !__is_same(T, half)) return 1;
    return unit_below(fmaxf(fmaxf(fabsf(q.x), fabsf(q.y)), fmaxf(fabsf(q.z), fabsf(q.w))));
}

/* Several queries at once, on Hopper with lse, elsewhere without. UNSUPPORTED for what they do not take: lists,
 * keys that are turned back or lie askew, f32. */
sac_status key_scores_hopper(const sac_stream *s, const sac_key_scores_args *a);
sac_status key_scores_many(const sac_stream *s, const sac_key_scores_args *a);

#endif
