/* attention_hopper.cuh - many queries on Hopper: causal or whole, heads of 128 halves. After FlashAttention-3
 * (Shah et al., arXiv:2407.08608), from its description.
 *
 * A block has 128 queries of a head at a time and three groups of four warps. One thread of the first group
 * copies: queries, then keys and values in tiles, in rings of two. The other two groups have 64 queries each.
 * While the tensor cores multiply one group's queries by keys and its probabilities by values, the other
 * group takes exponentials; and within a group the products of the next tile of keys begin before those with
 * this tile's values are through. Probabilities never leave the registers.
 *
 * The grid is as large as the card. Blocks draw tiles by a counter, the longest first, so that they end
 * together; heads that share keys are drawn side by side, and of heads with different keys only as many as
 * fit in the L2 cache. Who computes a tile has no bearing on its numbers. */
#ifndef SAC_KERNELS_ATTENTION_HOPPER_CUH
#define SAC_KERNELS_ATTENTION_HOPPER_CUH

#include "attention.cuh"
#include "context.cuh"
#include "wgmma.cuh"

namespace sac::attention::hopper {

enum { D = 128, QUERIES = 128, GROUP_QUERIES = 64, GROUP = 128, STAGES = 2 };
enum { THREADS = 3 * GROUP, COPY_REGISTERS = 40, WORK_REGISTERS = 232 };
enum { Q_BYTES = QUERIES * D * 2, HALF_BYTES_A_ROW = 128 };
enum { TURN = 1 /* named barriers 1 and 2: a working group's turn at the tensor cores */ };

/* Shared memory of a block: tiles as two halves of 64 columns each. */
template <int KEYS> struct hopper_shared {
    uint8_t q[Q_BYTES], k[STAGES][KEYS * D * 2], v[STAGES][KEYS * D * 2];
    uint64_t q_full, q_empty, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    volatile int tile; /* comes with q_full; none is left: -1 */
    volatile int n, own[2]; /* of lists of blocks, with the tile: how many, and the last one and the one before it */
};

typedef struct hopper_job {
    CUtensorMap q, k, v;
    void *o;
    float *lse;
    unsigned *drawn, *through; /* tiles drawn, blocks that are through: zero between ops */
    int64_t o_stride, o_batch, lse_batch;
    int n_q, n_kv, first, n_heads, group; /* group: query heads of a key-value head */
    int n_blocks, n_tiles, section;       /* heads drawn side by side */
    bool causal;
    bool same_queries; /* all batches have those of the first */
    bool in_floats;    /* o is f32 */
    float scale_log2;
    /* Where a tile of queries reads the blocks of keys of a list (block_attention.cu): lists are [block of queries][head]. */
    const int32_t *columns, *counts; /* ascending numbers, column_stride apart; how many */
    int64_t column_stride;
} hopper_job;

typedef struct hopper_tile {
    int query, head, batch, n; /* n: tiles of keys */
} hopper_tile;

template <int KEYS> __device__ __forceinline__ hopper_tile tile_of(const hopper_job &a, int t) {
    const int a_section = a.section * a.n_blocks, section = t / a_section, r = t - section * a_section,
              heads = min(a.section, a.n_tiles / a.n_blocks - section * a.section), row = r / heads,
              head = section * a.section + r - row * heads;
    hopper_tile w;
    w.query = (a.n_blocks - 1 - row) * QUERIES;
    w.batch = head / a.n_heads;
    w.head = head - w.batch * a.n_heads;
    int seen = a.causal ? min(a.n_kv, a.first + w.query + QUERIES) : a.n_kv;
    w.n = (seen + KEYS - 1) / KEYS;
    return w;
}

__device__ __forceinline__ int64_t list_of(const hopper_job &a, const hopper_tile &t) {
    return (int64_t)(t.query / QUERIES) * a.n_heads + t.head;
}

/* Where a ring is: which stage, and which of its phases is meant. */
typedef struct ring {
    int stage;
    uint32_t phase;
} ring;
__device__ __forceinline__ void advance(ring &r) {
    r.stage ^= 1;
    r.phase ^= r.stage == 0;
}

/* ---------------------------------------------------------------- the thread that copies */

template <int KEYS>
__device__ __forceinline__ void copy_tile(uint8_t *to, const CUtensorMap *map, uint64_t *full,
                                          uint64_t *empty, ring &r, int row, int head, int batch,
                                          uint64_t policy) {
    barrier_wait(empty + r.stage, r.phase ^ 1);
    barrier_expect(full + r.stage, KEYS * D * 2);
    to += r.stage * KEYS * D * 2;
    copy_box(to, map, full + r.stage, 0, row, head, batch, policy);
    copy_box(to + KEYS * HALF_BYTES_A_ROW, map, full + r.stage, 64, row, head, batch, policy);
    advance(r);
}

/* Tiles of keys from the last to the first: the masked ones come first. */
template <int KEYS, bool LISTED>
__device__ __forceinline__ void copy_all(const hopper_job &a, hopper_shared<KEYS> &m) {
    const uint64_t keep = keep_in_l2(), once = pass_through_l2();
    ring k = {0, 0}, v = {0, 0};
    uint32_t q_phase = 0;
    int t = (int)atomicAdd(a.drawn, 1u);
    while (t < a.n_tiles) {
        const hopper_tile w = tile_of<KEYS>(a, t);
        const int next = (int)atomicAdd(a.drawn, 1u), kv_head = w.head / a.group;
        const int32_t *columns = NULL;
        int n = 0, row, below = 0; /* below: the block before the row's in the list */
        if constexpr (LISTED) {
            const int64_t list = list_of(a, w);
            columns = a.columns + list * a.column_stride;
            n = max(a.counts[list], 1);
            row = columns[n - 1] * KEYS;
            below = n > 1 ? columns[n - 2] : 0;
        } else {
            row = (w.n - 1) * KEYS;
        }
        copy_tile<KEYS>(m.k[0], &a.k, m.k_full, m.k_empty, k, row, kv_head, w.batch, keep);
        barrier_wait(&m.q_empty, q_phase ^ 1);
        m.tile = t;
        if constexpr (LISTED) m.n = n, m.own[0] = row / KEYS, m.own[1] = below;
        barrier_expect(&m.q_full, Q_BYTES);
        copy_box(m.q, &a.q, &m.q_full, 0, w.query, w.head, a.same_queries ? 0 : w.batch, once);
        copy_box(m.q + Q_BYTES / 2, &a.q, &m.q_full, 64, w.query, w.head, a.same_queries ? 0 : w.batch, once);
        q_phase ^= 1;
        if constexpr (LISTED) {
            for (int i = n - 2; i >= 0; i--) {
                const int next_row = below * KEYS;
                if (i > 0) below = columns[i - 1]; /* asked for before the waits */
                copy_tile<KEYS>(m.k[0], &a.k, m.k_full, m.k_empty, k, next_row, kv_head, w.batch, keep);
                copy_tile<KEYS>(m.v[0], &a.v, m.v_full, m.v_empty, v, row, kv_head, w.batch, keep);
                row = next_row;
            }
        } else {
            for (; row > 0; row -= KEYS) {
                copy_tile<KEYS>(m.k[0], &a.k, m.k_full, m.k_empty, k, row - KEYS, kv_head, w.batch, keep);
                copy_tile<KEYS>(m.v[0], &a.v, m.v_full, m.v_empty, v, row, kv_head, w.batch, keep);
            }
        }
        copy_tile<KEYS>(m.v[0], &a.v, m.v_full, m.v_empty, v, LISTED ? row : 0, kv_head, w.batch, keep);
        t = next;
    }
    barrier_wait(&m.q_empty, q_phase ^ 1);
    m.tile = -1;
    barrier_arrive(&m.q_full);
    if (atomicAdd(a.through, 1u) == gridDim.x - 1) { /* nobody draws any more */
        *a.drawn = 0;
        *a.through = 0;
    }
}

/* ---------------------------------------------------------------- a group that works */

/* Two rows a thread: g and g + 8 of its warp's 16. */
typedef struct rows_state {
    float max[2], sum[2], fade[2]; /* fade: what earlier sums are worth under the new maximum */
    int last[2];                   /* the last key that is seen */
} rows_state;

template <int N> /* scores of keys [j0, j0 + N / 2) */
__device__ __forceinline__ void mask(float (&s)[N], const rows_state &w, int j0) {
    int t = threadIdx.x % 4 * 2;
#pragma unroll
    for (int i = 0; i < N; i++)
        if (j0 + i / 4 * 8 + t + i % 2 > w.last[i / 2 % 2]) s[i] = -CUDART_INF_F;
}

/* Scores become exp2(scale (s - max)). Sums stay a thread's own until the end. */
template <int N>
__device__ __forceinline__ void exponentials(float (&s)[N], rows_state &w, float scale_log2) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float x = s[2 * r], y = s[2 * r + 1]; /* two chains each */
#pragma unroll
        for (int i = 4; i < N; i += 4) x = fmaxf(x, s[i + 2 * r]), y = fmaxf(y, s[i + 2 * r + 1]);
        x = fmaxf(x, y);
        x = quad_max(x);
        x = fmaxf(x, w.max[r]);
        float base = x == -CUDART_INF_F ? 0 : x * scale_log2; /* no key seen yet */
        w.fade[r] = exp2_fast(w.max[r] * scale_log2 - base);
        w.max[r] = x;
        x = 0, y = 0;
#pragma unroll
        for (int i = 0; i < N; i += 4) {
            s[i + 2 * r] = exp2_fast(s[i + 2 * r] * scale_log2 - base);
            s[i + 2 * r + 1] = exp2_fast(s[i + 2 * r + 1] * scale_log2 - base);
            x += s[i + 2 * r], y += s[i + 2 * r + 1];
        }
        w.sum[r] = w.sum[r] * w.fade[r] + x + y;
    }
}

