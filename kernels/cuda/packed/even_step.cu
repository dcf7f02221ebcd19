/* even_step.cu - a step over tiles of turned rows and a plain tail.
 *
 * A warp has a key-value head, up to eight of its query heads and some halves of tiles, or 16 rows of the tail
 * (packed_mma.cuh). It turns its heads' queries itself while its first codes are on their way, and turns back what its tiles
 * come to, so that sums of tiles and of the tail are of the same channels when warps and blocks meet (packed_step.cuh).
 *
 * Codes are numbers of tensor cores' products as they are: halves so small that they have no exponent. The side that meets
 * them, the query times the scales of the keys' channels or the weights times the scales of the values' rows, is two halves
 * that add up to it, as rows 0 .. 7 and 8 .. 15 of the product, a row for each head. A place of a word is a power of two more,
 * which that side makes up for. Which row of a tile is which column of the scores is chosen such that a lane's weights are
 * those that it needs for the mix; row_of() says which. */
#include "even.cuh"
#include "packed_step.cuh"

namespace sac::packed::even {

using namespace sac::packed::step;

enum { EVEN_WARPS = 8, HALF_TILE = 64, WARPS_WANTED = 4 /* of a block, before a second one */ };

/* Halves of tiles of one run, and who has them: warps [first_warp, first_warp + n_warps), `each` of them at most. */
typedef struct step_run {
    even_run tiles;
    int n, each, first_warp, n_warps;
} step_run;

typedef struct even_step_job {
    step_run run[SAC_EVEN_RUNS];
    step_sequence a; /* but for its parts */
    sac_dtype dtype; /* of q and of the tail */
    int group, n_subgroups;
    float scale_log2;
} even_step_job;

/* x H, of heads whose channels four neighbouring lanes have, N each: which of them is which channel does not matter as long
 * as each place is a bit of its number. by = 1 / sqrt(4 N), times what else there is. */
template <int N> __device__ __forceinline__ void turn_lanes(float x[N], float by) {
#pragma unroll
    for (int half = 1; half < N; half *= 2)
#pragma unroll
        for (int i = 0; i < N; i++)
            if (!(i & half)) {
                float u = x[i], v = x[i + half];
                x[i] = u + v;
                x[i + half] = u - v;
            }
#pragma unroll
    for (int lane = 1; lane < 4; lane *= 2)
#pragma unroll
        for (int i = 0; i < N; i++) {
            float y = __shfl_xor_sync(0xffffffffu, x[i], lane);
            x[i] = (threadIdx.x & lane) ? y - x[i] : x[i] + y;
        }
#pragma unroll
    for (int i = 0; i < N; i++) x[i] *= by;
}

/* Eight heads' queries, turned, in a warp's memory. */
template <int D> constexpr int query_pitch(void) {
    return D + 4;
}
template <int D>
__device__ __forceinline__ void turn_query(sac_dtype t, const void *q, int64_t at, bool is_head, float factor, float *turned) {
    int lane = threadIdx.x % 32;
    float x[D / 4];
#pragma unroll
    for (int i = 0; i < D / 4; i += 8) {
        uint4 v = make_uint4(0, 0, 0, 0);
        if (is_head) v = *(const uint4 *)((const uint16_t *)q + at + lane % 4 * (D / 4) + i);
        uint32_t word[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            float2 y = t == SAC_DTYPE_BF16 ? unpack_two<bf16>(word[j]) : unpack_two<half>(word[j]);
            x[i + 2 * j] = y.x, x[i + 2 * j + 1] = y.y;
        }
    }
    turn_lanes<D / 4>(x, factor * rsqrtf((float)D));
    float *to = turned + lane / 4 * query_pitch<D>() + lane % 4 * (D / 4);
#pragma unroll
    for (int i = 0; i < D / 4; i += 4) *(float4 *)(to + i) = make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]);
    __syncwarp();
}

