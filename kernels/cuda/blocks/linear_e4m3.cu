/* linear_e4m3.cu - many rows of x with FP8 weights of a checkpoint that has x rounded to FP8 as well: both sides as e4m3 on
 * Hopper's tensor cores, which is what the reference multiplies, exactly, with sums in f32 (linear/e4m3_product.cuh).
 *
 * Weights come out of code_layout.h's order into plain rows, a matrix or a panel of it at a time, and meet all rows of x,
 * which are rounded in as few goes as there is room for. */
#include "blocks.cuh"
#include "block_weights.cuh"
#include "e4m3_codes.cuh"
#include "e4m3_product.cuh"

namespace sac::blocks {

using namespace sac::rows;
using namespace sac::weights;

/* Room for weights, and for the library. The rest is x's. */
enum { E4M3_PANEL_BYTES = 72 << 20, E4M3_WORKSPACE_BYTES = 8 << 20, PLAIN_THREADS = 256, NORM_AND_ROUND_THREADS = 256, FEW_E4M3_ROWS = 64 };

/* ---------------------------------------------------------------- weights */

struct plain_job {
    const void *w;
    sac_block_layout layout;
    int64_t first, n, k; /* rows; elements of each, a multiple of 16 */
    uint8_t *to;         /* [n][k] */
    float *scales;       /* [n], or [n / 128][n_scales] */
    int64_t n_scales;    /* 0: one a row */
};

/* Of four words of four neighbouring lanes: lane t gets the t-th of each. */
__device__ __forceinline__ void transpose_quad(uint32_t w[4]) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        const uint32_t v = __shfl_xor_sync(~0u, odd ? w[i] : w[i + 1], 1);
        w[i] = odd ? v : w[i], w[i + 1] = odd ? w[i + 1] : v;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t v = __shfl_xor_sync(~0u, high ? w[i] : w[i + 2], 2);
        w[i] = high ? v : w[i], w[i + 2] = high ? w[i + 2] : v;
    }
}

/* A warp has eight rows of a tile's stretch. `first` is a multiple of the tile. */
static __global__ void __launch_bounds__(PLAIN_THREADS) plain_rows_kernel(const plain_job j) {
    const int64_t at = (int64_t)blockIdx.x * (PLAIN_THREADS / 32) + threadIdx.x / 32,
                  eight = at / j.layout.n_stretches, stretch = at - eight * j.layout.n_stretches;
    const int lane = threadIdx.x % 32, half = (int)(eight % 2);
    const int64_t row = eight * 8 + lane / 4;
    if (eight * 8 >= j.n) return;
    const block_parts b = parts_at(j.w, j.layout, j.first / SAC_BLOCK_TILE + eight / 2, stretch);
    uint32_t w[CHUNKS][4];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
        const uint4 v = line_at(b.part[SAC_BLOCK_CODES], half, c, CHUNKS, lane);
        const uint32_t stored[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int i = 0; i < 4; i++) w[c][i] = __byte_perm(stored[i], 0, 0x3120);
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) transpose_quad(w[c]);
    if (row >= j.n) return;
    const int64_t col = stretch * STRETCH + lane % 4 * 16;
    uint8_t *to = j.to + row * j.k + col;
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        if (col + c * SAC_BLOCK_CHUNK < j.k)
            *(uint4 *)(to + c * SAC_BLOCK_CHUNK) = make_uint4(w[c][0], w[c][1], w[c][2], w[c][3]);
    const float *words = (const float *)b.part[SAC_BLOCK_SCALES] + (8 * half + lane / 4) * (STRETCH / E4M3_UNIT);
    if (!j.n_scales && stretch == 0 && lane % 4 == 0) j.scales[row] = words[0];
}

/* A block's is that of its first row whose codes are numbers: others have NaN for a word, and for a code. */
static __global__ void block_scales_kernel(const plain_job j) {
    const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, block = i / j.n_scales,
                  unit = i - block * j.n_scales, first = block * E4M3_UNIT, n = min(first + E4M3_UNIT, j.n);
    if (first >= j.n) return;
    float scale = 0;
    for (int64_t row = first; unit * E4M3_UNIT < j.k && row < n; row++) {
        const block_parts b = parts_at(j.w, j.layout, (j.first + row) / SAC_BLOCK_TILE, unit / 2);
        scale = ((const float *)b.part[SAC_BLOCK_SCALES])[(j.first + row) % SAC_BLOCK_TILE * 2 + unit % 2];
        if (!isnan(scale)) break;
    }
    j.scales[i] = scale;
}

