/* e4m3_codes.cuh - rows of x as codes of e4m3 with their scales: by kernels of their own (linear_e4m3.cu), or by the threads of another
 * that has done something else before (out_e4m3.cu). x may be what other blocks of the same kernel wrote. */
#ifndef SAC_KERNELS_E4M3_CODES_CUH
#define SAC_KERNELS_E4M3_CODES_CUH

#include "norm.cuh"
#include "x_rounding.cuh"

#include <cuda_fp8.h>

namespace sac::blocks {

using namespace sac::rows;

enum { E4M3_UNIT = 128, UNIT_LANES = E4M3_UNIT / 8, NORM_AND_ROUND_THREADS = 256 };

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

/* The threads that have a row: all of a block. Others have the same functions. */
struct whole_block {
    __device__ __forceinline__ static int threads(void) { return blockDim.x; }
    __device__ __forceinline__ static void meet(void) { __syncthreads(); }
};

/* Sums and largest of one number a thread; part [32], free before the call. */
template <typename TEAM> __device__ __forceinline__ float team_sum(float x, uint32_t *part) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = TEAM::threads() / 32;
    x = warp_sum(x);
    if (n == 1) return x;
    if (lane == 0) part[warp] = __float_as_uint(x);
    TEAM::meet();
    x = warp_sum(lane < n ? __uint_as_float(part[lane]) : 0.0f);
    TEAM::meet();
    return x;
}
template <typename TEAM> __device__ __forceinline__ uint32_t team_largest(uint32_t x, uint32_t *part) {
    const int n = TEAM::threads() / 32;
    x = __reduce_max_sync(~0u, x);
    if (n == 1) return x; /* rows of other warps may be in this block */
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = x;
    TEAM::meet();
    return __reduce_max_sync(~0u, threadIdx.x % 32 < n ? part[threadIdx.x % 32] : 0);
}

__device__ __forceinline__ uint2 eight_codes(const float e[8], float scale) {
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; i++) v[i] = scale != 0 ? __fdiv_rn(e[i], scale) : 0;
    uint32_t two[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        two[i] = __nv_cvt_float2_to_fp8x2(make_float2(v[2 * i], v[2 * i + 1]), __NV_SATFINITE, __NV_E4M3);
    return make_uint2(two[0] | two[1] << 16, two[2] | two[3] << 16);
}

template <typename T> __device__ __forceinline__ void unpack_eight(float e[8], const raw<T, 8> &r) {
#pragma unroll
    for (int i = 0; i < 8; i++) e[i] = to_f32(r.e[i]);
}
__device__ __forceinline__ uint32_t largest_of_eight(const float e[8], uint32_t largest) {
#pragma unroll
    for (int i = 0; i < 8; i++) largest = max(largest, magnitude(e[i]));
    return largest;
}

/* A row with one scale. */
template <typename TEAM, typename T> __device__ __forceinline__ void round_row(const e4m3_rows_job &j, int64_t row, uint32_t *part) {
    const T *x = (const T *)j.x.data + row * j.x.stride;
    uint8_t *to = j.codes + row * j.x.cols;
    const int n_vec = (int)(j.x.cols / 8), n = TEAM::threads();
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
        scale = scale_of(team_largest<TEAM>(largest, part), false);
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
template <typename TEAM, typename T, bool BY_UNITS>
__device__ __forceinline__ void norm_and_round_row(const e4m3_rows_job &j, const norm_job &of, int64_t row, uint32_t *part) {
    const T *x = (const T *)j.x.data + row * j.x.stride;
    uint8_t *to = j.codes + row * j.x.cols;
    const int n_vec = (int)(j.x.cols / 8), n = TEAM::threads();
    raw<T, 8> now[NORM_VECTORS] = {};
    float e[8], sum = 0;
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++)
        if (threadIdx.x + c * n < n_vec) now[c] = *(const raw<T, 8> *)(x + (threadIdx.x + c * n) * 8);
#pragma unroll
    for (int c = 0; c < NORM_VECTORS; c++)
#pragma unroll
        for (int i = 0; i < 8; i++) sum += to_f32(now[c].e[i]) * to_f32(now[c].e[i]);
    const float of_norm = 1.0f / sqrtf(team_sum<TEAM>(sum, part) / (float)j.x.cols + of.eps);
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
        const float scale = j.scale != 0 ? j.scale : scale_of(team_largest<TEAM>(largest, part), false);
        if (threadIdx.x == 0) j.scales[row] = scale;
#pragma unroll
        for (int c = 0; c < NORM_VECTORS; c++) {
            const int v = threadIdx.x + c * n;
            unpack_eight(e, now[c]);
            if (v < n_vec) *(uint2 *)(to + v * 8) = eight_codes(e, scale);
        }
    }
}

} // namespace sac::blocks

#endif
