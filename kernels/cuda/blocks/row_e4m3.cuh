/* row_e4m3.cuh - one row of x with FP8 weights that lie as plain rows (code_layout.h, e4m3_rows), both as codes of e4m3, on Hopper's tensor
 * cores: products in a kernel that makes x itself, one after the other (out_e4m3.cu, qkv_e4m3.cu). Bound by reading weights once; the
 * point is that reading never stops.
 *
 * A tile is two boxes of 64 rows of w; the steps of 128 elements of a product's tiles are one list, of which each block, one a processor,
 * has an equal share (as in few_e4m3.cuh, whose bits these are). One warp copies the boxes of all shares to a ring of stages, whatever the
 * others are waiting for. The others have x as codes in their own shared memory: each block makes what it needs itself, so that nobody
 * waits for the rows of somebody else. A share's last tile, which another block ends, comes first, then the first one, which another block
 * began: by the time that a block is through, their parts have long met. */
#ifndef SAC_KERNELS_ROW_E4M3_CUH
#define SAC_KERNELS_ROW_E4M3_CUH

#include "e4m3_codes.cuh"
#include "few_e4m3_jobs.cuh"

namespace sac::blocks::row_e4m3 {

/* A row that is normalised lies in registers, some vectors of 8 elements a thread: rows of up to so many elements. */
enum { STAGE = BOXES * BOX_BYTES };
static constexpr int most_x_cols(int vectors) {
    return vectors * 8 * WORKERS;
}
enum { AT_ONCE = 8 /* parts that are asked for together */ };
enum { X_BEHIND = 128 /* bytes behind x that the other columns of a tensor core's product read */ };

/* One or several matrices whose tiles are one list. */
struct matrices {
    CUtensorMap w[3];
    matrix_scales scale[3];
    int64_t n[3];  /* rows of each */
    int k, steps, n_tiles;
    float x_scale; /* of a checkpoint, or 0 */
    unsigned *met; /* [n_tiles], zero between ops */
    float *parts;  /* [blocks][2][TILE_ROWS] */
};

/* Boxes of a tile: which matrix, and its first row there. Other kernels have their own. */
struct one_matrix {
    __device__ __forceinline__ int box(int tile, int b, int &row) const {
        row = tile * TILE_ROWS + b * BOX_ROWS;
        return 0;
    }
};
/* The same rows of two. */
struct two_matrices {
    __device__ __forceinline__ int box(int tile, int b, int &row) const {
        row = tile * BOX_ROWS;
        return b;
    }
};

#if HOPPER
struct workers {
    __device__ __forceinline__ static int threads(void) { return WORKERS; }
    __device__ __forceinline__ static void meet(void) { sac::meet(MEETING, WORKERS); }
};

/* A place in the ring that goes round. */
struct place {
    int stage = 0;
    uint32_t phase = 0;

    __device__ __forceinline__ void go_on(int stages) {
        if (++stage == stages) stage = 0, phase ^= 1;
    }
};

/* A block's steps of a product, and the tiles that they are of, in the order in which the block takes them. */
struct share {
    int all, steps, first, n, first_tile, n_tiles;
    bool has_tail; /* the last tile comes first */

