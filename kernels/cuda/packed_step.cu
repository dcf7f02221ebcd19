/* packed_step.cu - a step over packed rows and a plain tail: 4- and 2-bit codes on tensor cores.
 *
 * A block has a key-value head, up to eight of its query heads and a stretch of one part; its warps take
 * tiles of 64 rows in turn and meet at the end. Scores are K q^T and the mix is V^T p^T, with the eight heads
 * as the columns of the products: codes become bfloat16 exactly (0 .. 15), and the other side, the query
 * times the scales of the keys' channels or the weights times the scales of the values' rows, is split into
 * two bfloat16 numbers, the rounded one and the rest, which leaves 2^-18 of each. Which channel or row stands
 * at which place of a product's inner dimension is immaterial as long as both sides agree: a lane takes whole
 * words of codes, as they lie. Smallest numbers of ranges and the factors of values' channels are added and
 * multiplied outside of the products. */
#include "context.cuh"
#include "mma.cuh"
#include "packed_join.cuh"
extern "C" {
#include "packed_rows.h"
}

enum {
    WARPS = 8,
    THREADS = WARPS * 32,
    HEADS = 8,
    TILE = 64,
    PITCH = TILE + 4,
    TAIL_ROWS = 32,
    MAX_PARTS = 32
};

typedef struct step_part {
    const uint32_t *k, *v;
    const uint16_t *k_scale, *k_min, *v_scale, *v_min, *v_channel; /* v_channel may be NULL */
    int n, capacity, bits, first_split, n_splits;                  /* splits of this launch */
} step_part;

typedef struct step_job {
    step_part part[MAX_PARTS];
    int n_parts, tail_split, n_tail; /* the first split of the tail */
    const void *q, *tail_k, *tail_v;
    int64_t tail_row, tail_head; /* strides */
    float *partial;              /* as packed_join.cuh has it */
    int n_heads, group, n_subgroups;
    float scale_log2;
} step_job;

#define LN2 0.69314718055994530942f

__device__ __forceinline__ float half_at(const uint16_t *p, int64_t at) {
    return __half2float(__ushort_as_half(p[at]));
}

/* Pair i of a word's codes as bfloat16: 128 + code has the code in its last bits. */
template <int BITS> __device__ __forceinline__ uint32_t codes(uint32_t word, int i) {
    constexpr uint32_t mask = ((1u << BITS) - 1) * 0x00010001u;
    uint32_t biased = (word >> (BITS * i) & mask) | 0x43004300u, bias = 0x43004300u;
    __nv_bfloat162 x = __hsub2(*(__nv_bfloat162 *)&biased, *(__nv_bfloat162 *)&bias);
    return *(uint32_t *)&x;
}

/* Two numbers as pairs of bfloat16 that add up to them. */
__device__ __forceinline__ void split(float x, float y, uint32_t *high, uint32_t *rest) {
    *high = pack<bf16>(x, y);
    __nv_bfloat162 h = *(__nv_bfloat162 *)high;
    *rest = pack<bf16>(x - __low2float(h), y - __high2float(h));
}

/* What a warp knows. With g = lane / 4 and t = lane % 4 a lane has the heads 2t and 2t + 1 of everything, and
 * in mix the channels 32 i + 4 g .. + 3: those of products 2i and 2i + 1. */
template <int D> struct step_state {
    float mix[D / 16][4], max[2], sum[2], low[2]; /* low: weights times the smallest number of their row */
};

/* Words t, t + 4, .. of rows 2g and 2g + 1 of a tile of 16 that is `width` rows wide; zeros beyond. */
template <int N>
__device__ __forceinline__ void load_keys(uint32_t w[N][2], const uint32_t *tile, int width, int g, int t) {
#pragma unroll
    for (int j = 0; j < N; j++) {
        if (width == SAC_PACKED_TILE) {
            uint2 pair = *(const uint2 *)(tile + (t + 4 * j) * SAC_PACKED_TILE + 2 * g);
            w[j][0] = pair.x, w[j][1] = pair.y;
        } else {
            const uint32_t *words = tile + (t + 4 * j) * width;
            w[j][0] = 2 * g < width ? words[2 * g] : 0;
            w[j][1] = 2 * g + 1 < width ? words[2 * g + 1] : 0;
        }
    }
}

