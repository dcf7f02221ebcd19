/* top_k.cu - the k best of a row. A cluster of blocks shares the row and takes turns at its stretches, a warp
 * each, so that the blocks' shares are alike. A block cuts its own into parts, and as many of their largest
 * numbers as its share of k reach a bound: the smallest of the blocks' bounds is one that k numbers of the
 * row reach, and few more. The blocks count these by levels and tell each other, then the numbers of that
 * level in which the k-th best lies, which each ranks for itself. Where a block has too few numbers, or one
 * level too many, all numbers take part in a selection by digits (top_k_radix.cuh). */
#include "top_k_radix.cuh"

namespace sac::select {

enum {
    WARPS = CLUSTER_THREADS / 32,
    MOST_PARTS = 128, /* of a warp's numbers */
    LEVELS = 256,
    HALF = LEVELS / 2,
    PITCH = LEVELS + 4 /* one level of several blocks: in several banks */
};

typedef union top_k_memory {
    struct {
        uint32_t largest[MOST_PARTS * WARPS];            /* numbers of the block's parts */
        int counts[LEVELS], levels[CLUSTER_WIDE][PITCH]; /* of this block, and of each */
    };
    radix_memory radix;
} top_k_memory;

/* What the blocks tell each other, and the warps of each. */
typedef struct meeting {
    uint4 bounds[CLUSTER_WIDE];      /* bound, middle, largest number */
    uint64_t few[FEW];               /* of one level: keys */
    int better[WARPS][CLUSTER_WIDE]; /* numbers above that level, of each stretch */
    mailbox bounds_came, levels_came, few_came;
    uint4 reached[WARPS]; /* two numbers, each with how many parts reach it */
    int sums[LEVELS], of_levels[LEVELS / 32], of_warp[WARPS], n_few;
    uint64_t last; /* key that is in */
} meeting;

__shared__ meeting meet;
static_assert(sizeof(top_k_memory) + sizeof(meeting) <= 47 << 10, "what any kernel may have");

__device__ __forceinline__ float number_of(uint32_t u) {
    return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u);
}

/* Better numbers have larger keys, and the first of equal ones. */
__device__ __forceinline__ uint64_t key_of(uint32_t u, int place) {
    return (uint64_t)u << 32 | (uint32_t)~place;
}
__device__ __forceinline__ int place_of(uint64_t key) {
    return ~(int)(uint32_t)key;
}

/* Levels from `least` to `best`: half of them below `middle`. */
typedef struct scale {
    uint32_t least, middle, best;
    int lower, upper; /* bits of a level */
} scale;

__device__ __forceinline__ scale scale_of(uint32_t least, uint32_t middle, uint32_t best) {
    scale s = {least, min(middle, best), best, 0, 0};
    const int bits_of_half = 31 - __clz(HALF);
    s.lower = max(32 - __clz(s.middle - least) - bits_of_half, 0);
    s.upper = max(32 - __clz(best - s.middle) - bits_of_half, 0);
    return s;
}
__device__ __forceinline__ int level_of(uint32_t u, const scale &s) {
    return u < s.middle ? (int)((u - s.least) >> s.lower) : HALF + (int)((u - s.middle) >> s.upper);
}
__device__ __forceinline__ uint32_t floor_of(int level, const scale &s) {
    return level < HALF ? s.least + ((uint32_t)level << s.lower)
                        : s.middle + ((uint32_t)(level - HALF) << s.upper);
}
/* What the level's numbers are below: the last ones may end before their bits do. */
__device__ __forceinline__ uint32_t end_of(int level, const scale &s) {
    const uint32_t most = level < HALF ? s.middle : ~0u;
    uint64_t end = level < HALF ? s.least + ((uint64_t)(level + 1) << s.lower)
                                : s.middle + ((uint64_t)(level + 1 - HALF) << s.upper);
    return end < most ? (uint32_t)end : most;
}

