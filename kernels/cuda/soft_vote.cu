/* soft_vote.cu - one thread a column: neighbours read neighbouring scores of each row, many rows at a time,
 * so that their answers come together. */
#include "device.cuh"

enum { THREADS = 256 };

typedef struct vote_job {
    const float *scores, *lse;
    float *votes;
    const int32_t *skip;
    int64_t stride, n;
    int n_rows;
} vote_job;

template <int AT_ONCE> static __global__ void __launch_bounds__(THREADS) soft_vote_kernel(vote_job a) {
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, group = blockIdx.y;
    const float *scores = a.scores + group * a.n_rows * a.stride, *of_rows = a.lse + group * a.n_rows;
    if (j >= a.n) return;
    float max = -CUDART_INF_F, sum = 0;
    for (int first = 0; first < a.n_rows;
         first += AT_ONCE) { /* sums are kept relative to the largest so far */
        float x[AT_ONCE], top = max;
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            int row = min(first + i, a.n_rows - 1);
            float lse = of_rows[row], score = scores[row * a.stride + j];
            x[i] = first + i < a.n_rows && lse != -CUDART_INF_F ? score - lse : -CUDART_INF_F;
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) top = fmaxf(top, x[i]);
        if (top == -CUDART_INF_F) continue;
        sum *= expf(max - top);
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) sum += expf(x[i] - top);
        max = top;
    }
    a.votes[group * a.stride + j] = sum > 0 ? logf(sum) + max : -CUDART_INF_F;
}

extern "C" sac_status sac_cuda_soft_vote(const sac_stream *s, const sac_soft_vote_args *a) {
    int64_t groups = max_of(1, a->n_groups);
    if (a->n == 0) return SAC_OK;
    if (groups > 65535) return SAC_UNSUPPORTED;
    dim3 grid((unsigned)ceil_div(a->n, THREADS), (unsigned)groups);
    vote_job j = {a->scores, a->lse, a->votes, a->skip, a->stride, a->n, a->n_rows};
    /* a group's heads at one go, as far as registers allow */
    auto kernel = a->n_rows <= 8    ? soft_vote_kernel<8>
                  : a->n_rows <= 16 ? soft_vote_kernel<16>
                  : a->n_rows <= 28 ? soft_vote_kernel<28>
                                    : soft_vote_kernel<32>;
    return launch_step(s, kernel, grid, dim3(THREADS), 0, j);
}
