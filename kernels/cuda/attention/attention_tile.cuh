/* attention_tile.cuh - what a warp does with 16 keys and up to 16 rows of queries, and how parts of a sum are
 * joined: see attention_decode.cuh. */
#ifndef SAC_KERNELS_ATTENTION_TILE_CUH
#define SAC_KERNELS_ATTENTION_TILE_CUH

#include "attention.cuh"
#include "turn.cuh"

namespace sac::attention::decode {

enum { KEYS = 16, ROWS = 16 };

/* The keys and values of one tile in shared memory. */
template <int D> constexpr int stage_bytes(void) {
    return 2 * KEYS * pitch<D>();
}

/* Starts copying the keys and values of one tile; `row` is the row of key lane % 16, -1 where there is none.
 * Channels that do not exist are zeros. */
template <typename T, int D>
__device__ __forceinline__ void fetch(const attention_job &a, const T *k, const T *v, int64_t k_row,
                                      uint8_t *stage, int row, int lane) {
    constexpr int CHUNKS = D / 8;
    static_assert(KEYS * CHUNKS % 32 == 0, "whole turns of a warp");
#pragma unroll
    for (int first = 0; first < KEYS * CHUNKS; first += 32) {
        int key = (first + lane) / CHUNKS, c = (first + lane) % CHUNKS;
        int r = __shfl_sync(0xffffffffu, row, key);
        int64_t at = max(r, 0) * k_row + c * 8;
        uint8_t *to = stage + key * pitch<D>() + c * 16;
        bool there = r >= 0 && c * 8 < a.d;
        copy_async(to, k + at, there);
        copy_async(to + KEYS * pitch<D>(), v + at, there);
    }
}

/* What a warp knows of its 16 rows; a lane has rows g and g + 8. */
template <int D> struct decode_state {
    uint32_t q[D / 16][4];
    float o[D / 8][4], max[2], sum[2];
    int last[2], before[2]; /* rows in (before, last] are seen */
};

template <typename T, int D>
__device__ __forceinline__ void load_queries(const attention_job &a, int problem, int row0, int lane,
                                             uint32_t to[D / 16][4]) {
    int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
#pragma unroll
        for (int s = 0; s < D / 16; s++) to[s][i] = to[s][i + 2] = 0;
        int r = row0 + g + 8 * i, query = query_of(a, r), head = problem * a.group + r - query * a.group;
        if (r >= a.n_q * a.group) continue;
        const T *q = (const T *)a.q + query * a.q_stride + (int64_t)head * a.d + 2 * t;
#pragma unroll
        for (int s = 0; s < D / 16; s++) {
            if (s * 16 < a.d) to[s][i] = *(const uint32_t *)(q + s * 16);
            if (s * 16 + 8 < a.d) to[s][i + 2] = *(const uint32_t *)(q + s * 16 + 8);
        }
    }
}

/* Queries turned back by the angles of one row of the table; pairs are channels (c, c + D / 2). */
template <typename T, int D>
__device__ __forceinline__ void turn_queries(uint32_t q[D / 16][4], const float *angles, float f, int lane) {
#pragma unroll
    for (int s = 0; s < D / 32; s++)
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float4 cs = *(const float4 *)(angles + 2 * (s * 16 + 2 * (lane % 4) + 8 * h));
#pragma unroll
            for (int i = 2 * h; i < 2 * h + 2; i++) turn_back_two<T>(q[s][i], q[s + D / 32][i], cs, f);
        }
}

/* 16 keys: scores, weights, mix. `row` as in fetch. */
template <typename T, int D, typename JOB>
__device__ __forceinline__ void attend(const JOB &a, const uint8_t *stage, int row, int lane,
                                       decode_state<D> &w) {
    int m = lane / 8, r8 = lane % 8, t = lane % 4;
    float s[2][4] = {{0}}, s2[2][4] = {{0}}; /* two chains: a product waits for the one before it */
    const uint8_t *k = stage + (m / 2 * 8 + r8) * pitch<D>() + m % 2 * 16;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        uint32_t b[4];
        load_matrices(b, k + i * 32);
        mma<T>(i % 2 ? s2[0] : s[0], w.q[i][0], w.q[i][1], w.q[i][2], w.q[i][3], b[0], b[1]);
        mma<T>(i % 2 ? s2[1] : s[1], w.q[i][0], w.q[i][1], w.q[i][2], w.q[i][3], b[2], b[3]);
    }
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] += s2[n][i];
    float top[2] = {w.max[0], w.max[1]};
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int key = __shfl_sync(0xffffffffu, row, n * 8 + 2 * t + i % 2);
            bool seen = key >= 0 && key <= w.last[i / 2] && key > w.before[i / 2];
            s[n][i] = seen ? score_of(a, s[n][i]) : -CUDART_INF_F;
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
    float scale[2], base[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        top[i] = quad_max(top[i]);
        base[i] = top[i] == -CUDART_INF_F ? 0 : top[i]; /* nothing seen yet: weights of 0, not of NaN */
        scale[i] = exp2_fast(w.max[i] - base[i]);
        w.max[i] = top[i];
        w.sum[i] *= scale[i];
    }
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = exp2_fast(s[n][i] - base[i / 2]);
            w.sum[i / 2] += s[n][i];
        }
    uint32_t p0 = pack<T>(s[0][0], s[0][1]), p1 = pack<T>(s[0][2], s[0][3]);
    uint32_t p2 = pack<T>(s[1][0], s[1][1]), p3 = pack<T>(s[1][2], s[1][3]);
    const uint8_t *v = stage + KEYS * pitch<D>() + (m % 2 * 8 + r8) * pitch<D>() + m / 2 * 16;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        uint32_t b[4];
        load_matrices_transposed(b, v + i * 32);
