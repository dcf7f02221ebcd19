/* softmax.cu - softmax of long rows of scores: a cluster of blocks shares a row and keeps its numbers in
 * registers between the passes. Sums are in double, in a fixed order. */
#include "cluster.cuh"
#include "context.cuh"
#include "log_sums.cuh"

namespace sac::select {

enum { KEPT = 8 /* scores a thread keeps; those beyond are read again each pass */ };

typedef struct softmax_job {
    const float *scores;
    const int64_t *counts;
    float *lse, *weights;
    const int32_t *skip;
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
    if (is_skipped(a.skip)) return;
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

/* The logarithm alone needs one pass: blocks share a row, each has a stretch of LSE_EACH numbers a thread,
 * and the one that comes last joins what they left, in their order. */
enum { LSE_THREADS = 256, LSE_EACH = 16, LSE_MOST = 256 /* blocks of a row */ };

typedef struct lse_job {
    const float *scores;
    const int64_t *counts;
    float *lse;
    double2 *parts; /* [row][block]: largest number, sum relative to it */
    unsigned *counters;
    const int32_t *skip;
    int64_t stride, n;
} lse_job;

static __global__ void __launch_bounds__(LSE_THREADS) lse_kernel(lse_job a) {
    __shared__ double2 of_warp[LSE_THREADS / 32];
    __shared__ bool is_last;
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    int row = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float *scores = a.scores + row * a.stride;
    int64_t n = a.counts ? a.counts[row] : a.n, step = (int64_t)gridDim.x * LSE_THREADS * LSE_EACH;
    double2 sum = no_sum();
    for (int64_t at = (int64_t)blockIdx.x * LSE_THREADS * LSE_EACH + threadIdx.x; at < n; at += step) {
        float x[LSE_EACH], top = -CUDART_INF_F, some = 0;
#pragma unroll
        for (int i = 0; i < LSE_EACH; i++)
            x[i] = at + i * LSE_THREADS < n ? scores[at + i * LSE_THREADS] : -CUDART_INF_F;
#pragma unroll
        for (int i = 0; i < LSE_EACH; i++) top = fmaxf(top, x[i]);
        if (top == -CUDART_INF_F) continue;
#pragma unroll
        for (int i = 0; i < LSE_EACH; i++) some += expf(x[i] - top);
        sum = join_sums(sum, make_double2((double)top, (double)some));
    }
    sum = lanes_join<32>(sum);
    if (lane == 0) of_warp[warp] = sum;
    __syncthreads();
    if (warp > 0) return;
    sum = lanes_join<32>(lane < LSE_THREADS / 32 ? of_warp[lane] : no_sum());
    double2 *parts = a.parts + (int64_t)row * gridDim.x;
    if (gridDim.x > 1) {
        if (lane == 0) {
            parts[blockIdx.x] = sum;
            is_last = count_in(&a.counters[row], gridDim.x) == gridDim.x - 1;
        }
        __syncwarp();
        if (!is_last) return;
        sum = parts_join(parts, (int)gridDim.x);
    }
    if (lane == 0) a.lse[row] = log_of(sum);
}

static sac_status launch_lse(const sac_stream *s, const sac_softmax_args *a, int64_t most) {
    int64_t blocks = max_of(1, min_of(ceil_div(most, LSE_THREADS * LSE_EACH), LSE_MOST));
    size_t n_bytes;
    double2 *parts = (double2 *)scratch_rest(s, &n_bytes);
    if (blocks > 1 && ((size_t)(blocks * a->n_rows) * sizeof *parts > n_bytes ||
                       (size_t)a->n_rows * sizeof(unsigned) > SCRATCH_COUNTER_BYTES))
        blocks = 1;
    if (a->n_rows > 65535) return SAC_UNSUPPORTED;
    lse_job j = {a->scores, a->counts, a->lse, parts, scratch_counters(s), a->skip, a->stride, a->n};
    return launch(s, of_step({dim3((unsigned)blocks, (unsigned)a->n_rows), LSE_THREADS}), lse_kernel, j);
}

extern "C" sac_status sac_cuda_softmax(const sac_stream *s, const sac_softmax_args *a) {
    if (a->n_rows == 0) return SAC_OK;
    int64_t most = a->counts ? a->stride : a->n;
    if (!a->weights) return launch_lse(s, a, most);
    return launch_clusters(s, softmax_kernel,
                           softmax_job{a->scores, a->counts, a->lse, a->weights, a->skip, a->stride, a->n},
                           a->n_rows, most, KEPT);
}

} // namespace sac::select
