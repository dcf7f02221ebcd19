/* few_e4m3.cu - up to 64 rows of x with FP8 weights of a checkpoint that has x rounded to FP8 as well: bound by reading the
 * weights once.
 *
 * A small kernel rounds x first (linear_e4m3.cu), to codes as f16 and scales. Codes of both sides are exact in f16, so tensor
 * cores sum what the reference multiplies; sums of 128 elements are in f32 and then scaled.
 *
 * Work is in units: 128 elements of 256 rows of w, two tiles of 16 for each of eight warps, with x's 128 elements in shared
 * memory for all of them. Units of all groups of 256 rows are one list, of which every block, one a processor, has an equal
 * stretch, so that no processor is idle at the end, whatever the shape. A group that lies in several blocks' stretches has its
 * sums joined in scratch by the block that comes last, in the order of the blocks.
 *
 * For up to 16 rows a block leaves room for one of the next kernel, which asks for its first weights while this one ends. */
#include "e4m3_rows.cuh"
#include "e4m3_units.cuh"

namespace sac::blocks {

template <int ROWS> struct few_shape {
    enum {
        COLUMNS = ROWS / 8,
        ROW = 2 * UNIT + 32, /* of x in shared memory: four rows are on banks of their own */
        STAGE = E4M3_W_BYTES + ROWS * ROW + 4 * ROWS,
        STAGES = ROWS <= 16 ? 3 : 4,
        BYTES = STAGES * STAGE,
        SUMS = E4M3_TILES * COLUMNS * E4M3_THREADS * 4 /* floats of a block */
    };
    static_assert(STAGE % 16 == 0, "");
};

struct few_job {
    product_job p;   /* first_block: first group; x.rows: rows */
    const half *x;   /* [rows][k], codes as e4m3_rows.cuh orders them */
    const float *sx; /* [rows], or [units of k][rows] */
    float *sums;     /* two a block */
    unsigned *counters;
    int k, n_units, total; /* units of a group, of all */
};

template <int ROWS, bool GATED> struct few_warp {
    typedef few_shape<ROWS> S;
    const few_job &j;

    /* A tile of a group: of which part, and which tile of it; may be behind the last. */
    __device__ __forceinline__ int tile(int group, int i, int &part) const {
        const int warp = threadIdx.x / 32;
        part = GATED ? i : 0;
        if constexpr (GATED) {
            return group * E4M3_WARPS + warp;
        } else {
            while (part + 1 < j.p.n_parts && group >= j.p.part[part + 1].first_block) part++;
            return (group - j.p.part[part].first_block) * (E4M3_WARPS * E4M3_TILES) + warp * E4M3_TILES + i;
        }
    }
    /* Those of a warp, for its rows' stretch 0. */
    __device__ __forceinline__ void find(int group, block_parts b[E4M3_TILES]) const {
#pragma unroll
        for (int i = 0; i < E4M3_TILES; i++) {
            int part;
            const int at = tile(group, i, part), last = (int)((j.p.part[part].y.cols - 1) / TILE);
            b[i] = parts_at(j.p.part[part].w, j.p.part[part].layout, min(at, last), 0);
        }
    }
    __device__ __forceinline__ void ask_x(uint8_t *stage, int unit, bool by_units) const {
        uint8_t *to = stage + E4M3_W_BYTES;
        const int n_rows = (int)j.p.x.rows;
        for (int i = threadIdx.x; i < n_rows * 16; i += E4M3_THREADS) {
            const int row = i / 16, at = unit * UNIT + i % 16 * 8;
            copy_async(to + row * S::ROW + i % 16 * 16, j.x + (int64_t)row * j.k + at, at < j.k);
        }
        if (by_units && (int)threadIdx.x < n_rows)
            copy_async_word(to + ROWS * S::ROW + threadIdx.x * 4, j.sx + (int64_t)unit * n_rows + threadIdx.x,
                            4);
    }
};

/* Adds a unit to sums of rows g and g + 8 of both tiles with rows 2t and 2t + 1 of x's columns. */
template <int ROWS, bool BY_UNITS>
__device__ __forceinline__ void add_unit(float y[E4M3_TILES][ROWS / 8][4], const uint8_t *stage, int n_rows) {
    typedef few_shape<ROWS> S;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const uint8_t *w = stage + warp * (E4M3_TILES * E4M3_TILE_BYTES), *x = stage + E4M3_W_BYTES;
    const float *sx = (const float *)(x + ROWS * S::ROW);
    float sum[E4M3_TILES][S::COLUMNS][4] = {};
#pragma unroll
    for (int c = 0; c < UNIT / SAC_BLOCK_CHUNK; c++) {
        uint4 codes[E4M3_TILES][2];
#pragma unroll
        for (int i = 0; i < E4M3_TILES; i++)
#pragma unroll
            for (int half = 0; half < 2; half++)
                codes[i][half] = *(const uint4 *)(w + i * E4M3_TILE_BYTES + (half * 2 + c) * 512 + lane * 16);
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            uint32_t a[E4M3_TILES][4];
#pragma unroll
            for (int i = 0; i < E4M3_TILES; i++) {
                e4m3_pairs(word_of(codes[i][0], step), a[i][0], a[i][2]);
                e4m3_pairs(word_of(codes[i][1], step), a[i][1], a[i][3]);
            }
#pragma unroll
            for (int n = 0; n < S::COLUMNS; n++) {
                /* rows that are not there are the last one: nobody takes their sums */
                const uint2 b = *(const uint2 *)(x + min(8 * n + g, n_rows - 1) * S::ROW +
                                                 2 * (c * SAC_BLOCK_CHUNK + step * 16 + 4 * t));
#pragma unroll
                for (int i = 0; i < E4M3_TILES; i++)
                    mma<half>(sum[i][n], a[i][0], a[i][1], a[i][2], a[i][3], b.x, b.y);
            }
        }
    }
#pragma unroll
    for (int i = 0; i < E4M3_TILES; i++) {
        const float *words = (const float *)(w + i * E4M3_TILE_BYTES + TILE_CODES);
        const float d[2] = {words[g], words[g + 8]};
#pragma unroll
        for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const float scale =
                    BY_UNITS ? d[e / 2] * sx[min(8 * n + 2 * t + e % 2, n_rows - 1)] : d[e / 2];
                y[i][n][e] = fmaf(scale, sum[i][n][e], y[i][n][e]);
            }
    }
}

