/* four_bits.cuh - what kernels share that multiply a query with keys in 4 bits with a range a row.
 *
 * Codes are numbers of tensor cores' products as they are: halves so small that they have no exponent. The
 * row's range comes afterwards: q . (code * scale + min) = scale * (q . code) + min * sum q. The order of
 * channels is the words', the same for codes and queries. Sums of softmaxes are kept beside the scores,
 * relative to the largest so far. */
#ifndef SAC_KERNELS_FOUR_BITS_CUH
#define SAC_KERNELS_FOUR_BITS_CUH

#include "context.cuh"
#include "log_sums.cuh"
#include "mma.cuh"
extern "C" {
#include "packed_rows.h"
}

namespace sac::packed::four_bits {

enum { HEADS = 8 /* query heads that read a key head, at most */ };
enum { TILES = 2 /* at a time */, RANGE_BYTES = SAC_PACKED_TILE * 2 /* a tile's scales, or its smallest */ };

/* A pair of codes of a word, as halves below the normal ones: code * 2^-24, for odd pairs code * 2^-20. */
__device__ __forceinline__ uint32_t codes_of(uint32_t word, int pair) {
    return (pair < 2 ? word : word >> 8) & (pair % 2 ? 0x00f000f0u : 0x000f000fu);
}

/* Sums are of powers of two (log_sums.cuh): of scores times LOG2_E, by which the logarithm is divided
 * again. */

/* With the numbers of one head that a lane has of its tiles: first and first + 2 of each. */
__device__ __forceinline__ float2 add_to_sum(float2 sum, const float (*c)[4], int first) {
    float top = c[0][first], more = 0;
#pragma unroll
    for (int i = 0; i < TILES; i++) top = fmaxf(top, fmaxf(c[i][first], c[i][first + 2]));
    top = fmaxf(sum.x, top * LOG2_E);
    float base = base_of(top);
#pragma unroll
    for (int i = 0; i < TILES; i++)
        more += exp2_fast(fmaf(c[i][first], LOG2_E, -base)) + exp2_fast(fmaf(c[i][first + 2], LOG2_E, -base));
    return make_float2(top, sum.y * exp2_fast(sum.x - base) + more);
}

/* What a head's query comes to: score = unit * (scale * product + min * sum). */
typedef struct head_query {
    float unit, sum;
} head_query;

template <int D> constexpr int query_pitch(void) {
    return D * 2 + 16;
}

/* A head's channels, by a warp. */
template <int D>
__device__ __forceinline__ void load_query(sac_dtype dtype, const void *q, int64_t head, float x[D / 32]) {
    int64_t at = head * D + threadIdx.x % 32;
    if (dtype == SAC_DTYPE_F32) {
#pragma unroll
        for (int i = 0; i < D / 32; i++) x[i] = ((const float *)q)[at + i * 32];
    } else {
#pragma unroll
        for (int i = 0; i < D / 32; i++) x[i] = load_any(dtype, q, at + i * 32);
    }
}
/* A head's channels as halves, the largest between 2^13 and 2^14, and a sixteenth of that where codes are
 * sixteen times theirs. A unit is not negative: with such a scale the halves change their sign. */
template <int D>
__device__ __forceinline__ void take_query(const float x[D / 32], float scale, half *halves, head_query *of) {
    int lane = threadIdx.x % 32;
    float top = 0, sum = 0;
#pragma unroll
    for (int i = 0; i < D / 32; i++) top = fmaxf(top, fabsf(x[i])), sum += x[i];
    warp_max_and_sum(top, sum);
    int exponent = max((int)(__float_as_uint(top) >> 23), 14); /* plus 127 */
    float up = copysignf(__uint_as_float((uint32_t)(267 - exponent) << 23), scale);
    float odd = lane / 2 % 2 ? up * 0.0625f : up;
#pragma unroll
    for (int i = 0; i < D / 32; i++) halves[i * 32 + lane] = __float2half_rn(x[i] * odd);
    float unit = fabsf(scale) * __uint_as_float((uint32_t)(exponent + 11) << 23);
    if (lane == 0) *of = head_query{unit, sum * up * 0x1p-24f};
}

template <int D> constexpr int tile_bytes(void) {
    return SAC_PACKED_TILE * D / 2;
}
/* Words of TILES, their scales, their smallest. */
template <int D> constexpr int stage_bytes(void) {
    return TILES * (tile_bytes<D>() + 2 * RANGE_BYTES);
}

/* Scores of a stage's tiles but for their unit. With g and t as in mma.cuh a lane gets those of rows 2g and
 * 2g + 1 of a tile, of heads 2t and 2t + 1; it has words t, t + 4 .. of both rows, and of them eight channels
 * each; b has the same channels of query head g. */
template <int D>
__device__ __forceinline__ void stage_scores(const uint8_t *stage, const uint4 b[D / 32],
                                             const head_query q[2], float c[TILES][4]) {
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < TILES * 4; i++) c[i / 4][i % 4] = 0;
#pragma unroll
    for (int j = 0; j < D / 32; j++) {
        uint2 w[TILES];
#pragma unroll
        for (int i = 0; i < TILES; i++)
            w[i] = *(const uint2 *)(stage + i * tile_bytes<D>() + j * 256 + (t * 8 + g) * 8);
#pragma unroll
        for (int e = 0; e < 2; e++)
#pragma unroll
            for (int i = 0; i < TILES; i++) /* a product waits for the one before it of its tile */
                mma<half>(c[i], codes_of(w[i].x, 2 * e), codes_of(w[i].y, 2 * e), codes_of(w[i].x, 2 * e + 1),
                          codes_of(w[i].y, 2 * e + 1), e ? b[j].z : b[j].x, e ? b[j].w : b[j].y);
    }
    const uint8_t *ranges = stage + TILES * tile_bytes<D>() + g * 4;
#pragma unroll
    for (int i = 0; i < TILES; i++) {
        float2 s = __half22float2(*(const half2 *)(ranges + i * RANGE_BYTES));
        float2 m = __half22float2(*(const half2 *)(ranges + (TILES + i) * RANGE_BYTES));
#pragma unroll
        for (int h = 0; h < 2; h++) {
            c[i][h] = s.x * c[i][h] + m.x * q[h].sum;
            c[i][2 + h] = s.y * c[i][2 + h] + m.y * q[h].sum;
        }
    }
}

static inline bool four_bits_fit(sac_mat q, const sac_packed_rows &p, int group) {
    return is_float(q.dtype) && p.bits == 4 && p.k_group == 0 && (p.head_dim == 64 || p.head_dim == 128) &&
           group <= HEADS && p.capacity % SAC_PACKED_TILE == 0 && (uintptr_t)p.k % 16 == 0 &&
           (uintptr_t)p.k_scale % 16 == 0 && (uintptr_t)p.k_min % 16 == 0;
}

} // namespace sac::packed::four_bits

#endif
