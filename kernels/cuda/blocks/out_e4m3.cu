/* out_e4m3.cu - from what attention gives to the end of a layer, of 1 to 64 rows, with FP8 weights as plain rows: the three products of
 * few_e4m3.cuh in one kernel, with the norm and the roundings of x between them.
 *
 * Reading weights is what takes the time, and it never stops: the thread that copies asks for the next product's weights as soon as the
 * ring has room, while the rows that they will meet are still being made. A block has the same share of each product as a launch of its
 * own would give it, so the bits are those of three ops.
 *
 * Blocks wait for each other, by counters in scratch: the rows of a product are ready when some blocks have rounded them, which they may
 * when all blocks have done their share of the product before. So all blocks have to be on the card at the same time: there are as many
 * as processors, each takes a processor's memory, and no other kernel of this kind may be under way (`waiting` in context.cuh). */
#include "e4m3_codes.cuh"
#include "few_e4m3_jobs.cuh"

namespace sac::blocks {

namespace out_e4m3 {

enum { OUT, GATE_UP, DOWN, PRODUCTS };

/* All but the last are set to zero by the last block. */
struct counters {
    unsigned ready[PRODUCTS], done[PRODUCTS - 1], ended;
};
enum { COUNTERS_BYTES = 64 };
static_assert(sizeof(counters) <= COUNTERS_BYTES, "");

struct job {
    input in[PRODUCTS];
    int w_scales[PRODUCTS]; /* where those of a product begin */
    product_boxes out, down;
    gate_boxes gates;
    e4m3_rows_job rows[PRODUCTS]; /* what becomes of x */
    norm_job norm;
    counters *met;
};

/* The job of few_e4m3.cuh for one of the products. */
struct boxes {
    const job &j;
    const int of;

