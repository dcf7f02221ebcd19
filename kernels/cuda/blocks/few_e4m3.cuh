/* few_e4m3.cuh - 1 to 64 rows of x with FP8 weights that lie as plain rows (code_layout.h, e4m3_rows), both as codes of e4m3, on Hopper's
 * tensor cores: bound by reading weights once. No code is converted.
 *
 * A tile is two boxes of 64 rows of w, which may lie apart (gate and up, the halves of a head); w is A of the products, so that few rows of
 * x fill a tensor core. The steps of 128 elements of all tiles are one list, of which each block, one a processor, has an equal share. One
 * warp copies boxes of w and the same stretch of x to a ring of stages, of w already while the kernel before is at work. Two groups of
 * four warps have a box each. Sums of 128 elements leave the tensor core, whose sums have few bits, for f32, times their scales where
 * those are of blocks. The blocks that share a tile put their sums into scratch, and the last to come adds them up in their order. */
#ifndef SAC_KERNELS_FEW_E4M3_CUH
#define SAC_KERNELS_FEW_E4M3_CUH

#include "blocks.cuh"
#include "wgmma.cuh"

namespace sac::blocks::few_e4m3 {

enum {
    MOST_X = 64,
    BOX_ROWS = 64,
    BOXES = 2,
    TILE_ROWS = BOXES * BOX_ROWS,
    STEP = 128,
    BOX_BYTES = BOX_ROWS * STEP,
    GROUP = 128,
    WORKERS = BOXES * GROUP,
    THREADS = WORKERS + 32,
    MOST_STAGES = 12,
    MOST_BLOCKS = 256,
    SUMS_ROW = TILE_ROWS + 4,
    MEETING = 1, /* a named barrier */
    LEFT_BYTES = 10 << 10 /* of a processor, for the small kernel that comes next */
};

struct input {
    CUtensorMap x, w[SAC_LINEAR_GROUP_MOST];
    const float *x_scales; /* [m], or [k / 128][m] */
    float *parts;          /* [blocks][2][N / 2][WORKERS] */
    unsigned *met;         /* [tiles], zero between ops */
    int m, steps, units, n_tiles, stages; /* steps of a tile; of x's scales for a row */
    int most_units;                       /* there is room for */
};

/* d = (or +=) A B^T, A [64][32] and B [N][32] of e4m3 in shared memory. */
#define E4M3_LIST_4    "%0, %1, %2, %3"
#define E4M3_LIST_8    E4M3_LIST_4 ", %4, %5, %6, %7"
#define E4M3_LIST_16   E4M3_LIST_8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define E4M3_LIST_32   LIST_32
#define E4M3_SUMS(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define E4M3_SUMS_4(d)  E4M3_SUMS(d, 0)
#define E4M3_SUMS_8(d)  E4M3_SUMS(d, 0), E4M3_SUMS(d, 4)
#define E4M3_SUMS_16(d) E4M3_SUMS_8(d), E4M3_SUMS(d, 8), E4M3_SUMS(d, 12)
#define E4M3_SUMS_32(d) SUMS_32(d)
#define DEFINE_E4M3(N, R, A, B, C)                                                                           \
    __device__ __forceinline__ void product_e4m3(float(&d)[R], uint64_t a, uint64_t b, bool add) {           \
        HOPPER_ASM("{\n.reg .pred p;\nsetp.ne.b32 p, %" #C ", 0;\n"                                          \
                   "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" E4M3_LIST_##R "}, %" #A      \
                   ", %" #B ", p, 1, 1;\n}"                                                                  \
                   : E4M3_SUMS_##R(d)                                                                        \
                   : "l"(a), "l"(b), "r"((int)add));                                                         \
    }
DEFINE_E4M3(8, 4, 4, 5, 6)
DEFINE_E4M3(16, 8, 8, 9, 10)
DEFINE_E4M3(32, 16, 16, 17, 18)
DEFINE_E4M3(64, 32, 32, 33, 34)
#undef DEFINE_E4M3

/* The first step of a block, of n in all; n times blocks is below 2^31. */
__device__ __forceinline__ int steps_before(int block, int n) {
    return (int)((unsigned)block * (unsigned)n / gridDim.x);
}
/* The block that has a step. */
__device__ __forceinline__ int block_of(int step, int n) {
    return (int)(((unsigned)(step + 1) * gridDim.x - 1) / (unsigned)n);
}

/* A block's share of a product's steps. */
struct share {
    int all, first, n;
};
__device__ __forceinline__ share share_of(const input &in) {
    const int all = in.n_tiles * in.steps, first = steps_before(blockIdx.x, all);
    return {all, first, steps_before(blockIdx.x + 1, all) - first};
}

/* Where the parts of a block's shared memory lie, behind the ring. */
template <int N, bool BY_UNITS> struct places {
    enum { STAGE = BOXES * BOX_BYTES + N * STEP };
    __host__ __device__ static int bytes(int stages, int units, int most) {
        return stages * STAGE + 4 * (N * SUMS_ROW + (BY_UNITS ? units * N + BOXES * most : N));
    }
};
struct memory {
    uint8_t *ring;
    uint64_t *full, *empty; /* [MOST_STAGES] */
    float *sums, *x_scales, *w_scales;
    int *is_last;
    int stages;
};
template <int N, bool BY_UNITS>
__device__ __forceinline__ memory memory_of(uint8_t *unaligned, uint64_t *full, uint64_t *empty, int *is_last, int stages, int units) {
    uint8_t *ring = unaligned + (1024 - (shared_address(unaligned) & 1023)) % 1024;
    float *sums = (float *)(ring + stages * places<N, BY_UNITS>::STAGE), *x_scales = sums + N * SUMS_ROW;
    return {ring, full, empty, sums, x_scales, x_scales + (BY_UNITS ? units * N : N), is_last, stages};
}
__device__ __forceinline__ void open_ring(const memory &m) {
    for (int i = 0; i < m.stages; i++) barrier_init(&m.full[i], 1), barrier_init(&m.empty[i], WORKERS / 32);
    barrier_init_done();
}

/* A place in the ring that goes round. */
struct place {
    int stage = 0;
    uint32_t phase = 0;

