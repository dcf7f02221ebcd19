/* top_k.cu - the k best of a row by radix selection: 11, 11 and 10 bits at a time, the digit of the k-th best
 * is found from counts of the numbers that agree with it so far; three passes leave its exact bits. Better
 * numbers are in; of those equal to it the first ones, by index, fill up. A cluster of blocks shares a row;
 * each block has a stretch of it, so that its part of the output is a stretch too, and ascending. */
#include "cluster.cuh"

enum {
    DIGIT_BITS = 11,
    BINS = 1 << DIGIT_BITS,
    COPIES = 3 /* of the counts: neighbours often share a bin */
};

enum { KEPT = 16 /* numbers in a thread's registers; those beyond are read again each time */ };

typedef struct top_k_job {
    const float *scores;
    int32_t *indices;
    int64_t stride;
    int n, k;
} top_k_job;

/* Unsigned numbers in the order of the floats; both zeros are one, NaN is -infinity. */
__device__ __forceinline__ uint32_t order_of(float x) {
    if (x != x) x = -CUDART_INF_F;
    if (x == 0) x = 0;
    uint32_t u = __float_as_uint(x);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

static __global__ void __launch_bounds__(CLUSTER_THREADS) top_k_kernel(top_k_job a) {
    __shared__ int counts[COPIES][BINS], sums[2][BINS], part[33], found[2];
    __shared__ int2 of_warp[32], of_block; /* numbers better than the k-th best, and equal to it */
    start_next();
    wait_for_last();
    int rank = cluster_rank(), size = cluster_size(), row = blockIdx.y, tid = threadIdx.x, lane = tid % 32;
    const float *scores = a.scores + row * a.stride;
    /* a block has a stretch of the row, and so has a warp: groups of 32, the first of them kept; 0 is below
     * all */
    int groups = (a.n + size * CLUSTER_THREADS - 1) / (size * CLUSTER_THREADS);
    int begin = (rank * 32 + tid / 32) * groups * 32 + lane;
    auto number = [&](int g) {
        int i = begin + g * 32;
        return i < a.n ? order_of(scores[i]) : 0;
    };
    uint32_t kept[KEPT];
#pragma unroll
    for (int g = 0; g < KEPT; g++) kept[g] = g < groups ? number(g) : 0;
    auto each = [&](auto f) {
#pragma unroll
        for (int g = 0; g < KEPT; g++)
            if (g < groups) f(g, kept[g]);
        for (int g = KEPT; g < groups; g++) f(g, number(g));
    };
    uint32_t best = 0; /* the digits known so far of the k-th best */
    int wanted = a.k;  /* of the numbers that agree with them */
    int turn = 0;      /* of two sums: one is written while others may still read the one before */
#pragma unroll 1
    for (int shift = 21; shift >= -1; shift -= DIGIT_BITS) {
        int low = max(shift, 0), bits = shift < 0 ? DIGIT_BITS - 1 : DIGIT_BITS, n_bins = 1 << bits;
        for (int i = tid; i < COPIES * BINS; i += CLUSTER_THREADS) (&counts[0][0])[i] = 0;
        __syncthreads();
        uint32_t known = low + bits == 32 ? 0 : ~0u << (low + bits);
        each([&](int, uint32_t u) {
            if ((u & known) == best) atomicAdd(&counts[lane % COPIES][u >> low & (n_bins - 1)], 1);
        });
        __syncthreads();
        for (int i = tid; i < n_bins; i += CLUSTER_THREADS) {
            int n = 0;
#pragma unroll
            for (int c = 0; c < COPIES; c++) n += counts[c][i];
            sums[turn][i] = n;
        }
        cluster_sync();
        /* thread t has the bins n_bins - 1 - 2t and the one below: best first */
        int top = n_bins - 1 - 2 * tid, n[2] = {0, 0}, total;
#pragma unroll
        for (int r = 0; r < CLUSTER_MAX; r++) /* all asked for before the first answer */
            if (r < size && top >= 0) {
                int2 pair = *(const int2 *)(cluster_peer(sums[turn], r) + top - 1);
                n[0] += pair.y;
                n[1] += pair.x;
            }
        int before = block_scan(n[0] + n[1], &total, part);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (before < wanted && before + n[i] >= wanted) {
                found[0] = top - i;
                found[1] = wanted - before;
            }
            before += n[i];
        }
        __syncthreads();
        turn ^= 1;
        best |= (uint32_t)found[0] << low;
        wanted = found[1];
        __syncthreads();
    }
    /* best is the k-th best number, `wanted` how many of those equal to it are in: the first ones */
    int2 mine = make_int2(0, 0);
    each([&](int, uint32_t u) {
        mine.x += __popc(__ballot_sync(0xffffffffu, u > best));
        mine.y += __popc(__ballot_sync(0xffffffffu, u == best));
    });
    if (lane == 0) of_warp[tid / 32] = mine;
    __syncthreads();
    int2 w = of_warp[lane], before, all;
    bool earlier = lane < tid / 32;
    before.x = __reduce_add_sync(0xffffffffu, earlier ? w.x : 0);
    before.y = __reduce_add_sync(0xffffffffu, earlier ? w.y : 0);
    all.x = __reduce_add_sync(0xffffffffu, w.x);
    all.y = __reduce_add_sync(0xffffffffu, w.y);
    if (tid == 0) of_block = all;
    cluster_sync();
#pragma unroll
    for (int r = 0; r < CLUSTER_MAX; r++)
        if (r < rank) {
            int2 peer = *cluster_peer(&of_block, r);
            before.x += peer.x;
            before.y += peer.y;
        }
    int32_t *indices = a.indices + (int64_t)row * a.k;
    each([&](int g, uint32_t u) {
        uint32_t better = __ballot_sync(0xffffffffu, u > best), equal = __ballot_sync(0xffffffffu, u == best);
        uint32_t left = (1u << lane) - 1;
        int b = before.x + __popc(better & left), e = before.y + __popc(equal & left);
        if (u > best || (u == best && e < wanted)) indices[b + min(e, wanted)] = begin + g * 32;
        before.x += __popc(better);
        before.y += __popc(equal);
    });
    cluster_sync(); /* a block may not end while another reads its memory */
}

static __global__ void all_indices_kernel(int32_t *indices, int rows, int n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (int64_t)rows * n) indices[i] = (int32_t)(i % n);
}

extern "C" sac_status sac_cuda_top_k(const sac_stream *s, const sac_top_k_args *a) {
    int64_t k = min_of(a->k, a->n);
    if (a->n > 1 << 30) return SAC_UNSUPPORTED;
    if (k <= 0 || a->n_rows == 0) return SAC_OK;
    if (k == a->n) {
        all_indices_kernel<<<(unsigned)ceil_div(a->n_rows * k, 256), 256, 0, cuda_stream(s)>>>(
            a->indices, a->n_rows, (int)k);
        return launched();
    }
    return launch_clusters(s, top_k_kernel, top_k_job{a->scores, a->indices, a->stride, (int)a->n, (int)k},
                           a->n_rows, a->n, a->n_rows > 8 ? 16 : 4);
}
