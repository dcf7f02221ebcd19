/* out_e4m3.cu - from what attention gives to the end of a layer, of one row, with FP8 weights as plain rows: three products, the norm and
 * the roundings of x between them in one kernel (row_e4m3.cuh).
 *
 * Between products blocks wait for each other, by counters in scratch: every block normalises the row that the first one gives; of
 * gate and up the largest magnitude is collected on the way. So all blocks have to be on the card at the same time: there are as many as
 * processors, each takes a processor's memory, and no other kernel of this kind may be under way (`waiting` in context.cuh). */
#include "row_e4m3.cuh"

namespace sac::blocks {

namespace out_e4m3 {

using namespace row_e4m3;

enum { OUT, GATE_UP, DOWN, PRODUCTS };
enum { VECTORS = 4 };

/* All but the last are set to zero by the last block. */
struct counters {
    unsigned done[PRODUCTS - 1], largest, ended;
};
enum { COUNTERS_BYTES = 64 };
static_assert(sizeof(counters) <= COUNTERS_BYTES, "");

struct job {
    matrices of[PRODUCTS];
    const void *o;
    void *x, *wide, *middle; /* [hidden]: x behind the first product */
    const float *bias, *norm;
    float eps;
    counters *met;
    int stages, x_bytes, scales_at[PRODUCTS]; /* of blocks of w: where a product's begin behind x's */
};

#if HOPPER
/* What all workers of a block wrote is there for who has seen the counter; they have met. */
__device__ __forceinline__ void count(unsigned *counter) {
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
__device__ __forceinline__ void wait_for_all(const unsigned *counter) {
    unsigned now;
    if (threadIdx.x == 0) do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
        while (now < gridDim.x);
    workers::meet();
}

/* The stretches of act(gate) * up that the block's share of the last product meets, one behind the other. */
template <typename T, bool BY_UNITS> __device__ __forceinline__ void make_last_x(const job &j, const memory &m) {
    const matrices &p = j.of[DOWN];
    const share of(p);
    const float scale = p.x_scale != 0 ? p.x_scale : scale_of(__ldcg(&j.met->largest), false);
    if (!BY_UNITS && threadIdx.x == 0) m.x_scales[0] = scale;
    for (int first = 0; first < of.n * UNIT_LANES; first += WORKERS) { /* 16 lanes have a step's 128 elements */
        const int v = first + threadIdx.x, i = v / UNIT_LANES, col = (of.first + i) % of.steps * STEP + v % UNIT_LANES * 8;
        const bool is_there = i < of.n && col < p.k;
        float e[8] = {}, own = scale;
        if (is_there) {
            const uint4 eight = __ldcg((const uint4 *)((const T *)j.wide + col));
            unpack_eight(e, *(const raw<T, 8> *)&eight);
        }
        if constexpr (BY_UNITS) {
            uint32_t largest = largest_of_eight(e, 0);
#pragma unroll
            for (int l = UNIT_LANES / 2; l > 0; l /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, l));
            own = scale_of(largest, false);
            if (i < of.n && v % UNIT_LANES == 0) m.x_scales[i] = own;
        }
        if (i < of.n) *(uint2 *)(m.x + v * 8) = eight_codes(e, own);
    }
    written_for_products();
    workers::meet();
}

/* What a tile's sums meet for a thread, asked for before they are there. */
struct gate_ends {
    float gate, up;