    __device__ __forceinline__ const product_boxes &product(void) const { return of == OUT ? j.out : j.down; }
    __device__ __forceinline__ int box(int tile, int i, int &row) const {
        return of == GATE_UP ? j.gates.box(tile, i, row) : product().box(tile, i, row);
    }
    __device__ __forceinline__ const float *scales(int tile, int i) const {
        return of == GATE_UP ? j.gates.scales(tile, i) : product().scales(tile, i);
    }
    __device__ __forceinline__ void warm(int tile, int i) const {
        if (of == GATE_UP)
            j.gates.warm(tile, i);
        else
            product().warm(tile, i);
    }
    __device__ __forceinline__ void finish(int tile, const float *sums, const float *x_scales, int m) const {
        if (of == GATE_UP)
            j.gates.finish(tile, sums, x_scales, m);
        else
            product().finish(tile, sums, x_scales, m);
    }
};

#if HOPPER
struct workers {
    __device__ __forceinline__ static int threads(void) { return WORKERS; }
    __device__ __forceinline__ static void meet(void) { sac::meet(MEETING, WORKERS); }
};

/* What all workers of a block wrote is there for who has seen the counter; they have met. */
__device__ __forceinline__ void count(unsigned *counter) {
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}
__device__ __forceinline__ void wait_for(const unsigned *counter, unsigned n) {
    unsigned now;
    do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(counter) : "memory");
    while (now < n);
}
/* What was written as ever is there for the copy engine: by who wrote it, and by who asks the engine. */
__device__ __forceinline__ void for_copies(void) {
    asm volatile("fence.proxy.async;" ::: "memory");
}

/* Whether all blocks round x, or one a row. */
template <bool BY_UNITS> __device__ __forceinline__ bool by_all(int of) {
    return BY_UNITS && of != GATE_UP;
}
template <bool BY_UNITS> __device__ __forceinline__ unsigned n_rounding(const job &j, int of) {
    return by_all<BY_UNITS>(of) ? gridDim.x : min(gridDim.x, (unsigned)j.in[of].m);
}

/* By the workers: rows of x to codes, where the block has some. */
template <bool BY_UNITS, typename T> __device__ __forceinline__ void round_x(const job &j, int of, uint32_t *part) {
    const e4m3_rows_job &rows = j.rows[of];
    if (blockIdx.x >= n_rounding<BY_UNITS>(j, of)) return;
    if (of > 0) {
        if (threadIdx.x == 0) wait_for(&j.met->done[of - 1], gridDim.x);
        workers::meet();
    }
    if (by_all<BY_UNITS>(of)) {
        const int64_t at_once = WORKERS / UNIT_LANES, all = rows.x.rows * ((rows.x.cols + E4M3_UNIT - 1) / E4M3_UNIT);
        for (int64_t first = blockIdx.x * at_once; first < all; first += gridDim.x * at_once) round_units<T>(rows, first + threadIdx.x / UNIT_LANES);
    } else {
        for (int64_t row = blockIdx.x; row < rows.x.rows; row += gridDim.x, workers::meet())
            if (of == GATE_UP)
                norm_and_round_row<workers, T, BY_UNITS>(rows, j.norm, row, part);
            else
                round_row<workers, T>(rows, row, part);
    }
    for_copies();
    workers::meet();
    count(&j.met->ready[of]);
}

/* The copying thread: stages in the order of the products. Weights go ahead of x. */
template <int N, bool BY_UNITS> __device__ __forceinline__ void copy(const job &j, const memory &m, const share of[PRODUCTS]) {
    const uint64_t once = pass_through_l2(), often = keep_in_l2();
    place w, x;
    int product = 0, step = 0, n_w = 0, n_x = 0; /* of the next weights; stages asked for so far */
    auto ask_next = [&](void) {
        while (product < PRODUCTS && step == of[product].n) product++, step = 0;
        if (product == PRODUCTS) return false;
        if (n_w >= m.stages) barrier_wait(&m.empty[w.stage], w.phase ^ 1);
        ask_w<N, BY_UNITS>(j.in[product], boxes{j, product}, m, of[product].first + step++, w, once);
        w.go_on(m.stages), n_w++;
        return true;
    };
    for (int p = 0; p < PRODUCTS; p++) {
        while (n_w < n_x + m.stages && ask_next()) {
        }
        wait_for(&j.met->ready[p], n_rounding<BY_UNITS>(j, p));
        for_copies();
        for (int i = 0; i < of[p].n; i++) {
            if (n_w == n_x) ask_next();
            ask_x<N, BY_UNITS>(j.in[p], m, of[p].first + i, x, often);
            x.go_on(m.stages), n_x++;
        }
    }
}
#endif

template <int N, bool BY_UNITS, typename T>
static __global__ void __launch_bounds__(THREADS, 1) kernel(const __grid_constant__ job j) {
#if HOPPER
    extern __shared__ uint8_t unaligned[];
    __shared__ uint64_t full[MOST_STAGES], empty[MOST_STAGES];
    __shared__ uint32_t part[32];
    __shared__ int is_last;
    const memory m = memory_of<N, BY_UNITS>(unaligned, full, empty, &is_last, j.in[0].stages, j.in[0].most_units);
    share of[PRODUCTS];
    start_next();
    if (threadIdx.x == 0) open_ring(m);
#pragma unroll
    for (int p = 0; p < PRODUCTS; p++) {
        of[p] = share_of(j.in[p]);
        look_ahead<BY_UNITS>(j.in[p], boxes{j, p}, of[p], m.w_scales + j.w_scales[p]);
    }
    __syncthreads();
    if (threadIdx.x >= WORKERS) {
        if (threadIdx.x == WORKERS) copy<N, BY_UNITS>(j, m, of);
        return;
    }
    place at;
    wait_for_last();
    for (int p = 0; p < PRODUCTS; p++) {
        round_x<BY_UNITS, T>(j, p, part);
        if (threadIdx.x == 0) wait_for(&j.met->ready[p], n_rounding<BY_UNITS>(j, p));
        workers::meet();
        load_x_scales<N, BY_UNITS>(j.in[p], m);
        multiply<N, BY_UNITS>(j.in[p], boxes{j, p}, of[p], m, m.w_scales + j.w_scales[p], at);
        workers::meet();
        if (p + 1 < PRODUCTS) count(&j.met->done[p]);
    }
    if (threadIdx.x == 0 && count_in(&j.met->ended, gridDim.x) == gridDim.x - 1) {
        for (unsigned &c : j.met->ready) c = 0;
        for (unsigned &c : j.met->done) c = 0;
    }
#else
    (void)j;
#endif
}

/* ---------------------------------------------------------------- launches */

template <int N, bool BY_UNITS, typename T> static sac_status run(const sac_stream *s, const sac_out_step_args *a, job &j) {
    typedef places<N, BY_UNITS> P;
    auto chosen = kernel<N, BY_UNITS, T>;
    const int64_t m = a->x.rows, blocks = s->device->n_processors;
    const int room_of_block = block_shared_bytes(s->device) - LEFT_BYTES;
    int units = 1, most = 0;
    size_t room, used = 0;
    uint8_t *scratch = scratch_rest(s, &room);
    auto take = [&](int64_t n_bytes) {
        uint8_t *at = scratch + used;
        used += (size_t)ceil_div(n_bytes, 256) * 256;
        return at;
    };
    for (int p = 0; p < PRODUCTS; p++) {
        input &in = j.in[p];
        e4m3_rows_job &rows = j.rows[p];
        const int64_t all = (int64_t)in.n_tiles * in.steps, k = rows.x.cols;
        if (all < blocks || all > INT32_MAX / MOST_BLOCKS || blocks > MOST_BLOCKS || COUNTERS_BYTES + (size_t)in.n_tiles * 4 > SCRATCH_COUNTER_BYTES)
            return SAC_UNSUPPORTED;
        rows.codes = take(m * k), rows.scales = (float *)take(4 * m * in.units);
        in.x_scales = rows.scales, in.m = (int)m;
        in.met = (unsigned *)((uint8_t *)scratch_counters(s) + COUNTERS_BYTES);
        j.w_scales[p] = BOXES * most;
        most += (int)ceil_div(all, blocks);
        if (in.units > units) units = in.units;
    }
    float *parts = (float *)take(blocks * (N * WORKERS * 4));
    int stages = MOST_STAGES;
    while (stages > 2 && P::bytes(stages, units, most) + 1024 > room_of_block) stages--;
    const int64_t bytes = P::bytes(stages, units, most) + 1024;
    bool has;
    SAC_TRY(has_code(chosen, &has));
    if (!has || used > room || bytes > room_of_block) return SAC_UNSUPPORTED;
    for (int p = 0; p < PRODUCTS; p++) {
        input &in = j.in[p];
        const e4m3_rows_job &rows = j.rows[p];
        in.parts = parts, in.stages = stages, in.most_units = units;
        if (!map_codes(&in.x, rows.codes, rows.x.cols, m, rows.x.cols, N)) return SAC_UNSUPPORTED;
    }
    j.met = (counters *)scratch_counters(s);
    launch_plan p = of_step({dim3((unsigned)blocks), dim3(THREADS), (size_t)bytes});
    p.shared_limit = room_of_block;
    return launch(s, p, chosen, j);
}
template <int N, bool BY_UNITS> static sac_status run_type(const sac_stream *s, const sac_out_step_args *a, job &j) {
    return a->x.dtype == SAC_DTYPE_F16 ? run<N, BY_UNITS, half>(s, a, j) : run<N, BY_UNITS, bf16>(s, a, j);
}
template <bool BY_UNITS> static sac_status run_some(const sac_stream *s, const sac_out_step_args *a, job &j) {
    return a->x.rows <= 8    ? run_type<8, BY_UNITS>(s, a, j)
           : a->x.rows <= 16 ? run_type<16, BY_UNITS>(s, a, j)
           : a->x.rows <= 32 ? run_type<32, BY_UNITS>(s, a, j)
                             : run_type<64, BY_UNITS>(s, a, j);
}

static bool fits(const sac_weight *w, int64_t n, int64_t k) {
    return w->tensor.dtype == SAC_DTYPE_E4M3_ROWS && sac_block_layout_has(SAC_DTYPE_E4M3_ROWS, k) && w->tensor.dim[0] == n &&
           w->tensor.dim[1] == k && n <= 1 << 24 && (uintptr_t)w->tensor.data % 16 == 0 && !w->order.data;
}
static bool same_rounding(const x_rounding &a, const x_rounding &b) {
    return a.how == b.how && a.group == b.group && a.scale == b.scale;
}

/* One matrix; the sum is added to y. */
static bool add_product(input *in, product_boxes *to, const sac_weight *w, sac_mat y, sac_mat x, const float *bias, bool by_units) {
    const sac_block_layout l = sac_block_layout_of(SAC_DTYPE_E4M3_ROWS, w->tensor.dim[0], x.cols);
    *in = input_of(x.cols, by_units);
    in->n_tiles = (int)ceil_div(y.cols, TILE_ROWS);
    product_job &j = to->job;
    j.part[0] = {w->tensor.data, l, y, bias, 0};
    j.n_parts = 1, j.x = x, j.accumulate = true;
    to->scale[0] = scales_of(w->tensor.data, l, by_units);
    return map_rows(in, 0, w->tensor.data, l, y.cols);
}
static bool add_gates(input *in, gate_boxes *to, const sac_weight *const w[2], sac_mat y, sac_mat x, bool by_units) {
    *in = input_of(x.cols, by_units);
    in->n_tiles = (int)ceil_div(y.cols, BOX_ROWS);
    for (int i = 0; i < 2; i++) {
        const sac_block_layout l = sac_block_layout_of(SAC_DTYPE_E4M3_ROWS, y.cols, x.cols);
        to->scale[i] = scales_of(w[i]->tensor.data, l, by_units);
        if (i == 0) to->y = {w[i]->tensor.data, l, y, NULL, 0};
        if (!map_rows(in, i, w[i]->tensor.data, l, y.cols)) return false;
    }
    return true;
}

static e4m3_rows_job rows_of(const rows_of_x &of) {
    return {of.x, NULL, NULL, of.rounding.how == SAC_X_FP8_STATIC ? of.rounding.scale : 0};
}

} // namespace out_e4m3

