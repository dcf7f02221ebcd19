/* soft_vote.cu - four warps share some columns, each has every fourth of the rows: all its numbers are asked
 * for before the first has come, and neighbours read neighbouring scores. The warps' sums, each relative to
 * the largest of its own, meet in shared memory. */
#include "device.cuh"
#include "log_sums.cuh"

namespace sac::select {

enum { THREADS = 256, SHARES = 4 /* of a column's rows */, WARPS_OF_SHARE = THREADS / 32 / SHARES };

typedef struct vote_job {
    const float *scores, *lse;
    float *votes;
    const int32_t *skip;
    int64_t stride, n;
    int n_rows;
} vote_job;

__device__ __forceinline__ float exp_fast(float x) { /* 2^-22 off, and its argument's rounding */
    float e;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(e) : "f"(LOG2_E * x));
    return e;
}
/* V neighbouring columns a thread, ROWS rows of each at once. */
template <int V, int ROWS>
static __global__ void __launch_bounds__(THREADS, V == 4 ? 4 : 6) soft_vote_kernel(vote_job a) {
    __shared__ __align__(16) float tops[SHARES][WARPS_OF_SHARE * 32 * V],
        sums[SHARES][WARPS_OF_SHARE * 32 * V];
    wait_for_last();
    start_next();
    if (is_skipped(a.skip)) return;
    int share = threadIdx.x / 32 % SHARES, at = (threadIdx.x / 32 / SHARES * 32 + threadIdx.x % 32) * V;
    int64_t first_column = (int64_t)blockIdx.x * (WARPS_OF_SHARE * 32 * V), j = first_column + at;
    int64_t group = blockIdx.y;
    const float *scores = a.scores + group * a.n_rows * a.stride + j, *of_rows = a.lse + group * a.n_rows;
    float top[V], sum[V];
#pragma unroll
    for (int v = 0; v < V; v++) top[v] = -CUDART_INF_F, sum[v] = 0;
    for (int first = share; first < a.n_rows && j < a.n; first += SHARES * ROWS) {
        float x[ROWS][V], lse[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            int row = min(first + i * SHARES, a.n_rows - 1);
            const float *p = scores + row * a.stride;
            lse[i] = first + i * SHARES < a.n_rows ? of_rows[row] : -CUDART_INF_F;
            if (V == 4 && j + V <= a.n) {
                float4 y = *(const float4 *)p;
                x[i][0] = y.x, x[i][1 % V] = y.y, x[i][2 % V] = y.z, x[i][3 % V] = y.w;
            } else {
#pragma unroll
                for (int v = 0; v < V; v++) x[i][v] = j + v < a.n ? p[v] : -CUDART_INF_F;
            }
        }
#pragma unroll
        for (int v = 0; v < V; v++) {
            float last = top[v];
#pragma unroll
            for (int i = 0; i < ROWS; i++) {
                x[i][v] = lse[i] != -CUDART_INF_F ? x[i][v] - lse[i] : -CUDART_INF_F;
                top[v] = fmaxf(top[v], x[i][v]);
            }
            float base = base_of(top[v]);
            sum[v] *= exp_fast(last - base);
#pragma unroll
            for (int i = 0; i < ROWS; i++) sum[v] += exp_fast(x[i][v] - base);
        }
    }
#pragma unroll
    for (int v = 0; v < V; v++) tops[share][at + v] = top[v], sums[share][at + v] = sum[v];
    __syncthreads();
    int column = threadIdx.x;
    if (column >= WARPS_OF_SHARE * 32 * V || first_column + column >= a.n) return;
    float largest = -CUDART_INF_F, all = 0;
#pragma unroll
    for (int i = 0; i < SHARES; i++) largest = fmaxf(largest, tops[i][column]);
#pragma unroll
    for (int i = 0; i < SHARES; i++) all += sums[i][column] * exp_fast(tops[i][column] - base_of(largest));
    a.votes[group * a.stride + first_column + column] = all > 0 ? logf(all) + largest : -CUDART_INF_F;
}

template <int V> static sac_status run(const sac_stream *s, const vote_job &j, int64_t groups) {
    dim3 grid((unsigned)ceil_div(j.n, WARPS_OF_SHARE * 32 * V), (unsigned)groups);
    auto kernel = j.n_rows <= 8    ? soft_vote_kernel<V, 2>
                  : j.n_rows <= 16 ? soft_vote_kernel<V, 4>
                  : j.n_rows <= 28 ? soft_vote_kernel<V, 7>
                                   : soft_vote_kernel<V, 8>;
    return launch(s, of_step({grid, THREADS}), kernel, j);
}

extern "C" sac_status sac_cuda_soft_vote(const sac_stream *s, const sac_soft_vote_args *a) {
    int64_t groups = max_of(1, a->n_groups);
    if (a->n == 0) return SAC_OK;
    if (groups > 65535) return SAC_UNSUPPORTED;
    vote_job j = {a->scores, a->lse, a->votes, a->skip, a->stride, a->n, a->n_rows};
    bool by_four = a->n * groups >= VOTE_BY_FOUR && (uintptr_t)a->scores % 16 == 0 && a->stride % 4 == 0;
    return by_four ? run<4>(s, j, groups) : run<1>(s, j, groups);
}

} // namespace sac::select
