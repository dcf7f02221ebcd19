/* antidiagonal_hopper.cu - antidiagonal_sums on Hopper, heads of 128 halves: products by wgmma, and of each tile only
 * what its softmaxes need is kept.
 *
 * Units of one head's queries and of keys are rows of `step` pieces, which a tensor map tells apart by its last
 * dimension, so that a tile of 256 units of queries and 128 of keys is one product of step * 128 terms: one
 * thread copies boxes of 64 channels into a ring, two groups of warps multiply, each 128 rows. A tile leaves each
 * row's maximum and, for every 8 units of keys, the sum of their weights under that maximum; a second kernel
 * joins the tiles of a row, and rows into blocks of queries. So scores themselves are never stored. */
#include "antidiagonal.cuh"
#include "tensor_map.cuh"
#include "wgmma.cuh"

namespace sac::select::units {

enum { D = 128, ROWS = 256, KEYS = 128, BOX = 64, STAGES = 4, GROUP = 128, THREADS = 3 * GROUP };
enum { COPY_REGISTERS = 40, WORK_REGISTERS = 232, BOX_ROW_BYTES = BOX * 2 };
enum { A_BYTES = ROWS * BOX_ROW_BYTES, B_BYTES = KEYS * BOX_ROW_BYTES };
enum { PART = 8 /* units of keys whose weights are added up at once */, PARTS = KEYS / PART };
enum { SUM_THREADS = 256, SUM_WARPS = SUM_THREADS / 32, SUM_SHARED_BYTES = 40 << 10 };

typedef struct tile_shared {
    uint8_t a[STAGES][A_BYTES], b[STAGES][B_BYTES];
    uint64_t full[STAGES], empty[STAGES];
} tile_shared;

typedef struct tiles_job {
    CUtensorMap q, k;
    float *parts, *tops; /* [unit of queries][head][tile of keys]: [PARTS]; one. In units of log 2 */
    float *sums;
    int64_t stride;
    int n_columns, n_units, n_heads, group, step, each, seen0, n_tiles; /* unit t sees seen0 + t units of keys */
    float factor_log2;
} tiles_job;

__device__ __forceinline__ void copy_tiles(const tiles_job &a, tile_shared &m, int head, int t0, int u0) {
    const uint64_t keep = keep_in_l2();
    int stage = 0;
    uint32_t phase = 1;
    for (int i = 0; i < a.step; i++)
        for (int x = 0; x < D; x += BOX) {
            barrier_wait(m.empty + stage, phase);
            barrier_expect(m.full + stage, A_BYTES + B_BYTES);
            copy_box(m.a[stage], &a.q, m.full + stage, x, t0, head, a.step - 1 - i, keep);
            copy_box(m.b[stage], &a.k, m.full + stage, x, u0, head / a.group, i, keep);
            if (++stage == STAGES) stage = 0, phase ^= 1;
        }
}

/* A row's scores in a tile become its maximum and sums of weights; thread i of a quad has columns 2 i, 2 i + 1 of each 8. */
__device__ __forceinline__ void keep_row(const tiles_job &a, const float (&s)[KEYS / 2], int r, int t, int head,
                                         int tile) {
    const int seen = a.seen0 + t - tile * KEYS, column = threadIdx.x % 4 * 2;
    float top = -CUDART_INF_F;
#pragma unroll
    for (int j = 0; j < PARTS; j++)
#pragma unroll
        for (int c = 0; c < 2; c++)
            if (j * PART + column + c < seen) top = fmaxf(top, s[4 * j + 2 * r + c]);
    top = quad_max(top);
    const float base = top * a.factor_log2;
    float mine[4] = {0, 0, 0, 0};
#pragma unroll
    for (int j = 0; j < PARTS; j++) {
        float sum = 0;
#pragma unroll
        for (int c = 0; c < 2; c++)
            if (j * PART + column + c < seen) sum += exp2_fast(s[4 * j + 2 * r + c] * a.factor_log2 - base);
        sum = quad_sum(sum);
        if (threadIdx.x % 4 == j / 4) mine[j % 4] = sum;
    }
    if (t >= a.n_units || seen <= 0) return;
    const int64_t at = ((int64_t)t * a.n_heads + head) * a.n_tiles + tile;
    ((float4 *)(a.parts + at * PARTS))[threadIdx.x % 4] = make_float4(mine[0], mine[1], mine[2], mine[3]);
    if (threadIdx.x % 4 == 0) a.tops[at] = base;
}

template <typename T>
__device__ __forceinline__ void work(const tiles_job &a, tile_shared &m, int side, int head, int t0, int tile) {
    const int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    const uint64_t q = matrix_at(m.a[0] + side * (ROWS / 2) * BOX_ROW_BYTES, 16, 1024),
                   k = matrix_at(m.b[0], 16, 1024);
    const int n = a.step * (D / BOX);
    float s[2][KEYS / 2]; /* of 64 rows each */
    int stage = 0;
    uint32_t phase = 0;
    for (int i = 0; i < n; i++) {
        barrier_wait(m.full + stage, phase);
        products_begin();
#pragma unroll
        for (int c = 0; c < BOX / 16; c++)
#pragma unroll
            for (int half_ = 0; half_ < 2; half_++)
                product<T>(s[half_], q + stage * (A_BYTES / 16) + half_ * (64 * BOX_ROW_BYTES / 16) + c * 2,
                           k + stage * (B_BYTES / 16) + c * 2, i > 0 || c > 0);
        products_commit();
        products_wait<1>();
        if (i > 0 && lane == 0) barrier_arrive(m.empty + (stage + STAGES - 1) % STAGES);
        if (++stage == STAGES) stage = 0, phase ^= 1;
    }
    products_wait<0>();
    settle(s[0]);
    settle(s[1]);
#pragma unroll
    for (int half_ = 0; half_ < 2; half_++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            keep_row(a, s[half_], r, t0 + side * (ROWS / 2) + half_ * 64 + warp * 16 + lane / 4 + 8 * r, head, tile);
}

template <typename T>
static __global__ void __launch_bounds__(THREADS, 1) tiles_kernel(const __grid_constant__ tiles_job a) {
    extern __shared__ __align__(1024) uint8_t shared[];
#if HOPPER
    tile_shared &m = *(tile_shared *)(shared + (-shared_address(shared) & 1023));
    const int head = blockIdx.x, tile = blockIdx.y, t0 = blockIdx.z * ROWS;
    if (a.seen0 + min(t0 + ROWS, a.n_units) - 1 <= tile * KEYS) return; /* nothing of it is seen */
    const int group = __shfl_sync(0xffffffffu, threadIdx.x / GROUP, 0);
    if (threadIdx.x == 0) {
        fetch_map(&a.q);
        fetch_map(&a.k);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(m.full + i, 1);
            barrier_init(m.empty + i, 2 * GROUP / 32);
        }
        barrier_init_done();
    }
    __syncthreads();
    if (group == 0) {
        give_registers<COPY_REGISTERS>();
        if (threadIdx.x == 0) copy_tiles(a, m, head, t0, tile * KEYS);
    } else {
        take_registers<WORK_REGISTERS>();
        work<T>(a, m, group - 1, head, t0, tile);
    }
#else
    (void)a, (void)shared;
#endif
}

/* A block of queries and a head. First what each unit's tiles are worth, a unit a warp; then a block of keys a thread. */
static __global__ void __launch_bounds__(SUM_THREADS) join_kernel(const __grid_constant__ tiles_job a) {
    extern __shared__ float worth[]; /* [unit][tile]; 0 where none is seen */
    const int head = blockIdx.x, t0 = blockIdx.y * a.each, n = min(a.each, a.n_units - t0), lane = threadIdx.x % 32;
    for (int i = threadIdx.x / 32; i < n; i += SUM_WARPS) {
        const int n_seen = (a.seen0 + t0 + i + KEYS - 1) / KEYS;
        const int64_t at = ((int64_t)(t0 + i) * a.n_heads + head) * a.n_tiles;
        float top = -CUDART_INF_F, total = 0;
        for (int j = lane; j < n_seen; j += 32) top = fmaxf(top, a.tops[at + j]);
        top = warp_max(top);
        for (int j = lane; j < n_seen; j += 32) {
            const float4 *parts = (const float4 *)(a.parts + (at + j) * PARTS);
            float sum = 0, w = exp2_fast(a.tops[at + j] - top);
#pragma unroll
            for (int c = 0; c < PARTS / 4; c++) sum += parts[c].x + parts[c].y + parts[c].z + parts[c].w;
            worth[i * a.n_tiles + j] = w;
            total += sum * w;
        }
        total = warp_sum(total) * (float)n;
        for (int j = lane; j < a.n_tiles; j += 32)
            worth[i * a.n_tiles + j] = j < n_seen ? worth[i * a.n_tiles + j] / total : 0;
    }
    __syncthreads();
    float *sums = a.sums + ((int64_t)blockIdx.y * a.n_heads + head) * a.stride;
    const int per_block = a.each / PART;
    for (int j = threadIdx.x; j < a.n_columns; j += SUM_THREADS) {
        float sum = 0;
        const int tile = j * per_block / PARTS; /* of all its parts */
        for (int i = 0; i < n && tile < a.n_tiles; i++) {
            const float w = worth[i * a.n_tiles + tile];
            const float *parts = a.parts + (((int64_t)(t0 + i) * a.n_heads + head) * a.n_tiles + tile) * PARTS +
                                 j * per_block % PARTS;
            for (int c = 0; c < per_block && w > 0; c++) sum += parts[c] * w;
        }
        sums[j] = sum;
    }
}

template <typename T> static sac_status run(const sac_stream *s, const sac_antidiagonal_sums_args *a, tiles_job j) {
    const sac_kv_view *kv = &a->kv;
    encode_map encode = find_encode_map();
    const int64_t n_keys = j.seen0 + j.n_units - 1;
    if (!encode ||
        !make_map(encode, &j.q, a->q.dtype, a->q.data, D, j.n_units, a->step * a->q.stride, a->n_heads, D, a->step,
                  a->q.stride, ROWS) ||
        !make_map(encode, &j.k, kv->dtype, kv->k, D, n_keys, a->step * kv->row_stride, kv->n_heads, kv->head_stride,
                  a->step, kv->row_stride, KEYS))
        return SAC_UNSUPPORTED;
    auto kernel = tiles_kernel<T>;
    const int n_bytes = (int)sizeof(tile_shared) + 1024;
    bool is_built;
    SAC_TRY(is_built_for_hopper(kernel, &is_built));
    if (!is_built) return SAC_UNSUPPORTED;
    dim3 grid((unsigned)a->n_heads, (unsigned)j.n_tiles, (unsigned)ceil_div(j.n_units, ROWS));
    SAC_TRY(launch(s, {grid, THREADS, (size_t)n_bytes, n_bytes}, kernel, j));
    dim3 blocks((unsigned)a->n_heads, (unsigned)ceil_div(j.n_units, j.each));
    return launch(s, {blocks, SUM_THREADS, (size_t)j.each * j.n_tiles * sizeof(float)}, join_kernel, j);
}

} // namespace sac::select::units