template <int ROWS, bool GATED, bool BY_UNITS>
static __global__ void __launch_bounds__(E4M3_THREADS, ROWS <= 16 ? 2 : 1) few_kernel(const few_job j) {
    typedef few_shape<ROWS> S;
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ bool is_last;
    const few_warp<ROWS, GATED> warp = {j};
    const int n_rows = (int)j.p.x.rows, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int begin = (int)((int64_t)blockIdx.x * j.total / gridDim.x),
              end = (int)(((int64_t)blockIdx.x + 1) * j.total / gridDim.x);

    /* the next unit to ask for */
    int ask_group = begin / j.n_units, ask_unit = begin - ask_group * j.n_units, asked = begin;
    block_parts b[E4M3_TILES];
    warp.find(ask_group, b);
    auto ask = [&](bool of_w, bool of_x) {
        uint8_t *stage = shared + (asked - begin) % S::STAGES * S::STAGE;
        if (asked < end) {
            if (of_w) ask_unit_of_tiles(stage, b, ask_unit);
            if (of_x) warp.ask_x(stage, ask_unit, BY_UNITS);
        }
        asked++;
        if (++ask_unit == j.n_units) {
            ask_unit = 0, ask_group++;
            if (asked < end) warp.find(ask_group, b);
        }
    };
#pragma unroll 1
    for (int i = 0; i + 1 < S::STAGES; i++) ask(true, false);
    copy_commit();
    start_next();
    wait_for_last();
    asked = begin, ask_group = begin / j.n_units, ask_unit = begin - ask_group * j.n_units;
#pragma unroll 1
    for (int i = 0; i + 1 < S::STAGES; i++) {
        ask(false, true);
        copy_commit();
    }
    if (begin < end) warp.find(min(ask_group, (j.total - 1) / j.n_units), b);

    float y[E4M3_TILES][S::COLUMNS][4] = {};
    int group = begin / j.n_units, unit = begin - group * j.n_units, first_unit = unit;

    auto finish_all = [&]() {
#pragma unroll
        for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const int row = 8 * n + 2 * t + e % 2;
                if (row >= n_rows) continue;
                const float scale = BY_UNITS ? 1.0f : j.sx[row];
                int part;
                if constexpr (GATED) {
                    const product_part &p = j.p.part[0];
                    const int64_t col = (int64_t)warp.tile(group, 0, part) * TILE + g + e / 2 * 8;
                    if (col >= p.y.cols) continue;
                    if (p.y.dtype == SAC_DTYPE_F16)
                        finish_gated<half>(p, col, row, y[0][n][e] * scale, y[1][n][e] * scale);
                    else
                        finish_gated<bf16>(p, col, row, y[0][n][e] * scale, y[1][n][e] * scale);
                } else {
#pragma unroll
                    for (int i = 0; i < E4M3_TILES; i++) {
                        const int64_t col = (int64_t)warp.tile(group, i, part) * TILE + g + e / 2 * 8;
                        if (col < j.p.part[part].y.cols)
                            blocks::finish(j.p, j.p.part[part], col, row, y[i][n][e] * scale);
                    }
                }
            }
    };
    /* Of a group that other blocks have units of: the last one to come has the sums of all. */
    auto join = [&]() -> bool {
        const int first = block_of(group * j.n_units, j.total),
                  last = block_of(group * j.n_units + j.n_units - 1, j.total);
        float4 *to =
            (float4 *)(j.sums + (size_t)(2 * blockIdx.x + (first_unit == 0)) * S::SUMS) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < E4M3_TILES; i++)