static sac_status plain_rows(const sac_stream *s, const plain_job &j) {
    const int64_t warps = ceil_div(j.n, 8) * j.layout.n_stretches, blocks = ceil_div(warps, PLAIN_THREADS / 32),
                  n_blocks = ceil_div(j.n, E4M3_UNIT) * j.n_scales;
    if (blocks > INT32_MAX || n_blocks > INT32_MAX) return SAC_UNSUPPORTED;
    SAC_TRY(launch(s, {(unsigned)blocks, PLAIN_THREADS}, plain_rows_kernel, j));
    return n_blocks ? launch(s, {(unsigned)ceil_div(n_blocks, 128), 128}, block_scales_kernel, j) : SAC_OK;
}

/* ---------------------------------------------------------------- x */

struct e4m3_rows_job {
    sac_mat x;
    uint8_t *codes; /* [rows][cols] */
    float *scales;  /* [rows], or [cols / 128][rows] */
    float scale;    /* of all, or 0 */
};
struct norm_job {
    const float *norm; /* [cols] */
    float eps;
};

/* A row with one scale. */
template <typename T> __device__ __forceinline__ void round_row(const e4m3_rows_job &j, int64_t row, uint32_t *part) {
    const T *x = (const T *)j.x.data + row * j.x.stride;
    uint8_t *to = j.codes + row * j.x.cols;
    const int n_vec = (int)(j.x.cols / 8), n = (int)blockDim.x;
    raw<T, 8> now[NORM_VECTORS] = {};
    float e[8], scale = j.scale;
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++)
        if (threadIdx.x + c * n < n_vec) now[c] = *(const raw<T, 8> *)(x + (threadIdx.x + c * n) * 8);
    if (scale == 0) {
        uint32_t largest = 0;
#pragma unroll
        for (int c = 0; c < NORM_VECTORS; c++) unpack_eight(e, now[c]), largest = largest_of_eight(e, largest);
        for (int i = threadIdx.x + NORM_VECTORS * n; i < n_vec; i += n) {
            load<8>(e, x + i * 8);
            largest = largest_of_eight(e, largest);
        }
        scale = scale_of(team_largest<whole_block>(largest, part), false);
    }
    if (threadIdx.x == 0) j.scales[row] = scale;
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++) {
        const int i = threadIdx.x + c * n;
        unpack_eight(e, now[c]);
        if (i < n_vec) *(uint2 *)(to + i * 8) = eight_codes(e, scale);
    }
    for (int i = threadIdx.x + NORM_VECTORS * n; i < n_vec; i += n) {
        load<8>(e, x + i * 8);
        *(uint2 *)(to + i * 8) = eight_codes(e, scale);
    }
}

/* 16 lanes have the 128 elements of unit `at`, of all rows' one after the other, which share a scale. All lanes of a warp come. */
template <typename T> __device__ __forceinline__ void round_units(const e4m3_rows_job &j, int64_t at) {
    const int64_t units = (j.x.cols + E4M3_UNIT - 1) / E4M3_UNIT, row = at / units, unit = at - row * units,
                  col = unit * E4M3_UNIT + threadIdx.x % UNIT_LANES * 8;
    const bool is_there = row < j.x.rows && col < j.x.cols;
    float e[8] = {};
    if (is_there) load<8>(e, (const T *)j.x.data + row * j.x.stride + col);
    uint32_t largest = largest_of_eight(e, 0);
#pragma unroll
    for (int i = UNIT_LANES / 2; i > 0; i /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, i));
    const float scale = scale_of(largest, false);
    if (!is_there) return;
    *(uint2 *)(j.codes + row * j.x.cols + col) = eight_codes(e, scale);
    if (threadIdx.x % UNIT_LANES == 0) j.scales[unit * j.x.rows + row] = scale;
}

/* Threads that normalise a row of so many elements on the way, 0 where it is too long. As few as have room: whoever does it adds up in
 * the same order. */
