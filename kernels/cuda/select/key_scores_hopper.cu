/* key_scores_hopper.cu - scores of several queries against the same keys on Hopper, heads of 128 halves, and
 * the sums of their softmaxes on the way.
 *
 * A block keeps 128 rows (queries of the heads that share keys) in shared memory, in three parts each
 * (key_scores.cuh). One thread copies tiles of 128 keys; two groups of four warps have 64 rows each, and
 * while the tensor cores multiply one group's, the other hands out the scores of a tile. */
#include "context.cuh"
#include "key_scores.cuh"
#include "log_sums.cuh"
#include "tensor_map.cuh"
#include "wgmma.cuh"

namespace sac::select {

enum { D = 128, KEYS = 128, ROWS = 128, PARTS = 3, STAGES = 4, GROUP = 128, WORKERS = 2 * GROUP };
enum { PANEL = 128 * 128 /* bytes of 64 columns of 128 rows */, TILE = 2 * PANEL };
enum {
    TOGETHER = 1,
    TURN = 2 /* named barriers: all workers; 2 and 3: a group's turn at the tensor cores */
};

typedef struct scores_shared {
    uint8_t q[PARTS][TILE], k[STAGES][TILE];
    uint64_t full[STAGES], empty[STAGES];
    float units[ROWS];
} scores_shared;

struct hopper_job : queries_job {
    CUtensorMap k;
    float *lse;
    double2 *parts; /* [head of a query][block] */
    unsigned *counters;
};

enum { ROWS_OF_WARP = ROWS / (WORKERS / 32), AT_ONCE = 8 };

/* A warp writes the parts of its rows as wgmma.cuh wants matrices: four channels a lane. */
template <typename T>
__device__ __forceinline__ void cut_rows(const hopper_job &a, scores_shared &m, int kv_head, int row0,
                                         int warp) {
    const int lane = threadIdx.x % 32, c = 4 * lane;
#pragma unroll 1
    for (int first = warp * ROWS_OF_WARP; first < (warp + 1) * ROWS_OF_WARP; first += AT_ONCE) {
        float4 x[AT_ONCE];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int r = row0 + first + i;
            x[i] = make_float4(0, 0, 0, 0);
            if (r < a.n_rows) x[i] = *(const float4 *)(a.q + head_of(a, kv_head, r) * D + c);
        }
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) {
            const int r = first + i;
            const float unit = unit_of<T>(x[i]), f = 1 / unit;
            uint2 part[PARTS];
            cut<T>(x[i].x * f, x[i].y * f, part[0].x, part[1].x, part[2].x);
            cut<T>(x[i].z * f, x[i].w * f, part[0].y, part[1].y, part[2].y);
            const int at = c / 64 * PANEL + r * 128 + (c % 64 / 8 ^ r % 8) * 16 + c % 8 * 2;
#pragma unroll
            for (int p = 0; p < PARTS; p++) *(uint2 *)(m.q[p] + at) = part[p];
            if (lane == 0) m.units[r] = unit;
        }
    }
}

