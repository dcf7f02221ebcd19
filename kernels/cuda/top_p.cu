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

/* ---------------------------------------------------------------- scores */

/* Numbers in the order of the scores; -infinity and NaN are 0. And back. */
__device__ __forceinline__ uint32_t order_of(float s) {
    if (!(s > -CUDART_INF_F)) return 0;
    if (s == 0) s = 0; /* both zeros */
    uint32_t u = __float_as_uint(s);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}
__device__ __forceinline__ float score_of(uint32_t order) {
    return __uint_as_float(order & 0x80000000u ? order & 0x7fffffffu : ~order);
}

/* The largest of each of two numbers over the cluster, the same in every thread. part and total as above. */
__device__ __forceinline__ void cluster_largest(uint32_t x[2], double (*part)[32], double *total) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < 2; j++) {
        x[j] = __reduce_max_sync(0xffffffffu, x[j]);
        if (lane == 0) part[j][warp] = (double)x[j];
    }
    __syncthreads();
    if (warp < 2) {
        uint32_t y = __reduce_max_sync(0xffffffffu, (uint32_t)part[warp][lane]);
        if (lane == 0) total[warp] = (double)y;
    }
    cluster_sync();
    for (int j = 0; j < 2; j++) {
        double y = 0;
        for (int r = 0; r < cluster_size(); r++) y = fmax(y, cluster_peer(total, r)[j]);
        x[j] = (uint32_t)y;
    }
}

/* As above over the scores' order. A thread keeps the order and the weight of its first scores. */
static __global__ void __launch_bounds__(CLUSTER_THREADS) top_p_scores_kernel(top_p_job a) {
    __shared__ double part[3][32], total[2][3], largest[2];
    start_next();
    wait_for_last();
    int row = blockIdx.y, size = cluster_size();
    const float *s = a.weights + row * a.stride;
    int64_t n = a.counts ? a.counts[row] : a.n, step = (int64_t)size * CLUSTER_THREADS;
    int64_t first = (int64_t)cluster_rank() * CLUSTER_THREADS + threadIdx.x;
    uint32_t kept[KEPT], ends[2] = {0, 0}; /* largest, and the complement of the smallest */
    float weight[KEPT];
#pragma unroll
    for (int i = 0; i < KEPT; i++) kept[i] = first + i * step < n ? order_of(s[first + i * step]) : 0;
    auto extend = [&](uint32_t u) {
        ends[0] = max(ends[0], u);
        if (u) ends[1] = max(ends[1], ~u);
    };
#pragma unroll
    for (int i = 0; i < KEPT; i++) extend(kept[i]);
    for (int64_t i = first + KEPT * step; i < n; i += step) extend(order_of(s[i]));
    cluster_largest(ends, part, largest);
    uint32_t most = ends[0], least = ~ends[1];
    float top = score_of(most);
#pragma unroll
    for (int i = 0; i < KEPT; i++) weight[i] = kept[i] ? expf(score_of(kept[i]) - top) : 0;
    auto each = [&](auto f) { /* f(order, weight); order 0 weighs nothing */
#pragma unroll
                              for (int i = 0; i < KEPT; i++) f(kept[i], weight[i]);
                              for (int64_t i = first + KEPT * step; i < n; i += step) {
                                  uint32_t u = order_of(s[i]);
                                  f(u, u ? expf(score_of(u) - top) : 0);
                              }
    };
    double x[3] = {0, 0, 0};
    int turn = 0;
    each([&](uint32_t, float e) { x[0] += (double)e; });
    cluster_sums(x, part, total, turn);
    double target = a.p * x[0];
    uint32_t found = 0;
    if (a.p < 1 && a.p > 0 && most > 0)
        for (int bit = 30; bit >= 0; bit -= 2) {
            uint32_t t[3];
            for (int j = 0; j < 3; j++) t[j] = found | (uint32_t)(j + 1) << bit;
            for (int j = 0; j < 3; j++) x[j] = 0;
            each([&](uint32_t u, float e) {
#pragma unroll
                for (int j = 0; j < 3; j++)
                    if (u >= t[j]) x[j] += (double)e;
            });
            cluster_sums(x, part, total, turn ^= 1);
            int best = 0;
            for (int j = 0; j < 3; j++)
                if (t[j] <= most && x[j] >= target) best = j + 1;
            found |= (uint32_t)best << bit;
        }
    found = a.p <= 0 ? most : max(found, least);
    x[0] = x[1] = x[2] = 0;
    each([&](uint32_t u, float) { x[0] += u > 0 && u >= found; });
    cluster_sums(x, part, total, turn ^ 1);
    if (first == 0) {
        a.threshold[row] = most > 0 ? score_of(found) : CUDART_INF_F;
        a.n_kept[row] = (int64_t)x[0];
    }
    cluster_sync(); /* a block may not end while another reads its memory */
}

extern "C" sac_status sac_cuda_top_p(const sac_stream *s, const sac_top_p_args *a) {
    if (a->n_rows == 0) return SAC_OK;
    int64_t most = a->counts ? a->stride : a->n;
    return launch_clusters(s, a->scores ? top_p_scores_kernel : top_p_kernel,
                           top_p_job{a->weights, a->counts, a->threshold, a->n_kept, a->stride, a->n, a->p},
                           a->n_rows, most, KEPT);
}
