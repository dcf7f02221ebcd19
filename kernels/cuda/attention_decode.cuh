/* attention_decode.cuh - few queries against many keys: bound by reading the keys and values once.
 *
 * A problem's rows (queries times the group's heads) fill the 16 rows of a tensor-core tile, so keys are read
 * once for the group (see attention.cuh). Keys are split over blocks, and a block's keys over its warps; each
 * warp has a ring of its own in shared memory which it fills with copies that do not wait, so no warp waits
 * for another until the end. Then warps meet in shared memory and blocks in scratch, where the block that
 * comes last adds up: in the order of the splits, so the bits do not depend on who was last (Flash-Decoding,
 * crfm.stanford.edu/2023/10/12/flashdecoding.html). */
#ifndef SAC_KERNELS_ATTENTION_DECODE_CUH
#define SAC_KERNELS_ATTENTION_DECODE_CUH

#include "attention.cuh"
#include "cluster.cuh"

enum { KEYS = 16, ROWS = 16, MAX_SPLITS = 256 };

/* One key or value in shared memory: an odd number of 16-byte chunks, so that 8 rows at the same chunk (a
 * matrix load) lie in 8 different groups of banks. */
template <int D> constexpr int stage_bytes(void) {
    return 2 * KEYS * pitch<D>();
}

/* A block's share of a problem. */
typedef struct decode_place {
    int problem, tile, split, n_splits, n_warps;
    bool brief;   /* few keys: waiting, not reading, is what they take */
    float2 *tops; /* [part][ROWS], a part a split or a cluster of them: maximum and sum of weights */
    float *sums;  /* [part][ROWS][d] */
    unsigned *counter;
} decode_place;

/* Starts copying the keys and values of one tile; `row` is the row of key lane % 16, -1 where there is none.
 */
template <typename T, int D>
__device__ __forceinline__ void fetch_chunks(const attention_job &a, const T *k, const T *v, uint8_t *stage,
                                             int row, int lane, int chunks) {
#pragma unroll 4
    for (int first = 0; first < KEYS * chunks; first += 32) {
        int i = first + lane, key = i / chunks, c = i % chunks;
        int r = __shfl_sync(0xffffffffu, row, key);
        if (i >= KEYS * chunks) break;
        int64_t at = max(r, 0) * a.k_row + c * 8;
        uint8_t *to = stage + key * pitch<D>() + c * 16;
        copy_async(to, k + at, r >= 0);
        copy_async(to + KEYS * pitch<D>(), v + at, r >= 0);
    }
}
template <typename T, int D>
__device__ __forceinline__ void fetch(const attention_job &a, const T *k, const T *v, uint8_t *stage, int row,
                                      int lane) {
    if (a.d == D) /* no division at run time */
        fetch_chunks<T, D>(a, k, v, stage, row, lane, D / 8);
    else
        fetch_chunks<T, D>(a, k, v, stage, row, lane, a.d / 8);
}

/* What a warp knows of its 16 rows; a lane has rows g and g + 8. */
template <int D> struct decode_state {
    uint32_t q[D / 16][4];
    float o[D / 8][4], max[2], sum[2];
    int last[2], before[2]; /* rows in (before, last] are seen */
};

template <typename T, int D>
__device__ __forceinline__ void take_queries(const attention_job &a, int problem, int row0, int lane,
                                             decode_state<D> &w) {
    int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        int r = row0 + g + 8 * i, query = r / a.group, head = problem * a.group + r % a.group;
        bool valid = r < a.n_q * a.group;
        const T *q = (const T *)a.q + query * a.q_stride + (int64_t)head * a.d;
#pragma unroll
        for (int s = 0; s < D / 16; s++) {
            int c = s * 16 + 2 * t;
            w.q[s][i] = valid && c < a.d ? *(const uint32_t *)(q + c) : 0;
            w.q[s][i + 2] = valid && c + 8 < a.d ? *(const uint32_t *)(q + c + 8) : 0;
        }
        int position = (int)a.first + query;
        w.last[i] = a.causal ? position : INT32_MAX;
        w.before[i] = a.window ? position - (int)a.window : -1;
        w.max[i] = -CUDART_INF_F;
        w.sum[i] = 0;
    }
#pragma unroll
    for (int n = 0; n < D / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) w.o[n][i] = 0;
}

/* 16 keys: scores, weights, mix. `row` as in fetch. */
template <typename T, int D>
__device__ __forceinline__ void attend(const attention_job &a, const uint8_t *stage, int row, int lane,
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
            s[n][i] = seen ? s[n][i] * a.scale_log2 : -CUDART_INF_F;
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
    float scale[2], base[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 1));
        top[i] = fmaxf(top[i], __shfl_xor_sync(0xffffffffu, top[i], 2));
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
    *query = r / a.group;
    *head = problem * a.group + r % a.group;
    return (T *)a.o + *query * a.o_stride + (int64_t)*head * a.d;
}

