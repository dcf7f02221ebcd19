/* top_k.cu - the k best of a row. The row is cut into parts, twice k or more, and the k-th best of their
 * largest numbers bounds the k-th best of all from below: only little more than k numbers reach the bound.
 * They are put beside each other in order of their places, and the k-th best is found among them by radix
 * selection within one block. A cluster of blocks shares the row: all are sent the largest numbers of all
 * parts, the first one the numbers that reach the bound. Where too many do, or k is too large for so many
 * parts, all numbers take part in the selection (top_k_radix.cuh). */
#include "top_k_radix.cuh"

enum {
    EACH = 8, /* parts that a thread looks at, and candidates */
    MOST = EACH * CLUSTER_THREADS
};

typedef union top_k_memory {
    struct {
        uint32_t all[MOST], mine[MOST / 2]; /* largest numbers of the row's parts, and of the block's */
    } largest;
    uint2 candidates[MOST]; /* of the row: numbers, in the order of their places, and these */
    radix_memory radix;
} top_k_memory;

/* What the block's threads tell each other; counts are zero between uses. */
typedef struct digit_memory {
    int counts[BINS], part[32], n_left;
    int3 found;
    uint32_t left[32];
    uint2 range[32];
    int candidates[CLUSTER_WIDE];                     /* of each block */
    mailbox parts_came, counts_came, candidates_came; /* in this order */
} digit_memory;

__shared__ digit_memory digits;

/* The wanted-th best of `inside` numbers from `from` on that differ from it in their last `bits` bits. */
typedef struct pivot {
    uint32_t from;
    int bits, wanted, inside;
} pivot;

__device__ __forceinline__ float number_of(uint32_t u) {
    return __uint_as_float(u & 0x80000000u ? u & 0x7fffffffu : ~u);
}

__device__ __forceinline__ bool is_inside(uint32_t u, pivot p) {
    return u >= p.from && u - p.from <= (p.bits ? ~0u >> (32 - p.bits) : 0);
}
/* The compiler would find the counts' address anew wherever one grows. */
__device__ __forceinline__ void count_if(bool counts, uint32_t bin) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.s32 p, %0, 0;\n@p red.shared.add.u32 [%1], 1;\n}" ::"r"((int)counts),
        "r"(bin)
        : "memory");
}

/* One more digit of the pivot among the block's numbers, so many a thread at most. A function for its size:
 * instructions are fetched once. */
static __device__ __noinline__ pivot narrow(uint4 x, uint4 y, int each, pivot p) {
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, shift = max(p.bits - DIGIT_BITS, 0);
    uint32_t u[EACH] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w}, first_bin = shared_address(digits.counts);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (j >= each) break;
        count_if(is_inside(u[j], p), first_bin + ((u[j] - p.from) >> shift) * 4);
    }
    __syncthreads();
    int top = BINS - 1 - 2 * tid; /* this thread's better one of two bins */
    int2 *bins = (int2 *)&digits.counts[top - 1], n = *bins;
    *bins = make_int2(0, 0);
    int of_warp = __reduce_add_sync(0xffffffffu, n.x + n.y);
    if (lane == 0) digits.part[warp] = of_warp;
    __syncthreads();
    int before = __reduce_add_sync(0xffffffffu, lane < warp ? digits.part[lane] : 0);
    if (before < p.wanted && before + of_warp >= p.wanted) {
        int sum = n.x + n.y;
#pragma unroll
        for (int i = 1; i < 32; i *= 2) {
            int z = __shfl_up_sync(0xffffffffu, sum, i);
            if (lane >= i) sum += z;
        }
        int wanted = p.wanted - (before + sum - n.x - n.y);
        if (wanted > 0 && wanted <= n.y) digits.found = make_int3(top, wanted, n.y);
        if (wanted > n.y && wanted <= n.x + n.y) digits.found = make_int3(top - 1, wanted - n.y, n.x);
    }
    __syncthreads();
    int3 found = digits.found;
    return {p.from + ((uint32_t)found.x << shift), shift, found.y, found.z};
}

/* The pivot itself, once as few are left as a warp has lanes; each warp finds it for itself. */
static __device__ __forceinline__ pivot rank_left(const uint32_t *u, pivot p) {
    int lane = threadIdx.x % 32, better = 0, equal = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (is_inside(u[j], p)) digits.left[atomicAdd(&digits.n_left, 1)] = u[j];
    __syncthreads();
    uint32_t x = lane < p.inside ? digits.left[lane] : 0;
    for (int i = 0; i < p.inside; i++) {
        uint32_t y = __shfl_sync(0xffffffffu, x, i);
        better += y > x;
        equal += y == x;
    }
    bool is_pivot = lane < p.inside && better < p.wanted && better + equal >= p.wanted;
    int of = __ffs((int)__ballot_sync(0xffffffffu, is_pivot)) - 1;
    return {__shfl_sync(0xffffffffu, x, of), 0, p.wanted - __shfl_sync(0xffffffffu, better, of), p.inside};
}