    __device__ __forceinline__ share(const matrices &p) {
        all = p.n_tiles * p.steps, steps = p.steps;
        first = steps_before(blockIdx.x, all), n = steps_before(blockIdx.x + 1, all) - first;
        first_tile = first / steps;
        n_tiles = (first + n - 1) / steps - first_tile + 1;
        has_tail = n_tiles > 1 && (first + n) % steps != 0;
    }
    __device__ __forceinline__ int tile(int i) const { return has_tail && i == 0 ? first_tile + n_tiles - 1 : first_tile + i - has_tail; }
    __device__ __forceinline__ int begin(int tile) const { return max(first, tile * steps); }
    __device__ __forceinline__ int end(int tile) const { return min(first + n, (tile + 1) * steps); }
    __device__ __forceinline__ bool has_all(int tile) const { return begin(tile) == tile * steps && end(tile) == (tile + 1) * steps; }
    /* The blocks that have steps of a tile, and where the part of the one at `i` of them lies: all but the first began with this tile. */
    __device__ __forceinline__ int first_block(int tile) const { return block_of(tile * steps, all); }
    __device__ __forceinline__ int n_blocks(int tile, int from) const { return block_of((tile + 1) * steps - 1, all) + 1 - from; }
    __device__ __forceinline__ bool is_second(int tile, int from) const { return tile * steps > steps_before(from, all); }
    static __device__ __forceinline__ int part(int from, bool is_second, int i) { return 2 * (from + i) + (i == 0 && is_second); }
    /* Of this block. */
    __device__ __forceinline__ int part(int tile) const { return 2 * (int)blockIdx.x + (tile * steps > first); }
};

struct memory {
    uint8_t *ring, *x;
    uint64_t *full, *empty;
    float *sums, *x_scales;
    int *is_last;
    int stages;
};
__device__ __forceinline__ memory memory_of(uint8_t *unaligned, uint64_t *full, uint64_t *empty, int *is_last, int stages, int x_bytes) {
    uint8_t *ring = unaligned + (1024 - (shared_address(unaligned) & 1023)) % 1024, *x = ring + stages * STAGE;
    float *sums = (float *)(x + x_bytes);
    return {ring, x, full, empty, sums, sums + TILE_ROWS, is_last, stages};
}
__device__ __forceinline__ void open_ring(const memory &m) {
    for (int i = 0; i < m.stages; i++) barrier_init(&m.full[i], 1), barrier_init(&m.empty[i], WORKERS / 32);
    barrier_init_done();
}

/* The copying thread. */
template <typename OF> __device__ __forceinline__ void copy(const matrices &p, const OF &boxes, const memory &m, place &at, int &n_asked, uint64_t policy) {
    const share of(p);
    for (int i = 0; i < of.n_tiles; i++) {
        const int tile = of.tile(i), end = of.end(tile);
        for (int step = of.begin(tile); step < end; step++, at.go_on(m.stages)) {
            if (n_asked++ >= m.stages) barrier_wait(&m.empty[at.stage], at.phase ^ 1);
            barrier_expect(&m.full[at.stage], STAGE);
#pragma unroll
            for (int b = 0; b < BOXES; b++) {
                int row;
                const int matrix = boxes.box(tile, b, row);
                copy_box(m.ring + at.stage * STAGE + b * BOX_BYTES, &p.w[matrix], &m.full[at.stage], (step - tile * of.steps) * STEP, row, 0, 0, policy);
            }
        }
    }
}

/* Scales of w's blocks for the steps of a share, and what its sums meet at their end, by the workers. */
template <bool BY_UNITS, typename OF>
__device__ __forceinline__ void look_ahead(const matrices &p, const OF &boxes, float *w_scales, const float *const bias[3]) {
    const share of(p);
    int row;
    if (BY_UNITS)
        for (int i = threadIdx.x; i < BOXES * of.n; i += WORKERS) {
            const int at = of.first + i / BOXES, tile = at / of.steps, matrix = boxes.box(tile, i % BOXES, row);
            w_scales[i] = p.scale[matrix].of(row < p.n[matrix] ? row : 0)[at - tile * of.steps];
        }
    for (int i = 0; i < of.n_tiles && threadIdx.x < TILE_ROWS; i++) {
        const int matrix = boxes.box(of.first_tile + i, threadIdx.x / BOX_ROWS, row);
        row += threadIdx.x % BOX_ROWS;
        if (row >= p.n[matrix]) continue;
        p.scale[matrix].fetch(row);
        if (bias[matrix]) fetch_soon(bias[matrix] + row);
    }
}
/* A row [k] of which a product's blocks need all to codes, and the scales that it was divided by. */
template <bool BY_UNITS, typename T, int VECTORS>
__device__ __forceinline__ void keep_codes(raw<T, 8> (&now)[VECTORS], int k, float x_scale, const memory &m, uint32_t *part) {
    const int n_vec = k / 8;
    uint32_t largest = 0;
    float e[8], scale = x_scale;
#pragma unroll
    for (int c = 0; c < VECTORS; c++) {
        const int v = threadIdx.x + c * WORKERS;
        unpack_eight(e, now[c]);
        if (BY_UNITS) largest = 0;
        largest = largest_of_eight(e, largest);
        if constexpr (BY_UNITS) {
#pragma unroll
            for (int i = UNIT_LANES / 2; i > 0; i /= 2) largest = max(largest, __shfl_xor_sync(~0u, largest, i));
            scale = scale_of(largest, false);
            if (v >= n_vec) continue;
            *(uint2 *)(m.x + v * 8) = eight_codes(e, scale);
            if (v % UNIT_LANES == 0) m.x_scales[v / UNIT_LANES] = scale;
        }
    }
    if constexpr (!BY_UNITS) {
        if (scale == 0) scale = scale_of(team_largest<workers>(largest, part), false);
        if (threadIdx.x == 0) m.x_scales[0] = scale;
#pragma unroll
        for (int c = 0; c < VECTORS; c++) {
            const int v = threadIdx.x + c * WORKERS;
            unpack_eight(e, now[c]);
            if (v < n_vec) *(uint2 *)(m.x + v * 8) = eight_codes(e, scale);
        }
    }
    for (int i = k + 8 * threadIdx.x; i < (k + STEP - 1) / STEP * STEP; i += 8 * WORKERS) *(uint2 *)(m.x + i) = make_uint2(0, 0);
    written_for_products();
    workers::meet();
}

/* A row of f16 or bf16. */
template <typename T, int VECTORS> __device__ __forceinline__ void take_row(raw<T, 8> (&now)[VECTORS], const T *x, int n) {
#pragma unroll
    for (int c = 0; c < VECTORS; c++) {
        const int v = threadIdx.x + c * WORKERS;
        now[c] = raw<T, 8>{};
        if (v < n / 8) now[c] = *(const raw<T, 8> *)(x + v * 8);
    }
}
/* What a row is multiplied by. */
template <int VECTORS> struct row_factors {
    float e[VECTORS][8];

    __device__ __forceinline__ row_factors(const float *x, int64_t n) {
#pragma unroll
        for (int c = 0; c < VECTORS; c++)
            if (const int v = threadIdx.x + c * WORKERS; x && v < n / 8)
                load<8>(e[c], x + v * 8);
            else
#pragma unroll
                for (int i = 0; i < 8; i++) e[c][i] = 0;
    }
};
/* Normalised as norm_and_round_row does. */
template <typename T, int VECTORS>
__device__ __forceinline__ void norm_row(raw<T, 8> (&now)[VECTORS], const row_factors<VECTORS> &norm, float eps, int n, uint32_t *part) {
    float squares = 0;
#pragma unroll
    for (int c = 0; c < VECTORS; c++)
#pragma unroll
        for (int i = 0; i < 8; i++) squares += to_f32(now[c].e[i]) * to_f32(now[c].e[i]);
    const float of_norm = 1.0f / sqrtf(team_sum<workers>(squares, part) / (float)n + eps);
#pragma unroll
    for (int c = 0; c < VECTORS; c++)
#pragma unroll
        for (int i = 0; i < 8; i++) now[c].e[i] = from_f32<T>(to_f32(now[c].e[i]) * of_norm * norm.e[c][i]);
}

/* x for the tensor core: the row's 16 bytes of a core matrix are followed by what is the row's next 16, so that the other seven columns are
 * of something that nobody looks at. */
__device__ __forceinline__ uint64_t x_at(const uint8_t *x) {
    return (uint64_t)((shared_address(x) & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)8 << 32;
}

/* Sums of a tile's steps of this block for a thread's rows, of lanes that have the first column. Where x lies: of all of a row, or of the
 * share's steps one behind the other. */
template <bool BY_UNITS, bool OWN_X>
__device__ __forceinline__ void multiply(const share &of, int tile, const memory &m, const float *w_scales, place &at, float (&sum)[2]) {
    const int group = threadIdx.x / GROUP, end = of.end(tile);
    sum[0] = sum[1] = 0;
    for (int step = of.begin(tile); step < end; step++) {
        const int x_step = OWN_X ? step - of.first : step - tile * of.steps;
        float here[4] = {};
        barrier_wait(&m.full[at.stage], at.phase);
        const uint64_t a = matrix_at(m.ring + at.stage * STAGE + group * BOX_BYTES, 16, 1024), b = x_at(m.x + x_step * STEP);
        settle(here);
        products_begin();
#pragma unroll
        for (int c = 0; c < STEP / 32; c++) product_e4m3(here, a + 2 * c, b + 2 * c, c > 0);
        products_commit();
        products_wait<0>();
        settle(here);
        if (threadIdx.x % 32 == 0) barrier_arrive(&m.empty[at.stage]);
        at.go_on(m.stages);
        const float scale = BY_UNITS ? w_scales[(step - of.first) * BOXES + group] * m.x_scales[x_step] : 1;
#pragma unroll
        for (int i = 0; i < 2; i++) sum[i] = BY_UNITS ? fmaf(here[2 * i], scale, sum[i]) : sum[i] + here[2 * i];
    }
}

/* To [TILE_ROWS], of the first box, then of the second. */
__device__ __forceinline__ void put_sums(float *to, const float sum[2]) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (lane % 4) return;
    to += warp / 4 * BOX_ROWS + warp % 4 * 16 + lane / 4;
    to[0] = sum[0], to[8] = sum[1];
}

/* All of a tile's sums in m.sums, for the block that is the last to have some; whether it is this one. */
__device__ __forceinline__ bool join(const matrices &p, const share &of, int tile, const memory &m, const float sum[2]) {
    if (of.has_all(tile)) {
        put_sums(m.sums, sum);
        workers::meet();
        return true;
    }
    const int from = of.first_block(tile), n = of.n_blocks(tile, from);
    put_sums(p.parts + of.part(tile) * TILE_ROWS, sum);
    workers::meet();
    if (threadIdx.x == 0) *m.is_last = count_in(p.met + tile, (unsigned)n) == (unsigned)(n - 1);
    workers::meet();
    if (!*m.is_last) return false;
    if (threadIdx.x < TILE_ROWS) {
        const bool is_second = of.is_second(tile, from);
        float all = 0;
        for (int i = 0; i < n; i += AT_ONCE) {
            float some[AT_ONCE];
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++) some[e] = i + e < n ? __ldcg(p.parts + of.part(from, is_second, i + e) * TILE_ROWS + threadIdx.x) : 0;
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
                if (i + e < n) all += some[e];
        }
        m.sums[threadIdx.x] = all;
    }
    workers::meet();
    return true;
}
#endif