static inline int64_t norm_and_round_threads(int64_t cols) {
    const int64_t n_vec = cols / 8, few = min_of(NORM_AND_ROUND_THREADS, ceil_div(n_vec, 32) * 32);
    return n_vec <= NORM_VECTORS * few ? few : n_vec <= NORM_VECTORS * NORM_THREADS ? NORM_THREADS : 0;
}

/* A row normalised on the way, and rounded to T as the op alone would. */
template <typename T, bool BY_UNITS>
__device__ __forceinline__ void norm_and_round_row(const e4m3_rows_job &j, const norm_job &of, int64_t row, uint32_t *part) {
    const T *x = (const T *)j.x.data + row * j.x.stride;
    uint8_t *to = j.codes + row * j.x.cols;
    const int n_vec = (int)(j.x.cols / 8), n = (int)blockDim.x;
    raw<T, 8> now[NORM_VECTORS] = {};
    float e[8], sum = 0;
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++)
        if (threadIdx.x + c * n < n_vec) now[c] = *(const raw<T, 8> *)(x + (threadIdx.x + c * n) * 8);
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++)
#pragma unroll
        for (int i = 0; i < 8; i++) sum += to_f32(now[c].e[i]) * to_f32(now[c].e[i]);
    const float of_norm = 1.0f / sqrtf(team_sum<whole_block>(sum, part) / (float)j.x.cols + of.eps);
    uint32_t largest = 0;
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++) {
        const int v = threadIdx.x + c * n;
        float g[8] = {};
        if (v < n_vec) load<8>(g, of.norm + v * 8);
        if (BY_UNITS) largest = 0;
#pragma unroll
        for (int i = 0; i < 8; i++) now[c].e[i] = from_f32<T>(to_f32(now[c].e[i]) * of_norm * g[i]);
        unpack_eight(e, now[c]);
        largest = largest_of_eight(e, largest);
        if constexpr (BY_UNITS) {
#pragma unroll
            for (int i = UNIT_LANES / 2; i > 0; i /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, i));
            const float scale = scale_of(largest, false);
            if (v >= n_vec) continue;
            *(uint2 *)(to + v * 8) = eight_codes(e, scale);
            if (v % UNIT_LANES == 0) j.scales[v / UNIT_LANES * j.x.rows + row] = scale;
        }
    }
    if constexpr (!BY_UNITS) {
        const float scale = j.scale != 0 ? j.scale : scale_of(team_largest<whole_block>(largest, part), false);
        if (threadIdx.x == 0) j.scales[row] = scale;
#pragma unroll
        for (int c = 0; c < NORM_VECTORS; c++) {
            const int v = threadIdx.x + c * n;
            unpack_eight(e, now[c]);
            if (v < n_vec) *(uint2 *)(to + v * 8) = eight_codes(e, scale);
        }
    }
}

template <typename T> static __global__ void __launch_bounds__(NORM_THREADS, 2) e4m3_rows_kernel(const e4m3_rows_job j) {
    __shared__ uint32_t part[32];
    const int64_t row = norm_row(j.x.rows);
    start_next();
    wait_for_last();
    if (row >= 0) round_row<T>(j, row, part);
}

template <typename T> static __global__ void __launch_bounds__(ROUNDED_THREADS) e4m3_units_kernel(const e4m3_rows_job j) {
    start_next();
    wait_for_last();
    round_units<T>(j, (int64_t)blockIdx.x * (ROUNDED_THREADS / UNIT_LANES) + threadIdx.x / UNIT_LANES);
}

template <typename T> static sac_status e4m3_rows(const sac_stream *s, const e4m3_rows_job &j, bool by_units) {
    if (by_units) {
        const int64_t blocks = ceil_div(j.x.rows * ceil_div(j.x.cols, E4M3_UNIT), ROUNDED_THREADS / UNIT_LANES);
        return blocks > INT32_MAX ? SAC_UNSUPPORTED
                                  : launch(s, of_step({(unsigned)blocks, ROUNDED_THREADS}), e4m3_units_kernel<T>, j);
    }
    const int64_t n_vec = j.x.cols / 8;
    const dim3 threads = j.x.rows > FEW_E4M3_ROWS ? norm_threads(n_vec)
                                                  : dim3((unsigned)min_of(NORM_THREADS, ceil_div(n_vec, 32) * 32)); /* soon through */
    return launch(s, of_step({(unsigned)ceil_div(j.x.rows, threads.y), threads}), e4m3_rows_kernel<T>, j);
}

