/* packed_scores_four.cu - a query against all rows of keys in 4 bits with a range a row.
 *
 * A warp has a stretch of tiles and a ring in shared memory that it fills with copies which do not wait. The
 * last warp of a query head joins the sums of softmaxes that all have left, in their order. */
#include "four_bits.cuh"
#include "packed_scores.cuh"

namespace sac::packed::four_bits {

enum { WARPS = 8, BLOCKS = 2 /* of a processor */ };
enum { STAGES = 4, SOON = 4 /* tiles of a warp to the L2 cache at first */ };
static_assert((int)HEADS <= (int)WARPS, "a warp a head");

typedef struct four_job {
    float *scores, *lse;
    float2 *parts; /* [head][block] */
    unsigned *counters;
    const int32_t *skip;
    const void *q;
    const uint8_t *k, *k_scale, *k_min;  /* from the tile of the first row on */
    int64_t stride, n, capacity, before; /* rows of the first tile before the first */
    sac_dtype dtype;
    int group, n_tiles, each, rest; /* TILES that a warp has; so many warps have one more */
    float scale;
    bool pairs; /* neighbouring scores lie on 8-byte lines */
} four_job;

/* What the warps have of each head's sums, joined by a warp a head; for good by the last block. */
__device__ __forceinline__ void leave_sums(const four_job &a, int key_head, const float2 *of_warp) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = gridDim.x, head = key_head * HEADS + warp;
    __syncthreads();
    if (warp >= a.group) return;
    float2 *parts = a.parts + (int64_t)head * n;
    float2 x = join_lanes(of_warp[lane % WARPS * HEADS + warp], 1, WARPS / 2);
    unsigned before = 0;
    if (lane == 0) {
        parts[blockIdx.x] = x;
        before = count_in(&a.counters[head], (unsigned)n);
    }
    before = __shfl_sync(0xffffffffu, before, 0);
    __syncwarp(); /* what lane 0 has seen of other blocks all lanes see */
    if (before != (unsigned)n - 1) return;
    x = make_float2(-CUDART_INF_F, 0);
#pragma unroll 1
    for (int first = lane; first < n; first += 3 * 32) {
        float2 y[3];
#pragma unroll
        for (int i = 0; i < 3; i++)
            y[i] = first + i * 32 < n ? __ldcg(&parts[first + i * 32]) : make_float2(-CUDART_INF_F, 0);
#pragma unroll
        for (int i = 0; i < 3; i++) x = join_sums(x, y[i]);
    }
    x = join_lanes(x, 1, 16);
    if (lane == 0) a.lse[key_head * a.group + warp] = x.y > 0 ? (log2f(x.y) + x.x) / LOG2_E : -CUDART_INF_F;
}

template <int D, bool SUMS>
static __global__ void __launch_bounds__(WARPS * 32, BLOCKS) four_bits_kernel(four_job a) {
    constexpr int EACH = D / 32, PARTS = TILES * RANGE_BYTES / 16;
    extern __shared__ __align__(128) uint8_t rings[];
    __shared__ __align__(16) uint8_t halves[WARPS * query_pitch<D>()];
    __shared__ head_query of_head[WARPS];
    __shared__ float2 of_warp[WARPS * HEADS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, key_head = blockIdx.y;
    int mine = blockIdx.x * WARPS + warp, tile = (mine * a.each + min(mine, a.rest)) * TILES;
    int end = min(tile + (a.each + (mine < a.rest)) * TILES, a.n_tiles);
    int64_t tile0 = key_head * (a.capacity / SAC_PACKED_TILE) + tile;
    const uint8_t *words = a.k + tile0 * tile_bytes<D>();
    const uint8_t *scales = a.k_scale + tile0 * RANGE_BYTES, *lows = a.k_min + tile0 * RANGE_BYTES;
    if (lane == 0 && tile < end && !a.skip) { /* not for an op that may have nothing to do */
        int n = min((int)SOON, end - tile);
        fetch_soon(words, n * tile_bytes<D>());
        fetch_soon(scales, n * RANGE_BYTES);
        fetch_soon(lows, n * RANGE_BYTES);
    }
    start_next();
    wait_for_last();
    float x[D / 32] = {};
    if (warp < a.group) load_query<D>(a.dtype, a.q, key_head * a.group + warp, x);
    if (is_skipped(a.skip)) return;

    uint8_t *ring = rings + warp * STAGES * stage_bytes<D>(), *to = ring + lane * 16;
    const uint8_t *ring_end = ring + STAGES * stage_bytes<D>();
    const uint8_t *word = words + lane * 16, *range = (lane < PARTS ? scales : lows) + lane % PARTS * 16;
    int ahead = tile;
    auto fetch = [&]() {
        int n = end - ahead; /* of these TILES that there are */
#pragma unroll
        for (int i = 0; i < TILES * tile_bytes<D>(); i += 512)
            copy_async(to + i, word + i, i / tile_bytes<D>() < n);
        if (lane < 2 * PARTS)
            copy_async(to + TILES * tile_bytes<D>(), range, lane % PARTS < n * (RANGE_BYTES / 16));
        copy_commit();
        ahead += TILES, word += TILES * tile_bytes<D>(), range += TILES * RANGE_BYTES;
        to += stage_bytes<D>();
        if (to >= ring_end) to -= STAGES * stage_bytes<D>();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) fetch();
    take_query<D>(x, a.scale, (half *)(halves + warp * query_pitch<D>()), of_head + warp);
    __syncthreads();
    uint4 b[EACH];
#pragma unroll
    for (int j = 0; j < EACH; j++) b[j] = *(const uint4 *)(halves + g * query_pitch<D>() + (t + 4 * j) * 16);
    head_query q[2] = {of_head[2 * t], of_head[2 * t + 1]};
    float2 sum[2] = {make_float2(-CUDART_INF_F, 0), make_float2(-CUDART_INF_F, 0)};

    int64_t row = (int64_t)tile * SAC_PACKED_TILE - a.before + 2 * g; /* the lane's first */
    float *out[2];
    out[0] = a.scores + ((int64_t)key_head * a.group + 2 * t) * a.stride + row;
    out[1] = out[0] + a.stride;
    bool has_head[2] = {2 * t < a.group, 2 * t + 1 < a.group};
    /* from which tiles on TILES have all their rows, in pairs */
    int first_whole = !a.pairs ? INT32_MAX : a.before > 0;
    int last_whole = (int)((a.before + a.n) / SAC_PACKED_TILE) - TILES;
    const uint8_t *stage = ring;
#pragma unroll 1
    for (; tile < end; tile += TILES) {
        fetch();
        copy_wait<STAGES - 1>();
        __syncwarp();
        float c[TILES][4];
        stage_scores<D>(stage, b, q, c);
#pragma unroll
        for (int i = 0; i < TILES * 4; i++) c[i / 4][i % 4] *= q[i % 2].unit;
        __syncwarp(); /* all lanes have read the stage before the next copies into it */
        stage += stage_bytes<D>();
        if (stage == ring_end) stage = ring;

        if (tile >= first_whole && tile <= last_whole) {
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (has_head[h]) {
#pragma unroll
                    for (int i = 0; i < TILES; i++)
                        *(float2 *)(out[h] + i * SAC_PACKED_TILE) = make_float2(c[i][h], c[i][2 + h]);
                }
        } else {
#pragma unroll
            for (int i = 0; i < TILES; i++)
#pragma unroll
                for (int r = 0; r < 2; r++) {
                    int64_t at = row + i * SAC_PACKED_TILE + r;
                    bool there = tile + i < end && at >= 0 && at < a.n;
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        if (!there) c[i][2 * r + h] = -CUDART_INF_F;
                        if (there && has_head[h]) out[h][i * SAC_PACKED_TILE + r] = c[i][2 * r + h];
                    }
                }
        }
        row += TILES * SAC_PACKED_TILE, out[0] += TILES * SAC_PACKED_TILE, out[1] += TILES * SAC_PACKED_TILE;
        if constexpr (SUMS) sum[0] = add_to_sum(sum[0], c, 0), sum[1] = add_to_sum(sum[1], c, 1);
    }
    if constexpr (SUMS) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            float2 all = join_lanes(sum[h], 4, 16);
            if (g == 0) of_warp[warp * HEADS + 2 * t + h] = all;
        }
        leave_sums(a, key_head, of_warp);
    }
}

