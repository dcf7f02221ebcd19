/* packed_vote.cu - scores of all rows of keys in 4 bits with a range a row, and the vote of the heads, in one
 * go.
 *
 * A block a processor has a stretch of tiles, of all heads, and keeps their scores in shared memory. A warp
 * has a key head and every so-manieth of the stretch's tiles, and a ring that it fills with copies which do
 * not wait. Each block leaves its sums of the heads' softmaxes; once all blocks have, which takes that they
 * run together, each joins all of them, in their order, and votes. While it waits for the others it finds
 * p[h][j] = exp(score - top of the head in the block - largest of the column): what is left then is the sum
 * over h of p[h][j] * exp(top - lse of the head). */
#include "four_bits.cuh"

namespace sac::packed::four_bits {

enum { WARPS = 16, THREADS = WARPS * 32, STAGES = 2, MOST_HEADS = 32, ROUNDS = MOST_HEADS / WARPS };
enum { KEYS = TILES * SAC_PACKED_TILE /* at a time */ };
static_assert(MOST_HEADS <= 32, "a lane of the first warp leaves a head's sum");
static_assert(THREADS / 16 == MOST_HEADS, "16 threads join a head's");

typedef struct vote_job {
    float *votes;
    float2 *parts; /* [head][block] */
    unsigned *counter;
    const int32_t *skip;
    const void *q;
    const uint8_t *k, *k_scale, *k_min; /* from the tile of the first row on */
    int64_t capacity;
    int n, before; /* rows of the first tile before the first */
    sac_dtype dtype;
    int n_heads, n_key_heads, n_tiles, each, more; /* TILES that a block has; so many blocks have one more */
    int pitch;                                     /* of a head's scores */
    float scale;
} vote_job;

/* Below every score and still a number: a power of two, so that products with units are exact. */
#define LEAST  (-0x1p120f)
#define NO_SUM make_float2(LEAST, 0)

__device__ __forceinline__ unsigned load_acquire(const unsigned *p) {
#ifdef __CUDA_ARCH__
    unsigned x;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(x) : "l"(p) : "memory");
    return x;
#else
    return *p;
#endif
}

/* With the numbers of one head that a lane has of its tiles, first and first + 2 of each, in `unit`. */
__device__ __forceinline__ float2 add_units(float2 sum, const float (*c)[4], int first, float unit) {
    float top = c[0][first], more = 0;
#pragma unroll
    for (int i = 0; i < TILES; i++) top = fmaxf(top, fmaxf(c[i][first], c[i][first + 2]));
    top = fmaxf(sum.x, top * unit);
#pragma unroll
    for (int i = 0; i < TILES; i++)
        more += exp2_fast(fmaf(c[i][first], unit, -top)) + exp2_fast(fmaf(c[i][first + 2], unit, -top));
    return make_float2(top, sum.y * exp2_fast(sum.x - top) + more);
}

/* What all blocks have left of a head, as a logarithm to base 2; by 16 lanes. */
__device__ __forceinline__ float join_blocks(const float2 *parts, int n) {
    enum { AT_ONCE = 9 };
    float2 sum = NO_SUM;
#pragma unroll 1
    for (int first = threadIdx.x % 16; first - (int)threadIdx.x % 16 < n; first += AT_ONCE * 16) {
        float2 x[AT_ONCE + 1];
#pragma unroll
        for (int i = 0; i < AT_ONCE; i++) x[i] = first + i * 16 < n ? __ldcg(&parts[first + i * 16]) : NO_SUM;
        x[AT_ONCE] = threadIdx.x % 16 ? NO_SUM : sum; /* which all have */
        sum = join_all(x, 1, 8);
    }
    return log2f(sum.y) + sum.x;
}

