/* few_rows.cuh - 9 to 32 rows of x against two matrices that are read once, on Hopper: gate and up, by wgmma.
 *
 * The sides are changed: 64 rows of a matrix are a product's A, all rows of x (16 or 32 of them, zeros behind the
 * last) its B. A block is one warp that copies and two groups of four that multiply. Copies bring boxes of 128 rows of
 * each matrix by 128 bytes along k to a ring of stages in shared memory, and beside them the same stretch of x.
 *
 * Work is counted in units, a tile (128 rows of both matrices) by a step of 128 bytes along k. A block has as many units
 * in a row as the next, whatever tiles these belong to. Where several blocks share a tile each leaves its sums in scratch,
 * and the one that comes last adds them up in the order of k; so bits do not depend on who that is.
 *
 * While the kernel before is still at work a block asks for as many weights as its ring holds. */
#ifndef SAC_KERNELS_FEW_ROWS_CUH
#define SAC_KERNELS_FEW_ROWS_CUH

#include "context.cuh"
#include "tensor_map.cuh"
#include "wgmma.cuh"

#include <atomic>
#include <type_traits>

namespace sac::linear::few_rows {

enum { GROUP = 128, GROUPS = 2, WORKERS = GROUPS * GROUP, THREADS = WORKERS + 32 };
enum { FEWEST = 9, MOST = 32 /* rows of x */ };
enum { LINE = 128 /* bytes along k of a step */, BOX = 128 /* rows of a matrix */, BOX_BYTES = BOX * LINE };
enum { SIDES = 2, SIDES_BYTES = SIDES * BOX_BYTES };
/* A norm's block has room beside this one's ring. */
enum { RING_BYTES = 212 << 10 };
/* Steps of a tile that are too few to be worth another block's part; fewest units of a block. */
enum { SCRAP = 4, FEWEST_UNITS = 4 };
enum { MEET = 1 /* named barriers 1 and 2: a group's threads */ };

/* N: rows of x, up to a wgmma's. */
template <int N> struct ring {
    static const int BYTES = SIDES_BYTES + N * LINE, STAGES = RING_BYTES / BYTES;
    uint8_t w[STAGES][SIDES_BYTES], x[STAGES][N * LINE];
    uint64_t full[STAGES], empty[STAGES];
};

struct input {
    CUtensorMap w[SIDES], x;
    float *parts;       /* [block][last tile of it, or first][group][side][N / 8][thread] of four sums */
    unsigned *counters; /* [tile][group] */
    int n_steps, n_units, scrap;
};

/* Whole numbers below 2^31: n_units times blocks. */
__device__ __forceinline__ int first_unit(const input &in, int block) {
    const int unit = (int)((unsigned)in.n_units * (unsigned)block / gridDim.x), step = unit % in.n_steps;
    return step < in.scrap ? unit - step : in.n_steps - step < in.scrap ? unit + in.n_steps - step : unit;
}
__device__ __forceinline__ int block_of(const input &in, int unit) {
    int block = min((int)((unsigned)unit * gridDim.x / (unsigned)in.n_units), (int)gridDim.x - 1);
    while (first_unit(in, block) > unit) block--;
    while (block + 1 < (int)gridDim.x && first_unit(in, block + 1) <= unit) block++;
    return block;
}

/* ---------------------------------------------------------------- the thread that copies */

template <int N>
__device__ __forceinline__ void copy_weights(const input &in, ring<N> &m, int stage, int unit, uint64_t policy) {
    const int tile = unit / in.n_steps, k = (unit - tile * in.n_steps) * (LINE / 2);
#pragma unroll
    for (int s = 0; s < SIDES; s++)
        copy_box(m.w[stage] + s * BOX_BYTES, in.w + s, m.full + stage, k, tile * BOX, 0, 0, policy);
}
template <int N>
__device__ __forceinline__ void copy_rows(const input &in, ring<N> &m, int stage, int unit, uint64_t policy) {
    copy_box(m.x[stage], &in.x, m.full + stage, unit % in.n_steps * (LINE / 2), 0, 0, 0, policy);
}

template <int N> __device__ __forceinline__ void copy_all(const input &in, ring<N> &m, int first, int n) {
    typedef ring<N> R;
    const uint64_t keep = keep_in_l2(), once = pass_through_l2();
    const int ahead = min(n, (int)R::STAGES);
    for (int i = 0; i < ahead; i++) {
        barrier_expect(m.full + i, R::BYTES);
        copy_weights(in, m, i, first + i, once);
    }
    wait_for_last();
    for (int i = 0; i < ahead; i++) copy_rows(in, m, i, first + i, keep);
    int stage = 0;
    uint32_t phase = 0;
    for (int i = ahead; i < n; i++) {
        barrier_wait(m.empty + stage, phase);
        barrier_expect(m.full + stage, R::BYTES);
        copy_weights(in, m, stage, first + i, once);
        copy_rows(in, m, stage, first + i, keep);
        if (++stage == R::STAGES) stage = 0, phase ^= 1;
    }
}

/* ---------------------------------------------------------------- a group that works */

/* Where this thread's sums of a part of a tile lie in scratch. */
template <int N>
__device__ __forceinline__ float4 *part_at(const input &in, int block, bool begins_tile, int group) {
    return (float4 *)in.parts + (((int64_t)block * 2 + begins_tile) * GROUPS + group) * (SIDES * N / 8 * GROUP) +
           threadIdx.x % GROUP;
}
template <int N> __device__ __forceinline__ void leave_part(float4 *to, const float (&acc)[SIDES][N / 2]) {
#pragma unroll
    for (int s = 0; s < SIDES; s++)
#pragma unroll
        for (int i = 0; i < N / 8; i++)
            to[(s * (N / 8) + i) * GROUP] =
                make_float4(acc[s][4 * i], acc[s][4 * i + 1], acc[s][4 * i + 2], acc[s][4 * i + 3]);
}
/* The sums of n blocks of a tile, in the order of k; several parts are asked for at a time. */
template <int N>
__device__ __forceinline__ void join_parts(const input &in, int block, int n, int group, float (&acc)[SIDES][N / 2]) {
    constexpr int QUADS = SIDES * N / 8, AT_ONCE = QUADS >= 16 ? 1 : QUADS >= 8 ? 2 : 4;
#pragma unroll
    for (int s = 0; s < SIDES; s++)
#pragma unroll
        for (int i = 0; i < N / 2; i++) acc[s][i] = 0;
#pragma unroll 1
    for (int p = 0; p < n; p += AT_ONCE) {
        float4 x[AT_ONCE][QUADS];
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++) {
            const float4 *from = part_at<N>(in, block + p + a, p + a == 0, group);
#pragma unroll
            for (int i = 0; i < QUADS; i++)
                x[a][i] = p + a < n ? __ldcg(from + i * GROUP) : make_float4(0, 0, 0, 0);
        }
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++)
#pragma unroll
            for (int i = 0; i < QUADS; i++) {
                float *to = acc[i / (N / 8)] + i % (N / 8) * 4;
                to[0] += x[a][i].x, to[1] += x[a][i].y, to[2] += x[a][i].z, to[3] += x[a][i].w;
            }
    }
}