/* Pair p of a word's codes as halves, so many powers of two up. */
template <int BITS> constexpr int pair_shift(int p) {
    return p * BITS % 8;
}
template <int BITS> __device__ __forceinline__ uint32_t pair_of(uint32_t word, int p) {
    uint32_t mask = (uint32_t)((1 << BITS) - 1) * 0x00010001u << pair_shift<BITS>(p);
    return (p * BITS >= 8 ? word >> 8 : word) & mask;
}

/* A power of two that brings a number to 2^13 at least and below 2^14, and what a product with codes is worth then. */
__device__ __forceinline__ float level_of(float most, float *unit) {
    int exponent = max((int)(__float_as_uint(most) >> 23), 14); /* plus 127 */
    *unit = __uint_as_float((uint32_t)(exponent + 11) << 23);
    return __uint_as_float((uint32_t)(267 - exponent) << 23);
}

/* N / 2 words of N halves, N times 2 bytes on a line of as many. */
template <int N> __device__ __forceinline__ void load_halves(uint32_t *to, const uint16_t *from) {
    if constexpr (N == 4) {
        uint2 x = *(const uint2 *)from;
        to[0] = x.x, to[1] = x.y;
    } else {
#pragma unroll
        for (int i = 0; i < N / 8; i++) {
            uint4 x = ((const uint4 *)from)[i];
            to[4 * i] = x.x, to[4 * i + 1] = x.y, to[4 * i + 2] = x.z, to[4 * i + 3] = x.w;
        }
    }
}

/* What a warp has of half a tile, as it lies in memory. */
template <int D, int KB, int VB> struct half_tile {
    enum {
        K_WORD = 32 / KB, /* channels of a word */
        V_WORD = 32 / VB, /* rows of a word */
        K_WORDS = D / K_WORD / 4,
        GROUPS = 16 / V_WORD, /* of values, four words of rows each */
        SPAN = V_WORD / 2
    };
    uint32_t key[K_WORDS][8];
    uint4 value[GROUPS][D / 32];
    uint32_t factor[8], scale[8], low[8]; /* of rows: two halves each, in the order of a lane's words of values */
};

/* Rows of a lane: number i of word u. Score m, e of a product is row_of(m, e). */
template <int VB> __device__ __forceinline__ int first_key_row(int m, int g) {
    constexpr int SPAN = 16 / VB;
    return m / SPAN * 8 * SPAN + SPAN * g + m % SPAN;
}

template <int D, int KB, int VB>
__device__ __forceinline__ void load_keys(const even_run &r, int head, int unit, half_tile<D, KB, VB> &h) {
    typedef half_tile<D, KB, VB> part;
    constexpr int WORDS = part::K_WORDS * 4;
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint32_t *k = (const uint32_t *)(r.at + unit / 2 * r.bytes) + (head * EVEN_ROWS + unit % 2 * HALF_TILE) * WORDS;
    constexpr int STEP = part::SPAN >= 4 ? 4 : 2; /* neighbours of a load */
#pragma unroll
    for (int j = 0; j < part::K_WORDS; j++)
#pragma unroll
        for (int m = 0; m < 8; m += STEP) {
            int row = first_key_row<VB>(m, g);
            const uint32_t *from = k + row / SAC_PACKED_TILE * SAC_PACKED_TILE * WORDS + (t + 4 * j) * SAC_PACKED_TILE +
                                   row % SAC_PACKED_TILE;
            if constexpr (STEP == 4) {
                uint4 x = *(const uint4 *)from;
                h.key[j][m] = x.x, h.key[j][m + 1] = x.y, h.key[j][m + 2] = x.z, h.key[j][m + 3] = x.w;
            } else {
                uint2 x = *(const uint2 *)from;
                h.key[j][m] = x.x, h.key[j][m + 1] = x.y;
            }
        }
}