template <int D>
static __global__ void __launch_bounds__(THREADS, 1) four_vote_kernel(const __grid_constant__ vote_job a) {
    constexpr int EACH = D / 32, PARTS = TILES * RANGE_BYTES / 16;
    extern __shared__ __align__(128) uint8_t rings[];
    __shared__ __align__(16) uint8_t halves[MOST_HEADS * query_pitch<D>()];
    __shared__ head_query of_head[MOST_HEADS];
    __shared__ float2 of_warp[WARPS][HEADS];
    __shared__ __align__(16) float units[MOST_HEADS], tops[MOST_HEADS], shares[MOST_HEADS], logs[MOST_HEADS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, block = blockIdx.x;
    int group = a.n_heads / a.n_key_heads, key_head = warp % a.n_key_heads, head = key_head * group + 2 * t;
    int first = (block * a.each + min(block, a.more)) * TILES;
    int end = min(first + (a.each + (block < a.more)) * TILES, a.n_tiles);
    int tile = first + warp / a.n_key_heads * TILES, step = WARPS / a.n_key_heads * TILES;
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;

    float x[ROUNDS][D / 32]; /* asked for before the keys, which would keep it waiting */
#pragma unroll
    for (int i = 0; i < ROUNDS; i++)
        if (warp + i * WARPS < a.n_heads) load_query<D>(a.dtype, a.q, warp + i * WARPS, x[i]);
    int64_t tile0 = key_head * (a.capacity / SAC_PACKED_TILE) + tile;
    uint8_t *ring = rings + warp * STAGES * stage_bytes<D>(), *to = ring + lane * 16;
    const uint8_t *ring_end = ring + STAGES * stage_bytes<D>();
    const uint8_t *word = a.k + tile0 * tile_bytes<D>() + lane * 16;
    const uint8_t *range = (lane < PARTS ? a.k_scale : a.k_min) + tile0 * RANGE_BYTES + lane % PARTS * 16;
    int ahead = tile;
    auto fetch = [&]() {
        int n = end - ahead; /* of these TILES that there are */
        if (n > 0) {
#pragma unroll
            for (int i = 0; i < TILES * tile_bytes<D>(); i += 512)
                copy_async(to + i, word + i, i / tile_bytes<D>() < n);
            if (lane < 2 * PARTS)
                copy_async(to + TILES * tile_bytes<D>(), range, lane % PARTS < n * (RANGE_BYTES / 16));
        }
        copy_commit();
        ahead += step, word += step * tile_bytes<D>(), range += step * RANGE_BYTES;
        to += stage_bytes<D>();
        if (to >= ring_end) to -= STAGES * stage_bytes<D>();
    };
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) fetch();
#pragma unroll
    for (int i = 0; i < ROUNDS; i++) {
        int of = warp + i * WARPS;
        if (of < a.n_heads)
            take_query<D>(x[i], a.scale, (half *)(halves + of * query_pitch<D>()), of_head + of);
    }
    __syncthreads();
    if (threadIdx.x < MOST_HEADS)
        units[threadIdx.x] = (int)threadIdx.x < a.n_heads ? of_head[threadIdx.x].unit * LOG2_E : 0;
    uint4 b[EACH] = {};
#pragma unroll
    for (int j = 0; j < EACH; j++)
        if (g < group)
            b[j] = *(const uint4 *)(halves + (key_head * group + g) * query_pitch<D>() + (t + 4 * j) * 16);
    bool has_head[2] = {2 * t < group, 2 * t + 1 < group};
    head_query q[2] = {};
    float2 sum[2] = {NO_SUM, NO_SUM};
#pragma unroll
    for (int h = 0; h < 2; h++)
        if (has_head[h]) q[h] = of_head[head + h], q[h].unit *= LOG2_E;

    float *scores = (float *)(rings + WARPS * STAGES * stage_bytes<D>());
    const uint8_t *stage = ring;
#pragma unroll 1
    for (; tile < end; tile += step) {
        fetch();
        copy_wait<STAGES - 1>();
        __syncwarp();
        float c[TILES][4];
        stage_scores<D>(stage, b, q, c);
        __syncwarp(); /* all lanes have read the stage before the next copies into it */
        stage += stage_bytes<D>();
        if (stage == ring_end) stage = ring;
        int row = tile * SAC_PACKED_TILE - a.before;
        if (row < 0 || row + KEYS > a.n) {
            row += 2 * g;
            asm volatile("" : "+r"(row)); /* so that most pass it by */
#pragma unroll
            for (int i = 0; i < TILES * 2; i++) {
                int at = row + i / 2 * SAC_PACKED_TILE + i % 2;
                if (at < 0 || at >= a.n) c[i / 2][i % 2 * 2] = c[i / 2][i % 2 * 2 + 1] = LEAST;
            }
        }
        float *out = scores + head * a.pitch + (tile - first) * SAC_PACKED_TILE + 2 * g;
#pragma unroll
        for (int h = 0; h < 2; h++) {
#pragma unroll
            for (int i = 0; i < TILES; i++)
                if (has_head[h])
                    *(float2 *)(out + h * a.pitch + i * SAC_PACKED_TILE) = make_float2(c[i][h], c[i][2 + h]);
            sum[h] = add_units(sum[h], c, h, q[h].unit);
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float2 of_lane[1] = {sum[h]}, all = join_all(of_lane, 4, 16);
        if (g == 0) of_warp[warp][2 * t + h] = all;
    }
    __syncthreads();
    float2 of_block = NO_SUM;
    if (warp == 0) {
        if (lane < a.n_heads)
            for (int i = lane / group; i < WARPS; i += a.n_key_heads)
                of_block = join_sums(of_block, of_warp[i][lane % group]);
        tops[lane] = lane < a.n_heads ? of_block.x : CUDART_INF_F;
    }
    __syncthreads();
    unsigned others = 0; /* may be missing */
    if (warp == 0) {
        if (lane < a.n_heads) a.parts[lane * gridDim.x + block] = of_block;
        __syncwarp();
        if (lane == 0) others = count_in(a.counter, gridDim.x) != gridDim.x - 1;
    }
    int n_columns = (end - first) * SAC_PACKED_TILE, n_fours = (a.n_heads + 3) / 4, column = 2 * threadIdx.x;
    float2 p[MOST_HEADS], top = make_float2(LEAST, LEAST);
    if (column < n_columns) {
        const float *from = scores + column;
#pragma unroll
        for (int i = 0; i < MOST_HEADS; i++) {
            if (i % 4 == 0 && i / 4 >= n_fours) break;
            float2 y = *(const float2 *)from;
            if (i + 1 < a.n_heads) from += a.pitch;
            p[i] = make_float2(fmaf(y.x, units[i], -tops[i]), fmaf(y.y, units[i], -tops[i]));
            top = make_float2(fmaxf(top.x, p[i].x), fmaxf(top.y, p[i].y));
        }
#pragma unroll
        for (int i = 0; i < MOST_HEADS; i++) {
            if (i % 4 == 0 && i / 4 >= n_fours) break;
            p[i] = make_float2(exp2_fast(p[i].x - top.x), exp2_fast(p[i].y - top.y));
        }
    }
    if (others)
        while (load_acquire(a.counter) != 0) {
        } /* as the last to count in leaves it */
    __syncthreads();
    int of = min((int)threadIdx.x / 16, a.n_heads - 1);
    float log = join_blocks(a.parts + of * gridDim.x, gridDim.x), share = tops[of] - log;
    if (threadIdx.x % 16 == 0) shares[threadIdx.x / 16] = exp2_fast(share), logs[threadIdx.x / 16] = log;
    /* where the block has next to nothing of a head, p may have lost what counts */
    bool is_far = __syncthreads_or(share < -100);
    int row = first * SAC_PACKED_TILE - a.before;
    auto write = [&](float2 top, float2 sum) {
        int at = row + column;
        if (at >= 0 && at < a.n) a.votes[at] = (log2f(sum.x) + top.x) / LOG2_E;
        if (at + 1 >= 0 && at + 1 < a.n) a.votes[at + 1] = (log2f(sum.y) + top.y) / LOG2_E;
    };
    if (column < n_columns && !is_far) {
        float2 votes = make_float2(0, 0);
#pragma unroll
        for (int i = 0; i < MOST_HEADS; i++) {
            if (i % 4 == 0 && i / 4 >= n_fours) break;
            votes.x += p[i].x * shares[i], votes.y += p[i].y * shares[i];
        }
        write(top, votes);
        column += 2 * THREADS;
    }
#pragma unroll 1
    for (; column < n_columns; column += 2 * THREADS) {
        const float *from = scores + column;
        float2 votes = make_float2(0, 0);
        top = make_float2(LEAST, LEAST);
#pragma unroll 4
        for (int i = 0; i < a.n_heads; i++) {
            float2 y = *(const float2 *)(from + i * a.pitch);
            top.x = fmaxf(top.x, fmaf(y.x, units[i], -logs[i]));
            top.y = fmaxf(top.y, fmaf(y.y, units[i], -logs[i]));
        }
#pragma unroll 4
        for (int i = 0; i < a.n_heads; i++) {
            float2 y = *(const float2 *)(from + i * a.pitch);
            votes.x += exp2_fast(fmaf(y.x, units[i], -logs[i]) - top.x);
            votes.y += exp2_fast(fmaf(y.y, units[i], -logs[i]) - top.y);
        }
        write(top, votes);
    }
}

extern "C" sac_status sac_cuda_packed_vote(const sac_stream *s, const sac_packed_vote_args *a) {
    const sac_packed_rows &p = a->keys;
    if (a->n == 0) return SAC_OK;
    if (!four_bits_fit(a->q, p, a->n_heads / p.n_heads) || a->n_heads > MOST_HEADS || WARPS % p.n_heads ||
        fabsf(a->scale) < 0x1p-8f) /* LEAST has to stay below every score */
        return SAC_UNSUPPORTED;
    auto kernel = p.head_dim == 64 ? four_vote_kernel<64> : four_vote_kernel<128>;
    int64_t tile0 = a->first / SAC_PACKED_TILE, before = a->first % SAC_PACKED_TILE,
            groups = ceil_div(before + a->n, KEYS), blocks = min_of(groups, s->device->n_processors),
            pitch = ceil_div(groups, blocks) * KEYS + 4 /* stores of a warp to different banks */,
            ring = STAGES * (p.head_dim == 64 ? stage_bytes<64>() : stage_bytes<128>()),
            bytes = WARPS * ring + a->n_heads * pitch * (int64_t)sizeof(float);
    size_t room;
    vote_job j = {};
    j.parts = (float2 *)scratch_rest(s, &room), j.counter = scratch_counters(s);
    cudaFuncAttributes f;
    SAC_TRY(attributes_of(kernel, &f));
    int most = block_shared_bytes(s->device) - (int)f.sharedSizeBytes;
    if (bytes > most || (size_t)(blocks * a->n_heads) * sizeof *j.parts > room) return SAC_UNSUPPORTED;
    j.votes = a->votes, j.n = (int)a->n, j.before = (int)before, j.skip = a->skip, j.scale = a->scale;
    j.q = a->q.data, j.dtype = a->q.dtype, j.n_heads = a->n_heads, j.n_key_heads = p.n_heads;
    j.k = (const uint8_t *)p.k + tile0 * SAC_PACKED_TILE * p.head_dim / 2;
    j.k_scale = (const uint8_t *)p.k_scale + tile0 * RANGE_BYTES;
    j.k_min = (const uint8_t *)p.k_min + tile0 * RANGE_BYTES;
    j.capacity = p.capacity, j.pitch = (int)pitch;
    j.n_tiles = (int)ceil_div(before + a->n, SAC_PACKED_TILE);
    j.each = (int)(groups / blocks), j.more = (int)(groups % blocks);
    launch_plan plan = of_step({(unsigned)blocks, THREADS, (size_t)bytes, most});
    plan.together = true; /* a processor each: they wait for each other */
    return launch(s, plan, kernel, j);
}

} // namespace sac::packed::four_bits