/* Sums of two rows of x, and of rows g of the matrix in lanes of g: even g get those of the first row of x and of two
 * neighbouring rows of the matrix, odd ones those of the second. */
__device__ __forceinline__ float2 turn_pair(float first, float second, bool is_odd) {
    const float other = __shfl_xor_sync(0xffffffffu, is_odd ? first : second, 4);
    return is_odd ? make_float2(other, second) : make_float2(first, other);
}

/* job.finish(m, row, sums of rows `row` and `row + 1` of the first matrix, of the second): m may be behind the last row of x,
 * and `row` behind those of the matrices. */
template <int N, typename JOB>
__device__ __forceinline__ void finish(const JOB &job, int tile, int group, const float (&acc)[SIDES][N / 2]) {
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const bool is_odd = g % 2;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = tile * BOX + group * 64 + threadIdx.x / 32 % 4 * 16 + 8 * r + (g & ~1);
#pragma unroll
        for (int j = 0; j < N / 8; j++) {
            const int i = 4 * j + 2 * r;
            const float2 a = turn_pair(acc[0][i], acc[0][i + 1], is_odd), b = turn_pair(acc[1][i], acc[1][i + 1], is_odd);
            job.finish(8 * j + 2 * t + is_odd, row, a, b);
        }
    }
}

template <typename E, int N, typename JOB>
__device__ __forceinline__ void work(const input &in, const JOB &job, ring<N> &m, int first, int end, int group) {
    typedef ring<N> R;
    const int lane = threadIdx.x % 32;
    const uint64_t w = matrix_at(m.w[0] + group * 64 * LINE, 16, 1024), x = matrix_at(m.x[0], 16, 1024);
    float acc[SIDES][N / 2];
    int stage = 0;
    uint32_t phase = 0;
    wait_for_last();
    for (int unit = first; unit < end;) {
        const int tile = unit / in.n_steps, start = tile * in.n_steps, stop = min(start + in.n_steps, end);
        const bool begins_tile = unit == start, is_whole = begins_tile && stop == start + in.n_steps;
        for (const int from = unit; unit < stop; unit++) {
            const uint64_t a = w + stage * (SIDES_BYTES / 16), b = x + stage * (N * LINE / 16);
            barrier_wait(m.full + stage, phase);
            products_begin();
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int s = 0; s < SIDES; s++)
                    product<E>(acc[s], a + s * (BOX_BYTES / 16) + 2 * i, b + 2 * i, unit > from || i > 0);
            products_commit();
            products_wait<0>();
#pragma unroll
            for (int s = 0; s < SIDES; s++) settle(acc[s]);
            if (lane == 0) barrier_arrive(m.empty + stage);
            if (++stage == R::STAGES) stage = 0, phase ^= 1;
        }
        if (!is_whole) {
            const int block = block_of(in, start), n = block_of(in, start + in.n_steps - 1) - block + 1;
            leave_part<N>(part_at<N>(in, blockIdx.x, begins_tile, group), acc);
            meet(MEET + group, GROUP);
            bool last = false;
            if (threadIdx.x % GROUP == 0)
                last = count_in(in.counters + tile * GROUPS + group, (unsigned)n) == (unsigned)n - 1;
            if (!meet_any(MEET + group, GROUP, last)) continue;
            join_parts<N>(in, block, n, group, acc);
        }
        finish<N>(job, tile, group, acc);
    }
}

