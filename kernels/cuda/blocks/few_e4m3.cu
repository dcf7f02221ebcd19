/* few_e4m3.cu - 1 to 64 rows of x with FP8 weights as plain rows: x is normalised and rounded to codes in scratch, then few_e4m3.cuh. */
#include "few_e4m3_jobs.cuh"
#include "turn.cuh"

namespace sac::blocks {

using namespace few_e4m3;

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
    if (!s->device->no_out && !s->device->no_few_rows) {
        const sac_status st = qkv_e4m3_row(s, j);
        if (st != SAC_UNSUPPORTED) return st;
    }
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
