/* packed_mma.cuh - what a warp does with packed rows: 4- and 2-bit codes on tensor cores, as bytes.
 *
 * A warp has a stretch of one part, in tiles of 64 rows that it copies ahead to a ring of its own. The side
 * that meets the codes, the query times the scales of the keys' channels or the weights times the scales of
 * the values' rows, is rounded to 16 bits under the largest of it (2^-16 of that), and its high and low bytes
 * are rows 0 .. 7 and 8 .. 15 of the products, a row for each of eight heads: one product does both, and the
 * sum is whole and exact. Which channel or row stands at which place of a product's inner dimension is
 * immaterial as long as both sides agree, so codes are masked out of their words four at a time and stay
 * in their bytes; and which row of a tile is which column of the scores is chosen such that a lane's weights
 * are those that it needs for the mix. Smallest numbers of ranges and the factors of values' channels are
 * added and multiplied outside of the products. */
#ifndef SAC_KERNELS_PACKED_MMA_CUH
#define SAC_KERNELS_PACKED_MMA_CUH

#include "mma.cuh"

namespace sac::packed::step {

enum {
    STEP_HEADS = 8,
    STEP_TILE = 64,
    STEP_TAIL = 16,         /* rows of the tail that a warp takes */
    STEP_RANGE_BYTES = 256, /* of a tile's scales and smallest numbers of values */
};

typedef struct step_part {
    const uint32_t *k, *v;
    const uint16_t *k_scale, *k_min, *v_scale, *v_min, *v_channel; /* v_channel may be NULL */
    int n, capacity, bits, first_warp, n_warps;                    /* warps of this launch */
    int each, rest; /* tiles of a warp; so many warps have one more */
} step_part;

/* What a warp knows of its rows. With g = lane / 4 and t = lane % 4 a lane has head g: of the mix, at [i][e],
 * channel (2t + e) D / 8 + i; of the sums what its own rows bring. */
template <int D> struct step_state {
    float mix[D / 8][2], max, sum, low; /* low: weights times the smallest number of their row */
};

template <int D> constexpr int step_code_bytes(int bits) { /* a tile's keys, or its values */
    return STEP_TILE * D * bits / 8;
}
/* A warp's memory: ranges and factors of channels as halves, then the ring. */
template <int D> constexpr int step_ring_bytes(void) {
    return 4 * (2 * step_code_bytes<D>(2) + STEP_RANGE_BYTES);
}
template <int D> constexpr int step_warp_bytes(void) {
    return 3 * D * 2 + step_ring_bytes<D>();
}
template <int BITS> constexpr int step_stages(void) {
    return BITS == 2 ? 4 : 2;
}

/* Where 16 bytes of keys or values lie in a stage: turned such that the lanes which read together find
 * theirs in different banks. */
template <int BITS> __device__ __forceinline__ int key_place(int chunk) {
    return chunk ^ (chunk >> 3 & 1) << (BITS == 4 ? 1 : 0);
}
template <int D> __device__ __forceinline__ int value_place(int word_row, int chunk) {
    int turn = D == 128 ? word_row & 3 : (word_row & 1) | (word_row & 2) << 1;
    return (word_row * (D / 4) + chunk) ^ turn;
}

/* A tile that the part does not fill, or whose ranges do not lie on lines: what lies beyond is not written,
 * but for zeros as scales. Not inlined: it is rare, and a step pays for code that it reads for the first
 * time. */
template <int BITS, int D>
static __device__ __noinline__ void fetch_edge(const uint32_t *k, const uint32_t *v, const uint16_t *scales,
                                               const uint16_t *lows, int n, int room, int value_words,
                                               uint8_t *stage) {
    constexpr int PER_WORD = 32 / BITS, WORDS = D / PER_WORD, BYTES = step_code_bytes<D>(BITS);
    int lane = threadIdx.x % 32;
#pragma unroll 1
    for (int c = lane; c < BYTES / 16; c += 32) {
        if (c / (4 * WORDS) * SAC_PACKED_TILE + SAC_PACKED_TILE <= room)
            copy_async(stage + key_place<BITS>(c) * 16, k + 4 * c, true);
        if (c / (D / 4) < value_words)
            copy_async(stage + BYTES + value_place<D>(c / (D / 4), c % (D / 4)) * 16, v + 4 * c, true);
    }
    if (room < STEP_TILE) { /* the last rows of keys lie closer */
        int width = room % SAC_PACKED_TILE, first = room - width;
#pragma unroll 1
        for (int i = lane; i < WORDS * width; i += 32) {
            int c = first / 4 * WORDS + i / width * 4 + i % width / 4;
            copy_async_word(stage + key_place<BITS>(c) * 16 + i % width % 4 * 4, k + first * WORDS + i, 4);
        }
    }
    uint16_t *range = (uint16_t *)(stage + 2 * BYTES);
    if (((uintptr_t)scales | (uintptr_t)lows) % 4 == 0) {
        int n_bytes = min(max(2 * n - 4 * lane, 0), 4);
        copy_async_word(range + 2 * lane, scales + 2 * lane, n_bytes);
        copy_async_word(range + STEP_TILE + 2 * lane, lows + 2 * lane, n_bytes);
        return;
    }
#pragma unroll 1
    for (int i = lane; i < STEP_TILE; i += 32) { /* these wait for what has been asked for before */
        range[i] = i < n ? scales[i] : 0;
        range[STEP_TILE + i] = i < n ? lows[i] : 0;
    }
}

/* Starts copying a tile: keys, values, scales and smallest numbers of values. */
template <int BITS, int D>
__device__ __forceinline__ void fetch_tile(const step_part &p, int head, int tile, uint8_t *stage, int lane) {
    constexpr int PER_WORD = 32 / BITS, WORDS = D / PER_WORD, BYTES = step_code_bytes<D>(BITS);
    int row0 = tile * STEP_TILE, n_words = (p.capacity + PER_WORD - 1) / PER_WORD;
    const uint32_t *k = p.k + ((int64_t)head * p.capacity + row0) * WORDS;
    const uint32_t *v = p.v + ((int64_t)head * n_words + row0 / PER_WORD) * D;
    const uint16_t *scales = p.v_scale + row0, *lows = p.v_min + row0;
    if (row0 + STEP_TILE > p.n || ((uintptr_t)p.v_scale | (uintptr_t)p.v_min) % 16) {
        fetch_edge<BITS, D>(k, v, scales, lows, p.n - row0, p.capacity - row0, n_words - row0 / PER_WORD,
                            stage);
        return;
    }
    uint8_t *keys = stage + key_place<BITS>(lane) * 16, *values = stage + BYTES;
    k += 4 * lane, v += 4 * lane;
#pragma unroll
    for (int i = 0; i < BYTES / 512; i++) { /* what turns places repeats every 128 chunks */
        copy_async(keys + 512 * i, k + 128 * i, true);
        int place = value_place<D>((lane + i % 4 * 32) / (D / 4), lane % (D / 4));
        copy_async(values + place * 16 + i / 4 * 2048, v + 128 * i, true);
    }
    if (lane < STEP_RANGE_BYTES / 16)
        copy_async(stage + 2 * BYTES + 16 * lane,
                   (lane < STEP_TILE / 8 ? scales : lows - STEP_TILE) + 8 * lane, true);
}

/* The last two bytes of four numbers each, as words of high and of low ones. */
__device__ __forceinline__ void bytes_of(float x0, float x1, float x2, float x3, uint32_t *high,
                                         uint32_t *low) {
    uint32_t y0 = __byte_perm(__float_as_uint(x0), __float_as_uint(x1), 0x5140);
    uint32_t y1 = __byte_perm(__float_as_uint(x2), __float_as_uint(x3), 0x5140);
    *high = __byte_perm(y0, y1, 0x7632);
    *low = __byte_perm(y0, y1, 0x5410);
}

/* Codes number b of four neighbours: at i, i + per_word / 2, i + 1, i + 1 + per_word / 2 with i = 2b. They
 * stand at the top of their bytes: shifts to the left are products, which other units do than masks. */
template <int BITS> constexpr int CODE_UNIT = 1 << (8 - BITS);
template <int BITS> __device__ __forceinline__ uint32_t codes(uint32_t word, int b) {
    return word << (8 - BITS * (b + 1)) & (256 - CODE_UNIT<BITS>)*0x01010101u;
}

/* Keys' last codes stay with those below them, which the query makes up for (take_query): a mask less. */
template <int BITS> __device__ __forceinline__ uint32_t key_codes(uint32_t word, int b) {
    return b == 8 / BITS - 1 ? word : codes<BITS>(word, b);
}

/* 4N numbers of a head's query; zeros where there is no head. */
template <int N, typename T> __device__ __forceinline__ void load_query(uint2 x[N], const T *q) {
#pragma unroll
    for (int i = 0; i < N; i++) x[i] = q ? *(const uint2 *)(q + 4 * i) : make_uint2(0, 0);
}

/* Head g's query times the scales, in the order of codes; *unit is what a step of it is worth, *base what the
 * smallest numbers bring to a score. own: the channels of words t, t + 4 .. */
template <typename T, int BITS, int D>
__device__ __forceinline__ void take_query(const uint2 own[D / 16], const half *scale, const half *smallest,
                                           float factor, int lane, uint32_t high_low[D / 32][4], float *unit,
                                           float *base) {
    constexpr int PER_WORD = 32 / BITS, HALF = PER_WORD / 2, STEPS = PER_WORD / 8; /* products of a word */
    constexpr int LAST = 8 / BITS - 1;                                             /* code of a byte */
    const T *q = (const T *)own;
    int t = lane % 4;
    float x[D / 32][2][4], most = 0, low = 0;
#pragma unroll
    for (int j = 0; j < D / PER_WORD / 4; j++) {
        half scales[PER_WORD], lows[PER_WORD];
#pragma unroll
        for (int i = 0; i < PER_WORD; i += 8) {
            *(uint4 *)(scales + i) = *(const uint4 *)(scale + PER_WORD * (t + 4 * j) + i);
            *(uint4 *)(lows + i) = *(const uint4 *)(smallest + PER_WORD * (t + 4 * j) + i);
        }
#pragma unroll
        for (int e = PER_WORD - 1; e >= 0; e--) { /* the last codes first */
            int c = e / 4 * 2 + e % 2 * HALF + e % 4 / 2, below = LAST - e / 4;
            float y = to_f32(q[j * PER_WORD + c]) * factor;
            low += y * __half2float(lows[c]);
            y *= __half2float(scales[c]);
            if (below) y -= x[j * STEPS + LAST / 2][LAST % 2][e % 4] * (1.0f / (1 << BITS * below));
            x[j * STEPS + e / 8][e / 4 % 2][e % 4] = y;
            most = fmaxf(most, fabsf(y));
        }
    }
#pragma unroll
    for (int i = 1; i < 4; i *= 2) {
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, i));
        low += __shfl_xor_sync(0xffffffffu, low, i);
    }
    /* -32639 .. 32639, so that 128 more is 256 times a signed byte and an unsigned one, which is 128 too
     * large; added to 1.5 * 2^23 it stands in the last bits */
    float f = most > 0 ? __fdividef(32639, most) : 0;