/* x[i] of so many registers, a power of two. */
template <int N> __device__ __forceinline__ float pick(const float *x, int i) {
    if constexpr (N == 1) {
        return x[0];
    } else {
        float half[N / 2];
#pragma unroll
        for (int j = 0; j < N / 2; j++) half[j] = i & N / 2 ? x[j + N / 2] : x[j];
        return pick<N / 2>(half, i);
    }
}

/* A lane's numbers of its warp's stretch of the row, one of each group of 32: the first KEPT are in
 * registers; with MORE there are others, which are read again each time. */
template <int KEPT, bool MORE> struct stretch {
    const float *scores;
    int place, left, groups; /* of its first number; from there on to the end of the stretch or the row */
    float kept[KEPT];

    __device__ __forceinline__ stretch(const top_k_job &a, int first_place) {
        int lane = threadIdx.x % 32;
        place = first_place + lane, left = min(a.n - place, a.groups * 32 - lane), groups = a.groups;
        scores = a.scores + blockIdx.y * a.stride + place;
        read(0, kept);
    }
    __device__ __forceinline__ void read(int first, float *x) const {
#pragma unroll
        for (int g = 0; g < KEPT; g++)
            x[g] = (first + g) * 32 < left ? scores[(first + g) * 32] : -CUDART_INF_F;
    }
    /* f(numbers of KEPT groups, the first one's number) */
    template <typename F> __device__ __forceinline__ void each_round(F f) const {
        f(kept, 0);
        for (int first = KEPT; MORE && first < groups; first += KEPT) {
            float x[KEPT];
            read(first, x);
            f(x, first);
        }
    }
    /* f(number in its order, place) of the few for which is(number) */
    template <typename IS, typename F> __device__ __forceinline__ void each_of_few(IS is, F f) const {
        each_round([&](const float *x, int first) {
            uint32_t those = 0;
#pragma unroll
            for (int g = 0; g < KEPT; g++) those |= (uint32_t)is(x[g]) << g;
            for (; those; those &= those - 1) {
                int g = __ffs((int)those) - 1;
                f(order_of(pick<KEPT>(x, g)), place + (first + g) * 32);
            }
        });
    }
};

/* Tells all blocks a bound that this one's share of k reaches, a number that half of it may reach, and the
 * largest. */
