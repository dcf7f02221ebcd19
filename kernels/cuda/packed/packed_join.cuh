/* packed_join.cuh - what blocks leave of a query over packed rows, joined in order.
 *
 * partial [split][head][2 + d]: the largest score, the sum of weights relative to it, the mix of values. */
#ifndef SAC_KERNELS_PACKED_JOIN_CUH
#define SAC_KERNELS_PACKED_JOIN_CUH

#include "device.cuh"

namespace sac::packed {

enum { JOIN_THREADS = 512, JOIN_MAX_D = 256 };

typedef struct packed_join {
    float *partial;
    void *o; /* [n_heads * d], or NULL */
    float *lse;
    sac_dtype dtype; /* of o */
    int n_splits, n_heads, d;
} packed_join;

/* A block a head. Threads first share out the splits, to weigh them, then the channels: d threads read a
 * split's mix, several groups of them several splits. */
static __global__ void __launch_bounds__(JOIN_THREADS) packed_join_kernel(packed_join a) {
    __shared__ float part[32], weight[JOIN_THREADS], mix[JOIN_THREADS];
    wait_for_last();
    start_next(); /* not before: the next one brings weights to the L2 cache, which the rows now pass through
                   */
    int head = blockIdx.x, n_groups = JOIN_THREADS / a.d, group = threadIdx.x / a.d, c = threadIdx.x % a.d;
    float *parts = a.partial + (int64_t)head * (a.d + 2);
    int64_t step = (int64_t)a.n_heads * (a.d + 2);
    float max = -CUDART_INF_F, sum = 0, x = 0;
    for (int i = threadIdx.x; i < a.n_splits; i += JOIN_THREADS) max = fmaxf(max, parts[i * step]);
    max = block_max(max, part);
    float base = max == -CUDART_INF_F ? 0 : max;
    for (int first = 0; first < a.n_splits; first += JOIN_THREADS) {
        int n = min((int)JOIN_THREADS, a.n_splits - first);
        __syncthreads(); /* the last weights have been read by all */
        if (threadIdx.x < n) {
            const float *mine = parts + (first + threadIdx.x) * step;
            float w = expf(mine[0] - base);
            weight[threadIdx.x] = w;
            sum += w * mine[1];
        }
        __syncthreads();
        if (group >= n_groups) continue;
#pragma unroll 8
        for (int i = group; i < n; i += n_groups) x += weight[i] * parts[(first + i) * step + 2 + c];
    }
    sum = block_sum(sum, part);
    mix[threadIdx.x] = x;
    __syncthreads();
    if (group == 0) {
        for (int i = 1; i < n_groups; i++) x += mix[i * a.d + c];
        if (a.o) store_any(a.dtype, a.o, (int64_t)head * a.d + c, sum > 0 ? x / sum : 0);
    }
    if (threadIdx.x > 0) return;
    float lse = sum > 0 ? logf(sum) + max : -CUDART_INF_F;
    if (a.lse) a.lse[head] = lse;
    parts[0] = lse; /* for those who want weights; everybody has read what stood here */
}

static inline sac_status launch_packed_join(const sac_stream *s, const packed_join &a) {
    return launch(s, early({(unsigned)a.n_heads, JOIN_THREADS}), packed_join_kernel, a);
}

} // namespace sac::packed

#endif
