/* top_p.cu - the smallest weight that is kept, by its bits from the top: a bit is set when the weights from
 * there on still weigh enough (Twilight, arXiv:2502.02770). Two bits at a time: three sums a round, 16
 * rounds. Sums are in double, in a fixed order. A cluster of blocks shares a row, and keeps its numbers in
 * registers. */
#include "cluster.cuh"

enum { KEPT = 8 /* weights a thread keeps; those beyond are read again each round */ };

typedef struct top_p_job {
    const float *weights;
    const int64_t *counts;
    float *threshold;
    int64_t *n_kept;
    int64_t stride, n;
    double p;
} top_p_job;

/* Over the cluster, the same in every thread. part [3][32] and total [2][3]: which of the two alternates. */
__device__ __forceinline__ void cluster_sums(double x[3], double (*part)[32], double (*total)[3], int turn) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < 3; j++) {
#pragma unroll
        for (int i = 16; i > 0; i /= 2) x[j] += __shfl_xor_sync(0xffffffffu, x[j], i);
        if (lane == 0) part[j][warp] = x[j];
    }
    __syncthreads();
    if (warp < 3) {
        double y = part[warp][lane];
#pragma unroll
        for (int i = 16; i > 0; i /= 2) y += __shfl_xor_sync(0xffffffffu, y, i);
        if (lane == 0) total[turn][warp] = y;
    }
    cluster_sync();
    for (int j = 0; j < 3; j++) x[j] = 0;
    int size = cluster_size();
#pragma unroll
    for (int r = 0; r < CLUSTER_MAX; r++) /* all asked for before the first answer */
        if (r < size) {
            const double *peer = cluster_peer(&total[turn][0], r);
            for (int j = 0; j < 3; j++) x[j] += peer[j];
        }
}

static __global__ void __launch_bounds__(CLUSTER_THREADS) top_p_kernel(top_p_job a) {
    __shared__ double part[3][32], total[2][3];
    start_next();
    wait_for_last();
    int row = blockIdx.y, size = cluster_size();
    const float *w = a.weights + row * a.stride;
    int64_t n = a.counts ? a.counts[row] : a.n, step = (int64_t)size * CLUSTER_THREADS;
    int64_t first = (int64_t)cluster_rank() * CLUSTER_THREADS + threadIdx.x;
    float kept[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; i++) kept[i] = first + i * step < n ? w[first + i * step] : -1.0f;
    /* f(weight) for each of this thread's; missing ones are -1, and NaN passes no comparison */
    auto each = [&](auto f) {
#pragma unroll
        for (int i = 0; i < KEPT; i++) f(kept[i]);
        for (int64_t i = first + KEPT * step; i < n; i += step) f(w[i]);
    };
    double x[3] = {0, 0, 0}, target;
    int turn = 0;
    float largest = 0;
    each([&](float e) {
        if (e >= 0) x[0] += (double)e;
        if (e > largest) largest = e;
    });
    cluster_sums(x, part, total, turn);
    target = a.p * x[0];
    uint32_t bits = 0;
    if (a.p < 1)
        for (int bit = 29; bit >= -1; bit -= 2) { /* 30 and 29, ..., 0 alone */
            int low = bit < 0 ? 0 : bit, n_steps = bit < 0 ? 1 : 3;
            float t[3];
            for (int j = 0; j < 3; j++) t[j] = __uint_as_float(bits | (uint32_t)(j + 1) << low);
            for (int j = 0; j < 3; j++) x[j] = 0;
            each([&](float e) {
#pragma unroll
                for (int j = 0; j < 3; j++)
                    if (e >= t[j]) x[j] += (double)e;
            });
            cluster_sums(x, part, total, turn ^= 1);
            int best = 0;
            for (int j = 0; j < n_steps; j++)
                if (t[j] == t[j] && x[j] >= target) best = j + 1;
            bits |= (uint32_t)best << low;
        }
    /* the largest class stays, however small p is; then count */
    float top = largest;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
    turn ^= 1;
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[0][threadIdx.x / 32] = (double)top;
    __syncthreads();
    if (threadIdx.x < 32) {
        top = (float)part[0][threadIdx.x];
#pragma unroll
        for (int i = 16; i > 0; i /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
        if (threadIdx.x == 0) total[turn][0] = (double)top;
    }
    cluster_sync();
    top = 0;
    for (int r = 0; r < size; r++) top = fmaxf(top, (float)cluster_peer(&total[turn][0], r)[0]);
    float t = fminf(__uint_as_float(bits), top);
    x[0] = x[1] = x[2] = 0;
    each([&](float e) { x[0] += e >= t; });
    cluster_sums(x, part, total, turn ^ 1);
    if (first == 0) {
        a.threshold[row] = t;
        a.n_kept[row] = (int64_t)x[0];
    }
    cluster_sync(); /* a block may not end while another reads its memory */
}

extern "C" sac_status sac_cuda_top_p(const sac_stream *s, const sac_top_p_args *a) {
    if (a->n_rows == 0) return SAC_OK;
    int64_t most = a->counts ? a->stride : a->n;
    return launch_clusters(s, top_p_kernel,
                           top_p_job{a->weights, a->counts, a->threshold, a->n_kept, a->stride, a->n, a->p},
                           a->n_rows, most, KEPT);
}
