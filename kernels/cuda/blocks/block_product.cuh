/* block_product.cuh - up to 32 rows of x against blocks that are read once: bound by memory.
 *
 * A warp has one or two tiles of 16 rows of w, one for each row of a tensor core's A, and up to 16 rows of x; the warps of
 * a block share out a row's stretches of 256 elements. Codes become whole numbers of activations' type in registers,
 * exactly, and are multiplied with x as it is; sums of the elements that share a scale are in f32, and so is what joins
 * them: scale times sum. Minima are multiplied with sums of x, which a second product with ones gives.
 *
 * Each warp has a ring of stages in shared memory, a stretch of w and x each. While it works on one the others are on the
 * way, of w already before the kernel before is through. */
#ifndef SAC_KERNELS_BLOCK_PRODUCT_CUH
#define SAC_KERNELS_BLOCK_PRODUCT_CUH

#include "activation.cuh"
#include "block_formats_256.cuh"
#include "block_formats_32.cuh"
#include "blocks.cuh"
#include "code_formats.cuh"
#include "mma.cuh"
#include "tuning.h"

namespace sac::blocks {

using namespace sac::weights;

/* X_ROW: bytes between rows of x in shared memory; four rows are on banks of their own. */
enum { TILE = SAC_BLOCK_TILE, X_ROW = 2 * STRETCH + 32 };

/* Of a kernel that takes ROWS rows of x at most: 1, or a multiple of 8. GATED: a warp has a tile of the gate's rows and the
 * same one of up's. */
template <typename F, int ROWS, bool GATED> struct shape {
    enum {
        TILES = ROWS == 1 && !GATED ? 1 : 2, /* of w, for a warp */
        COLUMNS = (ROWS + 7) / 8,            /* tiles of 8 rows of x */
        W_BYTES = F::CODES + F::HIGH + F::SCALES + F::MORE,
        X_BYTES = ROWS * X_ROW,
        STAGE = TILES * W_BYTES + X_BYTES,
        STAGES = STAGE < 4096 ? 3 : 2,
        WARP_BYTES = STAGES * STAGE,
        /* of a processor, where the registers of as many suffice: two bits a code take more work at a time */
        BLOCKS = ROWS == 1 ? (STAGES == 3 && F::SCALES < 512 && F::CODES >= 2048 ? 3 : 2) : 1,
        OUTPUTS = GATED ? TILE : TILES * TILE, /* of a block */
        SUMS_ROW = TILES * TILE + 1
    };
    static_assert(ROWS * SUMS_ROW * sizeof(float) <= WARP_BYTES, "sums lie where the ring was");
    static_assert(STAGE % 16 == 0, "");
};

/* n bytes, a multiple of 16, by a warp. */
template <int N> __device__ __forceinline__ void ask_bytes(uint8_t *to, const uint8_t *from) {
    const int at = threadIdx.x % 32 * 16;
#pragma unroll
    for (int i = 0; i < N; i += 512)
        if (N - i >= 512 || at < N - i) copy_async(to + i + at, from + i + at, true);
}
/* Where the parts of a tile lie in a stage. */
template <typename F> __device__ __forceinline__ block_parts parts_in(uint8_t *stage) {
    return {{stage, stage + F::CODES, stage + F::CODES + F::HIGH, stage + F::CODES + F::HIGH + F::SCALES}};
}
/* A tile's stretch; `tile`: its first. */
template <typename F>
__device__ __forceinline__ void ask_tile(uint8_t *stage, const block_parts &tile, int stretch) {
    ask_bytes<F::CODES>(stage, tile.part[SAC_BLOCK_CODES] + stretch * F::CODES);
    stage += F::CODES;
    if (F::HIGH) ask_bytes<F::HIGH>(stage, tile.part[SAC_BLOCK_HIGH] + stretch * F::HIGH);
    stage += F::HIGH;
    ask_bytes<F::SCALES>(stage, tile.part[SAC_BLOCK_SCALES] + stretch * F::SCALES);
    stage += F::SCALES;
    if (F::MORE) ask_bytes<F::MORE>(stage, tile.part[SAC_BLOCK_MORE] + stretch * F::MORE);
}
/* A stretch of n_rows rows of x, zeros behind k. */
template <typename T>
__device__ __forceinline__ void ask_x(uint8_t *to, const T *x, int64_t stride, int n_rows, int stretch,
                                      int64_t k) {
    const int lane = threadIdx.x % 32, at = stretch * STRETCH + 8 * lane;
    for (int i = 0; i < n_rows; i++) copy_async(to + i * X_ROW + 16 * lane, x + i * stride + at, at < k);
}

__device__ __forceinline__ uint32_t ones(bf16) {
    return 0x3f803f80u;
}
__device__ __forceinline__ uint32_t ones(half) {
    return 0x3c003c00u;
}

/* Adds a tile's stretch to sums of rows g and g + 8 of w with rows 2t and 2t + 1 of x; ONE: there is but row 0. Lane (g, t)
 * gives elements 4t to 4t + 3 of row x[i] to B. */
template <typename F, int COLUMNS, bool ONE>
__device__ __forceinline__ void add_tile(float y[COLUMNS][4], uint8_t *stage,
                                         const uint8_t *const x[COLUMNS]) {
    typedef typename F::T T;
    const int lane = threadIdx.x % 32;
    typename F::share w[2];
    F::take(w[0], parts_in<F>(stage), 0, lane);
    F::take(w[1], parts_in<F>(stage), 1, lane);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int first = 0; first < STEPS; first += F::SCALED) {
            float sum[COLUMNS][4] = {}, of_x[COLUMNS][4] = {};
#pragma unroll
            for (int step = first; step < first + F::SCALED; step++) {
                uint32_t a[4];
                F::step(w[0], c, step, a[0], a[2]);
                F::step(w[1], c, step, a[1], a[3]);
#pragma unroll
                for (int i = 0; i < COLUMNS; i++) {
                    const uint2 b = *(const uint2 *)(x[i] + 2 * (c * SAC_BLOCK_CHUNK + step * 16));
                    mma<T>(sum[i], a[0], a[1], a[2], a[3], b.x, b.y);
                    if constexpr (F::HAS_MINIMUM)
                        mma<T>(of_x[i], ones(T()), ones(T()), ones(T()), ones(T()), b.x, b.y);
                }
            }
            float d[2], m[2];
            F::scale(w[0], c, first, d[0], m[0]);
            F::scale(w[1], c, first, d[1], m[1]);
            if constexpr (F::HAS_MINIMUM)
                m[0] = fmaf(-F::ABOVE, d[0], m[0]), m[1] = fmaf(-F::ABOVE, d[1], m[1]);
#pragma unroll
            for (int i = 0; i < COLUMNS; i++)
#pragma unroll
                for (int e = 0; e < 4; e += ONE ? 2 : 1) {
                    y[i][e] = fmaf(d[e / 2], sum[i][e], y[i][e]);
                    if constexpr (F::HAS_MINIMUM) y[i][e] = fmaf(m[e / 2], of_x[i][e], y[i][e]);
                }
        }
    }
}

