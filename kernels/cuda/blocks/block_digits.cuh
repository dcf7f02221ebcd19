/* block_digits.cuh - one row of x against Q4_K, Q6_K and Q8_0 by digit_products.cuh: bound by memory.
 *
 * Work is shared out as in block_stream.cuh. A step of Llama-3.1-8B's shape in Q4_K_M took 2.04 ms on an H200 with blocks of which two and
 * no more fit a processor. Where registers left room for a third one, of the next kernel, it took 2.23 ms, with room for a fourth 2.4 and
 * more: they come early, but maybe unevenly. Weights asked into the L2 cache before the kernel before was through: 2.12 ms. Two blocks of
 * twelve warps, with that: 2.07. */
#ifndef SAC_KERNELS_BLOCK_DIGITS_CUH
#define SAC_KERNELS_BLOCK_DIGITS_CUH

#include "digit_products.cuh"

namespace sac::blocks {

/* Blocks of a processor, warps of each, stages of a ring; registers are at most those of so many warps of a block. With fewer than
 * DIGIT_WARPS_LEAST block_product.cuh's kernel is taken. */
enum { DIGIT_BLOCKS = 2, DIGIT_WARPS = 8, DIGIT_WARPS_LEAST = 6, DIGIT_STAGES = 2, DIGIT_REGISTERS = 10 };

/* Units before a block, or before the one after it, as units_before(); their number times blocks is below 2^32. */
__device__ __forceinline__ int digit_units_before(const stream_input &in, int more) {
    const int rounds = (int)gridDim.x / DIGIT_BLOCKS, b = (int)blockIdx.x;
    int at = b;
    if (gridDim.x % DIGIT_BLOCKS == 0) at = b < rounds ? b * DIGIT_BLOCKS : (b - rounds) * DIGIT_BLOCKS + 1;
    return (int)((uint32_t)(at + more) * (uint32_t)in.n_units / gridDim.x);
}
static_assert(DIGIT_BLOCKS == 2, "as digit_units_before() has it");

template <typename F, typename G> constexpr int digit_stage(void) {
    constexpr int f = stream_shape<F>::W_BYTES, g = stream_shape<G>::W_BYTES;
    return f > g ? f : g;
}

/* As stream_kernel. Units for which the job says is_second() are G's, the others F's. */
template <typename F, typename G, typename JOB>
static __global__ void __launch_bounds__(32 * DIGIT_REGISTERS, DIGIT_BLOCKS)
    digits_kernel(const stream_input in, const JOB job) {
    typedef typename F::T T;
    enum { STAGE = digit_stage<F, G>(), STAGES = DIGIT_STAGES, TILES = JOB::TILES };
    constexpr bool IS_MIXED = !__is_same(F, G);
    static_assert(digits_of<F>::SUMS == digits_of<G>::SUMS, "x is made ready for both");
    extern __shared__ __align__(16) uint8_t shared[];
    __shared__ float part[32];
    __shared__ float sums[2][DIGIT_WARPS][TILE]; /* of a unit and of the one after it */
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warps = blockDim.x / 32,
              mine = warp % TILES, every = n_warps / TILES;
    const int first = digit_units_before(in, 0), n = digit_units_before(in, 1) - first;
    uint8_t *ring = shared + in.x_bytes + warp * (STAGES * STAGE);

    int unit = 0, stretch = warp / TILES;
    block_parts next = job.tile(first, mine);
    bool is_second = IS_MIXED && job.is_second(first);
    auto move = [&](int by) {
        if (is_second)
            move_parts<G>(next, by);
        else
            move_parts<F>(next, by);
    };
    auto ask = [&](int stage) {
        while (stretch >= in.n_stretches) {
            stretch -= in.n_stretches, unit++;
            if (!job.is_flat() && unit < n) {
                next = job.tile(first + unit, mine);
                is_second = IS_MIXED && job.is_second(first + unit);
                move(stretch);
            }
        }
        if (unit < n) {
            if (is_second)
                ask_tile<G>(ring + stage * STAGE, next, 0);
            else
                ask_tile<F>(ring + stage * STAGE, next, 0);
        }
        copy_commit();
        stretch += every;
        move(every);
    };
    move(stretch);
#pragma unroll
    for (int i = 0; i + 1 < STAGES; i++) ask(i);
    start_next();
    take_digits<T, digits_of<F>::SUMS != 0>(in, shared, part);
    __syncthreads();

    const digit_lane l(lane);
    int at = warp / TILES, stage = 0, free_stage = STAGES - 1, turn = 0; /* whose it is to finish a unit */
    for (int u = 0; u < n; u++) {
        const bool of_second = IS_MIXED && job.is_second(first + u);
        float y[2] = {};
        for (; at < in.n_stretches; at += every) {
            ask(free_stage);
            copy_wait<STAGES - 1>();
            __syncwarp();
            if (of_second)
                add_digits(y, ring + stage * STAGE, shared + at * X_STRETCH, l, G());
            else
                add_digits(y, ring + stage * STAGE, shared + at * X_STRETCH, l, F());
            __syncwarp();
            free_stage = stage;
            stage = stage + 1 == STAGES ? 0 : stage + 1;
        }
        at -= in.n_stretches;
        const float weight = of_second ? digit_weight<G>(l.t) : digit_weight<F>(l.t);
        y[0] = quad_sum(y[0] * weight), y[1] = quad_sum(y[1] * weight);
        if (l.t == 0) sums[u % 2][warp][lane / 4] = y[0], sums[u % 2][warp][lane / 4 + 8] = y[1];
        __syncthreads();
        if (warp == turn && lane < TILE) {
            float sum[TILES] = {};
            for (int w = 0; w < n_warps; w += TILES)
#pragma unroll
                for (int i = 0; i < TILES; i++) sum[i] += sums[u % 2][w + i][lane];
            job.template finish<T>(first + u, lane, sum);
        }
        turn = turn + 1 == n_warps ? 0 : turn + 1;
    }
}

/* UNSUPPORTED where x leaves no room for the rings of two blocks. */
template <typename F, typename G, typename JOB>
static sac_status run_digits(const sac_stream *s, stream_input in, const JOB &job) {
    enum { RING = DIGIT_STAGES * digit_stage<F, G>(), DECLARED = 3 << 10 };
    const int most = (block_shared_bytes(s->device) + 1024) / DIGIT_BLOCKS - 1024 - DECLARED;
    in.x_bytes = in.n_stretches * X_STRETCH;
    const int n_warps = (int)min_of(DIGIT_WARPS, (most - in.x_bytes) / RING) / JOB::TILES * JOB::TILES;
    const int64_t n_blocks = min_of((int64_t)in.n_units, (int64_t)s->device->n_processors * DIGIT_BLOCKS);
    if (n_warps < DIGIT_WARPS_LEAST || !in.n_units || in.n_units > UINT32_MAX / (n_blocks + 1))
        return SAC_UNSUPPORTED;
    /* as much as leaves a third block no room */
    const int64_t shared =
        max_of(in.x_bytes + n_warps * RING, (block_shared_bytes(s->device) + 1024) / (DIGIT_BLOCKS + 1));
    launch_plan p = of_step({dim3((unsigned)n_blocks), dim3(32u * (unsigned)n_warps), (size_t)shared});
    p.shared_limit = most;
    return launch(s, p, digits_kernel<F, G, JOB>, in, job);
}

/* ---------------------------------------------------------------- which way */

/* UNSUPPORTED where the job does not go by digits. */
template <typename F> static sac_status digits_product(const sac_stream *s, const product_job &j) {
    if constexpr (digits_of<F>::IS) {
        if (s->device->no_digits || j.x.rows != 1 || j.rounding.how != SAC_X_EXACT) return SAC_UNSUPPORTED;
        stream_input in = input_of(j);
        if (j.gated) {
            in.n_units = (int)ceil_div(j.part[0].y.cols, TILE);
            return run_digits<F, F>(s, in, gate_up_pairs{j});
        }
        const product_tiles tiles = tiles_of(j, in);
        return run_digits<F, F>(s, in, tiles);
    }
    return SAC_UNSUPPORTED;
}
/* G: of what the job has of a second type. */
template <typename F, typename G> static sac_status digits_qkv(const sac_stream *s, const qkv_product &j) {
    if constexpr (digits_of<F>::IS && digits_of<G>::IS) {
        if (s->device->no_digits || j.rounding.how != SAC_X_EXACT) return SAC_UNSUPPORTED;
        return j.interleaved ? run_digits<F, G>(s, input_of(j), qkv_tiles{j})
                             : run_digits<F, G>(s, input_of(j), qkv_pairs{j});
    }
    return SAC_UNSUPPORTED;
}

template <typename F> static sac_status run_product(const sac_stream *s, const product_job &j) {
    sac_status st = digits_product<F>(s, j);
    if (st != SAC_UNSUPPORTED) return st;
    if constexpr (streams<F> != 0) {
        st = may_stream<F>(s) ? stream_product<F>(s, j) : SAC_UNSUPPORTED;
        if (st != SAC_UNSUPPORTED) return st;
    }
    if (j.norm || j.rounding.how != SAC_X_EXACT) return SAC_UNSUPPORTED;
    return j.gated ? run_shape<F, true>(s, j) : run_shape<F, false>(s, j);
}
template <typename F> static sac_status run_qkv(const sac_stream *s, const qkv_product &j) {
    const sac_status st = digits_qkv<F, F>(s, j);
    return st == SAC_UNSUPPORTED ? stream_qkv<F>(s, j) : st;
}

} // namespace sac::blocks

#endif