/* The range of the block's numbers above -infinity, in p; returns the largest. */
__device__ __forceinline__ uint32_t range_of(uint4 x, uint4 y, pivot *p) {
    uint32_t u[EACH] = {x.x, x.y, x.z, x.w, y.x, y.y, y.z, y.w};
    uint2 r = make_uint2(~0u, 0);
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        r.x = min(r.x, u[j] > BELOW_ALL ? u[j] : ~0u);
        r.y = max(r.y, u[j]);
    }
    r.x = __reduce_min_sync(0xffffffffu, r.x);
    r.y = __reduce_max_sync(0xffffffffu, r.y);
    if (threadIdx.x % 32 == 0) digits.range[threadIdx.x / 32] = r;
    __syncthreads();
    r = digits.range[threadIdx.x % 32];
    p->from = __reduce_min_sync(0xffffffffu, r.x);
    r.y = __reduce_max_sync(0xffffffffu, r.y);
    p->bits = 32 - __clz(max(r.y, p->from) - p->from);
    return r.y;
}

/* Writes the places of the best of the n candidates; of those equal to the pivot as many as are wanted. Each
 * thread has every CLUSTER_THREADS-th. */
__device__ __forceinline__ void write_best(const uint32_t *u, const int *place, int n, pivot p,
                                           int32_t *indices) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    uint32_t lanes_before = (1u << lane) - 1;
    int(*tally)[32] = (int(*)[32])digits.counts; /* better ones, and 1 << 16 times equal ones */
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (j * CLUSTER_THREADS >= n) break;
        uint32_t better = __ballot_sync(0xffffffffu, u[j] > p.from),
                 equal = __ballot_sync(0xffffffffu, u[j] == p.from);
        if (lane == 0) tally[j][warp] = __popc(better) + (__popc(equal) << 16);
    }
    __syncthreads();
    int before = 0;
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        if (j * CLUSTER_THREADS >= n) break;
        uint32_t better = __ballot_sync(0xffffffffu, u[j] > p.from),
                 equal = __ballot_sync(0xffffffffu, u[j] == p.from);
        int those = tally[j][lane], at = before + __reduce_add_sync(0xffffffffu, lane < warp ? those : 0);
        before += __reduce_add_sync(0xffffffffu, those);
        int b = (at & 0xffff) + __popc(better & lanes_before), e = (at >> 16) + __popc(equal & lanes_before);
        if (u[j] > p.from || (u[j] == p.from && e < p.wanted)) indices[b + min(e, p.wanted)] = place[j];
    }
}

/* False in all of the cluster's blocks where there are too many candidates; *range is then their range. A
 * thread keeps its first KEPT numbers in registers; with MORE there are others, which are read again each
 * time. */
