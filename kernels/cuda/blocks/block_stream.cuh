/* block_stream.cuh - one row of x against blocks that are read once: bound by memory, and not far from it by instructions.
 *
 * One wave of blocks. A block has a stretch of units: a tile of 16 rows of w, or two that are wanted together (gate and up,
 * the channels that rope turns together). The stretches of 256 elements of all its tiles are one list, which its warps
 * take by turns, so that each has its ring of stages in shared memory full from the first tile to the last. x lies in shared memory
 * once, normalised there where the job wants that. A unit's sums meet there too, in the order of the warps, while the
 * next unit's are made.
 *
 * Weights are asked for while the kernel before is still at work. */
#ifndef SAC_KERNELS_BLOCK_STREAM_CUH
#define SAC_KERNELS_BLOCK_STREAM_CUH

#include "block_product.cuh"
#include "half_weights.cuh"
#include "reduce.cuh"
#include "turn.cuh"
#include "x_rounding.cuh"

namespace sac::blocks {

/* Blocks on a processor, and most warps of each: registers are full then. Fewer warps, or more stages, were slower (a step of 28 layers,
 * W4 in groups of 128: 2.16 ms; 12 warps with three stages 2.18, 8 warps 2.33; H100). With fewer than STREAM_WARPS_LEAST
 * block_product.cuh's kernel is taken. */
enum { STREAM_BLOCKS = 2, STREAM_WARPS = 16, STREAM_WARPS_LEAST = 4, STREAM_STAGES = 2 };
template <typename F> struct stream_shape {
    enum {
        W_BYTES = F::CODES + F::HIGH + F::SCALES + F::MORE,
        RING = STREAM_STAGES * W_BYTES,
        /* more have not enough registers, or no room in shared memory */
        WARPS = F::HAS_MINIMUM || F::HIGH > 0 ? 8
                : RING > 8 << 10              ? 12
                                              : STREAM_WARPS
    };
};

/* What goes this way, of one row of x. Codes of four bits with a scale and a zero (AWQ, GPTQ, W4) gain by it: a step 2.42 -> 2.16 ms, gate and
 * up by it too. Bare products of types that take more registers or more bytes at a time do not: Q4_K, 8192 x 8192, 17.1 us by
 * block_product.cuh, 18.6 by this; FP8, 14 layers, 2.01 and 2.09 ms. But what they save is kernels: the norm, the rounding of x, rope and
 * store, each of which costs a step two or three us a layer. Of GGUF's types those of Q4_K_M and Q8_0 files have qkv_step. */
enum { STREAM_PRODUCTS = 1, STREAM_ROUNDED = 2, STREAM_GATES = 4, STREAM_QKV = 8, STREAM_ALL = 15 };
template <typename F> constexpr int streams = 0;
template <typename T> constexpr int streams<q4_k<T>> = STREAM_QKV;
template <typename T> constexpr int streams<q6_k<T>> = STREAM_QKV;
template <typename T> constexpr int streams<q8_0<T>> = STREAM_QKV;
template <typename T> constexpr int streams<c4_32<T>> = STREAM_ALL;
template <typename T> constexpr int streams<c4_64<T>> = STREAM_ALL;
template <typename T> constexpr int streams<c4_128<T>> = STREAM_ALL;
template <typename T> constexpr int streams<c8_128<T>> = STREAM_ROUNDED | STREAM_GATES | STREAM_QKV;
template <typename T> constexpr int streams<e4m3_128<T>> = STREAM_ROUNDED | STREAM_GATES | STREAM_QKV;

/* Columns up to which a product rounds x itself: every block does all of it, which is soon more than a kernel's start. */
enum { STREAM_ROUNDED_COLS = 8192 };

/* What every job has. */
struct stream_input {
    const void *x;     /* [k], 16-byte aligned */
    const float *norm; /* [k], or NULL: x is taken as it is */
    float eps;
    x_rounding rounding; /* behind the norm */
    int k, n_stretches, n_units;
    int x_bytes; /* in shared memory: whole stretches */
};

/* Which units a block has. Blocks lie one a processor first, then a second one on each: those of a processor come to as many
 * as those of the next. */
__device__ __forceinline__ int units_before(const stream_input &in, int more) {
    const int rounds = (int)gridDim.x / STREAM_BLOCKS, b = (int)blockIdx.x,
              at = gridDim.x % STREAM_BLOCKS ? b : b % rounds * STREAM_BLOCKS + b / rounds;
    return (int)((int64_t)(at + more) * in.n_units / gridDim.x);
}

/* Parts some stretches on. */
template <typename F> __device__ __forceinline__ void move_parts(block_parts &p, int stretches) {
    p.part[SAC_BLOCK_CODES] += stretches * F::CODES;
    if (F::HIGH) p.part[SAC_BLOCK_HIGH] += stretches * F::HIGH;
    p.part[SAC_BLOCK_SCALES] += stretches * F::SCALES;
    if (F::MORE) p.part[SAC_BLOCK_MORE] += stretches * F::MORE;
}

/* Rounds x where it lies, as rounded_rows.cu would. Each thread has the elements that it wrote; of groups half a warp
 * has every so manyth. */
template <typename T> __device__ __forceinline__ void round_x(const stream_input &in, T *x, uint32_t *part) {
    const sac_x_rounding how = in.rounding.how;
    const bool is_int8 = rounds_to_int8(how);
    if (how == SAC_X_FP8_GROUPS) {
        const int group = in.rounding.group, of = threadIdx.x / 16, step = (int)blockDim.x / 16 * group;
        const uint32_t lanes = 0xffffu << (threadIdx.x & 16);
        __syncthreads();
        for (int from = of * group; from < in.k; from += step) {
            const int first = from + threadIdx.x % 16 * 8, end = min(from + group, in.k);
            uint32_t largest = 0;
            float e[8];
            for (int i = first; i < end; i += 128) {
                unpack_eight(*(const uint4 *)(x + i), e, T());
#pragma unroll
                for (int j = 0; j < 8; j++) largest = max(largest, magnitude(e[j]));
            }
            __syncwarp(lanes);
            const float scale = scale_of(__reduce_max_sync(lanes, largest), false);
            for (int i = first; i < end; i += 128) {
                unpack_eight(*(const uint4 *)(x + i), e, T());
#pragma unroll
                for (int j = 0; j < 8; j++) e[j] = rounded(e[j], scale, false);
                store<8>(x + i, e);
            }
        }
        return;
    }
    const int at = threadIdx.x * 8, step = (int)blockDim.x * 8;
    float e[8], scale = in.rounding.scale;
    if (!is_static(how)) {
        uint32_t largest = 0;
        for (int i = at; i < in.k; i += step) {
            unpack_eight(*(const uint4 *)(x + i), e, T());
#pragma unroll
            for (int j = 0; j < 8; j++) largest = max(largest, magnitude(e[j]));
        }
        scale = scale_of(block_largest(largest, part), is_int8);
    }
    for (int i = at; i < in.k; i += step) {
        unpack_eight(*(const uint4 *)(x + i), e, T());
#pragma unroll
        for (int j = 0; j < 8; j++) e[j] = rounded(e[j], scale, is_int8);
        store<8>(x + i, e);
    }
}

/* x to shared memory, zeros behind it; normalised and rounded to T as the op alone would. Factors of the norm are asked for
 * while the kernel before is still at work. */
template <typename T> __device__ __forceinline__ void take_x(const stream_input &in, T *x, float *part) {
    const int at = threadIdx.x * 8, step = (int)blockDim.x * 8, end = in.x_bytes / 2;
    const T *from = (const T *)in.x;
    float g[8], e[8], sum = 0;
    if (in.norm && at < in.k) load<8>(g, in.norm + at);
    wait_for_last();
    for (int i = at; i < end; i += step) {
        const uint4 v = i < in.k ? *(const uint4 *)(from + i) : make_uint4(0, 0, 0, 0);
        *(uint4 *)(x + i) = v;
        if (!in.norm) continue;
        unpack_eight(v, e, T());
#pragma unroll
        for (int j = 0; j < 8; j++) sum += e[j] * e[j];
    }
    if (!in.norm) return;
    const float scale = 1.0f / sqrtf(block_sum(sum, part) / (float)in.k + in.eps);
    for (int i = at; i < in.k; i += step) {
        if (i > at) load<8>(g, in.norm + i);
        unpack_eight(*(const uint4 *)(x + i), e, T());
#pragma unroll
        for (int j = 0; j < 8; j++) e[j] = e[j] * scale * g[j];
        store<8>(x + i, e);
    }
}

/* JOB has TILES, of a unit: every warp has a tile of each; tile(unit, i): its parts; is_flat(): whether tiles of neighbouring units
 * lie behind one another; finish<T>(unit, row, sums[TILES]) for each of its rows, row < 16. */
template <typename F, typename JOB>
static __global__ void __launch_bounds__(32 * stream_shape<F>::WARPS, STREAM_BLOCKS)
    stream_kernel(const stream_input in, const JOB job) {
    typedef typename F::T T;
    enum { W_BYTES = stream_shape<F>::W_BYTES, STAGES = STREAM_STAGES, TILES = JOB::TILES };
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ float part[32];
    __shared__ uint32_t largest[32];
    __shared__ float sums[2][STREAM_WARPS][TILE]; /* of a unit and of the one after it */
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32,
              mine = warp % TILES, every = n_warps / TILES;
    const int first = units_before(in, 0), n = units_before(in, 1) - first;
    uint8_t *ring = shared + in.x_bytes + warp * (STAGES * W_BYTES);

    /* the next stretch of this warp to ask for */
    int unit = 0, stretch = warp / TILES;
    block_parts next = job.tile(first, mine);
    move_parts<F>(next, stretch);
    auto ask = [&](int stage) {
        while (stretch >= in.n_stretches) {
            stretch -= in.n_stretches, unit++;
            if (!job.is_flat() && unit < n) {
                next = job.tile(first + unit, mine);
                move_parts<F>(next, stretch);
            }
        }
        if (unit < n) ask_tile<F>(ring + stage * W_BYTES, next, 0);
        copy_commit();
        stretch += every;
        move_parts<F>(next, every);
    };
#pragma unroll
    for (int i = 0; i + 1 < STAGES; i++) ask(i);
    start_next();
    take_x(in, (T *)shared, part);
    if constexpr ((streams<F> & STREAM_ROUNDED) != 0)
        if (in.rounding.how != SAC_X_EXACT) round_x(in, (T *)shared, largest);
    __syncthreads();

    const uint8_t *x = shared + 8 * (lane % 4);
    int at = warp / TILES, stage = 0, free_stage = STAGES - 1;
    for (int u = 0; u < n; u++) {
        float y[1][4] = {};
        for (; at < in.n_stretches; at += every) {
            ask(free_stage);
            copy_wait<STAGES - 1>();
            __syncwarp();
            const uint8_t *const rows[1] = {x + at * (2 * STRETCH)};
            add_tile<F, 1, true>(y, ring + stage * W_BYTES, rows);
            __syncwarp();
            free_stage = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        at -= in.n_stretches;
        if (lane % 4 == 0) {
            sums[u % 2][warp][lane / 4] = y[0][0];
            sums[u % 2][warp][lane / 4 + 8] = y[0][2];
        }
        __syncthreads();
        if (warp == u % n_warps && lane < TILE) {
            float sum[TILES] = {};
            for (int w = 0; w < n_warps; w += TILES)
#pragma unroll
                for (int i = 0; i < TILES; i++) sum[i] += sums[u % 2][w + i][lane];
            job.template finish<T>(first + u, lane, sum);
        }
    }
}

/* UNSUPPORTED where x leaves no room for a few warps' rings. */
template <typename F, typename JOB>
static sac_status run_stream(const sac_stream *s, stream_input in, const JOB &job) {
    enum { RING = stream_shape<F>::RING, DECLARED = 4 << 10 };
    const int most = (block_shared_bytes(s->device) + 1024) / STREAM_BLOCKS - 1024 - DECLARED;
    in.x_bytes = in.n_stretches * 2 * STRETCH;
    const int n_warps =
        (int)min_of((int)stream_shape<F>::WARPS, (most - in.x_bytes) / RING) / JOB::TILES * JOB::TILES;
    if (in.x_bytes > most || n_warps < STREAM_WARPS_LEAST || !in.n_units) return SAC_UNSUPPORTED;
    const int64_t n_blocks = min_of((int64_t)in.n_units, (int64_t)s->device->n_processors * STREAM_BLOCKS);
    launch_plan p = of_step(
        {dim3((unsigned)n_blocks), dim3(32u * (unsigned)n_warps), (size_t)(in.x_bytes + n_warps * RING)});
    p.shared_limit = most;
    return launch(s, p, stream_kernel<F, JOB>, in, job);
}

/* ---------------------------------------------------------------- jobs */

/* Products; a unit is a tile of any of them. */
struct product_tiles {
    enum { TILES = 1 };
    product_job job; /* first_block: first unit */

    __device__ bool is_flat(void) const { return job.n_parts == 1; }
    __device__ bool is_second(int) const { return false; }

    __device__ const product_part &part_of(int unit) const {
        int of = 0;
        while (of + 1 < job.n_parts && unit >= job.part[of + 1].first_block) of++;
        return job.part[of];
    }
    __device__ block_parts tile(int unit, int) const {
        const product_part &p = part_of(unit);
        return parts_at(p.w, p.layout, unit - p.first_block, 0);
    }
    template <typename T> __device__ void finish(int unit, int row, const float sum[TILES]) const {
        const product_part &p = part_of(unit);
        const int64_t col = (int64_t)(unit - p.first_block) * TILE + row;
        if (col < p.y.cols) blocks::finish(job, p, col, 0, sum[0]);
    }
};

/* A tile of the gate and the same one of up. */
struct gate_up_pairs {
    enum { TILES = 2 };
    product_job job;

    __device__ bool is_flat(void) const { return true; }
    __device__ bool is_second(int) const { return false; }

    __device__ block_parts tile(int unit, int i) const {
        return parts_at(job.part[i].w, job.part[i].layout, unit, 0);
    }
    template <typename T> __device__ void finish(int unit, int row, const float sum[TILES]) const {
        const int64_t col = (int64_t)unit * TILE + row;
        if (col < job.part[0].y.cols) finish_gated<T>(job.part[0], col, 0, sum[0], sum[1]);
    }
};

/* Which matrix a head is of, and which of its heads it is: heads of q, then of k, then of v. */
__device__ __forceinline__ int matrix_of(const qkv_product &j, int &head) {
    int m = 0;
    while (m < 2 && head >= j.heads[m]) head -= j.heads[m++];
    return m;
}
/* Where an output goes, and how many before the head's first are there. */
__device__ __forceinline__ void *place_of(const qkv_product &j, int m, int head, int64_t &at) {
    at = m == 0 ? (int64_t)head * j.head_dim : j.row_at + head * j.head_stride;
    return m == 0 ? j.q : m == 1 ? j.k : j.v;
}

/* Queries, keys and values of heads whose halves are turned with each other; a unit is a tile in a head's first half and the one that it is
 * turned with. Position and table come by upload. */
struct qkv_pairs {
    enum { TILES = 2 };
    qkv_product job;

    __device__ bool is_flat(void) const { return false; }
    __device__ bool is_second(int unit) const {
        int head = unit / (job.head_dim / (2 * TILE));
        return job.second >> matrix_of(job, head) & 1;
    }

    /* Which matrix, which head of it, and the channel where the unit begins. */
    __device__ int place(int unit, int &head, int &channel) const {
        const int tiles = job.head_dim / (2 * TILE);
        head = unit / tiles, channel = (unit - head * tiles) * TILE;
        return matrix_of(job, head);
    }
    __device__ block_parts tile(int unit, int i) const {
        int head, channel;
        const int m = place(unit, head, channel);
        return parts_at(job.w[m], job.layout[m],
                        (head * job.head_dim + channel + i * (job.head_dim / 2)) / TILE, 0);
    }
    template <typename T> __device__ void finish(int unit, int row, const float sum[TILES]) const {
        int head, channel;
        const int m = place(unit, head, channel), half = job.head_dim / 2;
        channel += row;
        float x = sum[0], y = sum[1];
        if (const float *b = job.bias[m])
            x += b[head * job.head_dim + channel], y += b[head * job.head_dim + channel + half];
        if (m < 2) {
            const float *cs = job.cos_sin + ((int64_t)job.pos[0] * half + channel) * 2;
            turn(cs[0], cs[1], x, y);
        }
        int64_t at;
        void *to = place_of(job, m, head, at);
        store_any(job.out, to, at + channel, x);
        store_any(job.out, to, at + channel + half, y);
    }
};

/* The same where neighbours are turned with each other, which a tile has both. */
struct qkv_tiles {
    enum { TILES = 1 };
    qkv_product job;

    __device__ bool is_flat(void) const { return false; }
    __device__ bool is_second(int unit) const {
        int head = unit / (job.head_dim / TILE);
        return job.second >> matrix_of(job, head) & 1;
    }
    __device__ int place(int unit, int &head, int &channel) const {
        const int tiles = job.head_dim / TILE;
        head = unit / tiles, channel = (unit - head * tiles) * TILE;
        return matrix_of(job, head);
    }
    __device__ block_parts tile(int unit, int) const {
        int head, channel;
        const int m = place(unit, head, channel);
        return parts_at(job.w[m], job.layout[m], (head * job.head_dim + channel) / TILE, 0);
    }
    /* By lanes 0 to 15. */
    template <typename T> __device__ void finish(int unit, int row, const float sum[TILES]) const {
        int head, channel;
        const int m = place(unit, head, channel);
        channel += row;
        float x = sum[0];
        if (const float *b = job.bias[m]) x += b[head * job.head_dim + channel];
        const float other = __shfl_xor_sync(0xffffu, x, 1);
        if (m < 2) {
            const float *cs = job.cos_sin + (int64_t)job.pos[0] * job.head_dim + channel / 2 * 2;
            x = channel % 2 ? x * cs[0] + other * cs[1] : x * cs[0] - other * cs[1];
        }
        int64_t at;
        void *to = place_of(job, m, head, at);
        store_any(job.out, to, at + channel, x);
    }
};

/* A row of a product, and of its units as many as it has tiles. */
static inline stream_input input_of(const product_job &j) {
    return {j.x.data, j.norm, j.eps, j.rounding, (int)j.x.cols, (int)j.part[0].layout.n_stretches, 0, 0};
}
static inline product_tiles tiles_of(const product_job &j, stream_input &in) {
    product_tiles tiles = {j};
    for (int i = 0; i < j.n_parts; i++) {
        tiles.job.part[i].first_block = in.n_units;
        in.n_units += (int)ceil_div(j.part[i].y.cols, TILE);
    }
    return tiles;
}
static inline stream_input input_of(const qkv_product &j) {
    const int n_heads = j.heads[0] + j.heads[1] + j.heads[2], unit = j.interleaved ? TILE : 2 * TILE;
    return {
        j.x, j.norm, j.eps, j.rounding, j.n_cols, (int)j.layout[0].n_stretches, n_heads * j.head_dim / unit,
        0};
}
/* UNSUPPORTED where the job does not go this way. */
template <typename F> static sac_status stream_product(const sac_stream *s, const product_job &j) {
    const bool rounds = j.rounding.how != SAC_X_EXACT;
    const int k = (int)j.x.cols;
    stream_input in = input_of(j);
    if (j.x.rows != 1 || (rounds && !(streams<F> & STREAM_ROUNDED))) return SAC_UNSUPPORTED;
    if (j.gated) {
        in.n_units = (int)ceil_div(j.part[0].y.cols, TILE);
        if constexpr ((streams<F> & STREAM_GATES) != 0)
            if (j.norm || streams<F> & STREAM_PRODUCTS) return run_stream<F>(s, in, gate_up_pairs{j});
        return SAC_UNSUPPORTED;
    }
    if constexpr ((streams<F> & (STREAM_PRODUCTS | STREAM_ROUNDED)) != 0)
        if (streams<F> & STREAM_PRODUCTS || (rounds && k <= STREAM_ROUNDED_COLS)) {
            const product_tiles tiles = tiles_of(j, in);
            return run_stream<F>(s, in, tiles);
        }
    return SAC_UNSUPPORTED;
}
template <typename F> static bool may_stream(const sac_stream *s) {
    return streams<F> == STREAM_ALL || !s->device->no_wide_streams;
}
/* UNSUPPORTED where the job does not go this way. */
template <typename F> static sac_status stream_qkv(const sac_stream *s, const qkv_product &j) {
    if constexpr ((streams<F> & STREAM_QKV) != 0) {
        if (!may_stream<F>(s) || (j.rounding.how != SAC_X_EXACT && !(streams<F> & STREAM_ROUNDED)))
            return SAC_UNSUPPORTED;
        return j.interleaved ? run_stream<F>(s, input_of(j), qkv_tiles{j})
                             : run_stream<F>(s, input_of(j), qkv_pairs{j});
    }
    return SAC_UNSUPPORTED;
}

} // namespace sac::blocks

#endif