/* Tiles from + warp, from + warp + WARPS .. of one part. q [HEADS][D] in shared memory; weights
 * [HEADS][PITCH] is the warp's own. */
template <int BITS, int D>
__device__ __forceinline__ void attend_part(const step_part &p, const float *q, float *weights, int head,
                                            int from, int to, float scale_log2, step_state<D> &w) {
    constexpr int PER_WORD = 32 / BITS, HALVES = PER_WORD / 4; /* products that a word takes part in */
    constexpr int WORDS = D / PER_WORD, KEY_WORDS = WORDS / 4, ROW_WORDS = TILE / PER_WORD / 4;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    uint32_t high[D / 16][2], rest[D / 16][2]; /* head g's query times the scales */
    float low = 0;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        int c = PER_WORD * (t + 4 * (i / HALVES)) + 4 * (i % HALVES);
        float x[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            x[e] = q[g * D + c + e] * scale_log2;
            low += x[e] * half_at(p.k_min, head * D + c + e);
            x[e] *= half_at(p.k_scale, head * D + c + e);
        }
        split(x[0], x[1], &high[i][0], &rest[i][0]);
        split(x[2], x[3], &high[i][1], &rest[i][1]);
    }
    low += __shfl_xor_sync(0xffffffffu, low, 1);
    low += __shfl_xor_sync(0xffffffffu, low, 2);
    float base_score[2] = {__shfl_sync(0xffffffffu, low, 8 * t), __shfl_sync(0xffffffffu, low, 8 * t + 4)};
    int64_t n_words = (p.capacity + PER_WORD - 1) / PER_WORD;
    for (int index = from + warp; index < to; index += WARPS) {
        int row0 = index * TILE;
        float s[4][4]; /* rows row0 + 16 m + 2 g (+ 1) of heads 2t and 2t + 1 */
#pragma unroll
        for (int m = 0; m < 4; m++) {
            int first = row0 + 16 * m;
            uint32_t word[KEY_WORDS][2];
#pragma unroll
            for (int i = 0; i < 4; i++) s[m][i] = 0;
            if (first < p.n)
                load_keys<KEY_WORDS>(word, p.k + ((int64_t)head * p.capacity + first) * WORDS,
                                     min((int)SAC_PACKED_TILE, p.capacity - first), g, t);
            else
#pragma unroll
                for (int j = 0; j < KEY_WORDS; j++) word[j][0] = word[j][1] = 0;
#pragma unroll
            for (int i = 0; i < D / 16; i++) {
                int j = i / HALVES, u = i % HALVES * 2;
                uint32_t a0 = codes<BITS>(word[j][0], u), a1 = codes<BITS>(word[j][1], u);
                uint32_t a2 = codes<BITS>(word[j][0], u + 1), a3 = codes<BITS>(word[j][1], u + 1);
                mma<bf16>(s[m], a0, a1, a2, a3, high[i][0], high[i][1]);
                mma<bf16>(s[m], a0, a1, a2, a3, rest[i][0], rest[i][1]);
            }
        }
        float top[2] = {w.max[0], w.max[1]}, rescale[2];
#pragma unroll
        for (int m = 0; m < 4; m++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                bool valid = row0 + 16 * m + 2 * g + i / 2 < p.n;
                s[m][i] = valid ? s[m][i] + base_score[i % 2] : -CUDART_INF_F;
                top[i % 2] = fmaxf(top[i % 2], s[m][i]);
            }
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int i = 4; i < 32; i *= 2) top[h] = fmaxf(top[h], __shfl_xor_sync(0xffffffffu, top[h], i));
            rescale[h] = exp2_fast(w.max[h] - top[h]); /* a tile has a row: top is a number */
            w.max[h] = top[h];
            w.sum[h] *= rescale[h];
            w.low[h] *= rescale[h];
        }
