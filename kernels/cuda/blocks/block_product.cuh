/* block_product.cuh - up to 32 rows of x against blocks that are read once: bound by memory.
 *
 * A block has 16 rows of w, one for each row of a tensor core's A, and its warps share out a row's stretches of 256
 * elements. Codes become whole numbers of activations' type in registers, exactly, and are multiplied with x as it is;
 * sums of the elements that share a scale are in f32, and so is what joins them: scale times sum. Minima are multiplied
 * with sums of x, which a second product with ones gives. While a warp works on a stretch its next one is on the way. */
#ifndef SAC_KERNELS_BLOCK_PRODUCT_CUH
#define SAC_KERNELS_BLOCK_PRODUCT_CUH

#include "block_weights.cuh"
#include "blocks.cuh"
#include "mma.cuh"

namespace sac::blocks {

using namespace sac::weights;

enum { WARPS = 4, TILE = 16 };

/* Rows of x that a lane gives to B, TILES times 8 in all: row 8 i + lane / 4. */
template <typename T, int TILES> struct x_rows {
    const T *row[TILES];
    bool there[TILES];

    __device__ x_rows(const sac_mat &x, int g, int t) {
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            there[i] = 8 * i + g < x.rows;
            row[i] = (const T *)x.data + (there[i] ? 8 * i + g : 0) * x.stride + 4 * t;
        }
    }
    /* Elements (4t, 4t + 2) and (4t + 1, 4t + 3) of the 16 from `at` on. */
    __device__ __forceinline__ void get(int i, int at, uint32_t &even, uint32_t &odd) const {
        uint2 v = make_uint2(0, 0);
        if (there[i]) v = *(const uint2 *)(row[i] + at);
        even = __byte_perm(v.x, v.y, 0x5410), odd = __byte_perm(v.x, v.y, 0x7632);
    }
};

__device__ __forceinline__ uint32_t ones(bf16) {
    return 0x3f803f80u;
}
__device__ __forceinline__ uint32_t ones(half) {
    return 0x3c003c00u;
}

/* Adds a stretch, from element `at` on, of which n_groups of 32 are in the row. */
template <typename F, int TILES>
__device__ __forceinline__ void add_stretch(float y[TILES][4], const typename F::share w[2],
                                            const x_rows<typename F::T, TILES> &x, int at, int n_groups) {
    typedef typename F::T T;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int first = 0; first < STEPS; first += F::SCALED) {
            if (2 * c + first / 2 >= n_groups) return;
            float sum[TILES][4] = {}, of_x[TILES][4] = {};
#pragma unroll
            for (int step = first; step < first + F::SCALED; step++) {
                uint32_t a[4], b[2];
                F::step(w[0], c, step, a[0], a[2]);
                F::step(w[1], c, step, a[1], a[3]);
#pragma unroll
                for (int i = 0; i < TILES; i++) {
                    x.get(i, at + c * SAC_BLOCK_CHUNK + step * 16, b[0], b[1]);
                    mma<T>(sum[i], a[0], a[1], a[2], a[3], b[0], b[1]);
                    if constexpr (F::HAS_MINIMUM)
                        mma<T>(of_x[i], ones(T()), ones(T()), ones(T()), ones(T()), b[0], b[1]);
                }
            }
            float d[2], m[2];
            F::scale(w[0], c, first, d[0], m[0]);
            F::scale(w[1], c, first, d[1], m[1]);
#pragma unroll
            for (int i = 0; i < TILES; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
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

template <typename F, int TILES>
static __global__ void __launch_bounds__(32 * WARPS, TILES == 1 ? 4 : 2) product_kernel(const product_job j) {
    __shared__ float sums[WARPS][8 * TILES][TILE + 1];
    const int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    int of = 0;
    while (of + 1 < j.n_parts && (int)blockIdx.x >= j.part[of + 1].first_tile) of++;
    const product_part &p = j.part[of];
    const int64_t col0 = (int64_t)((int)blockIdx.x - p.first_tile) * TILE, last = p.y.cols - 1;
    const block_row row0(p.w, p.layout, min(col0 + g, last)), row1(p.w, p.layout, min(col0 + g + 8, last));
    const int n_chunks = (j.n_groups + 1) / 2, n_stretches = (n_chunks + CHUNKS - 1) / CHUNKS;
    typename F::share now[2], next[2];
    int stretch = warp;
    if (stretch < n_stretches) {
        F::ask(now[0], row0, stretch, n_chunks, t);
        F::ask(now[1], row1, stretch, n_chunks, t);
    }
    start_next();
    const x_rows<typename F::T, TILES> x(j.x, g, t);
    float y[TILES][4] = {};
    wait_for_last();
    while (stretch < n_stretches) {
        const int after = stretch + WARPS;
        if (after < n_stretches) {
            F::ask(next[0], row0, after, n_chunks, t);
            F::ask(next[1], row1, after, n_chunks, t);
        }
        add_stretch<F, TILES>(y, now, x, stretch * STRETCH, j.n_groups - stretch * 2 * CHUNKS);
        now[0] = next[0], now[1] = next[1];
        stretch = after;
    }
#pragma unroll
    for (int i = 0; i < TILES; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) sums[warp][8 * i + 2 * t + e % 2][g + e / 2 * 8] = y[i][e];
    __syncthreads();
    for (int i = threadIdx.x; i < TILE * (int)j.x.rows; i += 32 * WARPS) {
        const int64_t col = col0 + i % TILE;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += sums[w][i / TILE][i % TILE];
        if (col <= last) finish(j, p, col, i / TILE, sum);
    }
}

template <typename F> static sac_status run_product(const sac_stream *s, const product_job &j) {
    launch_plan p = of_step({(unsigned)j.n_tiles, 32 * WARPS});
    if (j.x.rows > 1) p.carveout = TILES_CARVEOUT;
    const int tiles = tiles_of(j.x.rows);
    return launch(s, p,
                  tiles == 1   ? product_kernel<F, 1>
                  : tiles == 2 ? product_kernel<F, 2>
                               : product_kernel<F, 4>,
                  j);
}

} // namespace sac::blocks

#endif
