/* log_sums.cuh - sums of exponentials as two numbers: x, the largest exponent, and y, the sum relative to
 * it. Two such sums join to one without overflow. (x, y) stands for y * e^x where the numbers are doubles,
 * and for y * 2^x where they are floats, whose power of two the hardware has. Joins are in a fixed order. */
#ifndef SAC_KERNELS_LOG_SUMS_CUH
#define SAC_KERNELS_LOG_SUMS_CUH

#include "reduce.cuh"

namespace sac {

/* ---------------------------------------------------------------- doubles, e^x */

__device__ __forceinline__ double2 no_sum(void) {
    return make_double2(-CUDART_INF, 0);
}
__device__ __forceinline__ double2 join_sums(double2 a, double2 b) {
    double top = a.x > b.x ? a.x : b.x;
    if (top == -CUDART_INF) return a;
    return make_double2(top, a.y * (double)expf((float)(a.x - top)) + b.y * (double)expf((float)(b.x - top)));
}
/* Over N neighbouring lanes. */
template <int N> __device__ __forceinline__ double2 lanes_join(double2 x) {
#pragma unroll
    for (int i = N / 2; i > 0; i /= 2)
        x = join_sums(
            x, make_double2(__shfl_xor_sync(0xffffffffu, x.x, i), __shfl_xor_sync(0xffffffffu, x.y, i)));
    return x;
}
/* Of a row, from what its blocks left in memory; by a warp. */
__device__ __forceinline__ double2 parts_join(const double2 *parts, int n) {
    double2 sum = no_sum();
    for (int i = threadIdx.x % 32; i < n; i += 32) sum = join_sums(sum, __ldcg(&parts[i]));
    return lanes_join<32>(sum);
}
__device__ __forceinline__ float log_of(double2 sum) {
    return sum.y > 0 ? (float)(log(sum.y) + sum.x) : -CUDART_INF_F;
}

/* ---------------------------------------------------------------- floats, 2^x */

/* What an exponent is taken relative to; without numbers any number will do. */
__device__ __forceinline__ float base_of(float largest) {
    return largest == -CUDART_INF_F ? 0 : largest;
}
__device__ __forceinline__ float2 join_sums(float2 a, float2 b) {
    float top = fmaxf(a.x, b.x), base = base_of(top);
    return make_float2(top, a.y * exp2_fast(a.x - base) + b.y * exp2_fast(b.x - base));
}
/* Of lanes whose numbers differ in the bits from `first` to `last`. */
__device__ __forceinline__ float2 join_lanes(float2 x, int first, int last) {
#pragma unroll 1
    for (int i = last; i >= first; i /= 2)
        x = join_sums(
            x, make_float2(__shfl_xor_sync(0xffffffffu, x.x, i), __shfl_xor_sync(0xffffffffu, x.y, i)));
    return x;
}
/* N sums a lane, none of them at -infinity, of such lanes. */
template <int N> __device__ __forceinline__ float2 join_all(const float2 (&x)[N], int first, int last) {
    float top = x[0].x, sum = 0;
#pragma unroll
    for (int i = 1; i < N; i++) top = fmaxf(top, x[i].x);
#pragma unroll
    for (int i = first; i <= last; i *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
#pragma unroll
    for (int i = 0; i < N; i++) sum += x[i].y * exp2_fast(x[i].x - top);
#pragma unroll
    for (int i = first; i <= last; i *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, i);
    return make_float2(top, sum);
}

} // namespace sac

#endif