#pragma unroll
        for (int m = 0; m < 4; m++) {
            float p_scaled[2][2]; /* [head][row] */
#pragma unroll
            for (int r = 0; r < 2; r++) {
                int row = row0 + 16 * m + 2 * g + r;
                bool valid = row < p.n;
                int64_t at = valid ? row : 0;
                float scale = half_at(p.v_scale, at), smallest = half_at(p.v_min, at);
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float x = exp2_fast(s[m][2 * r + h] - top[h]); /* 0 where there is no row */
                    w.sum[h] += x;
                    w.low[h] += x * smallest;
                    p_scaled[h][r] = x * scale;
                }
            }
#pragma unroll
            for (int h = 0; h < 2; h++)
                *(float2 *)&weights[(2 * t + h) * PITCH + 16 * m + 2 * g] =
                    make_float2(p_scaled[h][0], p_scaled[h][1]);
        }
#pragma unroll
        for (int i = 0; i < D / 16; i++) {
            w.mix[i][0] *= rescale[0], w.mix[i][1] *= rescale[1];
            w.mix[i][2] *= rescale[0], w.mix[i][3] *= rescale[1];
        }
        __syncwarp();
#pragma unroll
        for (int j = 0; j < ROW_WORDS; j++) {
            uint32_t b_high[HALVES][2],
                b_rest[HALVES][2]; /* head g's weights of the rows of this lane's words */
#pragma unroll
            for (int u = 0; u < HALVES; u++) {
                float4 x = *(const float4 *)&weights[g * PITCH + PER_WORD * (t + 4 * j) + 4 * u];
                split(x.x, x.y, &b_high[u][0], &b_rest[u][0]);
                split(x.z, x.w, &b_high[u][1], &b_rest[u][1]);
            }
            int64_t at = row0 / PER_WORD + t + 4 * j;
            const uint32_t *words = p.v + (head * n_words + at) * D + 4 * g;
#pragma unroll
            for (int i = 0; i < D / 32; i++) {
                uint4 x = at < n_words ? *(const uint4 *)(words + 32 * i) : make_uint4(0, 0, 0, 0);
#pragma unroll
                for (int u = 0; u < HALVES; u++) {
                    uint32_t a0 = codes<BITS>(x.x, 2 * u), a1 = codes<BITS>(x.y, 2 * u);
                    uint32_t a2 = codes<BITS>(x.x, 2 * u + 1), a3 = codes<BITS>(x.y, 2 * u + 1);
                    mma<bf16>(w.mix[2 * i], a0, a1, a2, a3, b_high[u][0], b_high[u][1]);
                    mma<bf16>(w.mix[2 * i], a0, a1, a2, a3, b_rest[u][0], b_rest[u][1]);
                    a0 = codes<BITS>(x.z, 2 * u), a1 = codes<BITS>(x.w, 2 * u);
                    a2 = codes<BITS>(x.z, 2 * u + 1), a3 = codes<BITS>(x.w, 2 * u + 1);
                    mma<bf16>(w.mix[2 * i + 1], a0, a1, a2, a3, b_high[u][0], b_high[u][1]);
                    mma<bf16>(w.mix[2 * i + 1], a0, a1, a2, a3, b_rest[u][0], b_rest[u][1]);
                }
            }
        }
        __syncwarp(); /* all lanes have read the weights before the next tile's */
    }
}

/* Warps meet: mixes [WARPS][HEADS][D] in shared memory, tops and sums [WARPS][HEADS]; the block's part of
 * every head, with the channels' factors, goes to out. */