/* A block has a row. */
template <typename T, bool BY_UNITS>
static __global__ void __launch_bounds__(NORM_THREADS) e4m3_norm_kernel(const e4m3_rows_job j, const norm_job of) {
    __shared__ uint32_t part[32];
    start_next();
    wait_for_last();
    norm_and_round_row<T, BY_UNITS>(j, of, blockIdx.x, part);
}

sac_status round_to_e4m3(const sac_stream *s, sac_mat x, x_rounding r, const float *norm, float eps, uint8_t *codes, float *scales) {
    const e4m3_rows_job j = {x, codes, scales, r.how == SAC_X_FP8_STATIC ? r.scale : 0};
    const bool by_units = r.how == SAC_X_FP8_GROUPS, is_f16 = x.dtype == SAC_DTYPE_F16;
    if (!norm) return is_f16 ? e4m3_rows<half>(s, j, by_units) : e4m3_rows<bf16>(s, j, by_units);
    const int64_t threads = norm_and_round_threads(x.cols);
    if (!threads || x.rows > INT32_MAX) return SAC_UNSUPPORTED;
    const norm_job n = {norm, eps};
    const launch_plan p = of_step({dim3((unsigned)x.rows), dim3((unsigned)threads)});
    if (by_units) return launch(s, p, is_f16 ? e4m3_norm_kernel<half, true> : e4m3_norm_kernel<bf16, true>, j, n);
    return launch(s, p, is_f16 ? e4m3_norm_kernel<half, false> : e4m3_norm_kernel<bf16, false>, j, n);
}

/* ---------------------------------------------------------------- the product */

/* Bias to all rows of y, where the library adds to y but no bias to it. */
static __global__ void bias_rows_kernel(const sac_mat y, const float *bias) {
    for (int64_t c = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; c < y.cols; c += (int64_t)gridDim.x * blockDim.x)
        for (int64_t r = blockIdx.y; r < y.rows; r += gridDim.y) store_any(y.dtype, y.data, r * y.stride + c, bias[c]);
}

static sac_status multiply_e4m3(const sac_stream *s, const sac_linear_args *a, const linear::e4m3_scales &scales,
                                bool only_asks) {
    const sac_status st = linear::linear_e4m3(s, a, scales, only_asks);
    if (st != SAC_UNSUPPORTED || !a->bias || a->accumulate || a->act != SAC_ACT_NONE) return st;
    const dim3 grid((unsigned)min_of(ceil_div(a->y.cols, 256), 64), (unsigned)min_of(a->y.rows, 2048));
    if (!only_asks) SAC_TRY(launch(s, {grid, 256}, bias_rows_kernel, a->y, a->bias));
    sac_linear_args sum = *a;
    sum.bias = NULL, sum.accumulate = true;
    return linear::linear_e4m3(s, &sum, scales, only_asks);
}

static bool fits(const sac_stream *s, const sac_linear_args *a, x_rounding r) {
    const sac_weight *w = &a->w;
    const int64_t k = a->x.cols;
    if (s->device->no_e4m3 || s->device->compute != 90 || w->order.data ||
        (w->tensor.dtype != SAC_DTYPE_E4M3_128 && w->tensor.dtype != SAC_DTYPE_E4M3_ROWS))
        return false;
    const bool by_rows = r.how == SAC_X_FP8_ROWS || r.how == SAC_X_FP8_STATIC,
               has_scale = r.how != SAC_X_FP8_STATIC || r.scale != 0;
    return is_half(a->x.dtype) && mat_aligned(a->x) && (a->y.dtype == a->x.dtype || a->y.dtype == SAC_DTYPE_F32) &&
           k % 16 == 0 && a->y.cols % 8 == 0 && has_scale &&
           (by_rows ? w->group >= k
                    : r.how == SAC_X_FP8_GROUPS && r.group == E4M3_UNIT && w->group_rows == E4M3_UNIT);
}

static uint8_t *take(uint8_t *&at, size_t n_bytes) {
    uint8_t *taken = at;
    at += (n_bytes + 255) / 256 * 256;
    return taken;
}