template <int D, int KB, int VB>
__device__ __forceinline__ void load_values(const even_run &r, int head, int unit, half_tile<D, KB, VB> &h) {
    typedef half_tile<D, KB, VB> part;
    int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint32_t *v = (const uint32_t *)(r.at + unit / 2 * r.bytes + r.v) +
                        ((head * EVEN_ROWS + unit % 2 * HALF_TILE) / part::V_WORD + t) * D + g * (D / 8);
#pragma unroll
    for (int u = 0; u < part::GROUPS; u++)
#pragma unroll
        for (int x = 0; x < D / 32; x++) h.value[u][x] = *(const uint4 *)(v + 4 * u * D + 4 * x);
}

template <int D, int KB, int VB>
__device__ __forceinline__ void load_rows(const even_run &r, int head, int unit, half_tile<D, KB, VB> &h) {
    typedef half_tile<D, KB, VB> part;
    int t = threadIdx.x % 4;
    const uint8_t *tile = r.at + unit / 2 * r.bytes;
    int first = head * EVEN_ROWS + unit % 2 * HALF_TILE + part::V_WORD * t;
#pragma unroll
    for (int u = 0; u < part::GROUPS; u++) {
        int at = first + u * 4 * part::V_WORD;
        load_halves<part::V_WORD>(h.factor + u * part::SPAN, (const uint16_t *)(tile + r.factor) + at);
        load_halves<part::V_WORD>(h.scale + u * part::SPAN, (const uint16_t *)(tile + r.v_scale) + at);
        load_halves<part::V_WORD>(h.low + u * part::SPAN, (const uint16_t *)(tile + r.v_min) + at);
    }
}

/* Number i of some halves. */
__device__ __forceinline__ float half_at(const uint32_t *x, int i) {
    return __half2float(((const half *)x)[i]);
}

/* What a lane's channels have in a tile: ranges of keys as they lie, factors of values. */
template <int D> struct tile_channels {
    uint32_t scale[D / 8], low[D / 8], value[2][D / 16];
};
template <int D, int KB>
__device__ __forceinline__ void load_ranges(const even_run &r, int head, int tile, tile_channels<D> &c) {
    constexpr int K_WORD = 32 / KB;
    int t = threadIdx.x % 4;
    const uint16_t *scale = (const uint16_t *)(r.at + tile * r.bytes + r.k_scale) + head * D;
    const uint16_t *low = (const uint16_t *)(r.at + tile * r.bytes + r.k_min) + head * D;
#pragma unroll
    for (int j = 0; j < D / K_WORD / 4; j++) {
        load_halves<K_WORD>(c.scale + j * (K_WORD / 2), scale + K_WORD * (t + 4 * j));
        load_halves<K_WORD>(c.low + j * (K_WORD / 2), low + K_WORD * (t + 4 * j));
    }
}
template <int D> __device__ __forceinline__ void load_channels(const even_run &r, int head, int tile, tile_channels<D> &c) {
    int t = threadIdx.x % 4;
    const uint16_t *channel = (const uint16_t *)(r.at + tile * r.bytes + r.v_channel) + head * D;
#pragma unroll
    for (int e = 0; e < 2; e++) load_halves<D / 8>(c.value[e], channel + (2 * t + e) * (D / 8));
}

/* The query as one side of products with a tile's keys. */
template <int D> struct tile_query {
    uint32_t a[D / 16][4];
    float unit, base; /* what a product is worth; what the smallest numbers bring to a score */
};
template <int D, int KB>
__device__ __forceinline__ void take_tile(const tile_channels<D> &c, const float *turned, tile_query<D> &q) {
    constexpr int K_WORD = 32 / KB;
    int lane = threadIdx.x % 32, t = lane % 4;
    const float *head = turned + lane / 4 * query_pitch<D>();
    float x[D / 4], most = 0, low = 0;
#pragma unroll
    for (int j = 0; j < D / K_WORD / 4; j++)
#pragma unroll
        for (int i = 0; i < K_WORD; i++) {
            int at = j * K_WORD + i;
            float y = head[K_WORD * (t + 4 * j) + i];
            low += y * half_at(c.low, at);
            x[at] = y * half_at(c.scale, at) * (1.0f / (1 << pair_shift<KB>(i / 2)));
            most = fmaxf(most, fabsf(x[at]));
        }
    q.base = quad_sum(low);
    float up = level_of(quad_max(most), &q.unit);
#pragma unroll
    for (int i = 0; i < D / 16; i++)
#pragma unroll
        for (int p = 0; p < 2; p++)
            split<half>(x[4 * i + 2 * p] * up, x[4 * i + 2 * p + 1] * up, &q.a[i][2 * p], &q.a[i][2 * p + 1]);
}