/* ---------------------------------------------------------------- before a launch */

static inline bool fits(const sac_weight *w, int64_t n, int64_t k) {
    return w->tensor.dtype == SAC_DTYPE_E4M3_ROWS && sac_block_layout_has(SAC_DTYPE_E4M3_ROWS, k) && w->tensor.dim[0] == n &&
           w->tensor.dim[1] == k && n <= 1 << 24 && (uintptr_t)w->tensor.data % 16 == 0 && !w->order.data;
}

/* Matrix i of a product. */
static inline bool add_matrix(matrices *p, int i, const void *w, const sac_block_layout &l, int64_t n, bool by_units) {
    p->n[i] = n;
    p->scale[i] = scales_of(w, l, by_units);
    return map_codes(&p->w[i], w, l.n_stretches * STRETCH, ceil_div(n, SAC_BLOCK_TILE) * SAC_BLOCK_TILE, l.n_stretches * STRETCH, BOX_ROWS);
}
static inline void set_steps(matrices *p, int64_t k, int64_t n_tiles, const x_rounding &rounding) {
    p->k = (int)k, p->steps = (int)ceil_div(k, STEP), p->n_tiles = (int)n_tiles;
    p->x_scale = rounding.how == SAC_X_FP8_STATIC ? rounding.scale : 0;
}