/* How a product is cut, and where its parts lie in scratch. */
struct e4m3_parts {
    sac_stream rest; /* for the library */
    x_rounding rounding;
    int64_t rows, n_scales; /* of w at a time; scales of a row of its blocks */
    int64_t some;           /* rows of x at a time */
    uint8_t *panel, *codes;
    linear::e4m3_scales scales;
    float *w_scales, *x_scales;
};

static sac_status multiply_parts(const sac_stream *s, const sac_linear_args *a, const e4m3_parts &p, bool only_asks) {
    const int64_t m = a->x.rows, n = a->y.cols, k = a->x.cols;
    const sac_block_layout layout = sac_block_layout_of(a->w.tensor.dtype, a->w.tensor.dim[0], k);
    for (int64_t first = 0; first < n; first += p.rows) {
        const int64_t n_now = min_of(p.rows, n - first);
        if (!only_asks)
            SAC_TRY(plain_rows(s, {a->w.tensor.data, layout, first, n_now, k, p.panel, p.w_scales, p.n_scales}));
        for (int64_t i = 0; i < m; i += p.some) {
            sac_linear_args part = *a;
            part.x = {p.codes, min_of(p.some, m - i), k, k, SAC_DTYPE_FP8};
            const e4m3_rows_job x = {sac_mat_rows(a->x, i, part.x.rows), p.codes, p.x_scales,
                                     p.rounding.how == SAC_X_FP8_STATIC ? p.rounding.scale : 0};
            if (!only_asks && (first == 0 || p.some < m))
                SAC_TRY(a->x.dtype == SAC_DTYPE_F16 ? e4m3_rows<half>(s, x, p.scales.by_blocks)
                                                    : e4m3_rows<bf16>(s, x, p.scales.by_blocks));
            part.y = sac_mat_rows(a->y, i, part.x.rows);
            part.y.cols = n_now;
            part.y.data = (uint8_t *)part.y.data + first * element_bytes(a->y.dtype);
            part.w = sac_weight_of(sac_tensor{p.panel, SAC_DTYPE_FP8, 2, {n_now, k}});
            if (a->bias) part.bias = a->bias + first;
            SAC_TRY(multiply_e4m3(&p.rest, &part, p.scales, only_asks));
        }
    }
    return SAC_OK;
}

/* Weights that lie as plain rows meet x where they are; x is rounded once for all of them. */
static sac_status multiply_plain(const sac_stream *s, const sac_linear_args *of, int n_of, x_rounding r) {
    const int64_t m = of->x.rows, k = of->x.cols, units = ceil_div(k, E4M3_UNIT),
                  kept = (int64_t)(SCRATCH_COUNTER_BYTES + SCRATCH_BIAS_BYTES) + E4M3_WORKSPACE_BYTES;
    const bool by_units = r.how == SAC_X_FP8_GROUPS;
    const int64_t fitting = ((int64_t)s->shared_scratch_bytes - kept - 3 * 256) / (k + 4 * (by_units ? units : 1)),
                  most = fitting < E4M3_UNIT ? fitting : fitting / E4M3_UNIT * E4M3_UNIT;
    if (most < min_of(m, E4M3_UNIT)) return SAC_UNSUPPORTED;
    const int64_t goes = ceil_div(m, most), some = min_of(most, ceil_div(ceil_div(m, goes), E4M3_UNIT) * E4M3_UNIT);
    sac_stream rest = *s;
    rest.shared_scratch_bytes = (size_t)kept;
    uint8_t *at = s->shared_scratch + (kept + 255) / 256 * 256, *codes = take(at, (size_t)(some * k));
    float *x_scales = (float *)take(at, (size_t)(4 * some * (by_units ? units : 1)));
    for (int asks = 1; asks >= 0; asks--) /* of all parts first, as what adds to y cannot be begun again */
        for (int64_t i = 0; i < m; i += some) {
            const int64_t now = min_of(some, m - i);
            const e4m3_rows_job x = {sac_mat_rows(of->x, i, now), codes, x_scales, r.how == SAC_X_FP8_STATIC ? r.scale : 0};
            if (!asks)
                SAC_TRY(of->x.dtype == SAC_DTYPE_F16 ? e4m3_rows<half>(s, x, by_units) : e4m3_rows<bf16>(s, x, by_units));
            for (int p = 0; p < n_of; p++) {
                const sac_tensor *w = &of[p].w.tensor;
                const sac_block_layout l = sac_block_layout_of(w->dtype, w->dim[0], k);
                const linear::e4m3_scales scales = {(const float *)((const uint8_t *)w->data + l.at[SAC_BLOCK_SCALES]), x_scales,
                                                    by_units, l.n_stretches * STRETCH};
                sac_linear_args part = of[p];
                part.x = {codes, now, k, k, SAC_DTYPE_FP8};
                part.y = sac_mat_rows(of[p].y, i, now);
                part.w = sac_weight_of(sac_tensor{w->data, SAC_DTYPE_FP8, 2, {of[p].y.cols, k}});
                SAC_TRY(multiply_e4m3(&rest, &part, scales, asks));
            }
        }
    return SAC_OK;
}