__device__ __forceinline__ void copy_tiles(const hopper_job &a, scores_shared &m, int kv_head) {
    const int n_tiles = (a.n_last + KEYS - 1) / KEYS;
    const uint64_t policy = keep_in_l2();
    int stage = 0;
    uint32_t phase = 0;
    for (int at = blockIdx.x; at < n_tiles; at += gridDim.x) {
        const int row = (int)a.first + at * KEYS;
        barrier_wait(m.empty + stage, phase ^ 1);
        barrier_expect(m.full + stage, TILE);
        copy_box(m.k[stage], &a.k, m.full + stage, 0, row, kv_head, 0, policy);
        copy_box(m.k[stage] + PANEL, &a.k, m.full + stage, 64, row, kv_head, 0, policy);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
}

/* Two rows a thread: g and g + 8 of its warp's 16. */
typedef struct score_rows {
    float scale[2], *scores[2];
    int end[2]; /* of the keys that a row has */
    float max[2];
    double sum[2]; /* relative to the maximum */
} score_rows;

/* s += a part of the queries times the keys, left in flight; the smallest part comes first and finds no s. */
template <typename T>
__device__ __forceinline__ void add_part(float (&s)[64], uint64_t q, uint64_t k, int p) {
#pragma unroll
    for (int i = 0; i < D / 16; i++)
        product<T>(s, q + p * (TILE / 16) + i / 4 * (PANEL / 16) + i % 4 * 2,
                   k + i / 4 * (PANEL / 16) + i % 4 * 2, p < PARTS - 1 || i > 0);
}

/* WHOLE: all rows have these keys, and neighbouring scores lie on 8-byte lines. */
template <bool WHOLE>
__device__ __forceinline__ void hand_out(const hopper_job &a, score_rows &w, const float (&s)[64], int at) {
    const int j0 = at * KEYS + 2 * (threadIdx.x % 4);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float top = -CUDART_INF_F, x[32];
#pragma unroll
        for (int i = 0; i < 32; i++) {
            x[i] = s[i / 2 * 4 + 2 * h + i % 2] * w.scale[h];
            if (!WHOLE && j0 + i / 2 * 8 + i % 2 >= w.end[h]) x[i] = -CUDART_INF_F;
            top = fmaxf(top, x[i]);
        }
        if (w.scores[h]) {
            float *to = w.scores[h] + j0;
#pragma unroll
            for (int i = 0; i < 32; i += 2) {
                const int j = j0 + i * 4;
                if (WHOLE || (a.pairs && j + 1 < a.n_last)) {
                    *(float2 *)(to + i * 4) = make_float2(x[i], x[i + 1]);
                } else {
                    if (j < a.n_last) to[i * 4] = x[i];
                    if (j + 1 < a.n_last) to[i * 4 + 1] = x[i + 1];
                }
            }
        }
        if (!a.lse || !(top > -CUDART_INF_F)) continue;
        top = fmaxf(top, w.max[h]);
        float sum[2] = {0, 0};
#pragma unroll
        for (int i = 0; i < 32; i++) sum[i % 2] += exp2_fast((x[i] - top) * LOG2_E);
        w.sum[h] = w.sum[h] * (double)expf(w.max[h] - top) + (double)(sum[0] + sum[1]);
        w.max[h] = top;
    }
}

/* The block's sums to their places; the last block of these rows joins what all have left. */
__device__ __forceinline__ void join_rows(const hopper_job &a, const score_rows &w, int kv_head, int row0,
                                          int r) {
    const unsigned n_blocks = gridDim.x;
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        double2 sum = lanes_join<4>(make_double2((double)w.max[h], w.sum[h]));
        if (lane % 4 == 0 && r + 8 * h < a.n_rows)
            a.parts[head_of(a, kv_head, r + 8 * h) * n_blocks + blockIdx.x] = sum;
    }
    meet(TOGETHER, WORKERS);
    bool last = false;
    if (threadIdx.x == 0)
        last = count_in(&a.counters[blockIdx.z * gridDim.y + blockIdx.y], n_blocks) == n_blocks - 1;
    if (!meet_any(TOGETHER, WORKERS, last)) return;
    const int row = row0 + threadIdx.x / 2; /* two lanes a row */
    const int64_t head = head_of(a, kv_head, row < a.n_rows ? row : 0);
    double2 sum = no_sum();
#pragma unroll 8
    for (unsigned i = threadIdx.x % 2; i < n_blocks; i += 2)
        sum = join_sums(sum, __ldcg(&a.parts[head * n_blocks + i]));
    sum = lanes_join<2>(sum);
    if (lane % 2 == 0 && row < a.n_rows) a.lse[head] = log_of(sum);
}

