/* stream_tiles.cuh - 2 to 8 rows of x against weights that are read once: bound by reading them.
 *
 * Weights go straight from memory into registers as the A of tensor-core products, 16 rows of them a tile;
 * x is B. Half a line of 128 bytes costs as much to ask for as a whole one, so the eight lanes of two
 * neighbouring rows ask for a line of the first, then for one of the second, and swap halves. A lane then has
 * 2 x 8 neighbours along k of its row, the k of four products: whatever a product calls them, both sides call
 * them the same.
 *
 * A block has a stretch of rows, as many as the next, and its warps either share them, or share k, or both
 * (`share` warps have the same rows): what costs least loads. Nothing is waited for on the way; the sums of
 * all warps meet in shared memory at the end, in the order of k. While the kernel before is still at work a
 * warp asks for its first weights.
 *
 * What a row of y is does not depend on how many others there are. */
#ifndef SAC_KERNELS_STREAM_TILES_CUH
#define SAC_KERNELS_STREAM_TILES_CUH

#include "half_weights.cuh"
#include "mma.cuh"

namespace sac::linear {

namespace stream_tiles {

enum { WARPS = 16, THREADS = WARPS * 32, STEP = 64 /* along k */, MOST_ROWS = 8 /* of x */ };
enum { PITCH = 20 /* floats of a column of sums, 16 rows of w */, MOST_TILES = 3 /* of a warp at a time */ };
enum { COLUMNS = 8 * PITCH + 16 /* floats of all: the next tile's begin on other banks */ };

typedef struct input {
    const void *x;
    int64_t stride; /* of its rows */
    int n_x, k, n_steps;
    int each, rest; /* units of a block at least; so many blocks have one more */
    int share, passes;
} input;

typedef struct span {
    int first, end;
} span;

/* Part i of n of what lies in `s`. */
__device__ __forceinline__ span part_of(span s, int i, int n) {
    int length = s.end - s.first;
    return span{s.first + length * i / n, s.first + length * (i + 1) / n};
}
__device__ __forceinline__ span units_of_block(const input &in) {
    int b = blockIdx.x, first = b * in.each + min(b, in.rest);
    return span{first, first + in.each + (b < in.rest)};
}
__device__ __forceinline__ span units_of_pass(const input &in, int stretch, int pass) {
    return part_of(part_of(units_of_block(in), stretch, WARPS / in.share), pass, in.passes);
}

/* The halves of a row's line: lanes of an even row and of the odd one behind it, four each, bring the first
 * half and the second half of both. */
__device__ __forceinline__ void take_word(uint32_t of0, uint32_t of1, bool is_odd, uint32_t &half0,
                                          uint32_t &half1) {
    uint32_t other = __shfl_xor_sync(0xffffffffu, is_odd ? of0 : of1, 4);
    half0 = is_odd ? other : of0;
    half1 = is_odd ? of1 : other;
}
__device__ __forceinline__ void take_line(const uint4 (&of)[2], bool is_odd, uint4 (&half)[2]) {
    take_word(of[0].x, of[1].x, is_odd, half[0].x, half[1].x);
    take_word(of[0].y, of[1].y, is_odd, half[0].y, half[1].y);
    take_word(of[0].z, of[1].z, is_odd, half[0].z, half[1].z);
    take_word(of[0].w, of[1].w, is_odd, half[0].w, half[1].w);
}

/* W: how weights are stored (half_weights.cuh). JOB has UNITS: units of a tile; rows(unit, g, last,
 * &first, &second): rows g and g + 8 of the tile that begins with a unit, as rows of w, none behind those
 * of the last; w(second): where their matrix begins; more(unit, m): what y holds before; finish(unit, m,
 * sum of the first row, of the second, more) with m a row of x. */
template <typename W, int TILES, typename JOB>
static __global__ void __launch_bounds__(THREADS, 1) kernel(input in, JOB job) {
    using T = typename W::number;
    constexpr int AHEAD = TILES == 1 ? 2 : 1; /* steps of weights on their way */
    constexpr int B_AHEAD = 2;                /* and of x */
    static_assert(B_AHEAD % AHEAD == 0, "");
    extern __shared__ float sums[]; /* [warp][pass][tile][COLUMNS] */
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, even = g & ~1;
    const bool is_odd = g % 2;
    int stretch = warp / in.share, first_step = warp % in.share;
    const int n = (in.n_steps - first_step + in.share - 1) / in.share,
              half = g % 2 * (STEP / 16) + t; /* of a line, in 16 bytes */
    start_next();

    /* where rows g and g + 8 of a tile, or rather the even one's and the odd one's, begin in w: 16 bytes */
    uint32_t at[TILES][2][2];
    auto begin_pass = [&](int pass) {
        span units = units_of_pass(in, stretch, pass);
#pragma unroll
        for (int i = 0; i < TILES; i++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++) {
                int row[2];
                job.rows(units.first + i * JOB::UNITS, even + odd, max(units.end - 1, 0), row[0], row[1]);
#pragma unroll
                for (int r = 0; r < 2; r++) at[i][r][odd] = (uint32_t)row[r] * (uint32_t)(in.k / 8);
            }
    };
    uint4 a[AHEAD][TILES][2][2], b[B_AHEAD][2];
    int a_step = first_step, b_step = first_step, pass = 0;
    /* Of tile i; behind the last tile's the step is the next. */
    auto fetch_a = [&](uint4(&to)[2][2], int i) {
        int col = a_step * (STEP / 8) + half;
        bool valid = col < in.k / 8;
#pragma unroll
        for (int r = 0; r < 2; r++)
#pragma unroll
            for (int odd = 0; odd < 2; odd++)
                to[r][odd] = W::load(valid ? (const typename W::share *)job.w(r) + at[i][r][odd] + col
                                           : &weights::zero_line);
        if (i == TILES - 1 && (a_step += in.share) >= in.n_steps)
            a_step = first_step, begin_pass(min(++pass, in.passes - 1));
    };
    const T *x[2]; /* rows of x, the last one's in place of those that there are not */
#pragma unroll
    for (int odd = 0; odd < 2; odd++) x[odd] = (const T *)in.x + min(even + odd, in.n_x - 1) * in.stride;
    auto fetch_b = [&](uint4(&to)[2]) {
        int col = b_step * STEP + half * 8;
#pragma unroll
        for (int odd = 0; odd < 2; odd++)
            to[odd] = *(const uint4 *)(col < in.k ? x[odd] + col : (const T *)&weights::zero_line);
        if ((b_step += in.share) >= in.n_steps) b_step = first_step;
    };
    begin_pass(0);
    int left = in.passes * n;
#pragma unroll
    for (int u = 0; u < AHEAD; u++)
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            a[u][i][0][0] = a[u][i][0][1] = a[u][i][1][0] = a[u][i][1][1] = make_uint4(0, 0, 0, 0);
            if (u < left) fetch_a(a[u][i], i);
        }
    wait_for_last();
#pragma unroll
    for (int u = 0; u < B_AHEAD; u++) {
        b[u][0] = b[u][1] = make_uint4(0, 0, 0, 0);
        if (u < left) fetch_b(b[u]);
    }