template <typename T, int N>
__device__ __forceinline__ void round_all(uint32_t (&p)[N / 2], const float (&s)[N]) {
#pragma unroll
    for (int i = 0; i < N / 2; i++) p[i] = pack<T>(s[2 * i], s[2 * i + 1]);
}

/* s = q k^T, left in flight. */
template <typename T, int KEYS>
__device__ __forceinline__ void start_scores(float (&s)[KEYS / 2], uint64_t q, uint64_t k) {
#pragma unroll
    for (int i = 0; i < D / 16; i++)
        product<T>(s, q + i / 4 * (Q_BYTES / 32) + i % 4 * 2,
                   k + i / 4 * (KEYS * HALF_BYTES_A_ROW / 16) + i % 4 * 2, i > 0);
    products_commit();
}
/* o += p v, left in flight. */
template <typename T, int KEYS>
__device__ __forceinline__ void start_values(float (&o)[D / 2], const uint32_t (&p)[KEYS / 4], uint64_t v) {
#pragma unroll
    for (int i = 0; i < KEYS / 16; i++) product_of<T>(o, p + 4 * i, v + i * (16 * HALF_BYTES_A_ROW / 16));
    products_commit();
}

/* A row's quarter of 32 columns, whose pairs four lanes hold in turn, so that a lane has 8 neighbours: u[r]
 * of lane l changes places with u[l] of lane r. */
