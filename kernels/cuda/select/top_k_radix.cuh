/* top_k_radix.cuh - the k best of a row by radix selection over all of its numbers: the digit of the k-th
 * best is found from counts of the numbers that agree with it so far. Digits are those of the distance from a
 * number that the k-th best is not below, so that the first one already tells numbers apart which lie close
 * together, as a vote's logarithms do, and that most are not counted at all: the row is cut into k parts or
 * more, and the smallest of their largest will do; with more numbers wanted than there are threads it is the
 * smallest of the row. Once few are left that agree, they are put beside each other and ranked. Better
 * numbers are in; of those equal to the k-th the first ones, by index, fill up. A cluster of blocks shares a
 * row; each block has a stretch of it, so that its part of the output is a stretch too, and ascending. */
#ifndef SAC_KERNELS_TOP_K_RADIX_CUH
#define SAC_KERNELS_TOP_K_RADIX_CUH

#include "cluster.cuh"

namespace sac::select {

enum {
    DIGIT_BITS = 11,
    BINS = 1 << DIGIT_BITS,
    COPIES = 2, /* of the counts: neighbours often share a bin */
    FEW = 512,  /* that are ranked by looking at each other */
    KEPT = 16   /* numbers in a thread's registers; those beyond are read again each time */
};

typedef struct top_k_job {
    const float *scores;
    int32_t *indices;
    const int32_t *skip;
    int64_t stride;
    int n, k;
    int groups;        /* of 32 numbers, a warp */
    int share;         /* a block's of k */
    int parts_of_warp; /* whose largest numbers bound the k-th best; 0: there are too few */
} top_k_job;

/* Unsigned numbers in the order of the floats; both zeros are one, NaN is -infinity. */
__device__ __forceinline__ uint32_t order_of(float x) {
    if (x != x) x = -CUDART_INF_F;
    if (x == 0) x = 0;
    uint32_t u = __float_as_uint(x);
    return u & 0x80000000u ? ~u : u | 0x80000000u;
}

#define BELOW_ALL 0x007fffffu /* -infinity */

/* The distance from `least`, above -infinity, plus 2; 1 for what is below, 0 for no number. */
__device__ __forceinline__ uint32_t distance(uint32_t u, uint32_t least) {
    return u >= least ? u - least + 2 : u != 0;
}

/* How many lanes have one part of the row, so that there are k parts or more with numbers; 0: there are not.
 * Each of the cluster's warps has a stretch of so many groups of 32, as far as n goes. */
__device__ __forceinline__ int lanes_of_part(int n, int groups, int k) {
    int each = groups * 32, full = n / each, rest = min(32, n % each), lanes = 32;
    while (lanes > 0 && full * (32 / lanes) + (rest + lanes - 1) / lanes < k) lanes /= 2;
    return lanes;
}

/* The smallest and the largest number of the cluster, from those of each thread. */
__device__ __forceinline__ uint2 cluster_range(uint32_t smallest, uint32_t largest, uint2 *part,
                                               uint2 *of_block) {
    uint2 x;
    x.x = __reduce_min_sync(0xffffffffu, smallest);
    x.y = __reduce_max_sync(0xffffffffu, largest);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    __syncthreads();
    x = part[threadIdx.x % 32];
    x.x = __reduce_min_sync(0xffffffffu, x.x);
    x.y = __reduce_max_sync(0xffffffffu, x.y);
    if (threadIdx.x == 0) *of_block = x;
    cluster_sync();
#pragma unroll
    for (int r = 0; r < CLUSTER_WIDE; r++)
        if (r < cluster_size()) {
            uint2 y = *cluster_peer(of_block, r);
            x.x = min(x.x, y.x);
            x.y = max(x.y, y.y);
        }
    return x;
}

/* The best-th of the n numbers in the blocks' lists, each of *n_mine: found[0], and how many equal to it are
 * in: found[1]. All of the cluster come here; n <= FEW. */
__device__ __forceinline__ void rank_few(const uint32_t *few, const int *n_mine, int n, int best,
                                         uint32_t *all, int *found) {
    int tid = threadIdx.x, first = 0, mine = 0, at = 0;
    cluster_sync(); /* the lists are written */
#pragma unroll
    for (int r = 0; r < CLUSTER_WIDE; r++)
        if (r < cluster_size()) {
            int count = *cluster_peer(n_mine, r);
            if (tid >= first && tid < first + count) mine = r, at = tid - first;
            first += count;
        }
    if (tid < FEW) all[tid] = tid < n ? *(cluster_peer(few, mine) + at) : 0;
    __syncthreads();
    if (tid < n) {
        uint32_t x = all[tid];
        int better = 0, equal = 0;
        for (int i = 0; i < n; i += 4) {
            uint4 y = *(const uint4 *)(all + i);
            better += (y.x > x) + (y.y > x) + (y.z > x) + (y.w > x);
            equal += (y.x == x) + (y.y == x) + (y.z == x) + (y.w == x);
        }
        if (better < best && better + equal >= best) found[0] = (int)x, found[1] = best - better;
    }
    __syncthreads();
}

typedef struct radix_memory {
    int counts[COPIES][BINS], sums[2][BINS];
    uint32_t few[FEW], together[FEW];
} radix_memory;

/* With range.y above 0 range is known: a number that the k-th best is not below, and the largest. */
static __device__ __noinline__ void choose_by_radix(const top_k_job &a, uint2 range, radix_memory &m) {
    __shared__ int part[2][32], found[3], n_few;
    __shared__ uint2 range_of_warp[32], range_of_block;
    __shared__ int2 of_warp[32], of_block; /* numbers better than the k-th best, and equal to it */
    auto &counts = m.counts;
    auto &sums = m.sums;
    uint32_t *few = m.few, *together = m.together;
    for (int i = threadIdx.x; i < COPIES * BINS; i += CLUSTER_THREADS) (&counts[0][0])[i] = 0;
    int rank = cluster_rank(), size = cluster_size(), row = blockIdx.y, tid = threadIdx.x, lane = tid % 32;
    const float *scores = a.scores + row * a.stride;
    /* a block has a stretch of the row, and so has a warp: groups of 32, the first of them kept; 0 is below
     * all */
    int groups = a.groups, begin = (rank * 32 + tid / 32) * groups * 32 + lane;
    auto number = [&](int g) {
        int i = begin + g * 32;
        return i < a.n ? order_of(scores[i]) : 0;
    };
    uint32_t kept[KEPT];
#pragma unroll
    for (int g = 0; g < KEPT; g++) kept[g] = g < groups ? number(g) : 0;
    if (tid == 0) n_few = 0;
    bool bounded = range.y > 0;
    if (bounded) {
        __syncthreads();
    } else {
        int lanes = lanes_of_part(a.n, groups, a.k);
        uint32_t lowest = ~0u, highest = 0;
        auto widen = [&](uint32_t u) {
            lowest = min(lowest, u > BELOW_ALL ? u : ~0u);
            highest = max(highest, u);
        };
#pragma unroll
        for (int g = 0; g < KEPT; g++) widen(kept[g]);
        for (int g = KEPT; g < groups; g++) widen(number(g));
        if (lanes) {
            uint32_t of_part = highest;
            for (int i = 1; i < lanes; i *= 2)
                of_part = max(of_part, __shfl_xor_sync(0xffffffffu, of_part, i));
            lowest = of_part ? of_part : ~0u;
        }
        range = cluster_range(lowest, highest, range_of_warp, &range_of_block);
        bounded = lanes && range.x > BELOW_ALL;
    }
    uint32_t least = max(min(range.x, range.y), BELOW_ALL + 1);
    /* numbers below k others need not be counted, but where that is not known they have to be */
    uint32_t ignored = bounded ? 1 : 0;
#pragma unroll
    for (int g = 0; g < KEPT; g++) kept[g] = distance(kept[g], least);
    auto each = [&](auto f) {
#pragma unroll
        for (int g = 0; g < KEPT; g++)
            if (g < groups) f(g, kept[g]);
        for (int g = KEPT; g < groups; g++) f(g, distance(number(g), least));
    };
    uint32_t best = 0; /* the digits known so far of the k-th best, above the last `low` bits */
    int wanted = a.k;  /* of the numbers that agree with them */
    int turn = 0;      /* of two sums: one is written while others may still read the one before */
    int low = 32 - __clz(max(range.y, least) - least + 2);
#pragma unroll 1
    while (low > 0) {
        uint32_t known = low == 32 ? 0 : ~0u << low;
        int n_bins = 1 << min(low, (int)DIGIT_BITS);
        low = max(low - DIGIT_BITS, 0);
        each([&](int, uint32_t u) {
            if (u > ignored && (u & known) == best)
                atomicAdd(&counts[lane % COPIES][u >> low & (n_bins - 1)], 1);
        });
        __syncthreads();
        for (int i = tid; i < BINS; i += CLUSTER_THREADS) {
            int n = 0;
#pragma unroll
            for (int c = 0; c < COPIES; c++) {
                n += counts[c][i];
                counts[c][i] = 0; /* for the next digit */
            }
            sums[turn][i] = n;
        }
        cluster_sync();
        /* thread t has the bins BINS - 1 - 2t and the one below: best first */
        int top = BINS - 1 - 2 * tid, n[2] = {0, 0};
#pragma unroll
        for (int r = 0; r < CLUSTER_WIDE; r++) /* all asked for before the first answer */
            if (r < size) {
                int2 pair = *(const int2 *)(cluster_peer(sums[turn], r) + top - 1);
                n[0] += pair.y;
                n[1] += pair.x;
            }
        int before = block_sum_before(n[0] + n[1], part[turn]);
#pragma unroll
        for (int i = 0; i < 2; i++) {
            if (before < wanted && before + n[i] >= wanted) {
                found[0] = top - i;
                found[1] = wanted - before;
                found[2] = n[i];
            }
            before += n[i];
        }
        __syncthreads();
        turn ^= 1;
        best |= (uint32_t)found[0] << low;
        wanted = found[1];
        int left = found[2];
        __syncthreads();
        if (low == 0 || left > FEW) continue;
        each([&](int, uint32_t u) {
            if (u > ignored && u >> low == best >> low) few[atomicAdd(&n_few, 1)] = u;
        });
        rank_few(few, &n_few, left, wanted, together, found);
        best = (uint32_t)found[0];
        wanted = found[1];
        low = 0;
    }
    start_next();
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
    for (int r = 0; r < CLUSTER_WIDE; r++)
        if (r < rank) {
            int2 peer = *cluster_peer(&of_block, r);
            before.x += peer.x;
            before.y += peer.y;
        }
    cluster_arrive(); /* a block may not end while another reads its memory */
    int32_t *indices = a.indices + (int64_t)row * a.k;
    each([&](int g, uint32_t u) {
        uint32_t better = __ballot_sync(0xffffffffu, u > best), equal = __ballot_sync(0xffffffffu, u == best);
        uint32_t left = (1u << lane) - 1;
        int b = before.x + __popc(better & left), e = before.y + __popc(equal & left);
        if (u > best || (u == best && e < wanted)) indices[b + min(e, wanted)] = begin + g * 32;
        before.x += __popc(better);
        before.y += __popc(equal);
    });
    cluster_wait();
}

} // namespace sac::select

#endif