    /* A thread finishes the sums of a unit and a row of x, then of the next THREADS. */
    const int n_slots = WARPS / in.share * in.passes * TILES * JOB::UNITS;
    auto unit_of = [&](int slot, int &index) {
        int place = slot / JOB::UNITS, tile = place % TILES, of_pass = place / TILES;
        int of_stretch = of_pass / in.passes, in_stretch = of_pass % in.passes;
        span units = units_of_pass(in, of_stretch, in_stretch);
        int unit = units.first + tile * JOB::UNITS + slot % JOB::UNITS;
        index = (of_stretch * in.share * in.passes + in_stretch) * TILES + tile;
        return unit < units.end ? unit : -1; /* none */
    };
    int index, unit = unit_of(threadIdx.x % n_slots, index), m = threadIdx.x / n_slots;
    float more = unit >= 0 && m < in.n_x ? job.more(unit, m) : 0;

    float acc[TILES][4] = {};
    float *to = sums + (warp * in.passes * TILES) * COLUMNS + 2 * t * PITCH + g;
    int done = 0;
    /* All slots are added, those behind the end to sums that nobody takes: see stream_pairs.cuh. */
#pragma unroll 1
    for (; left > 0; left -= B_AHEAD) {
#pragma unroll
        for (int u = 0; u < B_AHEAD; u++) {
            uint4 y[2];
            take_line(b[u], is_odd, y);
            if (u + B_AHEAD < left) fetch_b(b[u]);
#pragma unroll
            for (int i = 0; i < TILES; i++) {
                uint4 first[2], second[2];
                take_line(a[u % AHEAD][i][0], is_odd, first);
                take_line(a[u % AHEAD][i][1], is_odd, second);
                if (u + AHEAD < left) fetch_a(a[u % AHEAD][i], i);
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    mma<T>(acc[i], first[h].x, second[h].x, first[h].y, second[h].y, y[h].x, y[h].y);
                    mma<T>(acc[i], first[h].z, second[h].z, first[h].w, second[h].w, y[h].z, y[h].w);
                }
            }
            if (u < left && ++done == n) {
                done = 0;
#pragma unroll
                for (int i = 0; i < TILES; i++, to += COLUMNS)
#pragma unroll
                    for (int c = 0; c < 4; c++) {
                        to[c % 2 * PITCH + c / 2 * 8] = acc[i][c];
                        acc[i][c] = 0;
                    }
            }
        }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < n_slots * in.n_x; i += THREADS) {
        if (i != (int)threadIdx.x) {
            unit = unit_of(i % n_slots, index), m = i / n_slots;
            if (unit >= 0) more = job.more(unit, m);
        }
        if (unit < 0) continue;
        const float *from = sums + index * COLUMNS + m * PITCH + i % n_slots % JOB::UNITS;
        float sum[2] = {0, 0};
        for (int w = 0; w < in.share; w++, from += in.passes * TILES * COLUMNS)
            sum[0] += from[0], sum[1] += JOB::UNITS == 8 ? from[8] : 0;
        job.finish(unit, m, sum[0], sum[1], more);
    }
}