template <int KEPT, bool MORE>
__device__ __forceinline__ void tell_bounds(const top_k_job &a, const stretch<KEPT, MORE> &own,
                                            top_k_memory &m) {
    int rank = cluster_rank(), size = cluster_size(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float top[4] = {-CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F};
    own.each_round([&](const float *x, int) {
#pragma unroll
        for (int g = 0; g < KEPT; g++) top[g % 4] = fmaxf(top[g % 4], x[g]); /* NaN is no number */
    });
    /* parts are a thread's groups, every fourth, every second or all of them, or those of some lanes */
    int of_warp = a.parts_of_warp;
    if (of_warp <= 64) top[0] = fmaxf(top[0], top[2]), top[1] = fmaxf(top[1], top[3]);
    if (of_warp <= 32) top[0] = fmaxf(top[0], top[1]);
#pragma unroll 1
    for (int i = 1; i * of_warp < 32; i *= 2) top[0] = fmaxf(top[0], __shfl_xor_sync(0xffffffffu, top[0], i));
    int at_part = warp * of_warp + (of_warp < 32 ? lane * of_warp / 32 : lane);
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (j * 32 < of_warp) m.largest[at_part + j * 32] = order_of(top[j]); /* lanes of a part: the same */
    __syncthreads();
    /* two of each warp's parts, other ones in each warp, are tried */
    uint32_t x = m.largest[warp * of_warp + (warp & (of_warp - 1))],
             y = m.largest[warp * of_warp + ((warp + of_warp / 2) & (of_warp - 1))], best = 0;
    int reach = 0; /* x and 1 << 16 times y */
#pragma unroll 8
    for (int i = lane; i < of_warp * WARPS; i += 32) {
        uint32_t u = m.largest[i];
        reach += (u >= x) + (u >= y) * (1 << 16);
        best = max(best, u);
    }
    reach = __reduce_add_sync(0xffffffffu, reach);
    if (lane == 0) meet.reached[warp] = make_uint4(x, (uint32_t)reach & 0xffff, y, (uint32_t)reach >> 16);
    __syncthreads();
    if (warp > 0) return;
    if (lane == 0) {
        mailbox_expect(&meet.bounds_came, size * (int)sizeof(uint4));
        mailbox_expect(&meet.levels_came, size * LEVELS * (int)sizeof(int));
    }
    uint4 r = meet.reached[lane];
    uint32_t share = (uint32_t)a.share, bound = max(r.y >= share ? r.x : 0, r.w >= share ? r.z : 0),
             middle = min(r.y <= share / 2 ? r.x : ~0u, r.w <= share / 2 ? r.z : ~0u);
    bound = __reduce_max_sync(0xffffffffu, bound);
    middle = __reduce_min_sync(0xffffffffu, middle);
    best = __reduce_max_sync(0xffffffffu, best);
    if (lane < size) send(meet.bounds, rank, make_uint4(bound, middle, best, 0), lane, &meet.bounds_came);
}

/* Tells all blocks how many numbers this one has of each level. */
template <int KEPT, bool MORE>
__device__ __forceinline__ void tell_levels(const stretch<KEPT, MORE> &own, const scale &s, top_k_memory &m) {
    const float least = number_of(s.least);
    own.each_of_few([&](float x) { return x >= least; },
                    [&](uint32_t u, int) { atomicAdd(&m.counts[level_of(u, s)], 1); });
    __syncthreads();
    for (int i = threadIdx.x; i < cluster_size() * (LEVELS / 4); i += CLUSTER_THREADS) {
        int four = i % (LEVELS / 4);
        send((uint4 *)m.levels[cluster_rank()], four, ((const uint4 *)m.counts)[four], i / (LEVELS / 4),
             &meet.levels_came);
    }
}

/* What reaches `wanted` numbers, counted from the best level down. */
typedef struct found_level {
    int level, wanted, inside; /* so many of the level's are wanted */
} found_level;

/* From what all blocks have counted. */
__device__ __forceinline__ found_level find_level(const top_k_memory &m, int wanted) {
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, size = cluster_size();
    if (tid < LEVELS) {
        int n = 0;
#pragma unroll
        for (int r = 0; r < CLUSTER_WIDE; r++)
            if (r < size) n += m.levels[r][LEVELS - 1 - tid];
        n = warp_sum_to(n);
        meet.sums[tid] = n;
        if (lane == 31) meet.of_levels[warp] = n;
    }
    __syncthreads();
    int up_to = warp_sum_to(lane < LEVELS / 32 ? meet.of_levels[lane] : 0);
    int at = __ffs((int)__ballot_sync(0xffffffffu, up_to >= wanted)) - 1; /* 32 levels */
    wanted -= at > 0 ? __shfl_sync(0xffffffffu, up_to, max(at - 1, 0)) : 0;
    up_to = meet.sums[at * 32 + lane];
    int in = __ffs((int)__ballot_sync(0xffffffffu, up_to >= wanted)) - 1;
    int before = __shfl_sync(0xffffffffu, up_to, max(in - 1, 0)), with = __shfl_sync(0xffffffffu, up_to, in);
    if (in == 0) before = 0;
    return {LEVELS - 1 - (at * 32 + in), wanted - before, with - before};
}

/* Tells all blocks this one's numbers of the level found, and how many above it each of its stretches has. */
template <int KEPT, bool MORE>
__device__ __forceinline__ void tell_few(const stretch<KEPT, MORE> &own, const scale &s,
                                         const found_level &found, const top_k_memory &m) {
    int rank = cluster_rank(), size = cluster_size(), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const float lower = number_of(floor_of(found.level, s)),
                upper = number_of(end_of(found.level, s)); /* NaN: none reaches it */
    if (threadIdx.x == 0) mailbox_expect(&meet.few_came, size * WARPS * 4 + found.inside * 8);
    int before = __reduce_add_sync(0xffffffffu, lane < rank ? m.levels[lane][found.level] : 0);
    own.each_of_few([&](float x) { return x >= lower && !(x >= upper); },
                    [&](uint32_t u, int place) {
                        int i = before + atomicAdd(&meet.n_few, 1);
                        for (int r = 0; r < size; r++) send(meet.few, i, key_of(u, place), r, &meet.few_came);
                    });
    int better = 0;
    own.each_round([&](const float *x, int) {
#pragma unroll
        for (int g = 0; g < KEPT; g++) better += x[g] >= upper;
    });
    better = __reduce_add_sync(0xffffffffu, better);
    if (lane < size) send(meet.better[warp], rank, better, lane, &meet.few_came);
}

/* Writes the places of the numbers above the level found and of its best ones. */
template <int KEPT, bool MORE>
__device__ __forceinline__ void write_best(const top_k_job &a, const stretch<KEPT, MORE> &own,
                                           const found_level &found, int first_place) {
    int rank = cluster_rank(), size = cluster_size(), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    if (tid < found.inside) {
        uint64_t key = meet.few[tid];
        int n = 0;
        for (int i = 0; i < found.inside; i++) n += meet.few[i] > key;
        if (n == found.wanted - 1) meet.last = key;
    }
    int better = lane < size ? meet.better[warp][lane] : 0,
        of_stretches = __reduce_add_sync(0xffffffffu, better);
    if (lane == 0) meet.of_warp[warp] = of_stretches;
    __syncthreads();
    const uint64_t last = meet.last;
    int at = (lane < rank ? better : 0) + (lane < warp ? meet.of_warp[lane] : 0);
    for (int i = lane; i < found.inside; i += 32)
        at += meet.few[i] >= last && place_of(meet.few[i]) < first_place;
    at = __reduce_add_sync(0xffffffffu, at);
    int32_t *indices = a.indices + (int64_t)blockIdx.y * a.k;
    const float worst = number_of((uint32_t)(last >> 32));
    own.each_round([&](const float *x, int first) {
#pragma unroll
        for (int g = 0; g < KEPT; g++) {
            if (!__any_sync(0xffffffffu, x[g] >= worst)) continue;
            int place = own.place + (first + g) * 32;
            bool is_in = x[g] > worst || (x[g] == worst && place <= place_of(last));
            uint32_t those = __ballot_sync(0xffffffffu, is_in);
            if (is_in) indices[at + __popc(those & ((1u << lane) - 1))] = place;
            at += __popc(those);
        }
    });
}

/* False in all of the cluster's blocks where it does not work out; *range is then what the selection by
 * digits takes. */
template <int KEPT, bool MORE>
static __device__ __forceinline__ bool choose_by_levels(const top_k_job &a, uint2 *range, top_k_memory &m) {
    int size = cluster_size(), first_place = (threadIdx.x / 32 * size + cluster_rank()) * a.groups * 32;
    stretch<KEPT, MORE> own(a, first_place);
    tell_bounds(a, own, m);
    mailbox_wait(&meet.bounds_came);
    uint4 b = meet.bounds[threadIdx.x & (size - 1)];
    scale s = scale_of(__reduce_min_sync(0xffffffffu, b.x), __reduce_min_sync(0xffffffffu, b.y),
                       __reduce_max_sync(0xffffffffu, b.z));
    if (s.least <= BELOW_ALL) return false;
    start_next();
    tell_levels(own, s, m);
    mailbox_wait(&meet.levels_came);
    found_level found = find_level(m, a.k);
    if (found.inside > FEW) {
        *range = make_uint2(s.least, s.best);
        __syncthreads(); /* all have found that */
        return false;
    }
    tell_few(own, s, found, m);
    mailbox_wait(&meet.few_came);
    write_best(a, own, found, first_place);
    return true;
}

template <int KEPT, bool MORE>
static __global__ void __launch_bounds__(CLUSTER_THREADS) top_k_kernel(const __grid_constant__ top_k_job a) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    top_k_memory &memory = *(top_k_memory *)dynamic;
    if (threadIdx.x < LEVELS) memory.counts[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        meet.n_few = 0;
        mailboxes_open(&meet.bounds_came, 3);
    }
    cluster_sync(); /* mailboxes are open */
    wait_for_last();
    if (is_skipped(a.skip)) return;
    uint2 range = make_uint2(0, 0);
    if (a.parts_of_warp == 0 || !choose_by_levels<KEPT, MORE>(a, &range, memory))
        choose_by_radix(a, range, memory.radix);
}