template <int D>
__device__ __forceinline__ void leave(const step_part &p, int head, int n_heads, step_state<D> &w,
                                      float *mixes, float (*tops)[HEADS], float (*sums)[HEADS], float *out) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int h = 0; h < 2; h++) {
#pragma unroll
        for (int i = 4; i < 32; i *= 2) {
            w.sum[h] += __shfl_xor_sync(0xffffffffu, w.sum[h], i);
            w.low[h] += __shfl_xor_sync(0xffffffffu, w.low[h], i);
        }
        if (g == 0) tops[warp][2 * t + h] = w.max[h], sums[warp][2 * t + h] = w.sum[h];
    }
    __syncthreads(); /* and nobody uses the weights any more, which lie where the mixes go */
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = -CUDART_INF_F;
        for (int i = 0; i < WARPS; i++) top = fmaxf(top, tops[i][2 * t + h]);
        float f = w.max[h] == -CUDART_INF_F ? 0 : exp2_fast(w.max[h] - top); /* a warp without a tile */
        float *to = mixes + (warp * HEADS + 2 * t + h) * D + 4 * g;
#pragma unroll
        for (int i = 0; i < D / 32; i++)
            *(float4 *)(to + 32 * i) =
                make_float4((w.mix[2 * i][h] + w.low[h]) * f, (w.mix[2 * i][2 + h] + w.low[h]) * f,
                            (w.mix[2 * i + 1][h] + w.low[h]) * f, (w.mix[2 * i + 1][2 + h] + w.low[h]) * f);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n_heads * D; i += THREADS) {
        float x = 0;
#pragma unroll
        for (int j = 0; j < WARPS; j++) x += mixes[j * HEADS * D + i];
        if (p.v_channel) x *= half_at(p.v_channel, head * D + i % D);
        out[i / D * (D + 2) + 2 + i % D] = x;
    }
    if (threadIdx.x >= n_heads) return;
    float top = -CUDART_INF_F, sum = 0;
    for (int i = 0; i < WARPS; i++) top = fmaxf(top, tops[i][threadIdx.x]);
    for (int i = 0; i < WARPS; i++)
        if (sums[i][threadIdx.x] > 0) sum += sums[i][threadIdx.x] * exp2_fast(tops[i][threadIdx.x] - top);
    out[threadIdx.x * (D + 2)] = top * LN2;
    out[threadIdx.x * (D + 2) + 1] = sum;
}

/* Up to 32 rows of the tail: a warp a head, a lane a row; then a thread a channel. */
template <typename T, int D>
__device__ __forceinline__ void attend_tail(const step_job &a, const float *q, float *weights, int head,
                                            int n_heads, int row0, float *out) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = min((int)TAIL_ROWS, a.n_tail - row0);
    const T *k = (const T *)a.tail_k + (row0 + min(lane, n - 1)) * a.tail_row + head * a.tail_head;
    const T *v = (const T *)a.tail_v + row0 * a.tail_row + head * a.tail_head;
    float s = 0;
#pragma unroll 4
    for (int c = 0; c < D; c += 8) {
        float x[8];
        load<8>(x, k + c);
#pragma unroll
        for (int i = 0; i < 8; i++) s += q[warp * D + c + i] * x[i];
    }
    s = lane < n ? s * a.scale_log2 : -CUDART_INF_F;
    float top = s;
