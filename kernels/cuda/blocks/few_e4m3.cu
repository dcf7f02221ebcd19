/* few_e4m3.cu - 1 to 64 rows of x with FP8 weights as plain rows: x is normalised and rounded to codes in scratch, then few_e4m3.cuh. */
#include "few_e4m3.cuh"
#include "block_product.cuh"
#include "tensor_map.cuh"
#include "turn.cuh"

namespace sac::blocks {

using namespace few_e4m3;

/* Scales of a matrix, of rows or of blocks of 128 x 128. */
struct matrix_scales {
    const float *at;
    int of_blocks; /* scales of 128 rows, or 0: one a row */

    __device__ __forceinline__ const float *of(int64_t row) const { return at + (of_blocks ? row / 128 * of_blocks : row); }
    __device__ __forceinline__ float met(float sum, int64_t row, float of_x) const { return of_blocks ? sum : sum * (at[row] * of_x); }
    __device__ __forceinline__ void fetch(int64_t row) const {
        if (!of_blocks) fetch_soon(at + row);
    }
};

/* Rows of one of several matrices. */
struct product_boxes {
    product_job job; /* first_block: first tile */
    matrix_scales scale[SAC_LINEAR_GROUP_MOST];

    __device__ __forceinline__ int part_of(int tile, int &first) const {
        int of = 0;
        while (of + 1 < job.n_parts && tile >= job.part[of + 1].first_block) of++;
        first = (tile - job.part[of].first_block) * TILE_ROWS;
        return of;
    }
    __device__ __forceinline__ int box(int tile, int i, int &row) const {
        const int of = part_of(tile, row);
        row += i * BOX_ROWS;
        return of;
    }
    __device__ __forceinline__ const float *scales(int tile, int i) const {
        int row;
        const int of = box(tile, i, row);
        return scale[of].of(row < job.part[of].y.cols ? row : 0);
    }
    __device__ void warm(int tile, int i) const {
        int first;
        const int of = part_of(tile, first);
        const product_part &p = job.part[of];
        if (first + i >= p.y.cols) return;
        scale[of].fetch(first + i);
        if (p.bias) fetch_soon(p.bias + first + i);
    }
    __device__ void finish(int tile, const float *sums, const float *x_scales, int m) const {
        int first;
        const int of = part_of(tile, first), r = threadIdx.x % TILE_ROWS;
        const product_part &p = job.part[of];
        if (first + r >= p.y.cols) return;
        for (int row = threadIdx.x / TILE_ROWS; row < m; row += WORKERS / TILE_ROWS)
            blocks::finish(job, p, first + r, row, scale[of].met(sums[row * SUMS_ROW + r], first + r, x_scales[row]));
    }
};

/* Channels of the gate, and the same ones of up. */
struct gate_boxes {
    product_part y;
    matrix_scales scale[2];

    __device__ __forceinline__ int box(int tile, int i, int &row) const {
        row = tile * BOX_ROWS;
        return i;
    }
    __device__ __forceinline__ const float *scales(int tile, int i) const { return scale[i].of(tile * BOX_ROWS); }
    __device__ void warm(int tile, int i) const {
        const int64_t row = (int64_t)tile * BOX_ROWS + i % BOX_ROWS;
        if (row < y.y.cols) scale[i / BOX_ROWS].fetch(row);
    }
    __device__ void finish(int tile, const float *sums, const float *x_scales, int m) const {
        const int r = threadIdx.x % BOX_ROWS;
        const int64_t col = (int64_t)tile * BOX_ROWS + r;
        if (col >= y.y.cols) return;
        for (int row = threadIdx.x / BOX_ROWS; row < m; row += WORKERS / BOX_ROWS) {
            const float *of_row = sums + row * SUMS_ROW + r, gate = scale[0].met(of_row[0], col, x_scales[row]),
                        up = scale[1].met(of_row[BOX_ROWS], col, x_scales[row]);
            if (y.y.dtype == SAC_DTYPE_F16)
                finish_gated<half>(y, col, row, gate, up);
            else
                finish_gated<bf16>(y, col, row, gate, up);
        }
    }
};

/* Heads of q, k and v: whole ones, or, where they have more channels than a tile, the same part of a head's two halves. */
struct head_boxes {
    qkv_product job;
    matrix_scales scale[3];
    int first_tile[3];