#pragma unroll
            for (int n = 0; n < S::COLUMNS; n++)
                __stcg(to + (i * S::COLUMNS + n) * E4M3_THREADS,
                       make_float4(y[i][n][0], y[i][n][1], y[i][n][2], y[i][n][3]));
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            is_last = atomicAdd(&j.counters[first], 1u) == (unsigned)(last - first);
            if (is_last) j.counters[first] = 0;
            __threadfence();
        }
        __syncthreads();
        if (!is_last) return false;
#pragma unroll
        for (int i = 0; i < E4M3_TILES; i++)
#pragma unroll
            for (int n = 0; n < S::COLUMNS; n++) {
                float sum[4] = {};
                for (int of = first; of <= last; of++) {
                    const float4 *from =
                        (const float4 *)(j.sums + (size_t)(2 * of + (of == first)) * S::SUMS) + threadIdx.x;
                    const float4 v = __ldcg(from + (i * S::COLUMNS + n) * E4M3_THREADS);
                    sum[0] += v.x, sum[1] += v.y, sum[2] += v.z, sum[3] += v.w;
                }
#pragma unroll
                for (int e = 0; e < 4; e++) y[i][n][e] = sum[e];
            }
        return true;
    };

#pragma unroll 1
    for (int at = begin, stage = 0; at < end; at++) {
        copy_wait<S::STAGES - 2>();
        __syncthreads();
        ask(true, true);
        copy_commit();
        add_unit<ROWS, BY_UNITS>(y, shared + stage * S::STAGE, n_rows);
        stage = stage + 1 == S::STAGES ? 0 : stage + 1;
        if (++unit < j.n_units && at + 1 < end) continue;
        if ((first_unit == 0 && unit == j.n_units) || join()) finish_all();
#pragma unroll
        for (int i = 0; i < E4M3_TILES; i++)
#pragma unroll
            for (int n = 0; n < S::COLUMNS; n++)
#pragma unroll
                for (int e = 0; e < 4; e++) y[i][n][e] = 0;
        group++, unit = first_unit = 0;
    }
}

