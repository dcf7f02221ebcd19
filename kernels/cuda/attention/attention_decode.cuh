/* attention_decode.cuh - few queries against many keys: bound by reading the keys and values once.
 *
 * A problem's rows (queries times the group's heads) fill the 16 rows of a tensor-core tile, so keys are read
 * once for the group (see attention.cuh). Keys are split over blocks, and a block's keys over its warps; each
 * warp has a ring of its own in shared memory which it fills with copies that do not wait, so no warp waits
 * for another until the end. Then warps meet in shared memory. So do blocks that are one cluster, each for a
 * share of the channels; others in scratch, where the block that comes last adds up: in the order of the
 * splits, so the bits do not depend on who was last (Flash-Decoding,
 * crfm.stanford.edu/2023/10/12/flashdecoding.html).
 *
 * With few keys latency decides, that of fetching instructions too: the loop runs once or twice, so it is not
 * unrolled. */
#ifndef SAC_KERNELS_ATTENTION_DECODE_CUH
#define SAC_KERNELS_ATTENTION_DECODE_CUH

#include "attention_tile.cuh"
#include "cluster.cuh"

namespace sac::attention::decode {

enum { MAX_SPLITS = 256 };

/* A block's share of a problem. */
typedef struct decode_place {
    int problem, tile, split, n_splits, n_warps;
    int inbox;    /* of a cluster: where in shared memory its blocks meet */
    bool brief;   /* few keys: waiting, not reading, is what they take */
    float2 *tops; /* [split][ROWS]: maximum and sum of weights. These three are not for a cluster */
    float *sums;  /* [split][ROWS][d] */
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

/* Channels, four by four, that each block of a cluster joins: a power of two of them. */
__host__ __device__ static inline int quads_log2(int d, int size) {
    int n = 0;
    while (size << n < d / 4) n++;
    return n;
}

/* `shared`: the rings of n_warps warps, or what their sums take (decode_bytes). TWO: keys are n_far of the
 * job's view, then those of `near`. */
template <typename T, int D, int STAGES, bool TWO = false, typename JOB>
__device__ __forceinline__ void decode_block(const JOB &a, const decode_place &plan,
                                             uint8_t *shared, const decode_near &near = decode_near{}) {
    __shared__ bool is_last;
    __shared__ mailbox parts_came; /* from the cluster's blocks */
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

    /* Few keys come to the L2 cache while the kernel before is at work, ahead of the weights that the kernel
     * after asks for once it may start. Many would only be in the way of that kernel's weights. */
    bool shared_out = plan.brief && !a.rows; /* lists may be new */
    if (shared_out) {
        share_out();
#pragma unroll
        for (int i = 0; i < max(1, STAGES - 1); i++) {
            int tile = at + i * plan.n_warps, r = row_of(tile);
            if (r < 0) break;
            bool is_near = TWO && tile >= n_far_tiles, is_k = lane < KEYS;
            const T *from = is_near ? (is_k ? near_k : near_v) : (is_k ? k : v);
            fetch_soon(from + r * (is_near ? near.k_row : a.k_row), a.d * (int)sizeof(T));
        }
    }
    if (TWO && lane < D / 16) fetch_soon(near.angles + lane * 16);
    if (plan.brief && a.rows && threadIdx.x == 0) { /* lists may be new: but where they lie is looked up */
        fetch_soon(a.start), fetch_soon(a.rows);
        fetch_soon((const T *)a.q + problem * a.group * a.d), fetch_soon((T *)a.o + problem * a.group * a.d);
    }
    start_next();
    if (cluster_size() > 1) {
        if (threadIdx.x == 0) mailboxes_open(&parts_came, 1);
        __syncwarp();
        cluster_arrive();
    }
    wait_for_last();
    if (!shared_out) share_out();
    uint8_t *ring = shared + warp * STAGES * stage_bytes<D>(), *stage = ring, *to = ring;
    const uint8_t *ring_end = ring + STAGES * stage_bytes<D>();
    /* of key lane % 16: [STAGES - 1] of the tile that is fetched next, before it of those in flight, after it
     * of the next ones: their numbers, too, have to be fetched */
    int rows[2 * STAGES - 1];
#pragma unroll
    for (int i = 0; i < 2 * STAGES - 1; i++)
        rows[i] = i < STAGES - 1 ? -1 : row_of(at + (i - STAGES + 1) * plan.n_warps);
    decode_state<D> w;
    begin_rows(a, row0, lane, w);
    int to_begin = STAGES - 1; /* fetches before the first tile is attended to */
    int of_far = -1;           /* whether the queries are those of the first view */
#pragma unroll 1
    for (int ahead = at; at < end; ahead += plan.n_warps) {
        bool is_near = TWO && ahead >= n_far_tiles;
        if (ahead < end)
            fetch<T, D>(a, is_near ? near_k : k, is_near ? near_v : v, is_near ? near.k_row : a.k_row, to,
                        rows[STAGES - 1], lane);
        copy_commit();
        to += stage_bytes<D>();
        if (to == ring_end) to = ring;
        if (to_begin-- <= 0) {
            if (of_far != (TWO && at < n_far_tiles)) {
                of_far = TWO && at < n_far_tiles;
                load_queries<T, D>(a, problem, row0, lane, w.q);
                if (TWO && of_far) turn_queries<T, D>(w.q, near.angles, near.f, lane);
            }
            copy_wait<STAGES - 1>();
            __syncwarp();
            attend<T, D>(a, stage, rows[0], lane, w);
            __syncwarp(); /* all lanes have read the stage before the next copy into it */
            stage += stage_bytes<D>();
            if (stage == ring_end) stage = ring;
            at += plan.n_warps;
        }
#pragma unroll
        for (int i = 0; i < 2 * STAGES - 2; i++) rows[i] = rows[i + 1];
        rows[2 * STAGES - 2] = row_of(ahead + STAGES * plan.n_warps);
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
        w.sum[i] = quad_sum(w.sum[i]);
        if (t == 0) tops[warp * ROWS + g + 8 * i] = make_float2(w.max[i], w.sum[i]);
#pragma unroll
        for (int n = 0; n < D / 8; n++)
            *(float2 *)&sums[(warp * ROWS + g + 8 * i) * sums_pitch + n * 8 + 2 * t] =
                make_float2(w.o[n][2 * i], w.o[n][2 * i + 1]);
    }
    __syncthreads();
    const int n_rows = min((int)ROWS, a.n_q * a.group - row0), size = cluster_size(), rank = cluster_rank();
    const int whole = quads_log2(D, 1), share = quads_log2(D, size);
    float2 *in_tops = (float2 *)(shared + plan.inbox);   /* [row][block] */
    float4 *in_sums = (float4 *)(in_tops + ROWS * size); /* [row][block][quad] */
    float2 *all_tops = plan.tops;
    float *all_sums = plan.sums;
    auto finish = [&](int r, int c, float max, float sum, float4 x) {
        put_output<T>(a, problem, row0 + r, c, max, sum, x);
    };
    if (size > 1) {
        __syncwarp();
        cluster_wait(); /* all have begun */
        int quads = min(1 << share, a.d / 4 - (rank << share));
        if (threadIdx.x == 0)
            mailbox_expect(&parts_came,
                           quads > 0 ? size * n_rows * (int)(sizeof(float2) + quads * sizeof(float4)) : 0);
    }
    /* First the warps of the block are joined; in a cluster then its blocks, by the same instructions, which
     * have been fetched by then. */
    const float2 *tops_of = tops;
    const float *sums_of = sums;
    int n = plan.n_warps, first = 0, shift = whole;
    int next_top = ROWS, next_sum = ROWS * sums_pitch, row_tops = 1, row_sums = sums_pitch;
#pragma unroll 1
    for (bool sends = size > 1;; sends = false) {
        join<8>(
            n_rows, a.d, first, shift, n, [&](int j, int r) { return tops_of[j * next_top + r * row_tops]; },
            [&](int j, int r, int c) {
                return *(const float4 *)&sums_of[j * next_sum + r * row_sums + c - first];
            },
            [&](int r, int c, float max, float sum, float4 x) {
                int peer = c / 4 >> share, quad = c / 4 - (peer << share);
                if (sends) {
                    if (quad == 0) send(in_tops, r * size + rank, make_float2(max, sum), peer, &parts_came);
                    send(in_sums, ((r * size + rank) << share) + quad, x, peer, &parts_came);
                } else if (size == 1 && plan.n_splits > 1) {
                    if (c == 0) all_tops[split * ROWS + r] = make_float2(max, sum);
                    *(float4 *)&all_sums[(split * ROWS + r) * a.d + c] = x;
                } else {
                    finish(r, c, max, sum, x);
                }
            });
        if (!sends) break;
        mailbox_wait(&parts_came);
        tops_of = in_tops, sums_of = (const float *)in_sums;
        n = size, shift = share, first = rank * 4 << share;
        next_top = 1, next_sum = 4 << share, row_tops = size, row_sums = size * 4 << share;
    }
    if (size > 1 || plan.n_splits == 1) return;
    __syncthreads();
    if (threadIdx.x == 0)
        is_last = count_in(plan.counter, (unsigned)plan.n_splits) == (unsigned)plan.n_splits - 1;
    __syncthreads();
    if (!is_last) return;
    join<12>(/* other blocks wrote these: not from the L1 cache */
             n_rows, a.d, 0, whole, plan.n_splits,
             [&](int j, int r) { return __ldcg(&all_tops[j * ROWS + r]); },
             [&](int j, int r, int c) { return __ldcg((const float4 *)&all_sums[(j * ROWS + r) * a.d + c]); },
             finish);
}

template <int D, int STAGES> static inline int decode_bytes(int n_warps) {
    int ring = n_warps * STAGES * stage_bytes<D>();
    return (int)max_of(ring, n_warps * (D + 6) * ROWS * (int)sizeof(float));
}
/* What a block of a cluster needs besides. */
static inline int decode_inbox_bytes(int d, int size) {
    return ROWS * size * (int)(sizeof(float2) + (sizeof(float4) << quads_log2(d, size)));
}
/* Warps whose rings fit a block; 0: the driver does not say. */
template <int D, int STAGES> static inline int decode_warps(const sac_device *d) {
    int n_warps = 8, most = 0;
    if (cudaDeviceGetAttribute(&most, cudaDevAttrMaxSharedMemoryPerBlockOptin, d->index) != cudaSuccess)
        return 0;
    most -= 3 << 10; /* what kernels declare themselves */
    if (d->compute >= 90) most -= decode_inbox_bytes(D, CLUSTER_WIDE);
    while (n_warps > 1 && n_warps * STAGES * stage_bytes<D>() > most) n_warps--;
    return n_warps;
}

} // namespace sac::attention::decode

#endif
