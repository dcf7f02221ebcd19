/* packed_scores_four.cu - a query against all rows of keys in 4 bits with a range a row.
 *
 * Codes are numbers of tensor cores' products as they are: put into a half beside the exponent of 16 (or 64)
 * they are 16 + code, and what that adds is where a sum begins. The row's range comes afterwards: q . (code *
 * scale + min) = scale * (q . code) + min * sum q. The order of channels is the words', the same for codes
 * and queries. Sums of softmaxes are kept beside the scores, relative to the largest so far; the block of a
 * key head that comes last joins what all have left, in their order. */
#include "context.cuh"
#include "mma.cuh"
#include "packed_scores.cuh"
extern "C" {
#include "packed_rows.h"
}

enum { WARPS = 8, HEADS = 8, TILES = 4 /* that a warp has under way */, BLOCKS = 2 /* of a processor */ };

typedef struct four_job {
    float *scores, *lse;
    float2 *parts; /* [head][block] */
    unsigned *counters;
    const int32_t *skip;
    const void *q;
    const uint32_t *k, *k_scale, *k_min; /* from the tile of the first row on; ranges two by two */
    int64_t stride, n, capacity, before; /* rows of the first tile before the first */
    sac_dtype dtype;
    int group, each, rest; /* tiles of a warp; so many warps have one more */
    float scale;
    bool pairs; /* neighbouring scores lie on 8-byte lines */
} four_job;

/* A pair of codes of a word, as halves: 16 + code, 64 + code for pair 1, which needs no shift. */
__device__ __forceinline__ uint32_t codes_of(uint32_t word, int pair) {
    if (pair == 1) return (word & 0x00f000f0u) | 0x54005400u;
    uint32_t x = pair == 0 ? word << 6 : word >> (pair == 2 ? 2 : 6);
    return (x & 0x03c003c0u) | 0x4c004c00u;
}

/* Sums are of powers of two: of scores times LOG2_E as f32 has it, which the logarithm is divided by again.
 */
#define LOG2_E 1.44269502f

__device__ __forceinline__ float power_of_2(float x) {
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

/* Largest exponent, sum relative to it. */
__device__ __forceinline__ float2 join_sums(float2 a, float2 b) {
    float top = fmaxf(a.x, b.x);
    if (top == -CUDART_INF_F) return a;
    return make_float2(top, a.y * power_of_2(a.x - top) + b.y * power_of_2(b.x - top));
}
__device__ __forceinline__ float2 join_lanes(float2 x, int first) {
#pragma unroll
    for (int i = 16; i >= first; i /= 2)
        x = join_sums(
            x, make_float2(__shfl_xor_sync(0xffffffffu, x.x, i), __shfl_xor_sync(0xffffffffu, x.y, i)));
    return x;
}
/* With the numbers of one head that a lane has of its tiles: first and first + 2 of each. */
__device__ __forceinline__ float2 add_to_sum(float2 sum, const float (*c)[4], int first) {
    float top = c[0][first], more = 0;
#pragma unroll
    for (int i = 0; i < TILES; i++) top = fmaxf(top, fmaxf(c[i][first], c[i][first + 2]));
    float x = fmaxf(sum.x, top * LOG2_E);
    if (x == -CUDART_INF_F) return sum;
#pragma unroll
    for (int i = 0; i < TILES; i++)
        more += power_of_2(fmaf(c[i][first], LOG2_E, -x)) + power_of_2(fmaf(c[i][first + 2], LOG2_E, -x));
    return make_float2(x, sum.y * power_of_2(sum.x - x) + more);
}

/* What a head's query comes to: score = scale * (unit * product) + min * sum, products begin at `begin`. */
typedef struct head_query {
    float unit, sum, begin;
} head_query;

template <int D> constexpr int query_pitch(void) {
    return D * 2 + 16;
}

/* A warp a head: its channels as halves, the largest between 2^13 and 2^14. */
template <int D>
__device__ __forceinline__ void take_query(const four_job &a, int head0, uint8_t *halves, head_query *of) {
    constexpr int EACH = D / 32;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    bool there = warp < a.group;
    float x[EACH], top = 0, sum = 0, begin = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        x[i] = there ? load_any(a.dtype, a.q, (int64_t)(head0 + warp) * D + i * 32 + lane) : 0;
        top = fmaxf(top, fabsf(x[i]));
    }
#pragma unroll
    for (int i = 16; i > 0; i /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
    int exponent = max((int)(__float_as_uint(top) >> 23), 14); /* plus 127 */
    float up = __uint_as_float((uint32_t)(267 - exponent) << 23);
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        half h = __float2half_rn(x[i] * up);
        ((half *)(halves + warp * query_pitch<D>()))[i * 32 + lane] = h;
        sum += x[i];
        begin += __half2float(h) * (lane % 8 / 2 == 1 ? 64.0f : 16.0f);
    }
    sum = warp_sum(sum);
    begin = warp_sum(begin);
    if (lane == 0)
        of[warp] =
            head_query{a.scale * __uint_as_float((uint32_t)(exponent - 13) << 23), a.scale * sum, -begin};
}