/* E: the type of the matrices and of x. */
template <typename E, int N, typename JOB>
static __global__ void __launch_bounds__(THREADS, 1)
    kernel(const __grid_constant__ input in, const __grid_constant__ JOB job) {
    extern __shared__ __align__(1024) uint8_t shared[];
#if HOPPER
    typedef ring<N> R;
    R &m = *(R *)(shared + (-shared_address(shared) & 1023));
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), block = (int)blockIdx.x, first = first_unit(in, block),
              end = block + 1 < (int)gridDim.x ? first_unit(in, block + 1) : in.n_units;
    if (threadIdx.x == WORKERS) {
        for (int s = 0; s < SIDES; s++) fetch_map(in.w + s);
        fetch_map(&in.x);
        for (int i = 0; i < R::STAGES; i++) {
            barrier_init(m.full + i, 1);
            barrier_init(m.empty + i, WORKERS / 32);
        }
        barrier_init_done();
    }
    start_next();
    __syncthreads();
    if (warp < WORKERS / 32)
        work<E, N>(in, job, m, first, end, warp / 4);
    else if (threadIdx.x == WORKERS)
        copy_all<N>(in, m, first, end - first);
    else
        wait_for_last();
#else
    (void)in, (void)job, (void)shared;
#endif
}

/* ---------------------------------------------------------------- the host's side */

static inline bool map_rows(encode_map encode, CUtensorMap *map, sac_dtype t, const void *data, int64_t k, int64_t rows,
                            int64_t stride, int box) {
    return (uintptr_t)data % 16 == 0 && make_map(encode, map, t, data, k, rows, stride, 1, 0, 1, 0, box);
}

template <typename E, int N, typename JOB>
static sac_status start(const sac_stream *s, const JOB &job, sac_mat x, const void *const w[SIDES], int64_t n_rows,
                        uint8_t *scratch, size_t room, bool only_asks) {
    typedef ring<N> R;
    static std::atomic<encode_map> found;
    static std::atomic<int> built; /* 1: this program has the code, 2: it has not */
    auto chosen = kernel<E, N, JOB>;
    encode_map encode = found.load();
    if (!encode) found.store(encode = find_encode_map());
    if (!built.load()) {
        bool is_built;
        SAC_TRY(is_built_for_hopper(chosen, &is_built));
        built.store(is_built ? 1 : 2);
    }
    if (!encode || built.load() != 1) return SAC_UNSUPPORTED;
    const int64_t k = x.cols, n_tiles = ceil_div(n_rows, BOX), n_steps = ceil_div(k, LINE / 2), n_units = n_tiles * n_steps,
                  blocks = max_of(1, min_of(s->device->n_processors, n_units / FEWEST_UNITS));
    if (n_units > INT32_MAX / 1024 || n_tiles * GROUPS * (int64_t)sizeof(unsigned) > (int64_t)SCRATCH_COUNTER_BYTES ||
        (size_t)(blocks * 2 * SIDES * BOX * N) * sizeof(float) > room)
        return SAC_UNSUPPORTED;
    input in = {};
    for (int i = 0; i < SIDES; i++)
        if (!map_rows(encode, in.w + i, x.dtype, w[i], k, n_rows, k, BOX)) return SAC_UNSUPPORTED;
    if (!map_rows(encode, &in.x, x.dtype, x.data, k, x.rows, x.stride, N)) return SAC_UNSUPPORTED;
    if (only_asks) return SAC_OK;
    in.parts = (float *)scratch, in.counters = scratch_counters(s);
    in.n_steps = (int)n_steps, in.n_units = (int)n_units;
    in.scrap = n_steps >= 4 * SCRAP && n_units / blocks >= 4 * SCRAP ? SCRAP : 1;
    const int bytes = (int)sizeof(R) + 1024;
    return launch(s, early({(unsigned)blocks, THREADS, (size_t)bytes, bytes}), chosen, in, job);
}

/* x [9 to 32][k] of halves times the transposes of two matrices [n_rows][k]; `room` bytes of scratch for sums, on 16 bytes.
 * UNSUPPORTED, before anything is started, where it does not fit; with only_asks nothing is. */
template <typename E, typename JOB>
static sac_status run(const sac_stream *s, const JOB &job, sac_mat x, const void *const w[SIDES], int64_t n_rows,
                      uint8_t *scratch, size_t room, bool only_asks) {
    if (!tuning_of(s->device).has_wgmma || s->device->no_few_rows || x.rows < FEWEST || x.rows > MOST || n_rows < 1 || x.cols < 1)
        return SAC_UNSUPPORTED;
    if (x.rows <= 16) return start<E, 16>(s, job, x, w, n_rows, scratch, room, only_asks);
    return start<E, 32>(s, job, x, w, n_rows, scratch, room, only_asks);
}

} // namespace sac::linear::few_rows

#endif