extern "C" sac_status sac_cuda_out_blocks(const sac_stream *s, const sac_out_step_args *a) {
    using namespace out_e4m3;
    const rows_of_x of[PRODUCTS] = {{a->o, rounding_of(&a->wo, a->o.cols), NULL, 0},
                                    {a->x, rounding_of(&a->gate, a->x.cols), a->norm, a->eps},
                                    {a->wide, rounding_of(&a->down, a->wide.cols), NULL, 0}};
    const bool by_units = of[0].rounding.how == SAC_X_FP8_GROUPS;
    const sac_weight *const gates[] = {&a->gate, &a->up};
    if (s->device->no_out || !fits(&a->wo, a->x.cols, a->o.cols) || !fits(&a->gate, a->wide.cols, a->x.cols) || !fits(&a->up, a->wide.cols, a->x.cols) ||
        !fits(&a->down, a->x.cols, a->wide.cols) || !same_rounding(rounding_of(&a->up, a->x.cols), of[GATE_UP].rounding) ||
        a->o.dtype != a->x.dtype || a->wide.dtype != a->x.dtype || a->x.cols > NORM_VECTORS * 8 * WORKERS)
        return SAC_UNSUPPORTED;
    for (int p = 0; p < PRODUCTS; p++)
        if (!is_taken(s, of[p]) || (of[p].rounding.how == SAC_X_FP8_GROUPS) != by_units) return SAC_UNSUPPORTED;
    const waiting turn(s);
    if (!turn.may) return SAC_UNSUPPORTED;
    job j = {};
    if (!add_product(&j.in[OUT], &j.out, &a->wo, a->x, a->o, a->o_bias, by_units) ||
        !add_gates(&j.in[GATE_UP], &j.gates, gates, a->wide, a->x, by_units) ||
        !add_product(&j.in[DOWN], &j.down, &a->down, a->x, a->wide, NULL, by_units))
        return SAC_UNSUPPORTED;
    for (int p = 0; p < PRODUCTS; p++) j.rows[p] = rows_of(of[p]);
    j.norm = {a->norm, a->eps};
    return by_units ? run_some<true>(s, a, j) : run_some<false>(s, a, j);
}

} // namespace sac::blocks