typedef struct plan {
    int share, tiles, passes, bytes;
} plan;

/* Which way takes the fewest loads; tiles 0 where none fits. */
static inline plan find_plan(int units, int of_tile, int n_steps, int most_bytes) {
    plan best = {};
    int64_t least = 0;
    for (int share = 1; share <= WARPS && share <= n_steps; share *= 2)
        for (int tiles = 1; tiles <= MOST_TILES; tiles++) {
            int passes = (int)ceil_div(ceil_div(units, WARPS / share), tiles * of_tile);
            int64_t bytes = (int64_t)WARPS * passes * tiles * COLUMNS * (int64_t)sizeof(float);
            int64_t loads = ceil_div(n_steps, share) * passes * (2 * tiles + 1); /* pairs */
            if (bytes > most_bytes || (best.tiles && loads > least)) continue;
            if (best.tiles && loads == least && bytes >= best.bytes) continue;
            best = plan{share, tiles, passes, (int)bytes}, least = loads;
        }
    return best;
}

/* Whether x and a matrix of n_units rows lie on 16 bytes, and w is not too long to be counted in them. */
static inline bool fits(sac_mat x, const void *w, int64_t n_units) {
    return x.rows >= 2 && x.rows <= MOST_ROWS && x.cols >= 8 && mat_aligned(x) && x.cols < 1 << 24 &&
           (uintptr_t)w % 16 == 0 && n_units >= 1 && n_units < 1 << 28 && n_units < UINT32_MAX / (x.cols / 8);
}

/* For arguments that fit: a block a processor, or more blocks where the sums of so few do not fit. */
template <typename W, typename JOB>
static sac_status run(const sac_stream *s, sac_mat x, int64_t n_units, const JOB &job) {
    int64_t k = x.cols;
    int most = block_shared_bytes(s->device) - (1 << 10);
    int64_t blocks = min_of(n_units, s->device->n_processors);
    plan p = {};
    for (;; blocks *= 2) {
        p = find_plan((int)ceil_div(n_units, blocks), JOB::UNITS, (int)ceil_div(k, STEP), most);
        if (p.tiles) break;
    }
    input in = {x.data,
                x.stride,
                (int)x.rows,
                (int)k,
                (int)ceil_div(k, STEP),
                (int)(n_units / blocks),
                (int)(n_units % blocks),
                p.share,
                p.passes};
    auto chosen = p.tiles == 1 ? kernel<W, 1, JOB> : p.tiles == 2 ? kernel<W, 2, JOB> : kernel<W, 3, JOB>;
    launch_plan how = {(unsigned)blocks, THREADS, (size_t)p.bytes, most, TILES_CARVEOUT};
    return launch(s, early(how), chosen, in, job);
}

} // namespace stream_tiles

} // namespace sac::linear

#endif