static bool fits(const sac_packed_scores_args *a) {
    const sac_packed_rows &p = a->keys;
    return !a->rows && !a->turn_back && four_bits_fit(a->q, p, a->n_heads / p.n_heads) &&
           p.n_heads * HEADS <= (int)(SCRATCH_COUNTER_BYTES / sizeof(unsigned));
}

sac_status scores(const sac_stream *s, const sac_packed_scores_args *a) {
    const sac_packed_rows &p = a->keys;
    if (!fits(a)) return SAC_UNSUPPORTED;
    four_job j = {};
    int64_t tile0 = a->first / SAC_PACKED_TILE;
    j.scores = a->scores, j.stride = a->stride, j.n = a->n, j.lse = a->lse, j.skip = a->skip;
    j.q = a->q.data, j.dtype = a->q.dtype, j.group = a->n_heads / p.n_heads, j.scale = a->scale;
    j.k = (const uint8_t *)p.k + tile0 * SAC_PACKED_TILE * p.head_dim / 2;
    j.k_scale = (const uint8_t *)p.k_scale + tile0 * RANGE_BYTES;
    j.k_min = (const uint8_t *)p.k_min + tile0 * RANGE_BYTES;
    j.capacity = p.capacity, j.before = a->first - tile0 * SAC_PACKED_TILE;
    j.pairs = (a->stride | j.before) % 2 == 0 && (uintptr_t)a->scores % 8 == 0;
    int64_t tiles = ceil_div(j.before + a->n, SAC_PACKED_TILE), groups = ceil_div(tiles, TILES),
            most = max_of(1, BLOCKS * (int64_t)s->device->n_processors / p.n_heads);
    if (tiles > INT32_MAX - TILES) return SAC_UNSUPPORTED;
    dim3 grid((unsigned)min_of(ceil_div(groups, WARPS), most), (unsigned)p.n_heads);
    int64_t warps = (int64_t)grid.x * WARPS;
    j.n_tiles = (int)tiles, j.each = (int)(groups / warps), j.rest = (int)(groups % warps);
    size_t n_bytes;
    j.parts = (float2 *)scratch_rest(s, &n_bytes), j.counters = scratch_counters(s);
    if (a->lse && (size_t)grid.x * grid.y * HEADS * sizeof *j.parts > n_bytes) return SAC_UNSUPPORTED;
    auto kernel = p.head_dim == 64 ? (a->lse ? four_bits_kernel<64, true> : four_bits_kernel<64, false>)
                                   : (a->lse ? four_bits_kernel<128, true> : four_bits_kernel<128, false>);
    int bytes = WARPS * STAGES * (p.head_dim == 64 ? stage_bytes<64>() : stage_bytes<128>());
    return launch(s, of_step({grid, WARPS * 32, (size_t)bytes, bytes}), kernel, j);
}

} // namespace sac::packed::four_bits