/* Scores of half a tile but for their rows' factors, in the order of a lane's words of values. A product waits for the one
 * before it of its rows. */
template <int D, int KB, int VB>
__device__ __forceinline__ void score_half(const half_tile<D, KB, VB> &h, const tile_query<D> &q, float score[16]) {
    typedef half_tile<D, KB, VB> part;
#pragma unroll
    for (int first = 0; first < 8; first += 4) {
        float s[4][4];
#pragma unroll
        for (int i = 0; i < 16; i++) s[i / 4][i % 4] = 0;
#pragma unroll
        for (int j = 0; j < part::K_WORDS; j++)
#pragma unroll
            for (int u = 0; u < part::K_WORD / 4; u++)
#pragma unroll
                for (int m = 0; m < 4; m++) {
                    const uint32_t *a = q.a[j * (part::K_WORD / 4) + u], word = h.key[j][first + m];
                    mma<half>(s[m], a[0], a[1], a[2], a[3], pair_of<KB>(word, 2 * u), pair_of<KB>(word, 2 * u + 1));
                }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int m = first + i / 2, e = i % 2;
            score[m / part::SPAN * part::V_WORD + part::SPAN * e + m % part::SPAN] =
                (s[i / 2][e] + s[i / 2][2 + e]) * q.unit + q.base;
        }
    }
}

/* Weights of half a tile, relative to the largest score that there was: as one side of products with its values. */
typedef struct half_weights {
    uint32_t a[4][4];
    float unit, low; /* what a product is worth; weights times the smallest numbers of their rows */
} half_weights;

template <int D, int KB, int VB>
__device__ __forceinline__ void weigh_half(const half_tile<D, KB, VB> &h, float score[16], step_state<D> &w, half_weights &p) {
    typedef half_tile<D, KB, VB> part;
    float top = -CUDART_INF_F, most = 0, sum = 0, low = 0;
#pragma unroll
    for (int i = 0; i < 16; i++) {
        score[i] *= half_at(h.factor, i);
        top = fmaxf(top, score[i]);
        most = fmaxf(most, half_at(h.scale, i));
    }
    top = quad_max(top);
    if (__any_sync(0xffffffffu, top > w.max)) {
        float max = fmaxf(top, w.max), rescale = exp2_fast(w.max - max);
        w.sum *= rescale, w.max = max;
#pragma unroll
        for (int i = 0; i < D / 8; i++) w.mix[i][0] *= rescale, w.mix[i][1] *= rescale;
    }
    float share = exp2_fast(top - w.max), up = level_of(quad_max(most), &p.unit);
#pragma unroll
    for (int i = 0; i < 16; i++) {
        float weight = exp2_fast(score[i] - top);
        sum += weight;
        low += weight * half_at(h.low, i);
        score[i] = weight * half_at(h.scale, i) * (up / (1 << pair_shift<VB>(i % part::V_WORD / 2)));
    }
    w.sum += sum * share;
    p.low = quad_sum(low) * share;
    p.unit *= share;
#pragma unroll
    for (int i = 0; i < 8; i++) split<half>(score[2 * i], score[2 * i + 1], &p.a[i / 2][2 * (i % 2)], &p.a[i / 2][2 * (i % 2) + 1]);
}