#pragma unroll
    for (int i = 16; i > 0; i /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, i));
    float p = exp2_fast(s - top);
    weights[warp * TAIL_ROWS + lane] = p;
    p = warp_sum(p);
    if (lane == 0 && warp < n_heads) {
        out[warp * (D + 2)] = top * LN2;
        out[warp * (D + 2) + 1] = p;
    }
    __syncthreads();
    int c = threadIdx.x % D;
    for (int h = threadIdx.x / D; h < n_heads; h += THREADS / D) {
        float x = 0;
        for (int i = 0; i < n; i++) x += weights[h * TAIL_ROWS + i] * to_f32(v[i * a.tail_row + c]);
        out[h * (D + 2) + 2 + c] = x;
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(THREADS, 2) packed_step_kernel(const __grid_constant__ step_job a) {
    __shared__ __align__(16) float q[HEADS * D], shared[WARPS * HEADS * (D > PITCH ? D : PITCH)];
    __shared__ float tops[WARPS][HEADS], sums[WARPS][HEADS];
    int index = blockIdx.x, kv_head = blockIdx.y / a.n_subgroups, sub = blockIdx.y % a.n_subgroups;
    int head0 = kv_head * a.group + sub * HEADS, n_heads = min((int)HEADS, a.group - sub * HEADS);
    float *out = a.partial + ((int64_t)index * a.n_heads + head0) * (D + 2);
    start_next();
    wait_for_last();
    for (int i = threadIdx.x; i < HEADS * D; i += THREADS)
        q[i] = i < n_heads * D ? to_f32(((const T *)a.q)[head0 * D + i]) : 0;
    __syncthreads();
    if (index >= a.tail_split) {
        attend_tail<T, D>(a, q, shared, kv_head, n_heads, (index - a.tail_split) * TAIL_ROWS, out);
        return;
    }
    int part = 0;
    while (part + 1 < a.n_parts && index >= a.part[part + 1].first_split) part++;
    const step_part &p = a.part[part];
    int n_tiles = (p.n + TILE - 1) / TILE, at = index - p.first_split;
    int from = (int)((int64_t)n_tiles * at / p.n_splits),
        to = (int)((int64_t)n_tiles * (at + 1) / p.n_splits);
    step_state<D> w;
#pragma unroll
    for (int i = 0; i < D / 16; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) w.mix[i][j] = 0;
#pragma unroll
    for (int h = 0; h < 2; h++) w.max[h] = -CUDART_INF_F, w.sum[h] = w.low[h] = 0;
    float *weights = shared + threadIdx.x / 32 * HEADS * PITCH;
    if (p.bits == 4)
        attend_part<4, D>(p, q, weights, kv_head, from, to, a.scale_log2, w);
    else
        attend_part<2, D>(p, q, weights, kv_head, from, to, a.scale_log2, w);
    leave<D>(p, kv_head, n_heads, w, shared, tops, sums, out);
}

/* ---------------------------------------------------------------- the host's side */

static bool fits(const sac_packed_step_args *a, const sac_packed_rows *p) {
    return (p->bits == 2 || p->bits == 4) && p->k_group >= p->capacity && p->k_group > 0 &&
           p->v_group >= p->n_heads * p->head_dim && (uintptr_t)p->k % 16 == 0 && (uintptr_t)p->v % 16 == 0 &&
           p->capacity <= INT32_MAX - TILE && p->n_heads == a->tail.n_heads &&
           p->head_dim == a->tail.head_dim;
}

/* Parts [from, *to) of one launch, and the tail when these are the last. Blocks go to parts by their rows, so
 * that all, with those of small parts and of the tail, are in flight at once, two a multiprocessor: one more
 * would wait for the first to end. Returns how many. */
static int plan(const sac_stream *s, const sac_packed_step_args *a, int from, int *to, int64_t problems,
                step_job *j) {
    int64_t all_tiles = 0, room = 2 * s->device->n_processors / problems;
    int64_t small = ceil_div(a->tail.n_rows, TAIL_ROWS) + min_of(a->n_parts - from, MAX_PARTS);
    int64_t wanted = max_of(max_of(room - small, room / 2), 1);
    int n_splits = 0;
    for (int i = 0; i < a->n_parts; i++) all_tiles += ceil_div(a->parts[i].n, TILE);
    j->n_parts = 0;
    for (*to = from; *to < a->n_parts && j->n_parts < MAX_PARTS; ++*to) {
        const sac_packed_rows *p = &a->parts[*to];
        int64_t tiles = ceil_div(p->n, TILE),
                n = min_of(wanted * tiles / max_of(all_tiles, 1), ceil_div(tiles, WARPS));
        if (tiles == 0) continue;
        n = max_of(n, 1);
        j->part[j->n_parts++] =
            step_part{p->k,         p->v,      p->k_scale,       p->k_min, p->v_scale, p->v_min,
                      p->v_channel, (int)p->n, (int)p->capacity, p->bits,  n_splits,   (int)n};
        n_splits += (int)n;
    }
    j->tail_split = n_splits;
    j->n_tail = *to == a->n_parts ? (int)a->tail.n_rows : 0;
    return n_splits + (int)ceil_div(j->n_tail, TAIL_ROWS);
}

template <typename T, int D> static sac_status run(const sac_stream *s, const sac_packed_step_args *a) {
    step_job j = {};
    size_t n_bytes;
    float *partial = (float *)scratch_rest(s, &n_bytes);
    int64_t step = (int64_t)a->n_heads * (D + 2), all_splits = 0;
    j.q = a->q.data, j.tail_k = a->tail.k, j.tail_v = a->tail.v;
    j.tail_row = a->tail.row_stride, j.tail_head = a->tail.head_stride;
    j.n_heads = a->n_heads, j.group = a->n_heads / a->tail.n_heads;
    j.n_subgroups = (int)ceil_div(j.group, HEADS);
    j.scale_log2 = a->scale * 1.4426950408889634f;
    int64_t problems = (int64_t)a->tail.n_heads * j.n_subgroups;
    if (problems > 65535) return SAC_UNSUPPORTED;
    for (int from = 0, to; from == 0 || from < a->n_parts; from = to) {
        all_splits += plan(s, a, from, &to, problems, &j);
        if (to == from) break; /* no parts at all */
    }
    if (all_splits == 0 || (size_t)(all_splits * step) * sizeof(float) > n_bytes) return SAC_UNSUPPORTED;
    all_splits = 0;
    for (int from = 0, to; from == 0 || from < a->n_parts; from = to) {
        int n = plan(s, a, from, &to, problems, &j);
        j.partial = partial + all_splits * step;
        if (n)
            SAC_TRY(launch_early(s, packed_step_kernel<T, D>, dim3((unsigned)n, (unsigned)problems),
                                 dim3(THREADS), 0, j));
        all_splits += n;
        if (to == from) break;
    }
    return launch_packed_join(
        s, packed_join{partial, a->q.data, a->lse, a->q.dtype, (int)all_splits, a->n_heads, D});
}

extern "C" sac_status sac_cuda_packed_step_mma(const sac_stream *s, const sac_packed_step_args *a) {
    int d = a->tail.head_dim;
    if (!is_half(a->q.dtype) || a->tail.dtype != a->q.dtype || (d != 64 && d != 128)) return SAC_UNSUPPORTED;
    if (a->tail.n_rows &&
        (!is_aligned(a->tail.k, a->tail.row_stride) || !is_aligned(a->tail.v, a->tail.row_stride) ||
         a->tail.head_stride % 8 || a->tail.n_rows > 1 << 20))
        return SAC_UNSUPPORTED;
    for (int i = 0; i < a->n_parts; i++)
        if (!fits(a, &a->parts[i])) return SAC_UNSUPPORTED;
    if (a->q.dtype == SAC_DTYPE_BF16) return d == 64 ? run<bf16, 64>(s, a) : run<bf16, 128>(s, a);
    return d == 64 ? run<half, 64>(s, a) : run<half, 128>(s, a);
}

extern "C" sac_status sac_cuda_packed_step(const sac_stream *s, const sac_packed_step_args *a) {
    sac_status st = sac_cuda_packed_step_mma(s, a);
    return st == SAC_UNSUPPORTED ? sac_cuda_packed_step_any(s, a) : st;
}