/* What the warps have of each head's sums, joined here or, by the last block, for good. */
__device__ __forceinline__ void leave_sums(const four_job &a, int key_head, float2 *of_warp, bool *is_last) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = gridDim.x;
    float2 *parts = a.parts + (int64_t)key_head * HEADS * n;
    __syncthreads();
    if (warp == 0) {
        if (lane < HEADS) {
            float2 x = of_warp[lane];
            for (int w = 1; w < WARPS; w++) x = join_sums(x, of_warp[w * HEADS + lane]);
            parts[lane * n + blockIdx.x] = x;
        }
        __threadfence();
        __syncwarp();
        if (lane == 0) /* the counter wraps to 0 at the last: ready for the next launch */
            *is_last = atomicInc(&a.counters[key_head], (unsigned)n - 1) == (unsigned)n - 1;
    }
    __syncthreads();
    if (!*is_last || warp >= a.group) return;
    __threadfence();
    float2 x = make_float2(-CUDART_INF_F, 0);
    for (int i = lane; i < n; i += 32) x = join_sums(x, __ldcg(&parts[warp * n + i]));
    x = join_lanes(x, 1);
    if (lane == 0) a.lse[key_head * a.group + warp] = x.y > 0 ? (log2f(x.y) + x.x) / LOG2_E : -CUDART_INF_F;
}

/* With g and t as in mma.cuh a lane has words t, t + 4 .. of rows 2g and 2g + 1 of a tile, and of them eight
 * channels each; the same channels of query head g; scores of heads 2t and 2t + 1. */
template <int D, bool SUMS>
static __global__ void __launch_bounds__(WARPS * 32, BLOCKS) four_bits_kernel(four_job a) {
    constexpr int WORDS = D / 8, EACH = WORDS / 4;
    __shared__ __align__(16) uint8_t halves[HEADS * query_pitch<D>()];
    __shared__ head_query of_head[HEADS];
    __shared__ float2 of_warp[WARPS * HEADS];
    __shared__ bool is_last;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, key_head = blockIdx.y;
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    int64_t row0 = key_head * a.capacity;
    int mine = blockIdx.x * WARPS + warp, tile = mine * a.each + min(mine, a.rest);
    int end = tile + a.each + (mine < a.rest);
    const uint2 *words = (const uint2 *)(a.k + row0 * WORDS) + t * 8 + g;
    const uint32_t *scales = a.k_scale + row0 / 2 + g, *lows = a.k_min + row0 / 2 + g;
    uint2 w[TILES][EACH];
    uint32_t scale[TILES], low[TILES];
    auto fetch = [&]() {
        const uint2 *from = words + (int64_t)tile * WORDS * 8;
        const uint32_t *of_scales = scales + (int64_t)tile * 8, *of_lows = lows + (int64_t)tile * 8;
        if (tile + TILES <= end) {
#pragma unroll
            for (int i = 0; i < TILES; i++) {
#pragma unroll
                for (int j = 0; j < EACH; j++) w[i][j] = from[i * WORDS * 8 + j * 32];
                scale[i] = of_scales[i * 8], low[i] = of_lows[i * 8];
            }
            return;
        }
#pragma unroll
        for (int i = 0; i < TILES; i++) { /* a tile that does not exist is the last again */
            int at = min(i, end - tile - 1);
#pragma unroll
            for (int j = 0; j < EACH; j++) w[i][j] = from[at * WORDS * 8 + j * 32];
            scale[i] = of_scales[at * 8], low[i] = of_lows[at * 8];
        }
    };
    if (tile < end) fetch();
    take_query<D>(a, key_head * a.group, halves, of_head);
    __syncthreads();
    uint4 b[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) b[j] = *(const uint4 *)(halves + g * query_pitch<D>() + (t + 4 * j) * 16);
    float unit[2], sum_q[2], begin[2];
    float2 sum[2] = {make_float2(-CUDART_INF_F, 0), make_float2(-CUDART_INF_F, 0)};
#pragma unroll
    for (int h = 0; h < 2; h++)
        unit[h] = of_head[2 * t + h].unit, sum_q[h] = of_head[2 * t + h].sum,
        begin[h] = of_head[2 * t + h].begin;
    float *out = a.scores + ((int64_t)key_head * a.group + 2 * t) * a.stride;
    while (tile < end) {
        float c[TILES][4]; /* as in mma.cuh: rows 2g and 2g + 1 of heads 2t and 2t + 1 */
#pragma unroll
        for (int i = 0; i < TILES; i++) c[i][0] = c[i][2] = begin[0], c[i][1] = c[i][3] = begin[1];
#pragma unroll
        for (int j = 0; j < EACH; j++)
#pragma unroll
            for (int e = 0; e < 2; e++)
#pragma unroll
                for (int i = 0; i < TILES; i++) /* a product waits for the one before it of its tile */
                    mma<half>(c[i], codes_of(w[i][j].x, 2 * e), codes_of(w[i][j].y, 2 * e),
                              codes_of(w[i][j].x, 2 * e + 1), codes_of(w[i][j].y, 2 * e + 1),
                              e ? b[j].z : b[j].x, e ? b[j].w : b[j].y);
#pragma unroll
        for (int i = 0; i < TILES; i++) {
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float s = __half2float(__ushort_as_half((uint16_t)(scale[i] >> 16 * r)));
                float m = __half2float(__ushort_as_half((uint16_t)(low[i] >> 16 * r)));
#pragma unroll
                for (int h = 0; h < 2; h++) c[i][2 * r + h] = s * (unit[h] * c[i][2 * r + h]) + m * sum_q[h];
            }
        }
        int64_t row = (int64_t)tile * SAC_PACKED_TILE - a.before, at = row + 2 * g;
        bool whole = a.pairs && tile + TILES <= end && row >= 0 && row + TILES * SAC_PACKED_TILE <= a.n;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float *to = out + h * a.stride + at;
            bool has_head = 2 * t + h < a.group;
#pragma unroll
            for (int i = 0; i < TILES; i++, to += SAC_PACKED_TILE) {
                if (whole && has_head) *(float2 *)to = make_float2(c[i][h], c[i][2 + h]);
                if (whole) continue;
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    int64_t j = at + i * SAC_PACKED_TILE + r;
                    if (tile + i >= end || j < 0 || j >= a.n)
                        c[i][2 * r + h] = -CUDART_INF_F;
                    else if (has_head)
                        to[r] = c[i][2 * r + h];
                }
            }
        }
        tile += TILES;
        if (tile < end) fetch();
        if constexpr (SUMS) sum[0] = add_to_sum(sum[0], c, 0), sum[1] = add_to_sum(sum[1], c, 1);
    }
    if constexpr (SUMS) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float2 x = join_lanes(sum[h], 4);
            if (g == 0) of_warp[warp * HEADS + 2 * t + h] = x;
        }
        leave_sums(a, key_head, of_warp, &is_last);
    }
}