__device__ __forceinline__ void transpose_quad(uint32_t u[4]) {
    bool odd = threadIdx.x & 1, high = threadIdx.x & 2;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        uint32_t x = __shfl_xor_sync(0xffffffffu, odd ? u[i] : u[i + 1], 1);
        if (odd)
            u[i] = x;
        else
            u[i + 1] = x;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t x = __shfl_xor_sync(0xffffffffu, high ? u[i] : u[i + 2], 2);
        if (high)
            u[i] = x;
        else
            u[i + 2] = x;
    }
}

template <typename T>
__device__ __forceinline__ void store_rows(const hopper_job &a, const hopper_tile &t, int query,
                                           rows_state &w, const float (&o)[D / 2]) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float sum = w.sum[r];
        sum = quad_sum(sum);
        float share = 1 / sum;
        int i = query + 8 * r;
        const int64_t at = t.batch * a.o_batch + i * a.o_stride + t.head * D;
        T *to = (T *)a.o + at + threadIdx.x % 4 * 8;
        if (a.in_floats) {
            float *all = (float *)a.o + at + threadIdx.x % 4 * 2;
#pragma unroll
            for (int j = 0; j < D / 8; j++)
                if (i < a.n_q)
                    *(float2 *)(all + 8 * j) = make_float2(o[4 * j + 2 * r] * share, o[4 * j + 2 * r + 1] * share);
        } else {
#pragma unroll
            for (int j = 0; j < D / 32; j++) {
                uint32_t u[4];
#pragma unroll
                for (int c = 0; c < 4; c++)
                    u[c] = pack<T>(o[16 * j + 4 * c + 2 * r] * share, o[16 * j + 4 * c + 2 * r + 1] * share);
                transpose_quad(u);
                if (i < a.n_q) *(uint4 *)(to + 32 * j) = make_uint4(u[0], u[1], u[2], u[3]);
            }
        }
        if (a.lse && i < a.n_q && threadIdx.x % 4 == 0)
            a.lse[t.batch * a.lse_batch + (int64_t)i * a.n_heads + t.head] = (w.max[r] * a.scale_log2 + log2f(sum)) * LN_2;
    }
}