/* Scratch that a launch takes. */
struct scratch {
    uint8_t *at, *counters;
    size_t room, used, counted;

    explicit scratch(const sac_stream *s) : used(0), counted(0) { at = scratch_rest(s, &room), counters = (uint8_t *)scratch_counters(s); }
    void *take(int64_t n_bytes) {
        void *p = at + used;
        used += (size_t)ceil_div(n_bytes, 256) * 256;
        return p;
    }
    unsigned *count(int64_t n_bytes) {
        unsigned *p = (unsigned *)(counters + counted);
        counted += (size_t)n_bytes;
        return p;
    }
    bool suffices(void) const { return used <= room && counted <= SCRATCH_COUNTER_BYTES; }
    /* What a product's blocks meet by; whether each has a share of it. */
    bool add(matrices *p, int64_t blocks) {
        const int64_t all = (int64_t)p->n_tiles * p->steps;
        p->met = count(p->n_tiles * 4), p->parts = (float *)take(blocks * 2 * TILE_ROWS * 4);
        return all >= blocks && all <= INT32_MAX / MOST_BLOCKS && blocks <= MOST_BLOCKS;
    }
};

/* Stages that fit beside x and some floats behind the sums, and the bytes of all. */
static inline int stages_of(const sac_stream *s, int x_bytes, int n_floats, int64_t *bytes) {
    const int behind = x_bytes + 4 * (TILE_ROWS + n_floats) + 1024;
    const int stages = (int)min_of(MOST_STAGES, (block_shared_bytes(s->device) - LEFT_BYTES - behind) / STAGE);
    *bytes = (int64_t)stages * STAGE + behind;
    return stages;
}
static inline launch_plan plan_of(const sac_stream *s, int64_t blocks, int64_t bytes) {
    launch_plan p = of_step({dim3((unsigned)blocks), dim3(THREADS), (size_t)bytes});
    p.shared_limit = block_shared_bytes(s->device) - LEFT_BYTES;
    return p;
}

} // namespace sac::blocks::row_e4m3

#endif