sac_status linear_e4m3_group(const sac_stream *s, const sac_linear_group_args *a) {
    sac_linear_args of[SAC_LINEAR_GROUP_MOST];
    const x_rounding r = rounding_of(&a->w[0], a->x.cols);
    for (int i = 0; i < a->n; i++) {
        of[i] = sac_linear_group_part(a, i);
        if (a->w[i].tensor.dtype != SAC_DTYPE_E4M3_ROWS || !fits(s, &of[i], r)) return SAC_UNSUPPORTED;
    }
    return multiply_plain(s, of, a->n, r);
}

sac_status linear_e4m3_rows(const sac_stream *s, const sac_linear_args *a) {
    const x_rounding r = rounding_of(&a->w, a->x.cols);
    const int64_t m = a->x.rows, n = a->y.cols, k = a->x.cols, units = ceil_div(k, E4M3_UNIT);
    if (!fits(s, a, r)) return SAC_UNSUPPORTED;
    if (a->w.tensor.dtype == SAC_DTYPE_E4M3_ROWS) return multiply_plain(s, a, 1, r);
    const bool by_units = r.how == SAC_X_FP8_GROUPS;
    const int64_t most_rows = E4M3_PANEL_BYTES / k / PANEL_ROWS * PANEL_ROWS,
                  rows = n * k <= E4M3_PANEL_BYTES ? n : max_of(most_rows, PANEL_ROWS),
                  n_scales = by_units ? linear::scales_of_block_row(k) : 0;
    const int64_t kept = (int64_t)(SCRATCH_COUNTER_BYTES + SCRATCH_BIAS_BYTES) + E4M3_WORKSPACE_BYTES,
                  panel_bytes = rows * (k + 4) + 4 * n_scales * ceil_div(rows, E4M3_UNIT),
                  left = (int64_t)s->shared_scratch_bytes - kept - panel_bytes - 4 * 256,
                  fitting = left / (k + 4 * (by_units ? units : 1)),
                  most = fitting < E4M3_UNIT ? fitting : fitting / E4M3_UNIT * E4M3_UNIT;
    if (most < min_of(m, E4M3_UNIT)) return SAC_UNSUPPORTED;
    /* goes of equal size, of whole tiles of the products */
    const int64_t goes = ceil_div(m, most),
                  some = min_of(most, ceil_div(ceil_div(m, goes), E4M3_UNIT) * E4M3_UNIT);
    sac_stream rest = *s;
    rest.shared_scratch_bytes = (size_t)kept;
    uint8_t *at = s->shared_scratch + (kept + 255) / 256 * 256;
    uint8_t *panel = take(at, (size_t)(rows * k));
    float *w_scales = (float *)take(at, (size_t)(by_units ? 4 * n_scales * ceil_div(rows, E4M3_UNIT) : 4 * rows));
    uint8_t *codes = take(at, (size_t)(some * k));
    float *x_scales = (float *)take(at, (size_t)(4 * some * (by_units ? units : 1)));
    const e4m3_parts p = {rest, r, rows, n_scales, some, panel, codes, {w_scales, x_scales, by_units, 0}, w_scales, x_scales};
    SAC_TRY(multiply_parts(s, a, p, true)); /* of all parts, as what adds to y cannot be begun again */
    return multiply_parts(s, a, p, false);
}

} // namespace sac::blocks