/* What a warp is through with may be written to again. */
__device__ __forceinline__ void release(uint64_t *empty, int lane) {
    if (lane == 0) barrier_arrive(empty);
}

template <typename T, int KEYS, bool LISTED>
__device__ __forceinline__ void work(const hopper_job &a, hopper_shared<KEYS> &m, int side) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32 % 4;
    const uint64_t q = matrix_at(m.q + side * GROUP_QUERIES * HALF_BYTES_A_ROW, 16, 1024),
                   k_desc = matrix_at(m.k[0], 16, 1024),
                   v_desc = matrix_at(m.v[0], KEYS * HALF_BYTES_A_ROW, 1024);
    const int stage_step = KEYS * D * 2 / 16; /* of descriptors */
    const int mine = TURN + side, theirs = TURN + (side ^ 1);
    ring k = {0, 0}, v = {0, 0};
    uint32_t q_phase = 0;
    float s[KEYS / 2], o[D / 2];
    uint32_t p[KEYS / 4];
    if (side) pass(theirs, 2 * GROUP);
    for (;; q_phase ^= 1) {
        barrier_wait(&m.q_full, q_phase);
        /* read by the lane that arrives at q_empty alone: nothing orders others' reads before that */
        int number = __shfl_sync(0xffffffffu, lane == 0 ? m.tile : 0, 0);
        if (number < 0) break;
        hopper_tile t = tile_of<KEYS>(a, number);
        int own[2] = {0, 0}; /* the blocks of keys of a list that may be masked */
        if constexpr (LISTED) {
            t.n = __shfl_sync(0xffffffffu, lane == 0 ? m.n : 0, 0);
            own[0] = __shfl_sync(0xffffffffu, lane == 0 ? m.own[0] : 0, 0);
            own[1] = __shfl_sync(0xffffffffu, lane == 0 ? m.own[1] : 0, 0);
        }
        int row0 = a.first + t.query + side * GROUP_QUERIES,
            query = t.query + side * GROUP_QUERIES + warp * 16 + lane / 4;
        int whole = a.causal ? min(row0 + 1, a.n_kv) : a.n_kv; /* keys that all rows see */
        rows_state w;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            w.max[r] = -CUDART_INF_F, w.sum[r] = 0;
            w.last[r] = a.causal ? min(a.first + query + 8 * r, a.n_kv - 1) : a.n_kv - 1;
        }