template <int D, int KB, int VB>
__device__ __forceinline__ void mix_half(const half_tile<D, KB, VB> &h, const half_weights &p, const tile_channels<D> &channels,
                                         step_state<D> &w) {
    typedef half_tile<D, KB, VB> part;
#pragma unroll
    for (int x = 0; x < D / 32; x++) {
        float s[4][4];
#pragma unroll
        for (int i = 0; i < 16; i++) s[i / 4][i % 4] = 0;
#pragma unroll
        for (int u = 0; u < part::GROUPS; u++)
#pragma unroll
            for (int v = 0; v < part::V_WORD / 4; v++) {
                const uint32_t *a = p.a[u * (part::V_WORD / 4) + v];
                const uint32_t word[4] = {h.value[u][x].x, h.value[u][x].y, h.value[u][x].z, h.value[u][x].w};
#pragma unroll
                for (int c = 0; c < 4; c++)
                    mma<half>(s[c], a[0], a[1], a[2], a[3], pair_of<VB>(word[c], 2 * v), pair_of<VB>(word[c], 2 * v + 1));
            }
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int c = i / 2, e = i % 2;
            w.mix[4 * x + c][e] += ((s[c][e] + s[c][2 + e]) * p.unit + p.low) * half_at(channels.value[e], 4 * x + c);
        }
    }
}

/* Halves [from, to) of a run's tiles. */
template <int D, int KB, int VB>
__device__ __forceinline__ void attend_run(const even_step_job &job, const even_run &r, int kv_head, int64_t q_at, bool is_head, int from,
                                           int to, float *turned, step_state<D> &w) {
    half_tile<D, KB, VB> h;
    tile_channels<D> channels;
    tile_query<D> query;
    load_ranges<D, KB>(r, kv_head, from / 2, channels);
    load_keys<D, KB, VB>(r, kv_head, from, h);
    load_rows<D, KB, VB>(r, kv_head, from, h);
    load_channels<D>(r, kv_head, from / 2, channels);
    load_values<D, KB, VB>(r, kv_head, from, h);
    wait_for_last();
    turn_query<D>(job.dtype, job.a.q, q_at, is_head, job.scale_log2, turned);
#pragma unroll 1
    for (int unit = from; unit < to; unit++) {
        float score[16];
        half_weights weights;
        if (unit == from || unit % 2 == 0) {
            if (unit > from) load_ranges<D, KB>(r, kv_head, unit / 2, channels), load_channels<D>(r, kv_head, unit / 2, channels);
            take_tile<D, KB>(channels, turned, query);
        }
        score_half<D, KB, VB>(h, query, score);
        if (unit + 1 < to) load_keys<D, KB, VB>(r, kv_head, unit + 1, h); /* these have been read */
        weigh_half<D, KB, VB>(h, score, w, weights);
        if (unit + 1 < to) load_rows<D, KB, VB>(r, kv_head, unit + 1, h);
        mix_half<D, KB, VB>(h, weights, channels, w);
        if (unit + 1 < to) load_values<D, KB, VB>(r, kv_head, unit + 1, h);
    }
    turn_lanes<D / 4>(&w.mix[0][0], rsqrtf((float)D)); /* of a lane's channels, places are bits */
}

template <int D>
__device__ __forceinline__ void attend_bits(const even_step_job &job, const even_run &r, int kv_head, int64_t q_at, bool is_head, int from,
                                            int to, float *turned, step_state<D> &w) {
#define OF_BITS(k, v)                                                                                        \
    if (r.k_bits == k && r.v_bits == v) attend_run<D, k, v>(job, r, kv_head, q_at, is_head, from, to, turned, w);
    OF_BITS(2, 2) OF_BITS(2, 4) OF_BITS(2, 8)
    OF_BITS(4, 2) OF_BITS(4, 4) OF_BITS(4, 8)
    OF_BITS(8, 2) OF_BITS(8, 4) OF_BITS(8, 8)
#undef OF_BITS
}

