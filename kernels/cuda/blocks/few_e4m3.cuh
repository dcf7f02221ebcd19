/* few_e4m3.cuh - 1 to 64 rows of x with FP8 weights that lie as plain rows (code_layout.h, e4m3_rows), both as codes of e4m3, on Hopper's
 * tensor cores: bound by reading weights once. No code is converted.
 *
 * A tile is two boxes of 64 rows of w, which may lie apart (gate and up); w is A of the products, so that few rows of
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
    int m, steps, units, n_tiles, stages, most; /* steps of a tile; of x's scales for a row; steps of a block at most */
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

/* Where the parts of a block's shared memory lie, behind the ring. */
template <int N, bool BY_UNITS> struct places {
    enum { STAGE = BOXES * BOX_BYTES + N * STEP };
    __host__ __device__ static int bytes(int stages, int units, int most) {
        return stages * STAGE + 4 * (N * SUMS_ROW + (BY_UNITS ? units * N + BOXES * most : N));
    }
};

/* JOB has box(tile, i, &row): the map of a tile's box i, and where it begins; scales(tile, i): scales of the row of blocks that it lies in;
 * warm(tile, i): asks for what row i of a tile meets at its end; finish(tile, sums, scales of x, m): what becomes of sums [m][SUMS_ROW], of the
 * first box, then of the second, by WORKERS threads; scales of rows are still to be met. */
