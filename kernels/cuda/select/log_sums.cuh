/* log_sums.cuh - sums of exponentials as (largest exponent, sum relative to it), joined in a fixed order. */
#ifndef SAC_KERNELS_LOG_SUMS_CUH
#define SAC_KERNELS_LOG_SUMS_CUH

#include "device.cuh"

namespace sac::select {

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
/* Of a row, from what its blocks left; by a warp. */
__device__ __forceinline__ double2 parts_join(const double2 *parts, int n) {
    double2 sum = no_sum();
    for (int i = threadIdx.x % 32; i < n; i += 32) sum = join_sums(sum, __ldcg(&parts[i]));
    return lanes_join<32>(sum);
}
__device__ __forceinline__ float log_of(double2 sum) {
    return sum.y > 0 ? (float)(log(sum.y) + sum.x) : -CUDART_INF_F;
}

} // namespace sac::select

#endif