template <typename T, int D>
__device__ __forceinline__ void attend_tail_rows(const even_step_job &job, int row, int kv_head, int64_t q_at, bool is_head,
                                                 step_state<D> &w) {
    const step_sequence &a = job.a;
    int64_t at = row * a.tail_row + kv_head * a.tail_head;
    attend_tail<T, D>((const T *)a.tail_k + at, (const T *)a.tail_v + at, a.tail_row, min((int)STEP_TAIL, a.n_tail - row),
                      is_head ? (const T *)a.q + q_at : NULL, job.scale_log2, threadIdx.x % 32, w);
}

template <int D>
static __global__ void __launch_bounds__(EVEN_WARPS * 32, 1) even_step_kernel(const __grid_constant__ even_step_job job) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ float2 tops[WARPS][HEADS];
    __shared__ bool is_last;
    const step_sequence &a = job.a;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_blocks = a.n_blocks;
    int problem = blockIdx.x / n_blocks, block = blockIdx.x % n_blocks;
    int kv_head = problem / job.n_subgroups, sub = problem % job.n_subgroups;
    int head0 = kv_head * job.group + sub * HEADS, n_heads = min((int)HEADS, job.group - sub * HEADS);
    int index = warp * n_blocks + block; /* of all warps: neighbours are in different blocks */
    int64_t q_at = (int64_t)(head0 + lane / 4) * D;
    bool is_head = lane / 4 < n_heads;
    step_state<D> w;
#pragma unroll
    for (int i = 0; i < D / 8; i++) w.mix[i][0] = w.mix[i][1] = 0;
    w.max = -CUDART_INF_F, w.sum = w.low = 0;
    if (index < a.tail_warp) {
        const step_run &r = job.run[index >= job.run[1].first_warp];
        int from = (index - r.first_warp) * r.each;
        attend_bits<D>(job, r.tiles, kv_head, q_at, is_head, from, min(from + r.each, r.n),
                       (float *)(shared + warp * step_warp_bytes<D>()), w);
    } else {
        wait_for_last();
        int row = (index - a.tail_warp) * STEP_TAIL;
        if (index < a.n_warps && job.dtype == SAC_DTYPE_BF16) attend_tail_rows<bf16, D>(job, row, kv_head, q_at, is_head, w);
        if (index < a.n_warps && job.dtype == SAC_DTYPE_F16) attend_tail_rows<half, D>(job, row, kv_head, q_at, is_head, w);
    }
    start_next();
    int64_t out = (int64_t)problem * a.n_splits + block;
    leave<D>(w, (a.n_warps - block + n_blocks - 1) / n_blocks, n_heads, shared, tops, a.sums + out * HEADS * D,
             a.tops + out * HEADS);
    __syncthreads();
    if (threadIdx.x == 0) is_last = count_in(&a.counters[problem], (unsigned)n_blocks) == (unsigned)n_blocks - 1;
    __syncthreads();
    if (!is_last) return;
    int n_bytes = (int)blockDim.x / 32 * step_warp_bytes<D>();
    if (job.dtype == SAC_DTYPE_BF16)
        join_blocks<bf16, D>(a, problem, head0, n_heads, shared, n_bytes, (float *)tops);
    else
        join_blocks<half, D>(a, problem, head0, n_heads, shared, n_bytes, (float *)tops);
}

/* ---------------------------------------------------------------- the host's side */

/* Halves of tiles go to so many warps; whole tiles where a warp has more than one half. Returns how many have any. */
static int give(step_run *r, int first_warp, int64_t each) {
    r->each = (int)(each > 1 ? each + each % 2 : 1);
    r->first_warp = first_warp;
    r->n_warps = (int)ceil_div(r->n, r->each);
    return first_warp + r->n_warps;
}

static void plan(const sac_stream *s, even_step_job *j, int64_t problems, int warps) {
    step_sequence *a = &j->a;
    const int64_t processors = s->device->n_processors, tail = ceil_div(a->n_tail, STEP_TAIL);
    /* As fill the card once; a run may leave one unfilled. With many heads more than that, so that no warp has all of a sequence. */
    const int64_t n = j->run[0].n + j->run[1].n, all = max_of(processors / problems * warps - tail - SAC_EVEN_RUNS, max_of(min_of(2 * warps, n), 1));
    const int64_t each = ceil_div(n, all);
    a->tail_warp = give(&j->run[1], give(&j->run[0], 0, each), each);
    a->n_warps = a->tail_warp + (int)tail;
    const int64_t spread = min_of(ceil_div(a->n_warps, WARPS_WANTED), processors / problems);
    a->n_blocks = a->n_splits = (int)max_of(ceil_div(a->n_warps, warps), spread);
}