static __global__ void all_indices_kernel(int32_t *indices, int rows, int n, const int32_t *skip) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (int64_t)rows * n && !is_skipped(skip)) indices[i] = (int32_t)(i % n);
}

/* The fewest parts of a warp's stretch that make twice a block's share with full warps alone; 0: none would
 * do. */
static int parts_of_warp(int64_t n, int share, int groups, int size) {
    int64_t full = n / (groups * 32) / size;
    int parts = 1;
    while (parts < MOST_PARTS && full * parts < 2 * share) parts *= 2;
    return parts <= 32 * groups && full * parts >= 2 * share ? parts : 0;
}

static const struct {
    void (*kernel)(top_k_job);
    int kept;
} kernels[] = {
    {top_k_kernel<8, false>, 8}, {top_k_kernel<16, false>, 16}, {top_k_kernel<16, true>, INT32_MAX}};

/* How many clusters of so many blocks the card can place at once, which it is asked once. */
static int places(const sac_stream *s, int size) {
    static std::atomic<int> known[64][CLUSTER_WIDE + 1]; /* and 1 more: 0 is not known */
    std::atomic<int> &answer = known[s->device->index % 64][size];
    if (answer.load()) return answer.load() - 1;
    cudaLaunchAttribute attributes[MOST_ATTRIBUTES] = {};
    cudaLaunchConfig_t c = launch_config(s, cluster_plan(size, 1, sizeof(top_k_memory)), attributes);
    bool allowed = true;
    int n = 0;
    for (auto &k : kernels)
        allowed = allowed && (size <= CLUSTER_MAX ||
                              cudaFuncSetAttribute(k.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed,
                                                   1) == cudaSuccess);
    if (!allowed || cudaOccupancyMaxActiveClusters(&n, kernels[1].kernel, &c) != cudaSuccess) n = 0;
    cudaGetLastError(); /* a refusal is an answer */
    answer.store(n + 1);
    return n;
}