static bool fits(const sac_packed_scores_args *a) {
    const sac_packed_rows &p = a->keys;
    return is_float(a->q.dtype) && !a->rows && !a->turn_back && p.bits == 4 && p.k_group == 0 &&
           (p.head_dim == 64 || p.head_dim == 128) && a->n_heads / p.n_heads <= HEADS &&
           p.capacity % SAC_PACKED_TILE == 0 && (uintptr_t)p.k % 8 == 0 && (uintptr_t)p.k_scale % 4 == 0 &&
           (uintptr_t)p.k_min % 4 == 0 && p.n_heads <= (int)(SCRATCH_COUNTER_BYTES / sizeof(unsigned));
}

sac_status four_bit_scores(const sac_stream *s, const sac_packed_scores_args *a) {
    const sac_packed_rows &p = a->keys;
    if (!fits(a)) return SAC_UNSUPPORTED;
    four_job j = {};
    int64_t words = p.head_dim / 8, tile0 = a->first / SAC_PACKED_TILE * SAC_PACKED_TILE;
    j.scores = a->scores, j.stride = a->stride, j.n = a->n, j.lse = a->lse, j.skip = a->skip;
    j.q = a->q.data, j.dtype = a->q.dtype, j.group = a->n_heads / p.n_heads, j.scale = a->scale;
    j.k = p.k + tile0 * words, j.k_scale = (const uint32_t *)(p.k_scale + tile0);
    j.k_min = (const uint32_t *)(p.k_min + tile0), j.capacity = p.capacity, j.before = a->first - tile0;
    j.pairs = (a->stride | j.before) % 2 == 0 && (uintptr_t)a->scores % 8 == 0;
    int64_t tiles = ceil_div(j.before + a->n, SAC_PACKED_TILE),
            most = max_of(1, BLOCKS * (int64_t)s->device->n_processors / p.n_heads);
    if (tiles > INT32_MAX) return SAC_UNSUPPORTED;
    dim3 grid((unsigned)min_of(ceil_div(tiles, WARPS), most), (unsigned)p.n_heads);
    j.each = (int)(tiles / (grid.x * WARPS)), j.rest = (int)(tiles % (grid.x * WARPS));
    size_t n_bytes;
    j.parts = (float2 *)scratch_rest(s, &n_bytes), j.counters = scratch_counters(s);
    if (a->lse && (size_t)grid.x * grid.y * HEADS * sizeof *j.parts > n_bytes) return SAC_UNSUPPORTED;
    auto kernel = p.head_dim == 64 ? (a->lse ? four_bits_kernel<64, true> : four_bits_kernel<64, false>)
                                   : (a->lse ? four_bits_kernel<128, true> : four_bits_kernel<128, false>);
    return launch_step(s, kernel, grid, dim3(WARPS * 32), 0, j);
}