template <int ROWS, bool GATED, bool BY_UNITS> static sac_status run_few(const sac_stream *s, few_job j) {
    typedef few_shape<ROWS> S;
    const int tiles = GATED ? E4M3_WARPS : E4M3_WARPS * E4M3_TILES;
    int64_t n_groups = 0;
    if (S::BYTES > block_shared_bytes(s->device) - 64) return SAC_UNSUPPORTED;
    for (int i = 0; i < (GATED ? 1 : j.p.n_parts); i++) {
        j.p.part[i].first_block = (int)n_groups;
        n_groups += ceil_div(j.p.part[i].y.cols, tiles * TILE);
    }
    if (n_groups * j.n_units > INT32_MAX / 2) return SAC_UNSUPPORTED;
    j.total = (int)(n_groups * j.n_units);
    const int64_t blocks = min_of(j.total, s->device->n_processors);
    size_t room;
    uint8_t *rest = scratch_rest(s, &room);
    const size_t used = ((size_t)((uint8_t *)j.sums - rest) + 255) / 256 * 256;
    j.sums = (float *)(rest + used);
    if (used + (size_t)blocks * 2 * S::SUMS * sizeof(float) > room ||
        (size_t)blocks * 4 > SCRATCH_COUNTER_BYTES)
        return SAC_UNSUPPORTED;
    launch_plan p = of_step({dim3((unsigned)blocks), dim3(E4M3_THREADS), (size_t)S::BYTES});
    p.shared_limit = S::BYTES;
    return launch(s, p, few_kernel<ROWS, GATED, BY_UNITS>, j);
}
template <int ROWS> static sac_status run_few_rows(const sac_stream *s, const few_job &j, bool by_units) {
    if (j.p.gated) return by_units ? run_few<ROWS, true, true>(s, j) : run_few<ROWS, true, false>(s, j);
    return by_units ? run_few<ROWS, false, true>(s, j) : run_few<ROWS, false, false>(s, j);
}

bool takes_few_e4m3(const sac_stream *s, const sac_weight *w, sac_mat x) {
    const x_rounding r = rounding_of(w, x.cols);
    if (s->device->no_e4m3 || s->device->compute < 90 || w->tensor.dtype != SAC_DTYPE_E4M3_128 ||
        w->order.data)
        return false;
    if (x.rows < 1 || x.rows > MOST_E4M3_ROWS || !is_half(x.dtype) || !mat_aligned(x) ||
        x.cols > INT32_MAX / 2)
        return false;
    return r.how == SAC_X_FP8_GROUPS ? r.group == UNIT
                                     : r.how == SAC_X_FP8_ROWS || (r.how == SAC_X_FP8_STATIC && r.scale != 0);
}

sac_status few_e4m3(const sac_stream *s, const sac_weight *w, const product_job &p) {
    const int64_t m = p.x.rows, k = p.x.cols;
    const x_rounding r = rounding_of(w, k);
    const bool by_units = r.how == SAC_X_FP8_GROUPS;
    if (!takes_few_e4m3(s, w, p.x)) return SAC_UNSUPPORTED;
    const int64_t n_units = ceil_div(k, (int64_t)UNIT);
    size_t room;
    uint8_t *rest = scratch_rest(s, &room);
    const size_t codes = (size_t)ceil_div(2 * m * k, 256) * 256,
                 scales = (size_t)(4 * m * (by_units ? n_units : 1));
    if (codes + scales > room) return SAC_UNSUPPORTED;
    few_job j = {};
    j.p = p, j.x = (const half *)rest, j.sx = (const float *)(rest + codes),
    j.sums = (float *)(rest + codes + scales);
    j.counters = scratch_counters(s), j.k = (int)k, j.n_units = (int)n_units;
    const e4m3_rows_job rows = {
        p.x, rest, (float *)(rest + codes), r.how == SAC_X_FP8_STATIC ? r.scale : 0, by_units, true};
    SAC_TRY(e4m3_rows(s, rows));
    return m <= 8    ? run_few_rows<8>(s, j, by_units)
           : m <= 16 ? run_few_rows<16>(s, j, by_units)
           : m <= 32 ? run_few_rows<32>(s, j, by_units)
                     : run_few_rows<64>(s, j, by_units);
}

} // namespace sac::blocks