template <int KEPT, bool MORE>
static __device__ __forceinline__ bool choose_by_parts(const top_k_job &a, uint2 *range,
                                                       top_k_memory &memory) {
    int rank = cluster_rank(), size = cluster_size(), tid = threadIdx.x, warp = tid / 32, lane = tid % 32;
    int begin = (rank * 32 + warp) * a.groups * 32 + lane; /* a warp has a stretch of the row, groups of 32 */
    int left = min(a.n - begin, a.groups * 32 - lane);
    const float *scores = a.scores + blockIdx.y * a.stride + begin;
    float kept[KEPT];
    auto read = [&](int first, float *x) {
#pragma unroll
        for (int g = 0; g < KEPT; g++)
            x[g] = (first + g) * 32 < left ? scores[(first + g) * 32] : -CUDART_INF_F;
    };
    auto each_round = [&](auto f) {
        f(kept, 0);
        for (int first = KEPT; MORE && first < a.groups; first += KEPT) {
            float x[KEPT];
            read(first, x);
            f(x, first);
        }
    };
    read(0, kept);
    float top[4] = {-CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F, -CUDART_INF_F};
    each_round([&](const float *x, int) {
#pragma unroll
        for (int g = 0; g < KEPT; g++) top[g % 4] = fmaxf(top[g % 4], x[g]); /* NaN is no number */
    });
    /* parts are a thread's groups, every fourth, every second or all of them, or those of some lanes */
    int of_warp = a.parts_of_warp, of_block = of_warp * 32, n_parts = of_block * size;
    if (of_warp <= 64) top[0] = fmaxf(top[0], top[2]), top[1] = fmaxf(top[1], top[3]);
    if (of_warp <= 32) top[0] = fmaxf(top[0], top[1]);
#pragma unroll 1
    for (int i = 1; i * of_warp < 32; i *= 2) top[0] = fmaxf(top[0], __shfl_xor_sync(0xffffffffu, top[0], i));
    int at_part = warp * of_warp + (of_warp < 32 ? lane * of_warp / 32 : lane);
#pragma unroll
    for (int j = 0; j < 4; j++)
        if (j * 32 < of_warp)
            memory.largest.mine[at_part + j * 32] = order_of(top[j]); /* lanes of a part: the same */
    __syncthreads();
    if (tid == 0) {
        mailbox_expect(&digits.parts_came, n_parts * 4);
        mailbox_expect(&digits.counts_came, size * 4);
    }
    for (int i = tid * 4; i < n_parts; i += CLUSTER_THREADS * 4) { /* the block's parts to all blocks */
        int part = i & (of_block - 1);
        send((uint4 *)memory.largest.all, (rank * of_block + part) / 4,
             *(const uint4 *)&memory.largest.mine[part], i >> a.block_bits, &digits.parts_came);
    }
    mailbox_wait(&digits.parts_came);
    uint4 u[2];
#pragma unroll
    for (int j = 0; j < 2; j++) {
        int i = (tid + j * CLUSTER_THREADS) * 4;
        u[j] = make_uint4(0, 0, 0, 0);
        if (i < n_parts) u[j] = *(const uint4 *)&memory.largest.all[i];
    }
    pivot p = {0, 0, a.k, n_parts};
    uint32_t best = range_of(u[0], u[1], &p);
    do p = narrow(u[0], u[1], n_parts <= MOST / 2 ? EACH / 2 : EACH, p);
    while (p.bits > 0 && p.inside > a.k / 4 + 16);
    if (p.inside == 0) return false;

    float least = number_of(p.from);
    int reach = 0;
    each_round([&](const float *x, int) {
#pragma unroll
        for (int g = 0; g < KEPT; g++) reach += x[g] >= least;
    });
    reach = __reduce_add_sync(0xffffffffu, reach);
    if (lane == 0) digits.part[warp] = reach;
    __syncthreads();
    int of_warps = digits.part[lane], at = __reduce_add_sync(0xffffffffu, lane < warp ? of_warps : 0);
    int n = __reduce_add_sync(0xffffffffu, of_warps);
    if (tid < size) send(digits.candidates, rank, n, tid, &digits.counts_came);
    mailbox_wait(&digits.counts_came); /* by now all blocks have read what lies where candidates go */
    int of_blocks = lane < size ? digits.candidates[lane] : 0;
    at += __reduce_add_sync(0xffffffffu, lane < rank ? of_blocks : 0);
    n = __reduce_add_sync(0xffffffffu, of_blocks);
    if (n > MOST) {
        *range = make_uint2(p.from, best);
        return false;
    }
    if (rank == 0 && tid == 0) mailbox_expect(&digits.candidates_came, n * 8);
    each_round([&](const float *x, int first) {
#pragma unroll
        for (int g = 0; g < KEPT; g++) {
            uint32_t those = __ballot_sync(0xffffffffu, x[g] >= least);
            if (!those) continue;
            int mine = at + __popc(those & ((1u << lane) - 1));
            if (x[g] >= least)
                send(memory.candidates, mine,
                     make_uint2(order_of(x[g]), (uint32_t)(begin + (first + g) * 32)), 0,
                     &digits.candidates_came);
            at += __popc(those);
        }
    });
    if (rank != 0) return true; /* one block does the rest */
    mailbox_wait(&digits.candidates_came);
    start_next(); /* now that the other processors are free: the next one's blocks share out their work evenly
                   */
    uint32_t c[EACH];
    int place[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) {
        int i = tid + j * CLUSTER_THREADS;
        uint2 x = i < n ? memory.candidates[i] : make_uint2(0, 0);
        c[j] = x.x, place[j] = (int)x.y;
    }
    int each = (n + CLUSTER_THREADS - 1) / CLUSTER_THREADS;
    p = {p.from, 32 - __clz(best - p.from), a.k, n};
    uint4 lower = make_uint4(c[0], c[1], c[2], c[3]), upper = make_uint4(c[4], c[5], c[6], c[7]);
    while (p.bits > 0 && p.inside > 32) p = narrow(lower, upper, each, p);
    if (p.bits > 0) p = rank_left(c, p);
    write_best(c, place, n, p, a.indices + (int64_t)blockIdx.y * a.k);
    return true;
}