/* Blocks that share a row: as many as help, where the card can place all rows' at once. */
static int blocks_of_row(const sac_stream *s, int64_t n, int rows) {
    if (s->device->compute < 90) return 1;
    int size = 2; /* memcheck refuses messages within one block */
    while ((n > size * TOP_K_WORTH && 2 * size <= CLUSTER_WIDE && rows <= places(s, 2 * size)) ||
           (n > size * TOP_K_ENOUGH && 2 * size <= CLUSTER_MAX))
        size *= 2;
    return size;
}

extern "C" sac_status sac_cuda_top_k(const sac_stream *s, const sac_top_k_args *a) {
    int64_t k = min_of(a->k, a->n);
    if (a->n > 1 << 30) return SAC_UNSUPPORTED;
    if (k <= 0 || a->n_rows == 0) return SAC_OK;
    if (k == a->n) {
        return launch(s, {(unsigned)ceil_div(a->n_rows * k, 256), 256}, all_indices_kernel, a->indices,
                      a->n_rows, (int)k, a->skip);
    }
    int size = blocks_of_row(s, a->n, a->n_rows);
    int groups = (int)ceil_div(a->n, (int64_t)size * CLUSTER_THREADS), share = (int)ceil_div(k, size);
    top_k_job j = {a->scores, a->indices, a->skip,
                   a->stride, (int)a->n,  (int)k,
                   groups,    share,      parts_of_warp(a->n, share, groups, size)};
    int i = 0;
    while (kernels[i].kept < groups) i++;
    return launch_clusters_of(s, kernels[i].kernel, j, a->n_rows, size, sizeof(top_k_memory));
}

} // namespace sac::select