#pragma unroll
    for (int i = 0; i < D / 32; i++)
#pragma unroll
        for (int s = 0; s < 2; s++) {
#pragma unroll
            for (int e = 0; e < 4; e++) x[i][s][e] = x[i][s][e] * f + 12583040.0f;
            bytes_of(x[i][s][0], x[i][s][1], x[i][s][2], x[i][s][3], &high_low[i][2 * s],
                     &high_low[i][2 * s + 1]);
            high_low[i][2 * s + 1] ^= 0x80808080u;
        }
    *unit = fmaxf(most, 1e-30f) * (1 / (32639.0f * CODE_UNIT<BITS>)); /* above 0, for rows at -infinity */
    *base = low;
}

/* Scores of a tile in steps: s[m] has rows row(m, 0), row(m, 1) of head g (see row_of). `keys` is where the
 * lane's first words lie: column g of the products is, with 4 bits, rows 4g .. 4g + 3 and 32 + 4g .., with 2
 * bits rows 8g
 * .. 8g + 7. */
template <int BITS, int D> __device__ __forceinline__ int lane_keys(int lane) {
    constexpr int WORDS = D * BITS / 32;
    int row = (BITS == 4 ? 4 : 8) * (lane / 4);
    return 16 * key_place<BITS>(row / SAC_PACKED_TILE * 4 * WORDS + lane % 4 * 4 + row % SAC_PACKED_TILE / 4);
}
template <int BITS, int D>
__device__ __forceinline__ void score_tile(const uint8_t *stage, int keys, const uint32_t q[D / 32][4],
                                           int s[8][4]) {
    constexpr int PER_WORD = 32 / BITS, WORDS = D / PER_WORD;
#pragma unroll
    for (int m = 0; m < 8; m++) s[m][0] = s[m][1] = s[m][2] = s[m][3] = 0;
#pragma unroll
    for (int j = 0; j < WORDS / 4; j++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int at = BITS == 4 ? keys + h * 128 * WORDS : keys ^ 16 * h;
            uint4 x = *(const uint4 *)(stage + at + 256 * j);
            uint32_t word[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
            for (int u = 0; u < PER_WORD / 8; u++)
#pragma unroll
                for (int m = 0; m < 4; m++)
                    mma_bytes<true>(s[4 * h + m], q[j * (PER_WORD / 8) + u], key_codes<BITS>(word[m], 2 * u),
                                    key_codes<BITS>(word[m], 2 * u + 1));
        }
}

/* A lane's rows: those of whole words of values, per_word at a time. */
template <int BITS> __device__ __forceinline__ int row_of(int m, int e, int t) {
    constexpr int PER_WORD = 32 / BITS, HALF = PER_WORD / 2;
    return m / HALF * 4 * PER_WORD + PER_WORD * t + HALF * e + m % HALF;
}

/* Scales or smallest numbers of a lane's rows: [m / 2][e] has rows row(m, e) and row(m + 1, e). */
template <int BITS> __device__ __forceinline__ void ranges_of(const uint8_t *range, int t, uint32_t x[4][2]) {
#pragma unroll
    for (int e = 0; e < 2; e++)
        if constexpr (BITS == 4) {
#pragma unroll
            for (int h = 0; h < 2; h++) {
                uint2 y = *(const uint2 *)(range + 2 * row_of<BITS>(4 * h, e, t));
                x[2 * h][e] = y.x, x[2 * h + 1][e] = y.y;
            }
        } else {
            uint4 y = *(const uint4 *)(range + 2 * row_of<BITS>(0, e, t));
            x[0][e] = y.x, x[1][e] = y.y, x[2][e] = y.z, x[3][e] = y.w;
        }
}

__device__ __forceinline__ float2 halves_of(uint32_t x) {
    return __half22float2(*(half2 *)&x);
}

/* The mix of a tile's values; weights as bytes: [b] has those of codes number b, high ones first. `at` is
 * where the lane's first words lie. */
template <int D> __device__ __forceinline__ int lane_values(int lane) {
    return 16 * value_place<D>(lane % 4, lane / 4 * (D / 32));
}
template <int BITS, int D>
__device__ __forceinline__ void mix_tile(const uint8_t *values, int at, const uint32_t weights[2][4],
                                         float unit, step_state<D> &w) {
#pragma unroll
    for (int x = 0; x < D / 32; x++) {
        int sum[4][4];
#pragma unroll
        for (int c = 0; c < 4; c++) sum[c][0] = sum[c][1] = sum[c][2] = sum[c][3] = 0;
        uint4 v[2];
        v[0] = *(const uint4 *)(values + (at ^ 16 * x));
        v[1] = BITS == 4 ? *(const uint4 *)(values + (at ^ 16 * x) + 16 * D) : v[0];
#pragma unroll
        for (int u = 0; u < 2; u++) {
            uint32_t word[4] = {v[u].x, v[u].y, v[u].z, v[u].w};
            int b = BITS == 4 ? 0 : 2 * u;
#pragma unroll
            for (int c = 0; c < 4; c++)
                mma_bytes<false>(sum[c], weights[u], codes<BITS>(word[c], b), codes<BITS>(word[c], b + 1));
        }
#pragma unroll
        for (int c = 0; c < 4; c++)
#pragma unroll
            for (int e = 0; e < 2; e++)
                w.mix[4 * x + c][e] += (float)(sum[c][e] * 256 + sum[c][2 + e]) * unit;
    }
}

/* Weights of a tile are relative to a level of its own, such that the largest score and the largest scale
 * make this many steps, a few less than 16 bits have: a product may come out above. What is kept is relative
 * to a score that follows the largest one only when that is far above. */
#define WEIGHT_STEPS 61440.0f
enum { STEP_ROOM = 32 /* in powers of two */ };

template <int BITS, int D>
__device__ __forceinline__ void attend_tile(const uint8_t *stage, int keys, int values,
                                            const uint32_t q[D / 32][4], float unit, int n, int t,
                                            step_state<D> &w) {
    constexpr int BYTES = step_code_bytes<D>(BITS);
    int whole[8][4];
    float s[8][2], top = -CUDART_INF_F; /* in units */
    score_tile<BITS, D>(stage, keys, q, whole);
#pragma unroll
    for (int i = 0; i < 16; i++)
        s[i / 2][i % 2] = (float)(whole[i / 2][i % 2] * 256 + whole[i / 2][2 + i % 2]);
    if (n < STEP_TILE) { /* the part's last tile */
#pragma unroll
        for (int i = 0; i < 16; i++)
            if (row_of<BITS>(i / 2, i % 2, t) >= n) s[i / 2][i % 2] = -CUDART_INF_F;
    }
#pragma unroll
    for (int i = 0; i < 16; i++) top = fmaxf(top, s[i / 2][i % 2]);
    uint32_t scales[4][2], lows[4][2];
    ranges_of<BITS>(stage + 2 * BYTES, t, scales);
    ranges_of<BITS>(stage + 2 * BYTES + STEP_RANGE_BYTES / 2, t, lows);
    half2 most2 = *(half2 *)&scales[0][0];
#pragma unroll
    for (int i = 1; i < 8; i++) most2 = __hmax2(most2, *(half2 *)&scales[i / 2][i % 2]);
    float most = fmaxf(__low2float(most2), __high2float(most2));
#pragma unroll
    for (int i = 1; i < 4; i *= 2) {
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
        most = fmaxf(most, __shfl_xor_sync(0xffffffffu, most, i));
    }
    top *= unit; /* a tile has a row: a number */
    if (__any_sync(0xffffffffu, top > w.max + STEP_ROOM)) {
        float rescale = exp2_fast(w.max - fmaxf(top, w.max));
        w.sum *= rescale, w.low *= rescale;
#pragma unroll
        for (int i = 0; i < D / 8; i++) w.mix[i][0] *= rescale, w.mix[i][1] *= rescale;
        w.max = fmaxf(top, w.max);
    }
    float level = top + __log2f(fmaxf(most, 0x1p-24f /* the smallest half */) * (1 / WEIGHT_STEPS));
    float share = exp2_fast(level - w.max), sum = 0, low = 0;
    uint32_t weights[2][4];
#pragma unroll
    for (int m = 0; m < 8; m += 2) {
        float x[4]; /* in the order of codes */
#pragma unroll
        for (int e = 0; e < 2; e++) {
            float2 scale = halves_of(scales[m / 2][e]), smallest = halves_of(lows[m / 2][e]);
            float p0 = exp2_fast(s[m][e] * unit - level), p1 = exp2_fast(s[m + 1][e] * unit - level);
            sum += p0 + p1;
            low += p0 * smallest.x;
            low += p1 * smallest.y;
            x[e] = p0 * scale.x + 8388608.0f;
            x[2 + e] = p1 * scale.y + 8388608.0f;
        }
        bytes_of(x[0], x[1], x[2], x[3], &weights[m / 4][m % 4], &weights[m / 4][m % 4 + 1]);
    }
    w.sum += sum * share, w.low += low * share;
    mix_tile<BITS, D>(stage + BYTES, values, weights, share * (1.0f / CODE_UNIT<BITS>), w);
}

/* D halves to shared memory, by copies where they lie on lines; NULL: ones. */
template <int D> __device__ __forceinline__ void fetch_halves(uint8_t *to, const uint16_t *from, int lane) {
    if (from && (uintptr_t)from % 16 == 0) {
        if (lane < D / 8) copy_async(to + 16 * lane, from + 8 * lane, true);
        return;
    }
#pragma unroll 1
    for (int i = lane; i < D; i += 32) ((uint16_t *)to)[i] = from ? __ldcg(from + i) : 0x3c00;
}

/* Starts on tiles [from, to) of one part: what belongs to channels, and the first copies. Nothing is read
 * that the kernel before may write. `memory` is the warp's own. */
template <int BITS, int D>
__device__ __forceinline__ void start_part(const step_part &p, uint8_t *memory, int head, int from, int to,
                                           int lane) {
    constexpr int STAGE = 2 * step_code_bytes<D>(BITS) + STEP_RANGE_BYTES;
    fetch_halves<D>(memory, p.k_scale + head * D, lane);
    fetch_halves<D>(memory + 2 * D, p.k_min + head * D, lane);
    fetch_halves<D>(memory + 4 * D, p.v_channel ? p.v_channel + head * D : NULL, lane);
    copy_commit();
#pragma unroll 1
    for (int i = 0; i < step_stages<BITS>() / 2; i++) {
        if (from + i < to) fetch_tile<BITS, D>(p, head, from + i, memory + 3 * D * 2 + i * STAGE, lane);
        copy_commit();
    }
}

/* The tiles, after start_part; at least one. q: of head g, or NULL. */
template <int BITS, int D, typename T>
__device__ __forceinline__ void attend_part(const step_part &p, const T *q, uint8_t *memory, int head,
                                            int from, int to, float factor, int lane, step_state<D> &w) {
    constexpr int STAGES = step_stages<BITS>(), STAGE = 2 * step_code_bytes<D>(BITS) + STEP_RANGE_BYTES;
    constexpr int PER_WORD = 32 / BITS;
    const half *ranges = (const half *)memory; /* [3][D]: scales, smallest numbers, factors of values */
    uint8_t *ring = memory + 3 * D * 2;
    uint32_t query[D / 32][4];
    float unit, base;
    int at = 0, t = lane % 4;
    uint2 own[D / 16]; /* asked for before the other stages */
#pragma unroll
    for (int j = 0; j < D / PER_WORD / 4; j++)
        load_query<PER_WORD / 4>(own + j * (PER_WORD / 4), q ? q + PER_WORD * (t + 4 * j) : NULL);
#pragma unroll 1
    for (int i = STAGES / 2; i < STAGES; i++) {
        if (from + i < to) fetch_tile<BITS, D>(p, head, from + i, ring + i * STAGE, lane);
        copy_commit();
    }
    copy_wait<STAGES>(); /* the ranges have come */
    __syncwarp();
    take_query<T, BITS, D>(own, ranges, ranges + D, factor, lane, query, &unit, &base);
    int keys = lane_keys<BITS, D>(lane), values = lane_values<D>(lane);
    for (int tile = from; tile < to; tile++) {
        uint8_t *stage = ring + at * STAGE;
        copy_wait<STAGES - 1>();
        __syncwarp();
        attend_tile<BITS, D>(stage, keys, values, query, unit, p.n - tile * STEP_TILE, t, w);
        __syncwarp(); /* all lanes have read the stage before the next copy into it */
        if (tile + STAGES < to) fetch_tile<BITS, D>(p, head, tile + STAGES, stage, lane);
        copy_commit();
        at = at + 1 == STAGES ? 0 : at + 1;
    }
    w.max += base; /* not before: digits of scores would be lost beside it */
#pragma unroll
    for (int i = 1; i < 4; i *= 2) w.low += __shfl_xor_sync(0xffffffffu, w.low, i);
#pragma unroll
    for (int i = 0; i < D / 8; i++)
#pragma unroll
        for (int e = 0; e < 2; e++)
            w.mix[i][e] = (w.mix[i][e] + w.low) * __half2float(ranges[2 * D + (2 * t + e) * (D / 8) + i]);
}

/* Two numbers as pairs of halves that add up to them. */
template <typename T>
__device__ __forceinline__ void split(float x, float y, uint32_t *high, uint32_t *rest) {
    *high = pack<T>(x, y);
    const T *h = (const T *)high;
    *rest = pack<T>(x - to_f32(h[0]), y - to_f32(h[1]));
}

/* The n <= STEP_TAIL rows at k and v, `row` elements apart. q as in attend_part. */
template <typename T, int D>
__device__ __forceinline__ void attend_tail(const T *k, const T *v, int64_t row, int n, const T *q,
                                            float factor, int lane, step_state<D> &w) {
    int g = lane / 4, t = lane % 4;
    uint4 keys[2][D / 32], values[4][D / 64];
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int j = 0; j < D / 32; j++)
            keys[m][j] = *(const uint4 *)(k + min(8 * m + g, n - 1) * row + 8 * (t + 4 * j));
#pragma unroll
    for (int r = 0; r < 4; r++)
#pragma unroll
        for (int x = 0; x < D / 64; x++)
            values[r][x] =
                *(const uint4 *)(v + min(2 * t + r % 2 + r / 2 * 8, n - 1) * row + g * (D / 8) + 8 * x);
    float s[2][4] = {{0}};
#pragma unroll
    for (int j = 0; j < D / 32; j++) {
        uint2 a[2];
        load_query<2>(a, q ? q + 8 * (t + 4 * j) : NULL);
#pragma unroll
        for (int m = 0; m < 2; m++) {
            mma<T>(s[m], a[0].x, 0, a[0].y, 0, keys[m][j].x, keys[m][j].y);
            mma<T>(s[m], a[1].x, 0, a[1].y, 0, keys[m][j].z, keys[m][j].w);
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++) { /* row 8 (i / 2) + 2t + i % 2 */
        float x = s[i / 2][i % 2] * factor;
        s[i / 2][i % 2] = 8 * (i / 2) + 2 * t + i % 2 < n ? x : -CUDART_INF_F;
        w.max = fmaxf(w.max, s[i / 2][i % 2]);
    }
#pragma unroll
    for (int i = 1; i < 4; i *= 2) w.max = fmaxf(w.max, __shfl_xor_sync(0xffffffffu, w.max, i));
    uint32_t high[2], rest[2];
#pragma unroll
    for (int m = 0; m < 2; m++) {
        float p0 = exp2_fast(s[m][0] - w.max), p1 = exp2_fast(s[m][1] - w.max);
        w.sum += p0 + p1;
        split<T>(p0, p1, &high[m], &rest[m]);
    }
#pragma unroll
    for (int i = 0; i < D / 8; i++) {
        uint32_t word[4];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            const uint4 &x = values[r][i / 8];
            word[r] = i % 8 / 2 == 0 ? x.x : i % 8 / 2 == 1 ? x.y : i % 8 / 2 == 2 ? x.z : x.w;
        }
        float o[4] = {0};
        uint32_t halves = i % 2 ? 0x7632 : 0x5410;
        mma<T>(o, high[0], rest[0], high[1], rest[1], __byte_perm(word[0], word[1], halves),
               __byte_perm(word[2], word[3], halves));
        w.mix[i][0] = o[0] + o[2];
        w.mix[i][1] = o[1] + o[3];
    }
}

} // namespace sac::packed::step

#endif