template <int N, bool BY_UNITS, typename JOB>
static __global__ void __launch_bounds__(THREADS, 1) kernel(const __grid_constant__ input in, const __grid_constant__ JOB job) {
#if HOPPER
    typedef places<N, BY_UNITS> P;
    extern __shared__ uint8_t unaligned[];
    __shared__ uint64_t full[MOST_STAGES], empty[MOST_STAGES];
    __shared__ int is_last;
    uint8_t *ring = unaligned + (1024 - (shared_address(unaligned) & 1023)) % 1024;
    float *sums = (float *)(ring + in.stages * P::STAGE), *x_scales = sums + N * SUMS_ROW,
          *w_scales = x_scales + (BY_UNITS ? in.units * N : N);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int all = in.n_tiles * in.steps, first = steps_before(blockIdx.x, all), n = steps_before(blockIdx.x + 1, all) - first;
    start_next();
    if (threadIdx.x == 0) {
        for (int i = 0; i < in.stages; i++) barrier_init(&full[i], 1), barrier_init(&empty[i], WORKERS / 32);
        barrier_init_done();
    }
    if (BY_UNITS)
        for (int i = threadIdx.x; i < BOXES * n; i += THREADS) {
            const int at = first + i / BOXES, tile = at / in.steps;
            w_scales[i] = job.scales(tile, i % BOXES)[at - tile * in.steps];
        }
    for (int tile = first / in.steps; threadIdx.x < TILE_ROWS && tile * in.steps < first + n; tile++)
        job.warm(tile, threadIdx.x);
    __syncthreads();

    if (warp == WORKERS / 32) {
        if (lane) return;
        const uint64_t once = pass_through_l2(), often = keep_in_l2();
        int tile = first / in.steps, step = first - tile * in.steps, stage = 0, x_step = step, x_stage = 0;
        uint32_t phase = 0;
        auto ask_w = [&](void) {
            barrier_expect(&full[stage], P::STAGE);
#pragma unroll
            for (int b = 0; b < BOXES; b++) {
                int row;
                const int map = job.box(tile, b, row);
                copy_box(ring + stage * P::STAGE + b * BOX_BYTES, &in.w[map], &full[stage], step * STEP, row, 0, 0, once);
            }
            if (++step == in.steps) step = 0, tile++;
            if (++stage == in.stages) stage = 0, phase ^= 1;
        };
        auto ask_x = [&](void) {
            copy_box(ring + x_stage * P::STAGE + BOXES * BOX_BYTES, &in.x, &full[x_stage], x_step * STEP, 0, 0, 0, often);
            if (++x_step == in.steps) x_step = 0;
            if (++x_stage == in.stages) x_stage = 0;
        };
        const int at_once = min(in.stages, n);
        for (int i = 0; i < at_once; i++) ask_w();
        wait_for_last();
        for (int i = 0; i < at_once; i++) ask_x();
        for (int i = at_once; i < n; i++) { /* phase is that of the stage's second use by now */
            barrier_wait(&empty[stage], phase ^ 1);
            ask_w();
            ask_x();
        }
        return;
    }

    wait_for_last();
    for (int i = threadIdx.x; i < (BY_UNITS ? in.units : 1) * N; i += WORKERS)
        x_scales[i] = i % N < in.m ? in.x_scales[i / N * in.m + i % N] : 0;
    meet(MEETING, WORKERS);
    const int group = warp / 4, g = lane / 4, t = lane % 4;
    int stage = 0;
    uint32_t phase = 0;
    for (int i = 0; i < n;) {
        const int tile = (first + i) / in.steps, begin = tile * in.steps, stop = min(n, begin + in.steps - first);
        int step = first + i - begin;
        const bool is_whole = step == 0 && first + stop == begin + in.steps;
        float acc[N / 2];
#pragma unroll
        for (int e = 0; e < N / 2; e++) acc[e] = 0;
        for (; i < stop; i++, step++) {
            float here[N / 2];
#pragma unroll
            for (int e = 0; e < N / 2; e++) here[e] = 0;
            barrier_wait(&full[stage], phase);
            const uint8_t *at = ring + stage * P::STAGE;
            const uint64_t a = matrix_at(at + group * BOX_BYTES, 16, 1024),
                           b = matrix_at(at + BOXES * BOX_BYTES, 16, 1024);
            settle(here);
            products_begin();
#pragma unroll
            for (int c = 0; c < STEP / 32; c++) product_e4m3(here, a + 2 * c, b + 2 * c, c > 0);
            products_commit();
            products_wait<0>();
            settle(here);
            if (lane == 0) barrier_arrive(&empty[stage]);
            if (++stage == in.stages) stage = 0, phase ^= 1;
            if constexpr (BY_UNITS) {
                const float of_w = w_scales[i * BOXES + group];
                const float *of_x = x_scales + step * N + 2 * t;
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
            const int from = block_of(begin, all), end = block_of(begin + in.steps - 1, all) + 1;
            float *to = in.parts + (2 * (int64_t)blockIdx.x + (begin > first)) * (N / 2 * WORKERS) + threadIdx.x;
#pragma unroll
            for (int e = 0; e < N / 2; e++) to[e * WORKERS] = acc[e];
            meet(MEETING, WORKERS);
            if (threadIdx.x == 0) is_last = count_in(in.met + tile, (unsigned)(end - from)) == (unsigned)(end - from - 1);
            meet(MEETING, WORKERS);
            if (!is_last) continue;
#pragma unroll
            for (int e = 0; e < N / 2; e++) acc[e] = 0;
#pragma unroll(N > 32 ? 1 : N > 16 ? 2 : 4) /* asked for together */
            for (int block = from; block < end; block++) {
                const bool is_second = begin > steps_before(block, all);
                const float *part = in.parts + (2 * (int64_t)block + is_second) * (N / 2 * WORKERS) + threadIdx.x;
#pragma unroll
                for (int e = 0; e < N / 2; e++) acc[e] += __ldcg(part + e * WORKERS);
            }
        }
        float *to = sums + group * BOX_ROWS + warp % 4 * 16 + g;
#pragma unroll
        for (int c = 0; c < N / 8; c++)
#pragma unroll
            for (int e = 0; e < 4; e++) to[(8 * c + 2 * t + e % 2) * SUMS_ROW + e / 2 * 8] = acc[4 * c + e];
        meet(MEETING, WORKERS);
        job.finish(tile, sums, x_scales, in.m);
        meet(MEETING, WORKERS);
    }
#else
    (void)in, (void)job;
#endif
}

} // namespace sac::blocks::few_e4m3

#endif