namespace sac::select {

/* Units of queries are those of the keys, so every unit of keys that one of a whole block sees is whole. */
sac_status antidiagonal_sums_hopper(const sac_stream *s, const sac_antidiagonal_sums_args *a, int64_t n) {
    using namespace units;
    const sac_kv_view *kv = &a->kv;
    const int64_t n_keys = (a->first + n) / a->step, n_tiles = ceil_div(n_keys, KEYS), each = a->block / a->step;
    if (!tuning_of(s->device).has_wgmma || kv->head_dim != D || !is_half(kv->dtype) || a->q.dtype != kv->dtype ||
        kv->pages || !keys_aligned(kv) || !is_aligned(a->q.data, a->q.stride))
        return SAC_UNSUPPORTED;
    if (n == 0 || a->first % a->step != 0 || each % PART != 0 || KEYS % each != 0 || !(a->scale > 0))
        return SAC_UNSUPPORTED;
    /* the room for scores has to hold what is kept of them */
    if (n_tiles * (PARTS + 1) > n_keys || each * n_tiles * sizeof(float) > SUM_SHARED_BYTES || n_tiles > 65535 ||
        n > 1 << 24 || !is_aligned(a->scores, 8))
        return SAC_UNSUPPORTED;
    tiles_job j = {};
    j.n_units = (int)(n / a->step), j.n_heads = a->n_heads, j.group = a->n_heads / kv->n_heads;
    j.step = (int)a->step, j.each = (int)each, j.seen0 = (int)(a->first / a->step) + 1, j.n_tiles = (int)n_tiles;
    j.sums = a->sums, j.stride = a->stride, j.n_columns = (int)ceil_div(a->first + a->q.rows, a->block);
    j.parts = a->scores, j.tops = a->scores + (int64_t)j.n_units * a->n_heads * n_tiles * PARTS;
    j.factor_log2 = a->scale / (float)a->step * LOG2_E;
    return kv->dtype == SAC_DTYPE_F16 ? run<half>(s, a, j) : run<bf16>(s, a, j);
}

} // namespace sac::select