    __device__ __forceinline__ gate_ends(const matrices &p, int tile) : gate(0), up(0) {
        const int64_t col = (int64_t)tile * BOX_ROWS + threadIdx.x;
        if (threadIdx.x < BOX_ROWS && col < p.n[0] && !p.scale[0].of_blocks) gate = p.scale[0].at[col], up = p.scale[1].at[col];
    }
};
template <typename T, bool BY_UNITS> __device__ __forceinline__ void finish_gates(const job &j, int tile, const memory &m, const gate_ends &scale) {
    const int64_t col = (int64_t)tile * BOX_ROWS + threadIdx.x;
    if (threadIdx.x >= BOX_ROWS) return;
    uint32_t largest = 0;
    if (col < j.of[GATE_UP].n[0]) {
        float gate = m.sums[threadIdx.x], up = m.sums[BOX_ROWS + threadIdx.x];
        if (!BY_UNITS) gate *= scale.gate * m.x_scales[0], up *= scale.up * m.x_scales[0];
        const T y = from_f32<T>(activate_as<T>(SAC_ACT_SILU, gate) * up);
        ((T *)j.wide)[col] = y;
        largest = magnitude(to_f32(y));
    }
    if (BY_UNITS) return;
    largest = __reduce_max_sync(~0u, largest);
    if (threadIdx.x % 32 == 0) atomicMax(&j.met->largest, largest);
}

/* Of the first product and of the last. */
template <typename T> struct ends {
    float scale, bias, before;

    __device__ __forceinline__ ends(const matrices &p, int tile, const float *biases, const void *residual) : scale(0), bias(0), before(0) {
        const int64_t row = (int64_t)tile * TILE_ROWS + threadIdx.x;
        if (threadIdx.x >= TILE_ROWS || row >= p.n[0]) return;
        before = to_f32(((const T *)residual)[row]);
        if (biases) bias = biases[row];
        if (!p.scale[0].of_blocks) scale = p.scale[0].at[row];
    }
};
template <typename T, bool BY_UNITS>
__device__ __forceinline__ void finish(const matrices &p, int tile, const memory &m, const ends<T> &meets, void *to) {
    const int64_t row = (int64_t)tile * TILE_ROWS + threadIdx.x;
    if (threadIdx.x >= TILE_ROWS || row >= p.n[0]) return;
    const float sum = m.sums[threadIdx.x], y = BY_UNITS ? sum : __fmul_rn(sum, meets.scale * m.x_scales[0]);
    ((T *)to)[row] = from_f32<T>(y + meets.bias + meets.before);
}
#endif

template <bool BY_UNITS, typename T> static __global__ void __launch_bounds__(THREADS, 1) kernel(const __grid_constant__ job j) {
#if HOPPER
    extern __shared__ uint8_t unaligned[];
    __shared__ uint64_t full[MOST_STAGES], empty[MOST_STAGES];
    __shared__ uint32_t part[32];
    __shared__ int is_last;
    const memory m = memory_of(unaligned, full, empty, &is_last, j.stages, j.x_bytes);
    const float *const bias[3] = {j.bias}, *const none[3] = {};
    float *const scales[PRODUCTS] = {m.x_scales + j.scales_at[OUT], m.x_scales + j.scales_at[GATE_UP], m.x_scales + j.scales_at[DOWN]};
    start_next();
    if (threadIdx.x == 0) open_ring(m);
    __syncthreads();
    place at;
    if (threadIdx.x >= WORKERS) {
        if (threadIdx.x > WORKERS) return;
        const uint64_t once = pass_through_l2();
        int n_asked = 0;
        copy(j.of[OUT], one_matrix(), m, at, n_asked, once);
        copy(j.of[GATE_UP], two_matrices(), m, at, n_asked, once);
        copy(j.of[DOWN], one_matrix(), m, at, n_asked, once);
        return;
    }
    look_ahead<BY_UNITS>(j.of[OUT], one_matrix(), scales[OUT], bias);
    look_ahead<BY_UNITS>(j.of[GATE_UP], two_matrices(), scales[GATE_UP], none);
    look_ahead<BY_UNITS>(j.of[DOWN], one_matrix(), scales[DOWN], none);
    float sum[2];
    raw<T, 8> x[VECTORS];
    wait_for_last();
    take_row(x, (const T *)j.o, j.of[OUT].k);
    keep_codes<BY_UNITS>(x, j.of[OUT].k, j.of[OUT].x_scale, m, part);
    const share out(j.of[OUT]);
    for (int i = 0; i < out.n_tiles; i++) {
        const int tile = out.tile(i);
        const ends<T> meets(j.of[OUT], tile, j.bias, j.x);
        multiply<BY_UNITS, false>(out, tile, m, scales[OUT], at, sum);
        if (!join(j.of[OUT], out, tile, m, sum)) continue;
        finish<T, BY_UNITS>(j.of[OUT], tile, m, meets, j.middle);
        workers::meet();
    }
    const row_factors<VECTORS> norm(j.norm, j.of[GATE_UP].k);
    workers::meet();
    count(&j.met->done[0]);
    wait_for_all(&j.met->done[0]);
    take_row(x, (const T *)j.middle, j.of[GATE_UP].k);
    norm_row(x, norm, j.eps, j.of[GATE_UP].k, part);
    keep_codes<BY_UNITS>(x, j.of[GATE_UP].k, j.of[GATE_UP].x_scale, m, part);
    const share gates(j.of[GATE_UP]);
    for (int i = 0; i < gates.n_tiles; i++) {
        const int tile = gates.tile(i);
        const gate_ends meets(j.of[GATE_UP], tile);
        multiply<BY_UNITS, false>(gates, tile, m, scales[GATE_UP], at, sum);
        if (!join(j.of[GATE_UP], gates, tile, m, sum)) continue;
        finish_gates<T, BY_UNITS>(j, tile, m, meets);
        workers::meet();
    }
    workers::meet();
    count(&j.met->done[1]);
    wait_for_all(&j.met->done[1]);
    make_last_x<T, BY_UNITS>(j, m);
    const share down(j.of[DOWN]);
    for (int i = 0; i < down.n_tiles; i++) {
        const int tile = down.tile(i);
        const ends<T> meets(j.of[DOWN], tile, NULL, j.middle);
        multiply<BY_UNITS, true>(down, tile, m, scales[DOWN], at, sum);
        if (!join(j.of[DOWN], down, tile, m, sum)) continue;
        finish<T, BY_UNITS>(j.of[DOWN], tile, m, meets, j.x);
        workers::meet();
    }
    if (threadIdx.x == 0 && count_in(&j.met->ended, gridDim.x) == gridDim.x - 1) j.met->done[0] = j.met->done[1] = j.met->largest = 0;
#else
    (void)j;
#endif
}

/* ---------------------------------------------------------------- launches */

template <bool BY_UNITS, typename T> static sac_status run(const sac_stream *s, job &j) {
    auto chosen = kernel<BY_UNITS, T>;
    const int64_t blocks = s->device->n_processors;
    int n_x_scales = 1, n_w_scales = 0;
    int64_t bytes;
    scratch room(s);
    j.met = (counters *)room.count(COUNTERS_BYTES);
    for (int i = 0; i < PRODUCTS; i++) {
        matrices &p = j.of[i];
        const int steps = (int)ceil_div((int64_t)p.n_tiles * p.steps, blocks), of_x = i == DOWN ? steps : p.steps;
        if (!room.add(&p, blocks) || (i != GATE_UP && p.n_tiles > blocks)) return SAC_UNSUPPORTED;
        j.scales_at[i] = n_w_scales;
        j.x_bytes = (int)max_of(j.x_bytes, of_x * STEP + X_BEHIND);
        if (!BY_UNITS) continue;
        n_w_scales += BOXES * steps;
        n_x_scales = (int)max_of(n_x_scales, of_x);
    }
    j.middle = room.take(j.of[DOWN].n[0] * 2);
    for (int &at : j.scales_at) at += n_x_scales;
    j.stages = stages_of(s, j.x_bytes, n_x_scales + n_w_scales, &bytes);
    bool has;
    SAC_TRY(has_code(chosen, &has));
    return !has || !room.suffices() || j.stages < 2 ? SAC_UNSUPPORTED : launch(s, plan_of(s, blocks, bytes), chosen, j);
}
template <bool BY_UNITS> static sac_status run_type(const sac_stream *s, const sac_out_step_args *a, job &j) {
    return a->x.dtype == SAC_DTYPE_F16 ? run<BY_UNITS, half>(s, j) : run<BY_UNITS, bf16>(s, j);
}

static bool same_rounding(const x_rounding &a, const x_rounding &b) {
    return a.how == b.how && a.group == b.group && a.scale == b.scale;
}

/* One matrix, or two of the same rows. */
static bool add_product(matrices *p, const sac_weight *a, const sac_weight *b, const x_rounding &rounding) {
    const int64_t n = a->tensor.dim[0], k = a->tensor.dim[1];
    const bool by_units = rounding.how == SAC_X_FP8_GROUPS;
    const sac_block_layout l = sac_block_layout_of(SAC_DTYPE_E4M3_ROWS, n, k);
    set_steps(p, k, ceil_div(n, b ? BOX_ROWS : TILE_ROWS), rounding);
    return add_matrix(p, 0, a->tensor.data, l, n, by_units) && (!b || add_matrix(p, 1, b->tensor.data, l, n, by_units));
}

} // namespace out_e4m3

extern "C" sac_status sac_cuda_out_blocks(const sac_stream *s, const sac_out_step_args *a) {
    using namespace out_e4m3;
    const rows_of_x of[PRODUCTS] = {{a->o, rounding_of(&a->wo, a->o.cols), NULL, 0},
                                    {a->x, rounding_of(&a->gate, a->x.cols), a->norm, a->eps},
                                    {a->wide, rounding_of(&a->down, a->wide.cols), NULL, 0}};
    const bool by_units = of[OUT].rounding.how == SAC_X_FP8_GROUPS;
    if (s->device->no_out || a->x.rows != 1 || !fits(&a->wo, a->x.cols, a->o.cols) || !fits(&a->gate, a->wide.cols, a->x.cols) ||
        !fits(&a->up, a->wide.cols, a->x.cols) || !fits(&a->down, a->x.cols, a->wide.cols) ||
        !same_rounding(rounding_of(&a->up, a->x.cols), of[GATE_UP].rounding) || a->o.dtype != a->x.dtype || a->wide.dtype != a->x.dtype ||
        max_of(a->x.cols, a->o.cols) > most_x_cols(VECTORS))
        return SAC_UNSUPPORTED;
    for (int i = 0; i < PRODUCTS; i++)
        if (!is_taken(s, of[i]) || (of[i].rounding.how == SAC_X_FP8_GROUPS) != by_units) return SAC_UNSUPPORTED;
    const waiting turn(s);
    if (!turn.may) return SAC_UNSUPPORTED;
    job j = {};
    if (!add_product(&j.of[OUT], &a->wo, NULL, of[OUT].rounding) || !add_product(&j.of[GATE_UP], &a->gate, &a->up, of[GATE_UP].rounding) ||
        !add_product(&j.of[DOWN], &a->down, NULL, of[DOWN].rounding))
        return SAC_UNSUPPORTED;
    j.o = a->o.data, j.x = a->x.data, j.wide = a->wide.data;
    j.bias = a->o_bias, j.norm = a->norm, j.eps = a->eps;
    return by_units ? run_type<true>(s, a, j) : run_type<false>(s, a, j);
}

} // namespace sac::blocks
