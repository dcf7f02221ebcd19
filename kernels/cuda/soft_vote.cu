/* soft_vote.cu - one thread a column: neighbours read neighbouring scores of each row. */
#include "device.cuh"

typedef struct vote_job {
    const float *scores, *lse;
    float *votes;
    int64_t stride, n;
    int n_rows;
} vote_job;

static __global__ void soft_vote_kernel(vote_job a) {
    int64_t j = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= a.n) return;
    float max = -CUDART_INF_F, sum = 0;
    for (int row = 0; row < a.n_rows; row++) { /* sums are kept relative to the largest so far */
        float lse = a.lse[row], x = a.scores[row * a.stride + j] - lse;
        if (lse == -CUDART_INF_F || x == -CUDART_INF_F) continue;
        float top = fmaxf(max, x);
        sum = sum * expf(max - top) + expf(x - top);
        max = top;
    }
    a.votes[j] = sum > 0 ? logf(sum) + max : -CUDART_INF_F;
}

extern "C" sac_status sac_cuda_soft_vote(const sac_stream *s, const sac_soft_vote_args *a) {
    if (a->n == 0) return SAC_OK;
    soft_vote_kernel<<<(unsigned)ceil_div(a->n, 256), 256, 0, cuda_stream(s)>>>(
        vote_job{a->scores, a->lse, a->votes, a->stride, a->n, a->n_rows});
    return launched();
}