/* Sums of n parts (maximum, sum of weights, mix), in order, to the output or to one part of the next round. A
 * thread has four channels of a row, `first` and every `step`-th after it, and asks for PARTS parts at a
 * time: what this takes is the time of the answers, not the work. top_of(part, row) and sum_of(part, row,
 * channel) ask. */
template <typename T, int PARTS, typename TOP, typename SUM>
__device__ __forceinline__ void join(const attention_job &a, int problem, int row0, int n, int first,
                                     int step, TOP top_of, SUM sum_of, float2 *out_tops, float *out_sums) {
    int n_rows = min((int)ROWS, a.n_q * a.group - row0);
    for (int i = first * 4; i < n_rows * a.d; i += step * 4) {
        int r = i / a.d, c = i % a.d;
        float max = -CUDART_INF_F, sum = 0;
        float4 x = make_float4(0, 0, 0, 0);
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
        if (out_sums) {
            *(float4 *)&out_sums[r * a.d + c] = x;
            if (c == 0) out_tops[r] = make_float2(max, sum);
            continue;
        }
        int query, head;
        T *o = output_row<T>(a, problem, row0 + r, &query, &head);
        float f = sum > 0 ? 1 / sum : 0;
        *(uint2 *)(o + c) = make_uint2(pack<T>(x.x * f, x.y * f), pack<T>(x.z * f, x.w * f));
        if (a.lse && c == 0)
            a.lse[query * a.n_heads + head] =
                sum > 0 ? logf(sum) + max * 0.69314718055994530942f : -CUDART_INF_F;
    }
}