template <int KEPT, bool MORE>
static __global__ void __launch_bounds__(CLUSTER_THREADS) top_k_kernel(const __grid_constant__ top_k_job a) {
    extern __shared__ __align__(16) uint8_t dynamic[];
    top_k_memory &memory = *(top_k_memory *)dynamic;
    for (int i = threadIdx.x; i < BINS; i += CLUSTER_THREADS) digits.counts[i] = 0;
    if (threadIdx.x == 0) {
        digits.n_left = 0;
        digits.found = make_int3(0, 0, 0); /* fewer parts than k may have numbers */
        mailboxes_open(&digits.parts_came, 3);
    }
    cluster_sync(); /* mailboxes are open */
    wait_for_last();
    if (is_skipped(a.skip)) return;
    uint2 range = make_uint2(0, 0);
    if (a.parts_of_warp == 0 || !choose_by_parts<KEPT, MORE>(a, &range, memory))
        choose_by_radix(a, range, memory.radix);
}

static __global__ void all_indices_kernel(int32_t *indices, int rows, int n, const int32_t *skip) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < (int64_t)rows * n && !is_skipped(skip)) indices[i] = (int32_t)(i % n);
}

/* The fewest parts of a warp's stretch that make 2 k parts of full warps; 0: none would do. */
static int parts_of_warp(int64_t n, int64_t k, int groups, int size) {
    int64_t full = n / (groups * 32);
    int parts = 1;
    while (parts < 128 && full * parts < 2 * k) parts *= 2;
    bool fits = parts * 32 * size <= MOST && parts <= 32 * groups;
    return fits && full * parts >= 2 * k ? parts : 0;
}

static const struct {
    void (*kernel)(top_k_job);
    int kept;
} kernels[] = {
    {top_k_kernel<8, false>, 8}, {top_k_kernel<16, false>, 16}, {top_k_kernel<16, true>, INT32_MAX}};

/* Room for candidates, once a card; returns how many blocks may share each of the rows. */
static int prepare(const sac_stream *s, int rows) {
    static std::atomic<int> wide_at_once[64]; /* and 1 more: 0 is not known */
    std::atomic<int> &known = wide_at_once[s->device->index % 64];
    int at_once = known.load() - 1;
    if (at_once < 0) {
        const int bytes = sizeof(top_k_memory);
        bool wide = s->device->compute >= 90;
        for (auto &k : kernels) {
            if (cudaFuncSetAttribute(k.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes) !=
                cudaSuccess)
                return 0;
            wide = wide && cudaFuncSetAttribute(k.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed,
                                                1) == cudaSuccess;
        }
        cudaLaunchAttribute attributes[2] = {};
        cudaLaunchConfig_t c = cluster_config(s, CLUSTER_WIDE, 1, bytes, attributes);
        if (!wide || cudaOccupancyMaxActiveClusters(&at_once, kernels[1].kernel, &c) != cudaSuccess)
            at_once = 0;
        cudaGetLastError(); /* a refusal is an answer */
        known.store(at_once + 1);
    }
    return rows <= at_once ? CLUSTER_WIDE : CLUSTER_MAX;
}

extern "C" sac_status sac_cuda_top_k(const sac_stream *s, const sac_top_k_args *a) {
    int64_t k = min_of(a->k, a->n);
    if (a->n > 1 << 30) return SAC_UNSUPPORTED;
    if (k <= 0 || a->n_rows == 0) return SAC_OK;
    if (k == a->n) {
        all_indices_kernel<<<(unsigned)ceil_div(a->n_rows * k, 256), 256, 0, cuda_stream(s)>>>(
            a->indices, a->n_rows, (int)k, a->skip);
        return launched();
    }
    int most = prepare(s, a->n_rows);
    if (!most) return SAC_DEVICE;
    int size = cluster_for(s, a->n, a->n_rows > 8 ? 16 : 4, most);
    if (s->device->compute >= 90) size = max_of(size, 2); /* memcheck refuses messages within one block */
    int groups = (int)ceil_div(a->n, (int64_t)size * CLUSTER_THREADS),
        parts = parts_of_warp(a->n, k, groups, size);
    top_k_job j = {a->scores, a->indices, a->skip, a->stride, (int)a->n, (int)k, groups, parts, 5};
    while (1 << j.block_bits < parts * 32) j.block_bits++;
    int i = 0;
    while (kernels[i].kept < groups) i++;
    return launch_clusters_of(s, kernels[i].kernel, j, a->n_rows, size, sizeof(top_k_memory));
}
