/* top_p.cu - the smallest weight that is kept, by its bits from the top: a bit is set when the weights from
 * there on still weigh enough (Twilight, arXiv:2502.02770). Two bits at a time: three sums a round, 16
 * rounds. Sums are in double, in a fixed order. A cluster of blocks shares a row, and keeps its numbers in
 * registers. */
#include "cluster.cuh"

namespace sac::select {

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
        x[j] = warp_sum(x[j]);
        if (lane == 0) part[j][warp] = x[j];
    }
    __syncthreads();
    if (warp < 3) {
        double y = warp_sum(part[warp][lane]);
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
    float top = warp_max(largest);
    turn ^= 1;
    __syncthreads();
    if (threadIdx.x % 32 == 0) part[0][threadIdx.x / 32] = (double)top;
    __syncthreads();
    if (threadIdx.x < 32) {
        top = warp_max((float)part[0][threadIdx.x]);
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

/* The largest of each of two numbers over the cluster, the same in every thread. `part` is free again after
 * the next barrier, `total` is this call's. */
__device__ __forceinline__ void cluster_largest(uint32_t x[2], uint32_t (*part)[32], uint32_t *total) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 2; j++) {
        x[j] = __reduce_max_sync(0xffffffffu, x[j]);
        if (lane == 0) part[j][warp] = x[j];
    }
    __syncthreads();
    if (warp < 2) {
        uint32_t y = __reduce_max_sync(0xffffffffu, part[warp][lane]);
        if (lane == 0) total[warp] = y;
    }
    cluster_sync();
    for (int j = 0; j < 2; j++) {
        x[j] = 0;
        for (int r = 0; r < cluster_size(); r++) x[j] = max(x[j], cluster_peer(total, r)[j]);
    }
}

/* Eight sums over the cluster: lane j of every warp gets the j-th. part [8][32], total [8]: as above. */
__device__ __forceinline__ double cluster_eight(float x[8], float (*part)[32], double *total) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < 8; j++) {
        x[j] = warp_sum(x[j]);
        if (lane == 0) part[j][warp] = x[j];
    }
    __syncthreads();
    if (warp < 8) {
        double y = warp_sum((double)part[warp][lane]);
        if (lane == 0) total[warp] = y;
    }
    cluster_sync();
    double y = 0; /* a lane asks two blocks */
#pragma unroll
    for (int r = 0; r < CLUSTER_MAX; r += 4)
        if (r + lane / 8 < cluster_size()) y += cluster_peer(total, r + lane / 8)[lane % 8];
    y += __shfl_xor_sync(0xffffffffu, y, 8);
    return y + __shfl_xor_sync(0xffffffffu, y, 16);
}

enum { KEPT_SCORES = 16 };

/* The search of top_p_kernel over scores instead of weights, by their order, three bits at a time: of what
 * lies between the bounds found so far, the weight from each of seven places on; what lies above them
 * weighs `above`. Over when one score is left between them. A thread sums in f32, which keeps sums of more
 * numbers larger, as the search needs. */
static __global__ void __launch_bounds__(CLUSTER_THREADS) top_p_scores_kernel(top_p_job a) {
    __shared__ float part[8][32];
    __shared__ uint32_t extreme[2][32], largest[2][2];
    __shared__ double total[2][8];
    start_next();
    wait_for_last();
    int row = blockIdx.y, lane = threadIdx.x % 32, turn = 0;
    const float *s = a.weights + row * a.stride;
    int64_t n = a.counts ? a.counts[row] : a.n, step = (int64_t)cluster_size() * CLUSTER_THREADS;
    int64_t first = (int64_t)cluster_rank() * CLUSTER_THREADS + threadIdx.x;
    uint32_t kept[KEPT_SCORES], ends[2] = {0, 0}; /* largest, and the complement of the smallest */
#pragma unroll
    for (int i = 0; i < KEPT_SCORES; i++) kept[i] = first + i * step < n ? order_of(s[first + i * step]) : 0;
    auto each = [&](auto f) {
#pragma unroll
        for (int i = 0; i < KEPT_SCORES; i++) f(kept[i]);
#pragma unroll 4
        for (int64_t i = first + KEPT_SCORES * step; i < n; i += step) f(order_of(s[i]));
    };
    each([&](uint32_t u) {
        ends[0] = max(ends[0], u);
        if (u) ends[1] = max(ends[1], ~u);
    });
    cluster_largest(ends, extreme, largest[0]);
    uint32_t most = ends[0], least = ~ends[1], found = 0;
    float top = score_of(most);
    double target = 0, above = 0;
    int width = 32;
    while (width > 0 && most > 0 && a.p > 0 && a.p < 1) {
        int shift = max(width - 3, 0);
        float x[8] = {0};
        each([&](uint32_t u) {
            uint32_t at = u - found;
            if (u == 0 || (width < 32 && at >> width)) return;
            float e = expf(score_of(u) - top);
            int digit = (int)(at >> shift);
            x[0] += width == 32 ? e : 1; /* the first time all weights, then how many are left */
#pragma unroll
            for (int j = 1; j < 8; j++) x[j] += digit >= j ? e : 0;
        });
        double sum = cluster_eight(x, part, total[turn ^= 1]), whole = __shfl_sync(0xffffffffu, sum, 0);
        if (width == 32) target = a.p * whole;
        uint32_t enough = __ballot_sync(0xffffffffu, lane == 0 || (lane < 8 && above + sum >= target));
        int best = 31 - __clz(enough);
        double next = __shfl_sync(0xffffffffu, sum, (best + 1) % 8);
        if (best < 7) above += next;
        found |= (uint32_t)best << shift;
        bool alone = width < 32 && whole <= 1;
        width = shift;
        if (alone) break;
    }
    if (width < 32) {
        /* the largest score between the bounds is the one; where rounding left none, the next above them is
         */
        uint32_t inside[2] = {0, 0}; /* and the complement of the smallest from there on */
        each([&](uint32_t u) {
            if ((u - found) >> width == 0) inside[0] = max(inside[0], u);
            if (u > 0 && u >= found) inside[1] = max(inside[1], ~u);
        });
        cluster_largest(inside, extreme, largest[1]);
        found = inside[0] ? inside[0] : inside[1] ? ~inside[1] : most;
    } else {
        found = a.p <= 0 ? most : least;
    }
    float x[8] = {0};
    each([&](uint32_t u) { x[0] += u > 0 && u >= found; });
    double n_kept = cluster_eight(x, part, total[turn ^ 1]);
    if (first == 0) {
        a.threshold[row] = most > 0 ? score_of(found) : CUDART_INF_F;
        a.n_kept[row] = (int64_t)n_kept;
    }
    cluster_sync(); /* a block may not end while another reads its memory */
}

extern "C" sac_status sac_cuda_top_p(const sac_stream *s, const sac_top_p_args *a) {
    if (a->n_rows == 0) return SAC_OK;
    int64_t most = a->counts ? a->stride : a->n;
    top_p_job j = {a->weights, a->counts, a->threshold, a->n_kept, a->stride, a->n, a->p};
    if (!a->scores) return launch_clusters(s, top_p_kernel, j, a->n_rows, most, KEPT);
    /* rather longer stretches than a second wave of blocks */
    bool many = a->n_rows * CLUSTER_MAX > s->device->n_processors;
    return launch_clusters(s, top_p_scores_kernel, j, a->n_rows, most, many ? 2 * KEPT_SCORES : KEPT_SCORES);
}

} // namespace sac::select