/* `shared`: the rings of n_warps warps, or what their sums take (decode_bytes). */
template <typename T, int D, int STAGES>
__device__ __forceinline__ void decode_block(const attention_job &a, const decode_place &plan,
                                             uint8_t *shared) {
    __shared__ bool is_last;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, split = plan.split, problem = plan.problem;
    int row0 = plan.tile * ROWS;
    /* the stretch of keys that anybody sees, cut into tiles, the tiles into splits, a split's among its warps
     */
    int last_query = min((row0 + ROWS - 1) / a.group, a.n_q - 1), at, end;
    attention_keys keys;
    auto share_out = [&]() {
        keys = keys_of(a, problem);
        if (!keys.rows && a.causal) keys.end = min(keys.end, a.first + last_query + 1);
        if (!keys.rows && a.window) keys.begin = max((int64_t)0, a.first + row0 / a.group - a.window + 1);
        int n_tiles = max(0, ((int)(keys.end - keys.begin) + KEYS - 1) / KEYS);
        int each = n_tiles / plan.n_splits, more = n_tiles % plan.n_splits; /* the first ones have one more */
        at = each * split + min(split, more) + warp, end = each * (split + 1) + min(split + 1, more);
    };
    int64_t head_at = (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head;
    const T *k = (const T *)a.k + head_at, *v = (const T *)a.v + head_at;

    /* Few keys come to the L2 cache while the kernel before is at work, ahead of the weights that the kernel
     * after asks for once it may start. Many would only be in the way of that kernel's weights. */
    bool shared_out = plan.brief && !a.rows; /* lists may be new */
    if (shared_out) {
        share_out();
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            int64_t j = keys.begin + (int64_t)(at + i * plan.n_warps) * KEYS + lane % KEYS;
            if (at + i * plan.n_warps >= end || j >= keys.end) break;
            const T *row = (lane < KEYS ? k : v) + j * a.k_row;
            for (int c = 0; c < a.d; c += 32 / (int)sizeof(T)) fetch_soon(row + c);
        }
    }
    start_next();
    wait_for_last();
    if (!shared_out) share_out();
    uint8_t *ring = shared + warp * STAGES * stage_bytes<D>();
    for (int i = lane; a.d < D && i < STAGES * stage_bytes<D>() / 16; i += 32)
        ((uint4 *)ring)[i] = make_uint4(0, 0, 0, 0); /* channels that do not exist */
    __syncwarp();

    int row[STAGES]; /* of key lane % 16, of the tiles in flight */
    auto row_of = [&](int tile_at) {
        int64_t j = keys.begin + (int64_t)tile_at * KEYS + lane % KEYS;
        return tile_at < end && j < keys.end ? (int)key_row(keys, j) : -1;
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        row[i] = row_of(at + i * plan.n_warps);
        if (at + i * plan.n_warps < end) fetch<T, D>(a, k, v, ring + i * stage_bytes<D>(), row[i], lane);
        copy_commit();
    }
    decode_state<D> w;
    take_queries<T, D>(a, problem, row0, lane, w);
    while (at < end) {
#pragma unroll
        for (int i = 0; i < STAGES; i++) { /* unrolled, so that a stage's rows are registers */
            if (at >= end) break;
            int ahead = (i + STAGES - 1) % STAGES;
            int next = at + (STAGES - 1) * plan.n_warps;
            row[ahead] = row_of(next);
            if (next < end) fetch<T, D>(a, k, v, ring + ahead * stage_bytes<D>(), row[ahead], lane);
            copy_commit();
            copy_wait<STAGES - 1>();
            __syncwarp();
            attend<T, D>(a, ring + i * stage_bytes<D>(), row[i], lane, w);
            __syncwarp(); /* all lanes have read the stage before the next copy into it */
            at += plan.n_warps;
        }
    }
    copy_wait<0>();
    __syncthreads(); /* the rings are free */

    /* warps meet: tops [warp][ROWS], then mixes [warp][ROWS][D + 4] */
    float2 *tops = (float2 *)shared;
    float *sums = (float *)(tops + plan.n_warps * ROWS);
    const int sums_pitch = D + 4;
    int g = lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        if (row0 + 8 * i >= a.n_q * a.group) break; /* eight rows that do not exist */
        w.sum[i] += __shfl_xor_sync(0xffffffffu, w.sum[i], 1);
        w.sum[i] += __shfl_xor_sync(0xffffffffu, w.sum[i], 2);
        if (t == 0) tops[warp * ROWS + g + 8 * i] = make_float2(w.max[i], w.sum[i]);
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            *(float2 *)&sums[(warp * ROWS + g + 8 * i) * sums_pitch + n * 8 + 2 * t] =
                make_float2(w.o[n][2 * i], w.o[n][2 * i + 1]);
    }
    __syncthreads();
    int cluster = cluster_size(), n_parts = plan.n_splits / cluster, part = split / cluster;
    float2 *all_tops = plan.tops;
    float *all_sums = plan.sums;
    bool last_round = n_parts == 1;
    float2 *out_tops = last_round ? NULL : all_tops + part * ROWS;
    float *out_sums = last_round ? NULL : all_sums + (int64_t)part * ROWS * a.d;
    auto warp_top = [&](int j, int r) { return tops[j * ROWS + r]; };
    auto warp_sum4 = [&](int j, int r, int c) {
        return *(const float4 *)&sums[(j * ROWS + r) * sums_pitch + c];
    };
    if (cluster == 1) {
        join<T, 8>(a, problem, row0, plan.n_warps, threadIdx.x, blockDim.x, warp_top, warp_sum4, out_tops,
                   out_sums);
    } else { /* blocks of a cluster meet in each other's shared memory, each for a share of the channels */
        float *block_sums = sums + plan.n_warps * ROWS * sums_pitch;
        float2 *block_tops = (float2 *)(block_sums + ROWS * D);
        join<T, 8>(a, problem, row0, plan.n_warps, threadIdx.x, blockDim.x, warp_top, warp_sum4, block_tops,
                   block_sums);
        cluster_sync();
        join<T, 8>(
            a, problem, row0, cluster, threadIdx.x * cluster + cluster_rank(), blockDim.x * cluster,
            [&](int j, int r) { return cluster_peer(block_tops, j)[r]; },
            [&](int j, int r, int c) { return *(const float4 *)&cluster_peer(block_sums, j)[r * a.d + c]; },
            out_tops, out_sums);
        cluster_sync(); /* a block may not end while another reads its memory */
    }
    if (last_round) return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) /* wraps to 0 at the last: ready for the next launch */
        is_last = atomicInc(plan.counter, (unsigned)plan.n_splits - 1) == (unsigned)plan.n_splits - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();
    join<T, 12>(/* other blocks wrote these: not from the L1 cache */
                a, problem, row0, n_parts, threadIdx.x, blockDim.x,
                [&](int j, int r) { return __ldcg(&all_tops[j * ROWS + r]); },
                [&](int j, int r, int c) {
                    return __ldcg((const float4 *)&all_sums[(j * ROWS + r) * a.d + c]);
                },
                NULL, NULL);
}

template <int D, int STAGES> static inline int decode_bytes(int n_warps) {
    int ring = n_warps * STAGES * stage_bytes<D>();
    return (int)max_of(ring, (n_warps * (D + 6) + D + 2) * ROWS * (int)sizeof(float));
}
/* Warps whose rings fit a block; 0: the driver does not say. */
template <int D, int STAGES> static inline int decode_warps(const sac_device *d) {
    int n_warps = 8, most = 0;
    if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->index) != cudaSuccess)
        return 0;
    most -= 64; /* what the kernel declares itself */
    while (n_warps > 1 && n_warps * STAGES * stage_bytes<D>() > most) n_warps--;
    return n_warps;
}

#endif