    __device__ __forceinline__ void go_on(int stages) {
        if (++stage == stages) stage = 0, phase ^= 1;
    }
};

/* What a share needs to know of w, by all threads: scales of blocks, in `w_scales`, and what is met at the end. */
template <bool BY_UNITS, typename JOB>
__device__ __forceinline__ void look_ahead(const input &in, const JOB &job, const share &of, float *w_scales) {
    if (BY_UNITS)
        for (int i = threadIdx.x; i < BOXES * of.n; i += THREADS) {
            const int at = of.first + i / BOXES, tile = at / in.steps;
            w_scales[i] = job.scales(tile, i % BOXES)[at - tile * in.steps];
        }
    for (int tile = of.first / in.steps; threadIdx.x < TILE_ROWS && tile * in.steps < of.first + of.n; tile++)
        job.warm(tile, threadIdx.x);
}

/* Asks for w and x of a step. */
template <int N, bool BY_UNITS, typename JOB>
__device__ __forceinline__ void ask_w(const input &in, const JOB &job, const memory &m, int at, place p, uint64_t policy) {
    typedef places<N, BY_UNITS> P;
    const int tile = at / in.steps, step = at - tile * in.steps;
    barrier_expect(&m.full[p.stage], P::STAGE);
#pragma unroll
    for (int b = 0; b < BOXES; b++) {
        int row;
        const int map = job.box(tile, b, row);
        copy_box(m.ring + p.stage * P::STAGE + b * BOX_BYTES, &in.w[map], &m.full[p.stage], step * STEP, row, 0, 0, policy);
    }
}
template <int N, bool BY_UNITS>
__device__ __forceinline__ void ask_x(const input &in, const memory &m, int at, place p, uint64_t policy) {
    typedef places<N, BY_UNITS> P;
    copy_box(m.ring + p.stage * P::STAGE + BOXES * BOX_BYTES, &in.x, &m.full[p.stage], at % in.steps * STEP, 0, 0, 0, policy);
}

/* Scales of x, where they are met. */
template <int N, bool BY_UNITS> __device__ __forceinline__ void load_x_scales(const input &in, const memory &m) {
    for (int i = threadIdx.x; i < (BY_UNITS ? in.units : 1) * N; i += WORKERS)
        m.x_scales[i] = i % N < in.m ? __ldcg(in.x_scales + i / N * in.m + i % N) : 0;
    meet(MEETING, WORKERS);
}

/* The workers' part of a share, from what lies at `p` of the ring on. */
template <int N, bool BY_UNITS, typename JOB>
__device__ __forceinline__ void multiply(const input &in, const JOB &job, const share &of, const memory &m, const float *w_scales, place &p) {
    typedef places<N, BY_UNITS> P;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = warp / 4, g = lane / 4, t = lane % 4;
    for (int i = 0; i < of.n;) {
        const int tile = (of.first + i) / in.steps, begin = tile * in.steps, stop = min(of.n, begin + in.steps - of.first);
        int step = of.first + i - begin;
        const bool is_whole = step == 0 && of.first + stop == begin + in.steps;
        float acc[N / 2];
#pragma unroll
        for (int e = 0; e < N / 2; e++) acc[e] = 0;
        for (; i < stop; i++, step++) {
            float here[N / 2];
#pragma unroll
            for (int e = 0; e < N / 2; e++) here[e] = 0;
            barrier_wait(&m.full[p.stage], p.phase);
            const uint8_t *at = m.ring + p.stage * P::STAGE;
            const uint64_t a = matrix_at(at + group * BOX_BYTES, 16, 1024),
                           b = matrix_at(at + BOXES * BOX_BYTES, 16, 1024);
            settle(here);
            products_begin();
#pragma unroll
            for (int c = 0; c < STEP / 32; c++) product_e4m3(here, a + 2 * c, b + 2 * c, c > 0);
            products_commit();
            products_wait<0>();
            settle(here);
            if (lane == 0) barrier_arrive(&m.empty[p.stage]);
            p.go_on(m.stages);
            if constexpr (BY_UNITS) {
                const float of_w = w_scales[i * BOXES + group];
                const float *of_x = m.x_scales + step * N + 2 * t;
#pragma unroll
                for (int c = 0; c < N / 8; c++) {
                    const float2 two = *(const float2 *)(of_x + 8 * c);
#pragma unroll
                    for (int e = 0; e < 4; e++) acc[4 * c + e] = fmaf(here[4 * c + e], of_w * (e % 2 ? two.y : two.x), acc[4 * c + e]);
                }
            } else {
#pragma unroll
                for (int e = 0; e < N / 2; e++) acc[e] += here[e];
            }
        }
        if (!is_whole) {
            const int from = block_of(begin, of.all), end = block_of(begin + in.steps - 1, of.all) + 1;
            float *to = in.parts + (2 * (int64_t)blockIdx.x + (begin > of.first)) * (N / 2 * WORKERS) + threadIdx.x;
#pragma unroll
            for (int e = 0; e < N / 2; e++) to[e * WORKERS] = acc[e];
            meet(MEETING, WORKERS);
            if (threadIdx.x == 0) *m.is_last = count_in(in.met + tile, (unsigned)(end - from)) == (unsigned)(end - from - 1);
            meet(MEETING, WORKERS);
            if (!*m.is_last) continue;
#pragma unroll
            for (int e = 0; e < N / 2; e++) acc[e] = 0;
#pragma unroll(N > 32 ? 1 : N > 16 ? 2 : 4) /* asked for together */
            for (int block = from; block < end; block++) {
                const bool is_second = begin > steps_before(block, of.all);
                const float *part = in.parts + (2 * (int64_t)block + is_second) * (N / 2 * WORKERS) + threadIdx.x;
#pragma unroll
                for (int e = 0; e < N / 2; e++) acc[e] += __ldcg(part + e * WORKERS);
            }
        }
        float *to = m.sums + group * BOX_ROWS + warp % 4 * 16 + g;
#pragma unroll
        for (int c = 0; c < N / 8; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) to[(8 * c + 2 * t + e % 2) * SUMS_ROW + e / 2 * 8] = acc[4 * c + e];
        meet(MEETING, WORKERS);
        job.finish(tile, m.sums, m.x_scales, in.m);
        meet(MEETING, WORKERS);
    }
}

/* One product. JOB has box(tile, i, &row): the map of a tile's box i, and where it begins; scales(tile, i): scales of the row of blocks that
 * it lies in; warm(tile, i): asks for what row i of a tile meets at its end; finish(tile, sums, scales of x, m): what becomes of sums
 * [m][SUMS_ROW], of the first box, then of the second, by WORKERS threads; scales of rows are still to be met. */
template <int N, bool BY_UNITS, typename JOB>
static __global__ void __launch_bounds__(THREADS, 1) kernel(const __grid_constant__ input in, const __grid_constant__ JOB job) {
#if HOPPER
    extern __shared__ uint8_t unaligned[];
    __shared__ uint64_t full[MOST_STAGES], empty[MOST_STAGES];
    __shared__ int is_last;
    const memory m = memory_of<N, BY_UNITS>(unaligned, full, empty, &is_last, in.stages, in.most_units);
    const share of = share_of(in);
    start_next();
    if (threadIdx.x == 0) open_ring(m);
    look_ahead<BY_UNITS>(in, job, of, m.w_scales);
    __syncthreads();

    place p;
    if (threadIdx.x >= WORKERS) {
        if (threadIdx.x > WORKERS) return;
        const uint64_t once = pass_through_l2(), often = keep_in_l2();
        const int at_once = min(in.stages, of.n);
        place x;
        for (int i = 0; i < at_once; i++, p.go_on(in.stages)) ask_w<N, BY_UNITS>(in, job, m, of.first + i, p, once);
        wait_for_last();
        for (int i = 0; i < at_once; i++, x.go_on(in.stages)) ask_x<N, BY_UNITS>(in, m, of.first + i, x, often);
        for (int i = at_once; i < of.n; i++, p.go_on(in.stages)) { /* its phase is that of the stage's second use by now */
            barrier_wait(&m.empty[p.stage], p.phase ^ 1);
            ask_w<N, BY_UNITS>(in, job, m, of.first + i, p, once);
            ask_x<N, BY_UNITS>(in, m, of.first + i, p, often);
        }
        return;
    }
    wait_for_last();
    load_x_scales<N, BY_UNITS>(in, m);
    multiply<N, BY_UNITS>(in, job, of, m, m.w_scales, p);
#else
    (void)in, (void)job;
#endif
}

} // namespace sac::blocks::few_e4m3

#endif