#pragma unroll
        for (int n = 0; n < 2; n++) {
            float *o = w.o[2 * i + n];
            o[0] *= scale[0], o[1] *= scale[0], o[2] *= scale[1], o[3] *= scale[1];
            mma<T>(o, p0, p1, p2, p3, b[2 * n], b[2 * n + 1]);
        }
    }
}

/* Where row r of a tile goes, or NULL. */
template <typename T>
__device__ __forceinline__ T *output_row(const attention_job &a, int problem, int r, int *query, int *head) {
    if (r >= a.n_q * a.group) return NULL;
    *query = query_of(a, r);
    *head = problem * a.group + r - *query * a.group;
    return (T *)a.o + *query * a.o_stride + (int64_t)*head * a.d;
}

/* Four channels of the output, of a tile's row. */
template <typename T>
__device__ __forceinline__ void put_output(const attention_job &a, int problem, int r, int c, float max,
                                           float sum, float4 x) {
    int query, head;
    T *o = output_row<T>(a, problem, r, &query, &head);
    float f = sum > 0 ? 1 / sum : 0;
    *(uint2 *)(o + c) = make_uint2(pack<T>(x.x * f, x.y * f), pack<T>(x.z * f, x.w * f));
    if (a.lse && c == 0) a.lse[query * a.n_heads + head] = sum > 0 ? logf(sum) + max * LN_2 : -CUDART_INF_F;
}

/* Sums of n parts (maximum, sum of weights, mix), in order: put(row, channel, maximum, sum, mix). A thread
 * has four channels of a row, of 4 << shift from `first` on, and asks for PARTS parts at a time: what this
 * takes is the time of the answers, not the work. top_of(part, row) and sum_of(part, row, channel) ask. */
template <int PARTS, typename TOP, typename SUM, typename PUT>
__device__ __forceinline__ void join(int n_rows, int d, int first, int shift, int n, TOP top_of, SUM sum_of,
                                     PUT put) {
#pragma unroll 1
    for (int i = threadIdx.x; i < n_rows << shift; i += blockDim.x) {
        int r = i >> shift, c = first + (i - (r << shift)) * 4;
        if (c >= d) continue;
        float max = -CUDART_INF_F, sum = 0;
        float4 x = make_float4(0, 0, 0, 0);
#pragma unroll 1
        for (int j0 = 0; j0 < n; j0 += PARTS) {
            float2 top[PARTS];
            float4 e[PARTS];
#pragma unroll
            for (int j = 0; j < PARTS; j++) {
                top[j] = top_of(min(j0 + j, n - 1), r);
                e[j] = sum_of(min(j0 + j, n - 1), r, c);
            }
            float new_max = max;
#pragma unroll
            for (int j = 0; j < PARTS; j++) {
                if (j0 + j >= n) top[j] = make_float2(-CUDART_INF_F, 0);
                new_max = fmaxf(new_max, top[j].x);
            }
            float base = new_max == -CUDART_INF_F ? 0 : new_max, w = exp2_fast(max - base);
            sum *= w, x.x *= w, x.y *= w, x.z *= w, x.w *= w;
#pragma unroll
            for (int j = 0; j < PARTS; j++) {
                w = exp2_fast(top[j].x - base);
                sum += w * top[j].y;
                x.x += w * e[j].x, x.y += w * e[j].y, x.z += w * e[j].z, x.w += w * e[j].w;
            }
            max = new_max;
        }
        put(r, c, max, sum, x);
    }
}

} // namespace sac::attention::decode

#endif
