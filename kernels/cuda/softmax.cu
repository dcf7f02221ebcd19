/* softmax.cu - softmax of long rows of scores: a cluster of blocks shares a row and keeps its numbers in
 * registers between the passes. Sums are in double, in a fixed order. */
#include "cluster.cuh"

enum { KEPT = 8 /* scores a thread keeps; those beyond are read again each pass */ };

typedef struct softmax_job {
    const float *scores;
    const int64_t *counts;
    float *lse, *weights;
    int64_t stride, n;
} softmax_job;

/* Over the cluster, the same in every thread; the join of two numbers is f. part [32], total: one a turn. */
template <typename F>
__device__ __forceinline__ double cluster_join(double x, double none, F f, double *part, double *total) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, i));
    __syncthreads();
    if (lane == 0) part[warp] = x;
    __syncthreads();
    if (warp == 0) {
        x = part[lane];
#pragma unroll
        for (int i = 16; i > 0; i /= 2) x = f(x, __shfl_xor_sync(0xffffffffu, x, i));
        if (lane == 0) *total = x;
    }
    cluster_sync();
    x = none;
    for (int r = 0; r < cluster_size(); r++) x = f(x, *cluster_peer(total, r));
    return x;
}

static __global__ void __launch_bounds__(CLUSTER_THREADS) softmax_kernel(softmax_job a) {
    __shared__ double part[32], total[2];
    start_next();
    wait_for_last();
    int row = blockIdx.y;
    const float *scores = a.scores + row * a.stride;
    int64_t n = a.counts ? a.counts[row] : a.n, step = (int64_t)cluster_size() * CLUSTER_THREADS;
    int64_t first = (int64_t)cluster_rank() * CLUSTER_THREADS + threadIdx.x;
    float kept[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; i++) kept[i] = first + i * step < n ? scores[first + i * step] : -CUDART_INF_F;
    /* f(number, its place) for each of this thread's; places from n on are none */
    auto each = [&](auto f) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) f(kept[i], first + i * step);
        for (int64_t i = first + KEPT * step; i < n; i += step) f(scores[i], i);
    };
    float top = -CUDART_INF_F;
    each([&](float x, int64_t) { top = fmaxf(top, x); });
    auto larger = [](double x, double y) { return x > y ? x : y; };
    auto plus = [](double x, double y) { return x + y; };
    double max = cluster_join((double)top, -CUDART_INF, larger, part, &total[0]);
    double sum = 0;
    if (max > -CUDART_INF) each([&](float x, int64_t) { sum += (double)expf(x - (float)max); });
    sum = cluster_join(sum, 0, plus, part, &total[1]);
    float lse = sum > 0 ? (float)(log(sum) + max) : -CUDART_INF_F;
    if (first == 0) a.lse[row] = lse;
    if (a.weights)
        each([&](float x, int64_t i) {
            if (i < n) a.weights[row * a.stride + i] = lse > -CUDART_INF_F ? expf(x - lse) : 0;
        });
    cluster_sync(); /* a block may not end while another reads its memory */
}

/* The logarithm alone needs one pass: sums are kept relative to the largest number so far. */
static __global__ void __launch_bounds__(CLUSTER_THREADS) lse_kernel(softmax_job a) {
    __shared__ double part[32], total[2];
    start_next();
    wait_for_last();
    int row = blockIdx.y;
    const float *scores = a.scores + row * a.stride;
    int64_t n = a.counts ? a.counts[row] : a.n, step = (int64_t)cluster_size() * CLUSTER_THREADS;
    int64_t first = (int64_t)cluster_rank() * CLUSTER_THREADS + threadIdx.x;
    float top = -CUDART_INF_F;
    double sum = 0;
    for (int64_t at = first; at < n; at += KEPT * step) {
        float x[KEPT], new_top = top, some = 0;
#pragma unroll
        for (int i = 0; i < KEPT; i++) x[i] = at + i * step < n ? scores[at + i * step] : -CUDART_INF_F;
#pragma unroll
        for (int i = 0; i < KEPT; i++) new_top = fmaxf(new_top, x[i]);
        if (new_top == -CUDART_INF_F) continue;
#pragma unroll
        for (int i = 0; i < KEPT; i++) some += expf(x[i] - new_top);
        if (new_top > top) sum *= (double)expf(top - new_top);
        sum += (double)some;
        top = new_top;
    }
    auto larger = [](double x, double y) { return x > y ? x : y; };
    auto plus = [](double x, double y) { return x + y; };
    double max = cluster_join((double)top, -CUDART_INF, larger, part, &total[0]);
    sum = top > -CUDART_INF_F ? sum * (double)expf(top - (float)max) : 0;
    sum = cluster_join(sum, 0, plus, part, &total[1]);
    if (first == 0) a.lse[row] = sum > 0 ? (float)(log(sum) + max) : -CUDART_INF_F;
    cluster_sync(); /* a block may not end while another reads its memory */
}

extern "C" sac_status sac_cuda_softmax(const sac_stream *s, const sac_softmax_args *a) {
    if (a->n_rows == 0) return SAC_OK;
    int64_t most = a->counts ? a->stride : a->n;
    return launch_clusters(s, a->weights ? softmax_kernel : lse_kernel,
                           softmax_job{a->scores, a->counts, a->lse, a->weights, a->stride, a->n}, a->n_rows,
                           most, KEPT);
}