    __device__ __forceinline__ int matrix_of(int tile, int &of) const {
        int m = 0;
        while (m < 2 && tile >= first_tile[m + 1]) m++;
        of = tile - first_tile[m];
        return m;
    }
    __device__ __forceinline__ int box(int tile, int i, int &row) const {
        int of;
        const int m = matrix_of(tile, of);
        if (job.head_dim <= TILE_ROWS)
            row = of * TILE_ROWS + i * BOX_ROWS;
        else {
            const int tiles = job.head_dim / TILE_ROWS, head = of / tiles;
            row = head * job.head_dim + (of - head * tiles) * BOX_ROWS + i * (job.head_dim / 2);
        }
        return m;
    }
    __device__ __forceinline__ const float *scales(int tile, int i) const {
        int row;
        const int m = box(tile, i, row);
        return scale[m].of(row < job.heads[m] * job.head_dim ? row : 0);
    }
    __device__ void warm(int tile, int i) const {
        int row;
        const int m = box(tile, i / BOX_ROWS, row);
        row += i % BOX_ROWS;
        if (row >= job.heads[m] * job.head_dim) return;
        scale[m].fetch(row);
        if (job.bias[m]) fetch_soon(job.bias[m] + row);
    }
    __device__ void finish(int tile, const float *sums, const float *x_scales, int) const {
        if (threadIdx.x >= TILE_ROWS / 2) return;
        int row;
        const int m = box(tile, 0, row), half = job.head_dim / 2, apart = min(half, (int)BOX_ROWS),
                  at = threadIdx.x / apart * 2 * apart + threadIdx.x % apart;
        row += at;
        if (row >= job.heads[m] * job.head_dim) return;
        const int head = row / job.head_dim, channel = row - head * job.head_dim;
        float x = scale[m].met(sums[at], row, x_scales[0]), y = scale[m].met(sums[at + apart], row + half, x_scales[0]);
        if (const float *b = job.bias[m]) x += b[row], y += b[row + half];
        if (m < 2) {
            const float *cs = job.cos_sin + ((int64_t)job.pos[0] * half + channel) * 2;
            turn(cs[0], cs[1], x, y);
        }
        void *to = m == 0 ? job.q : m == 1 ? job.k : job.v;
        const int64_t first = m == 0 ? (int64_t)head * job.head_dim + channel : job.row_at + head * job.head_stride + channel;
        store_any(job.out, to, first, x);
        store_any(job.out, to, first + half, y);
    }
};

/* ---------------------------------------------------------------- launches */

/* Rows of `cols` codes, `stride` bytes apart, as boxes of a step of some rows. */
static bool map_codes(CUtensorMap *map, const void *codes, int64_t cols, int64_t n_rows, int64_t stride, int box) {
    static const encode_map encode = find_encode_map();
    const cuuint64_t sizes[4] = {(cuuint64_t)cols, (cuuint64_t)n_rows, 1, 1}, pitch = (cuuint64_t)stride,
                     bytes[3] = {pitch, pitch * (cuuint64_t)n_rows, pitch * (cuuint64_t)n_rows};
    const cuuint32_t boxes[4] = {STEP, (cuuint32_t)box, 1, 1}, steps[4] = {1, 1, 1, 1};
    return encode && encode(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 4, (void *)codes, sizes, bytes, boxes, steps,
                            CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                            CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

/* Whether the program has a kernel's code for sm_90a: elsewhere its body is empty, and declares no barriers. */
template <typename... P> static sac_status has_code(void (*kernel)(P...), bool *has) {
    cudaFuncAttributes f;
    SAC_TRY(attributes_of(kernel, &f));
    *has = f.sharedSizeBytes > 0;
    return SAC_OK;
}

/* One row of x or several that want the same, and where codes and sums lie. */
struct rows_of_x {
    sac_mat x;
    x_rounding rounding;
    const float *norm; /* or NULL */
    float eps;
};

template <int N, bool BY_UNITS, typename JOB>
static sac_status run(const sac_stream *s, const rows_of_x &of, input in, const JOB &job) {
    typedef places<N, BY_UNITS> P;
    auto chosen = kernel<N, BY_UNITS, JOB>;
    const int64_t m = of.x.rows, k = of.x.cols, all = (int64_t)in.n_tiles * in.steps, blocks = min_of(all, s->device->n_processors);
    const int most = block_shared_bytes(s->device) - LEFT_BYTES;
    in.m = (int)m, in.most = (int)ceil_div(all, blocks);
    in.stages = MOST_STAGES;
    while (in.stages > 2 && P::bytes(in.stages, in.units, in.most) + 1024 > most) in.stages--;
    const int64_t bytes = P::bytes(in.stages, in.units, in.most) + 1024;
    size_t room;
    uint8_t *at = scratch_rest(s, &room);
    const size_t code_bytes = (size_t)ceil_div(m * k, 256) * 256, scale_bytes = (size_t)ceil_div(4 * m * in.units, 256) * 256;
    if (all > INT32_MAX / MOST_BLOCKS || blocks > MOST_BLOCKS || bytes > most || (size_t)in.n_tiles * 4 > SCRATCH_COUNTER_BYTES ||
        code_bytes + scale_bytes + (size_t)blocks * (N * WORKERS * 4) > room)
        return SAC_UNSUPPORTED;
    bool has;
    SAC_TRY(has_code(chosen, &has));
    in.x_scales = (const float *)(at + code_bytes), in.parts = (float *)(at + code_bytes + scale_bytes);
    in.met = scratch_counters(s);
    if (!has || !map_codes(&in.x, at, k, m, k, N)) return SAC_UNSUPPORTED;
    SAC_TRY(round_to_e4m3(s, of.x, of.rounding, of.norm, of.eps, at, (float *)(at + code_bytes)));
    launch_plan p = of_step({dim3((unsigned)blocks), dim3(THREADS), (size_t)bytes});
    p.shared_limit = most;
    return launch(s, p, chosen, in, job);
}
template <bool BY_UNITS, typename JOB>
static sac_status run_some(const sac_stream *s, const rows_of_x &of, const input &in, const JOB &job) {
    return of.x.rows <= 8    ? run<8, BY_UNITS>(s, of, in, job)
           : of.x.rows <= 16 ? run<16, BY_UNITS>(s, of, in, job)
           : of.x.rows <= 32 ? run<32, BY_UNITS>(s, of, in, job)
                             : run<64, BY_UNITS>(s, of, in, job);
}

static bool is_taken(const sac_stream *s, const rows_of_x &of) {
    const x_rounding r = of.rounding;
    return !s->device->no_e4m3 && tuning_of(s->device).has_wgmma && of.x.rows >= 1 && of.x.rows <= MOST_X && of.x.cols % 16 == 0 &&
           of.x.cols >= STEP && of.x.cols < 1 << 24 && is_half(of.x.dtype) && mat_aligned(of.x) && (uintptr_t)of.norm % 16 == 0 &&
           (r.how == SAC_X_FP8_GROUPS ? r.group == STEP : r.how == SAC_X_FP8_ROWS || (r.how == SAC_X_FP8_STATIC && r.scale != 0));
}
static matrix_scales scales_of(const void *w, const sac_block_layout &l, bool by_units) {
    return {(const float *)((const uint8_t *)w + l.at[SAC_BLOCK_SCALES]), by_units ? (int)((l.n_stretches * STRETCH + 511) / 512 * 4) : 0};
}
static input input_of(int64_t k, bool by_units) {
    input in = {};
    in.steps = (int)ceil_div(k, STEP), in.units = by_units ? in.steps : 1;
    return in;
}
static bool map_rows(input *in, int i, const void *w, const sac_block_layout &l, int64_t n) {
    return map_codes(&in->w[i], w, l.n_stretches * STRETCH, ceil_div(n, SAC_BLOCK_TILE) * SAC_BLOCK_TILE, l.n_stretches * STRETCH, BOX_ROWS);
}

sac_status product_e4m3_rows(const sac_stream *s, const product_job &j) {
    const rows_of_x of = {j.x, j.rounding, j.norm, j.eps};
    const bool by_units = j.rounding.how == SAC_X_FP8_GROUPS;
    if (!is_taken(s, of)) return SAC_UNSUPPORTED;
    input in = input_of(j.x.cols, by_units);
    matrix_scales scales[SAC_LINEAR_GROUP_MOST];
    product_boxes job = {j, {}};
    for (int i = 0; i < j.n_parts; i++) {
        const product_part &p = j.part[i];
        if (p.y.cols > 1 << 24 || !map_rows(&in, i, p.w, p.layout, p.y.cols)) return SAC_UNSUPPORTED;
        job.job.part[i].first_block = in.n_tiles;
        in.n_tiles += (int)ceil_div(p.y.cols, j.gated ? BOX_ROWS : TILE_ROWS);
        scales[i] = job.scale[i] = scales_of(p.w, p.layout, by_units);
    }
    if (!in.n_tiles) return SAC_OK;
    if (j.gated) {
        const gate_boxes gates = {j.part[0], {scales[0], scales[1]}};
        in.n_tiles /= 2;
        return by_units ? run_some<true>(s, of, in, gates) : run_some<false>(s, of, in, gates);
    }
    return by_units ? run_some<true>(s, of, in, job) : run_some<false>(s, of, in, job);
}

sac_status qkv_e4m3_rows(const sac_stream *s, const qkv_product &j) {
    const rows_of_x of = {{(void *)j.x, 1, j.n_cols, j.n_cols, j.x_type}, j.rounding, j.norm, j.eps};
    const bool by_units = j.rounding.how == SAC_X_FP8_GROUPS;
    if (!is_taken(s, of) || j.interleaved || (TILE_ROWS % j.head_dim && j.head_dim % TILE_ROWS)) return SAC_UNSUPPORTED;
    input in = input_of(j.n_cols, by_units);
    head_boxes job = {j, {}, {}};
    for (int i = 0; i < 3; i++) {
        const int64_t n = (int64_t)j.heads[i] * j.head_dim;
        job.first_tile[i] = in.n_tiles;
        if (!n) continue;
        if (n > 1 << 24 || !map_rows(&in, i, j.w[i], j.layout[i], n)) return SAC_UNSUPPORTED;
        in.n_tiles += (int)ceil_div(n, TILE_ROWS);
        job.scale[i] = scales_of(j.w[i], j.layout[i], by_units);
    }
    if (!in.n_tiles) return SAC_OK;
    return by_units ? run<8, true>(s, of, in, job) : run<8, false>(s, of, in, job);
}

} // namespace sac::blocks