template <typename T>
__device__ __forceinline__ void work(const hopper_job &a, scores_shared &m, int kv_head, int row0, int side) {
    const int lane = threadIdx.x % 32, r = row0 + side * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4,
              n_tiles = (a.n_last + KEYS - 1) / KEYS, mine = TURN + side, theirs = TURN + (side ^ 1);
    const uint64_t q = matrix_at(m.q[0] + side * 64 * 128, 16, 1024), k = matrix_at(m.k[0], 16, 1024);
    score_rows w;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const bool row = r + 8 * h < a.n_rows;
        w.scale[h] = a.scale * m.units[r + 8 * h - row0];
        w.scores[h] = row ? a.scores + head_of(a, kv_head, r + 8 * h) * a.stride : NULL;
        w.end[h] = a.n + (r + 8 * h) / a.group * a.n_more;
        w.max[h] = -CUDART_INF_F, w.sum[h] = 0;
    }
    float s[64];
    int stage = 0;
    uint32_t phase = 0;
    if (side) pass(theirs, WORKERS);
    for (int at = blockIdx.x; at < n_tiles; at += gridDim.x) {
        barrier_wait(m.full + stage, phase);
        meet(mine, WORKERS);
        products_begin();
        add_part<T>(s, q, k + stage * (TILE / 16), 2);
        add_part<T>(s, q, k + stage * (TILE / 16), 1);
        products_commit();
        add_part<T>(s, q, k + stage * (TILE / 16), 0);
        products_commit();
        products_wait<1>();
        pass(theirs, WORKERS);
        products_wait<0>();
        settle(s);
        if (lane == 0) barrier_arrive(m.empty + stage);
        if (++stage == STAGES) stage = 0, phase ^= 1;
        if (at * KEYS + KEYS <= a.n && a.pairs)
            hand_out<true>(a, w, s, at);
        else
            hand_out<false>(a, w, s, at);
    }
    if (!side) meet(mine, WORKERS); /* the other's last pass */
    if (a.lse) join_rows(a, w, kv_head, row0, r);
}

template <typename T>
static __global__ void __launch_bounds__(WORKERS + 32, 1)
    key_scores_hopper_kernel(const __grid_constant__ hopper_job a) {
    extern __shared__ __align__(1024) uint8_t shared[];
#if HOPPER
    scores_shared &m = *(scores_shared *)(shared + (-shared_address(shared) & 1023));
    const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), kv_head = blockIdx.y,
              row0 = blockIdx.z * ROWS;
    if (threadIdx.x == WORKERS) {
        fetch_map(&a.k);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(m.full + i, 1);
            barrier_init(m.empty + i, WORKERS / 32);
        }
        barrier_init_done();
    }
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    if (warp < WORKERS / 32) cut_rows<T>(a, m, kv_head, row0, warp);
    written_for_products();
    __syncthreads();
    if (warp < WORKERS / 32)
        work<T>(a, m, kv_head, row0, warp / 4);
    else if (threadIdx.x == WORKERS)
        copy_tiles(a, m, kv_head);
#else
    (void)a, (void)shared;
#endif
}

template <typename T>
static sac_status run(const sac_stream *s, const sac_key_scores_args *a, hopper_job *j) {
    const sac_kv_view *kv = &a->kv;
    const int n_bytes = (int)sizeof(scores_shared) + 1024;
    auto kernel = key_scores_hopper_kernel<T>;
    encode_map encode = find_encode_map();
    bool is_built;
    if (!encode || !make_map(encode, &j->k, kv->dtype, kv->k, D, kv->n_rows, kv->row_stride, kv->n_heads,
                             kv->head_stride, 1, 0, KEYS))
        return SAC_UNSUPPORTED;
    SAC_TRY(is_built_for_hopper(kernel, &is_built));
    if (!is_built) return SAC_UNSUPPORTED;
    const int64_t z = ceil_div(j->n_rows, ROWS), most = s->device->n_processors / (kv->n_heads * z),
                  blocks = max_of(1, min_of(ceil_div(j->n_last, KEYS), most));
    size_t room;
    j->parts = (double2 *)scratch_rest(s, &room), j->counters = scratch_counters(s);
    if ((size_t)(a->n_queries * a->n_heads * blocks) * sizeof *j->parts > room ||
        (size_t)(kv->n_heads * z) * sizeof(unsigned) > SCRATCH_COUNTER_BYTES)
        return SAC_UNSUPPORTED;
    return launch(s,
                  early({dim3((unsigned)blocks, (unsigned)kv->n_heads, (unsigned)z), WORKERS + 32,
                         (size_t)n_bytes, n_bytes}),
                  kernel, *j);
}

sac_status key_scores_hopper(const sac_stream *s, const sac_key_scores_args *a) {
    const sac_kv_view *kv = &a->kv;
    hopper_job j = {};
    if (!tuning_of(s->device).has_wgmma || !take_queries(&j, a) || kv->head_dim != D ||
        (uintptr_t)a->q % 16 != 0 || j.n_last < 1)
        return SAC_UNSUPPORTED;
    j.lse = a->lse;
    return kv->dtype == SAC_DTYPE_F16 ? run<half>(s, a, &j) : run<bf16>(s, a, &j);
}

} // namespace sac::select