template <int D> static sac_status start(const sac_stream *s, even_step_job *j, int64_t problems) {
    size_t n_bytes;
    step_sequence *a = &j->a;
    const int warps = (int)min_of(EVEN_WARPS, fitting_warps<D>(s->device)), shared_bytes = warps * step_warp_bytes<D>();
    if (!warps) return SAC_DEVICE;
    plan(s, j, problems, warps);
    float *rest = (float *)scratch_rest(s, &n_bytes);
    const size_t tops = (size_t)(problems * a->n_splits) * HEADS;
    if (join_bytes<D>(a->n_splits) > shared_bytes || tops * (D + 2) * sizeof(float) > n_bytes ||
        (size_t)problems * sizeof(unsigned) > SCRATCH_COUNTER_BYTES || problems * a->n_blocks > INT32_MAX)
        return SAC_UNSUPPORTED;
    a->tops = (float2 *)rest, a->sums = rest + 2 * tops, a->counters = scratch_counters(s);
    const launch_plan plan = {(unsigned)(problems * a->n_blocks), (unsigned)warps * 32, (size_t)shared_bytes, shared_bytes};
    if (!ops_of(s)->packs) return launch(s, early(plan), even_step_kernel<D>, *j);
    sac_status st = launch(s, plan, even_step_kernel<D>, *j);
    ops_of(s)->packs = st != SAC_OK; /* as of packed_step */
    return st;
}

static bool has_lines(const sac_even_tiles *t) {
    return t->n == 0 || ((uintptr_t)t->at % 16 == 0 && t->n < 1 << 24);
}

extern "C" sac_status sac_cuda_even_step_mma(const sac_stream *s, const sac_even_step_args *a) {
    const sac_kv_view *tail = &a->tail;
    const int d = tail->head_dim;
    even_step_job j = {};
    if (!is_half(a->q.dtype) || tail->dtype != a->q.dtype || (d != 64 && d != 128) || (uintptr_t)a->q.data % 16 != 0 ||
        !has_lines(&a->tiles[0]) || !has_lines(&a->tiles[1]))
        return SAC_UNSUPPORTED;
    if (tail->n_rows && (!is_aligned(tail->k, tail->row_stride) || !is_aligned(tail->v, tail->row_stride) ||
                         tail->head_stride % 8 || tail->n_rows > 1 << 20))
        return SAC_UNSUPPORTED;
    for (int i = 0; i < SAC_EVEN_RUNS; i++) j.run[i].tiles = run_of(a->tiles[i]), j.run[i].n = 2 * (int)a->tiles[i].n;
    j.dtype = a->q.dtype;
    j.group = a->n_heads / tail->n_heads, j.n_subgroups = (int)ceil_div(j.group, HEADS);
    j.scale_log2 = a->scale * LOG2_E;
    j.a.n_tail = (int)tail->n_rows, j.a.tail_k = tail->k, j.a.tail_v = tail->v;
    j.a.tail_row = tail->row_stride, j.a.tail_head = tail->head_stride;
    j.a.q = a->q.data, j.a.lse = a->lse;
    const int64_t problems = (int64_t)tail->n_heads * j.n_subgroups;
    return d == 64 ? start<64>(s, &j, problems) : start<128>(s, &j, problems);
}

extern "C" sac_status sac_cuda_even_step(const sac_stream *s, const sac_even_step_args *a) {
    sac_status st = sac_cuda_even_step_mma(s, a);
    return st == SAC_UNSUPPORTED ? sac_cuda_even_step_any(s, a) : st;
}

} // namespace sac::packed::even