__device__ __forceinline__ void finish(const product_job &j, const product_part &p, int64_t col, int64_t row,
                                       float sum) {
    const int64_t at = row * p.y.stride + col;
    if (p.bias) sum += p.bias[col];
    if (j.act != SAC_ACT_NONE) sum = activate(j.act, sum);
    if (j.accumulate) sum += load_any(p.y.dtype, p.y.data, at);
    store_any(p.y.dtype, p.y.data, at, sum);
}

/* silu(gate) * up, as the fused step of floats rounds it. */
template <typename T>
__device__ __forceinline__ void finish_gated(const product_part &p, int64_t col, int64_t row, float gate,
                                             float up) {
    store_any(p.y.dtype, p.y.data, row * p.y.stride + col, activate_as<T>(SAC_ACT_SILU, gate) * up);
}

/* GATED: the job's parts are the gate, whose y is the product's, and up. */
template <typename F, int ROWS, bool GATED>
static __global__ void __launch_bounds__(32 * MOST_WARPS, shape<F, ROWS, GATED>::BLOCKS)
    product_kernel(const product_job j) {
    typedef typename F::T T;
    typedef shape<F, ROWS, GATED> S;
    extern __shared__ __align__(16) uint8_t shared[];
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4,
              n_warps = blockDim.x / 32;
    int of = 0;
    while (!GATED && of + 1 < j.n_parts && (int)blockIdx.x >= j.part[of + 1].first_block) of++;
    const product_part &p = j.part[of];
    const int64_t tile0 = (int64_t)((int)blockIdx.x - p.first_block) * (S::OUTPUTS / TILE),
                  last_tile = (p.y.cols - 1) / TILE;
    const int first_row = (int)blockIdx.y * ROWS,
              n_rows = ROWS == 1 ? 1 : min(ROWS, (int)j.x.rows - first_row);
    const int n_stretches = (int)p.layout.n_stretches;
    const T *from = (const T *)j.x.data + first_row * j.x.stride;
    uint8_t *ring = shared + warp * S::WARP_BYTES;
    block_parts tiles[S::TILES];
#pragma unroll
    for (int i = 0; i < S::TILES; i++)
        tiles[i] = GATED ? parts_at(j.part[i].w, j.part[i].layout, tile0, 0)
                         : parts_at(p.w, p.layout, min(tile0 + i, last_tile), 0);
    auto ask_w = [&](int stage, int stretch) {
#pragma unroll
        for (int i = 0; i < S::TILES; i++)
            ask_tile<F>(ring + stage * S::STAGE + i * S::W_BYTES, tiles[i], stretch);
    };
    auto ask_rows = [&](int stage, int stretch) {
        ask_x(ring + stage * S::STAGE + S::TILES * S::W_BYTES, from, j.x.stride, n_rows, stretch, j.x.cols);
    };
#pragma unroll
    for (int i = 0; i + 1 < S::STAGES; i++)
        if (warp + i * n_warps < n_stretches) ask_w(i, warp + i * n_warps);
    copy_commit();
    start_next();
    wait_for_last();
#pragma unroll
    for (int i = 0; i + 1 < S::STAGES; i++) {
        if (warp + i * n_warps < n_stretches) ask_rows(i, warp + i * n_warps);
        copy_commit();
    }
    float y[S::TILES][S::COLUMNS][4] = {};
    int stage = 0, free_stage = S::STAGES - 1;
    for (int stretch = warp; stretch < n_stretches; stretch += n_warps) {
        const int ahead = stretch + (S::STAGES - 1) * n_warps;
        if (ahead < n_stretches) ask_w(free_stage, ahead), ask_rows(free_stage, ahead);
        copy_commit();
        copy_wait<S::STAGES - 1>();
        __syncwarp();
        uint8_t *here = ring + stage * S::STAGE;
        const uint8_t *x[S::COLUMNS]; /* rows that are not there are the last one: nobody takes their sums */
#pragma unroll
        for (int i = 0; i < S::COLUMNS; i++)
            x[i] = here + S::TILES * S::W_BYTES + min(8 * i + g, n_rows - 1) * X_ROW + 8 * t;
#pragma unroll
        for (int i = 0; i < S::TILES; i++) add_tile<F, S::COLUMNS, ROWS == 1>(y[i], here + i * S::W_BYTES, x);
        __syncwarp();
        free_stage = stage;
        stage = stage + 1 == S::STAGES ? 0 : stage + 1;
    }
    float *sums = (float *)ring;
#pragma unroll
    for (int i = 0; i < S::TILES; i++)
#pragma unroll
        for (int c = 0; c < S::COLUMNS; c++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (8 * c + 2 * t + e % 2 < ROWS)
                    sums[(8 * c + 2 * t + e % 2) * S::SUMS_ROW + i * TILE + g + e / 2 * 8] = y[i][c][e];
    __syncthreads();
    for (int i = threadIdx.x; i < S::OUTPUTS * n_rows; i += blockDim.x) {
        const int row = i / S::OUTPUTS, within = i % S::OUTPUTS;
        const int64_t col = tile0 * TILE + within;
        float sum = 0, up = 0;
        for (int w = 0; w < n_warps; w++) {
            const float *of_warp = (float *)(shared + w * S::WARP_BYTES) + row * S::SUMS_ROW + within;
            sum += of_warp[0];
            if (GATED) up += of_warp[TILE];
        }
        if (col >= p.y.cols) continue;
        if constexpr (GATED)
            finish_gated<T>(p, col, first_row + row, sum, up);
        else
            finish(j, p, col, first_row + row, sum);
    }
}

template <typename F, int ROWS, bool GATED> static sac_status run_rows(const sac_stream *s, product_job j) {
    typedef shape<F, ROWS, GATED> S;
    const int n_warps = ring_warps(block_shared_bytes(s->device), S::WARP_BYTES);
    int n_blocks = 0;
    for (int i = 0; i < (GATED ? 1 : j.n_parts); i++) {
        j.part[i].first_block = n_blocks;
        n_blocks += (int)ceil_div(j.part[i].y.cols, S::OUTPUTS);
    }
    launch_plan p = of_step({dim3((unsigned)n_blocks, (unsigned)ceil_div(j.x.rows, ROWS)),
                             dim3(32u * (unsigned)n_warps), (size_t)(n_warps * S::WARP_BYTES)});
    p.shared_limit = n_warps * S::WARP_BYTES;
    return launch(s, p, product_kernel<F, ROWS, GATED>, j);
}
template <typename F, bool GATED> static sac_status run_shape(const sac_stream *s, const product_job &j) {
    return j.x.rows == 1   ? run_rows<F, 1, GATED>(s, j)
           : j.x.rows <= 8 ? run_rows<F, 8, GATED>(s, j)
                           : run_rows<F, 16, GATED>(s, j);
}
} // namespace sac::blocks

#endif