#pragma unroll
        for (int i = 0; i < D / 2; i++) o[i] = 0;
        int j0 = (t.n - 1) * KEYS;
        if constexpr (LISTED) /* places of the list that all rows see whole */
            whole = j0 - (own[1] * KEYS + KEYS > whole ? KEYS : 0);
        barrier_wait(m.k_full + k.stage, k.phase);
        products_begin();
        start_scores<T, KEYS>(s, q, k_desc + k.stage * stage_step);
        products_wait<0>();
        settle(s);
        release(m.k_empty + k.stage, lane);
        advance(k);
        mask(s, w, LISTED ? own[0] * KEYS : j0);
        exponentials(s, w, a.scale_log2);
        round_all<T>(p, s);
        settle(p);
        if (j0 > 0) barrier_wait(m.k_full + k.stage, k.phase);
        for (j0 -= KEYS; j0 >= 0; j0 -= KEYS) {
            meet(mine, 2 * GROUP);
            products_begin();
            start_scores<T, KEYS>(s, q, k_desc + k.stage * stage_step);
            barrier_wait(m.v_full + v.stage, v.phase);
            products_begin();
            start_values<T, KEYS>(o, p, v_desc + v.stage * stage_step);
            pass(theirs, 2 * GROUP);
            products_wait<1>();
            settle(s);
            release(m.k_empty + k.stage, lane);
            advance(k);
            if (j0 + KEYS > whole) mask(s, w, LISTED ? own[1] * KEYS : j0);
            exponentials(s, w, a.scale_log2);
            settle(s);
            /* here, so that the assembler leaves the exponentials before the wait for the values */
            if (j0 > 0) barrier_wait(m.k_full + k.stage, k.phase);
            products_wait<0>();
            settle(o);
            settle(p);
            release(m.v_empty + v.stage, lane);
            advance(v);
            round_all<T>(p, s);
#pragma unroll
            for (int i = 0; i < D / 2; i++) o[i] *= w.fade[i / 2 % 2];
            settle(p);
            settle(o);
        }
        release(&m.q_empty, lane);
        barrier_wait(m.v_full + v.stage, v.phase);
        products_begin();
        start_values<T, KEYS>(o, p, v_desc + v.stage * stage_step);
        products_wait<0>();
        settle(o);
        settle(p);
        release(m.v_empty + v.stage, lane);
        advance(v);
        store_rows<T>(a, t, query, w, o);
    }
    if (!side) meet(mine, 2 * GROUP); /* the other's last pass */
}

template <typename T, int KEYS, bool LISTED>
static __global__ void __launch_bounds__(THREADS, 1) hopper_kernel(const __grid_constant__ hopper_job a) {
    extern __shared__ __align__(1024) uint8_t shared[];
#if HOPPER
    hopper_shared<KEYS> &m = *(hopper_shared<KEYS> *)(shared + (-shared_address(shared) & 1023));
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0);
    if (threadIdx.x == 0) {
        fetch_map(&a.q);
        fetch_map(&a.k);
        fetch_map(&a.v);
        barrier_init(&m.q_full, 1);
        barrier_init(&m.q_empty, 2 * GROUP / 32);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(m.k_full + i, 1);
            barrier_init(m.v_full + i, 1);
            barrier_init(m.k_empty + i, 2 * GROUP / 32);
            barrier_init(m.v_empty + i, 2 * GROUP / 32);
        }
        barrier_init_done();
    }
    __syncthreads();
    if (group == 0) {
        give_registers<COPY_REGISTERS>();
        if (threadIdx.x == 0) copy_all<KEYS, LISTED>(a, m);
    } else {
        take_registers<WORK_REGISTERS>();
        work<T, KEYS, LISTED>(a, m, group - 1);
    }
#else
    (void)a, (void)shared;
#endif
}

} // namespace sac::attention::hopper

#endif
