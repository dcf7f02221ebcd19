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

#include "attention_tile.cuh"
#include "cluster.cuh"

enum { MAX_SPLITS = 256 };

/* A block's share of a problem. */
typedef struct decode_place {
    int problem, tile, split, n_splits, n_warps;
    bool brief;   /* few keys: waiting, not reading, is what they take */
    float2 *tops; /* [part][ROWS], a part a split or a cluster of them: maximum and sum of weights */
    float *sums;  /* [part][ROWS][d] */
    unsigned *counter;
} decode_place;

/* Keys of a second view, after the n_far of the first, which are met by queries turned back. */
typedef struct decode_near {
    const void *k, *v;
    int64_t k_row, k_head;
    int n_far, n;
    const float *angles; /* the table's row */
    float f;
} decode_near;

/* `shared`: the rings of n_warps warps, or what their sums take (decode_bytes). TWO: keys are n_far of the
 * job's view, then those of `near`. */
template <typename T, int D, int STAGES, bool TWO = false>
__device__ __forceinline__ void decode_block(const attention_job &a, const decode_place &plan,
                                             uint8_t *shared, const decode_near &near = decode_near{}) {
    __shared__ bool is_last;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, split = plan.split, problem = plan.problem;
    int row0 = plan.tile * ROWS;
    /* the stretch of keys that anybody sees, cut into tiles, the tiles into splits, a split's among its warps
     */
    int last_query = min((row0 + ROWS - 1) / a.group, a.n_q - 1), at, end;
    attention_keys keys;
    const int n_far_tiles = TWO ? (near.n_far + KEYS - 1) / KEYS : 0;
    auto share_out = [&]() {
        keys = keys_of(a, problem);
        if (!keys.rows && a.causal) keys.end = min(keys.end, a.first + last_query + 1);
        if (!keys.rows && a.window) keys.begin = max((int64_t)0, a.first + row0 / a.group - a.window + 1);
        int n_tiles = max(0, ((int)(keys.end - keys.begin) + KEYS - 1) / KEYS);
        if (TWO) n_tiles = n_far_tiles + (near.n + KEYS - 1) / KEYS;
        int each = n_tiles / plan.n_splits, more = n_tiles % plan.n_splits; /* the first ones have one more */
        at = each * split + min(split, more) + warp, end = each * (split + 1) + min(split + 1, more);
    };
    int kv_head = problem * a.group / a.heads_per_kv;
    const T *k = (const T *)a.k + kv_head * a.k_head, *v = (const T *)a.v + kv_head * a.k_head;
    const T *near_k = (const T *)near.k + kv_head * near.k_head,
            *near_v = (const T *)near.v + kv_head * near.k_head;
    /* of key lane % 16; -1 for none */
    auto row_of = [&](int tile_at) {
        if (TWO) {
            bool is_near = tile_at >= n_far_tiles;
            int j = (tile_at - (is_near ? n_far_tiles : 0)) * KEYS + lane % KEYS;
            return tile_at < end && j < (is_near ? near.n : near.n_far) ? j : -1;
        }
        int64_t j = keys.begin + (int64_t)tile_at * KEYS + lane % KEYS;
        return tile_at < end && j < keys.end ? (int)key_row(keys, j) : -1;
    };
    auto fetch_tile = [&](int tile_at, uint8_t *stage, int row) {
        bool is_near = TWO && tile_at >= n_far_tiles;
        if (tile_at < end)
            fetch<T, D>(a, is_near ? near_k : k, is_near ? near_v : v, is_near ? near.k_row : a.k_row, stage,
                        row, lane);
        copy_commit();
    };

    /* Few keys come to the L2 cache while the kernel before is at work, ahead of the weights that the kernel
     * after asks for once it may start. Many would only be in the way of that kernel's weights. */
    bool shared_out = plan.brief && !a.rows; /* lists may be new */
    if (shared_out) {
        share_out();
#pragma unroll
        for (int i = 0; i < STAGES - 1; i++) {
            int tile = at + i * plan.n_warps, r = row_of(tile);
            if (r < 0) break;
            bool is_near = TWO && tile >= n_far_tiles, is_k = lane < KEYS;
            const T *from = is_near ? (is_k ? near_k : near_v) : (is_k ? k : v);
            const T *row = from + r * (is_near ? near.k_row : a.k_row);
            for (int c = 0; c < a.d; c += 32 / (int)sizeof(T)) fetch_soon(row + c);
        }
    }
    if (TWO && lane < D / 16) fetch_soon(near.angles + lane * 16);
    start_next();
    wait_for_last();
    if (!shared_out) share_out();
    uint8_t *ring = shared + warp * STAGES * stage_bytes<D>();
    for (int i = lane; a.d < D && i < STAGES * stage_bytes<D>() / 16; i += 32)
        ((uint4 *)ring)[i] = make_uint4(0, 0, 0, 0); /* channels that do not exist */
    __syncwarp();

    int row[STAGES]; /* of key lane % 16, of the tiles in flight */
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) {
        row[i] = row_of(at + i * plan.n_warps);
        fetch_tile(at + i * plan.n_warps, ring + i * stage_bytes<D>(), row[i]);
    }
    decode_state<D> w;
    load_queries<T, D>(a, problem, row0, lane, w.q);
    begin_rows(a, row0, lane, w);
    bool is_far = TWO && at < n_far_tiles;
    if (TWO && is_far) turn_queries<T, D>(w.q, near.angles, near.f, lane);
    while (at < end) {
#pragma unroll
        for (int i = 0; i < STAGES; i++) { /* unrolled, so that a stage's rows are registers */
            if (at >= end) break;
            int ahead = (i + STAGES - 1) % STAGES;
            int next = at + (STAGES - 1) * plan.n_warps;
            row[ahead] = row_of(next);
            fetch_tile(next, ring + ahead * stage_bytes<D>(), row[ahead]);
            if (TWO && is_far && at >= n_far_tiles) {
                load_queries<T, D>(a, problem, row0, lane, w.q);
                is_far = false;
            }
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
