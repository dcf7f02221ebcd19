/* block_product.cuh - up to 32 rows of x against blocks that are read once: bound by memory.
 *
 * A block has 16 rows of w, one for each row of a tensor core's A, and up to 16 rows of x; its warps share out a row's
 * stretches of 256 elements. Codes become whole numbers of activations' type in registers, exactly, and are multiplied
 * with x as it is; sums of the elements that share a scale are in f32, and so is what joins them: scale times sum.
 * Minima are multiplied with sums of x, which a second product with ones gives.
 *
 * While a warp works on a stretch its next one is on the way: of w to registers, of x to shared memory. Not of x to
 * registers: who waits for a load waits for all the weights that were asked for before. */
#ifndef SAC_KERNELS_BLOCK_PRODUCT_CUH
#define SAC_KERNELS_BLOCK_PRODUCT_CUH

#include "block_weights.cuh"
#include "blocks.cuh"
#include "mma.cuh"

namespace sac::blocks {

using namespace sac::weights;

/* X_ROW: elements between rows of x in shared memory; four rows are on banks of their own. */
enum { TILE = 16, X_ROW = STRETCH + 16 };

/* Of a block that takes so many rows of x. */
constexpr int warps_of(int most_rows) {
    return most_rows <= 8 ? 8 : 4;
}
/* Two stretches of x for each warp. */
constexpr int x_bytes(int most_rows, int n_rows) {
    return warps_of(most_rows) * 2 * n_rows * X_ROW * 2;
}

/* Asks for a stretch of n_rows rows of x, zeros behind k. */
template <typename T>
__device__ __forceinline__ void ask_x(T *to, const T *x, int64_t stride, int n_rows, int stretch, int64_t k) {
    const int lane = threadIdx.x % 32, at = stretch * STRETCH + 8 * lane;
    for (int i = 0; i < n_rows; i++) copy_async(to + i * X_ROW + 8 * lane, x + i * stride + at, at < k);
}

__device__ __forceinline__ uint32_t ones(bf16) {
    return 0x3f803f80u;
}
__device__ __forceinline__ uint32_t ones(half) {
    return 0x3c003c00u;
}

/* Adds a stretch to sums of rows g and g + 8 of w with rows 2t and 2t + 1 of x; ONE: there is but row 0. Lane (g, t) gives
 * elements 4t to 4t + 3 of row x[i] to B, of the stretch in shared memory. */
template <typename F, int TILES, bool ONE>
__device__ __forceinline__ void add_stretch(float y[TILES][4], const typename F::share w[2],
                                            const typename F::T *const x[TILES], int at) {
    typedef typename F::T T;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int first = 0; first < STEPS; first += F::SCALED) {
            float sum[TILES][4] = {}, of_x[TILES][4] = {};
#pragma unroll
            for (int step = first; step < first + F::SCALED; step++) {
                uint32_t a[4];
                F::step(w[0], c, step, a[0], a[2]);
                F::step(w[1], c, step, a[1], a[3]);
#pragma unroll
                for (int i = 0; i < TILES; i++) {
                    const uint2 b = *(const uint2 *)(x[i] + at + c * SAC_BLOCK_CHUNK + step * 16);
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
            for (int i = 0; i < TILES; i++)
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

/* ROWS: rows of x that a block takes at most; 1, or a multiple of 8. */
template <typename F, int ROWS>
static __global__ void __launch_bounds__(32 * warps_of(ROWS), ROWS <= 8 ? 2 : 3)
    product_kernel(const product_job j) {
    typedef typename F::T T;
    enum { WARPS = warps_of(ROWS), TILES = (ROWS + 7) / 8 };
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ float sums[WARPS][ROWS][TILE + 1];
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    int of = 0;
    while (of + 1 < j.n_parts && (int)blockIdx.x >= j.part[of + 1].first_tile) of++;
    const product_part &p = j.part[of];
    const int64_t col0 = (int64_t)((int)blockIdx.x - p.first_tile) * TILE, last = p.y.cols - 1;
    const block_row row0(p.w, p.layout, min(col0 + g, last)), row1(p.w, p.layout, min(col0 + g + 8, last));
    const int n_stretches = (j.n_groups + 2 * CHUNKS - 1) / (2 * CHUNKS);
    const int first_row = (int)blockIdx.y * ROWS,
              n_rows = ROWS == 1 ? 1 : min(ROWS, (int)j.x.rows - first_row);
    typename F::share w[2][2];
    int stretch = warp;
    if (stretch < n_stretches) {
        F::ask(w[0][0], row0, stretch, t);
        F::ask(w[0][1], row1, stretch, t);
    }
    start_next();
    const T *from = (const T *)j.x.data + first_row * j.x.stride;
    T *room = (T *)shared + warp * 2 * n_rows * X_ROW;
    const T *x[TILES]; /* rows that are not there are the last one: nobody takes their sums */
#pragma unroll
    for (int i = 0; i < TILES; i++) x[i] = room + min(8 * i + g, n_rows - 1) * X_ROW + 4 * t;
    float y[TILES][4] = {};
    wait_for_last();
    if (stretch < n_stretches) ask_x(room, from, j.x.stride, n_rows, stretch, j.x.cols);
    copy_commit();
    /* Whether there is another stretch after this one. */
    auto turn = [&](typename F::share(&now)[2], typename F::share(&next)[2], int half) {
        stretch += WARPS;
        const bool more = stretch < n_stretches;
        if (more) {
            F::ask(next[0], row0, stretch, t);
            F::ask(next[1], row1, stretch, t);
            ask_x(room + (1 - half) * n_rows * X_ROW, from, j.x.stride, n_rows, stretch, j.x.cols);
        }
        copy_commit();
        copy_wait<1>();
        __syncwarp();
        add_stretch<F, TILES, ROWS == 1>(y, now, x, half * n_rows * X_ROW);
        __syncwarp();
        return more;
    };
    if (stretch < n_stretches)
        while (turn(w[0], w[1], 0) && turn(w[1], w[0], 1)) {
        }
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 4; e++)
            if (8 * i + 2 * t + e % 2 < ROWS) sums[warp][8 * i + 2 * t + e % 2][g + e / 2 * 8] = y[i][e];
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * n_rows; i += 32 * WARPS) {
        const int64_t col = col0 + i % TILE;
        float sum = 0;
#pragma unroll
        for (int of_warp = 0; of_warp < WARPS; of_warp++) sum += sums[of_warp][i / TILE][i % TILE];
        if (col <= last) finish(j, p, col, first_row + i / TILE, sum);
    }
}

template <typename F, int ROWS> static sac_status run_rows(const sac_stream *s, const product_job &j) {
    const int rows = (int)min_of(j.x.rows, ROWS);
    launch_plan p = of_step({dim3((unsigned)j.n_tiles, (unsigned)ceil_div(j.x.rows, ROWS)),
                             32 * warps_of(ROWS), (size_t)x_bytes(ROWS, rows)});
    p.shared_limit = x_bytes(ROWS, ROWS);
    return launch(s, p, product_kernel<F, ROWS>, j);
}
template <typename F> static sac_status run_product(const sac_stream *s, const product_job &j) {
    return j.x.rows == 1   ? run_rows<F, 1>(s, j)
           : j.x.rows <= 8 ? run_rows<F, 8>(s, j)
                           : run_rows<F, 16>(s, j);
}

} // namespace sac::blocks

#endif
