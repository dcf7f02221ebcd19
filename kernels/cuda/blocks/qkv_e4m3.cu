/* qkv_e4m3.cu - norm, projections, rotation and store of one token, with FP8 weights as plain rows (row_e4m3.cuh). */
#include "row_e4m3.cuh"
#include "turn.cuh"

namespace sac::blocks {

namespace qkv_e4m3 {

using namespace row_e4m3;

enum { FEW_VECTORS = 4, MOST_VECTORS = 8 };

struct job {
    matrices of;
    qkv_product to;
    int first_tile[3], stages, x_bytes, scales_at;
};

/* Heads of q, k and v: whole ones, or, where they have more channels than a tile, the same part of a head's two halves. */
struct heads {
    const job &j;

    __device__ __forceinline__ int box(int tile, int b, int &row) const {
        const int head_dim = j.to.head_dim, m = tile < j.first_tile[1] ? 0 : tile < j.first_tile[2] ? 1 : 2, of = tile - j.first_tile[m];
        if (head_dim <= TILE_ROWS) {
            row = of * TILE_ROWS + b * BOX_ROWS;
        } else {
            const int tiles = head_dim / TILE_ROWS, head = of / tiles;
            row = head * head_dim + (of - head * tiles) * BOX_ROWS + b * (head_dim / 2);
        }
        return m;
    }
};

#if HOPPER
/* A channel of a head's first half and the one that it is turned with: what a thread does with a tile's sums, asked for before they are
 * there. */
struct ends {
    void *to;
    int64_t first;
    float scale[2], bias[2], turned[2];
    int at, apart, half;
    bool is_there;

    __device__ __forceinline__ ends(const job &j, int tile) : scale{}, bias{}, turned{1, 0} {
        const qkv_product &p = j.to;
        int row;
        const int of = heads{j}.box(tile, 0, row);
        half = p.head_dim / 2, apart = min(half, (int)BOX_ROWS), at = threadIdx.x / apart * 2 * apart + threadIdx.x % apart;
        row += at;
        is_there = threadIdx.x < TILE_ROWS / 2 && row < j.of.n[of];
        if (!is_there) return;
        const int head = row / p.head_dim, channel = row - head * p.head_dim;
        to = of == 0 ? p.q : of == 1 ? p.k : p.v;
        first = of == 0 ? (int64_t)head * p.head_dim + channel : p.row_at + head * p.head_stride + channel;
        if (!j.of.scale[of].of_blocks) scale[0] = j.of.scale[of].at[row], scale[1] = j.of.scale[of].at[row + half];
        if (const float *b = p.bias[of]) bias[0] = b[row], bias[1] = b[row + half];
        if (of == 2) return;
        const float *cs = p.cos_sin + ((int64_t)p.pos[0] * half + channel) * 2;
        turned[0] = cs[0], turned[1] = cs[1];
    }
    template <bool BY_UNITS> __device__ __forceinline__ void finish(const job &j, const memory &m) const {
        if (!is_there) return;
        float x = m.sums[at], y = m.sums[at + apart];
        if (!BY_UNITS) x = __fmul_rn(x, scale[0] * m.x_scales[0]), y = __fmul_rn(y, scale[1] * m.x_scales[0]);
        x += bias[0], y += bias[1];
        if (to != j.to.v) turn(turned[0], turned[1], x, y);
        store_any(j.to.out, to, first, x);
        store_any(j.to.out, to, first + half, y);
    }
};
#endif

template <bool BY_UNITS, typename T, int VECTORS> static __global__ void __launch_bounds__(THREADS, 1) kernel(const __grid_constant__ job j) {
#if HOPPER
    extern __shared__ uint8_t unaligned[];
    __shared__ uint64_t full[MOST_STAGES], empty[MOST_STAGES];
    __shared__ uint32_t part[32];
    __shared__ int is_last;
    const memory m = memory_of(unaligned, full, empty, &is_last, j.stages, j.x_bytes);
    start_next();
    if (threadIdx.x == 0) open_ring(m);
    __syncthreads();
    place at;
    if (threadIdx.x >= WORKERS) {
        int n_asked = 0;
        if (threadIdx.x == WORKERS) copy(j.of, heads{j}, m, at, n_asked, pass_through_l2());
        return;
    }
    float sum[2];
    raw<T, 8> x[VECTORS];
    const share of(j.of);
    look_ahead<BY_UNITS>(j.of, heads{j}, m.x_scales + j.scales_at, j.to.bias);
    const row_factors<VECTORS> norm(j.to.norm, j.of.k);
    wait_for_last();
    take_row(x, (const T *)j.to.x, j.of.k);
    norm_row(x, norm, j.to.eps, j.of.k, part);
    keep_codes<BY_UNITS>(x, j.of.k, j.of.x_scale, m, part);
    for (int i = 0; i < of.n_tiles; i++) {
        const ends meets(j, of.tile(i));
        multiply<BY_UNITS, false>(of, of.tile(i), m, m.x_scales + j.scales_at, at, sum);
        if (!join(j.of, of, of.tile(i), m, sum)) continue;
        meets.template finish<BY_UNITS>(j, m);
        workers::meet();
    }
#else
    (void)j;
#endif
}

template <bool BY_UNITS, typename T, int VECTORS> static sac_status run(const sac_stream *s, job &j) {
    auto chosen = kernel<BY_UNITS, T, VECTORS>;
    const int64_t blocks = min_of(s->device->n_processors, (int64_t)j.of.n_tiles * j.of.steps);
    const int steps = (int)ceil_div((int64_t)j.of.n_tiles * j.of.steps, blocks);
    int64_t bytes;
    scratch room(s);
    bool has;
    j.x_bytes = j.of.steps * STEP + X_BEHIND;
    j.scales_at = BY_UNITS ? j.of.steps : 1;
    j.stages = stages_of(s, j.x_bytes, j.scales_at + (BY_UNITS ? BOXES * steps : 0), &bytes);
    SAC_TRY(has_code(chosen, &has));
    return !has || !room.add(&j.of, blocks) || !room.suffices() || j.stages < 2 ? SAC_UNSUPPORTED
                                                                                : launch(s, plan_of(s, blocks, bytes), chosen, j);
}
template <bool BY_UNITS, typename T> static sac_status run_width(const sac_stream *s, job &j) {
    return j.of.k <= most_x_cols(FEW_VECTORS) ? run<BY_UNITS, T, FEW_VECTORS>(s, j) : run<BY_UNITS, T, MOST_VECTORS>(s, j);
}
template <bool BY_UNITS> static sac_status run_type(const sac_stream *s, job &j) {
    return j.to.x_type == SAC_DTYPE_F16 ? run_width<BY_UNITS, half>(s, j) : run_width<BY_UNITS, bf16>(s, j);
}

} // namespace qkv_e4m3

sac_status qkv_e4m3_rows(const sac_stream *s, const qkv_product &to) {
    using namespace qkv_e4m3;
    const rows_of_x of = {{(void *)to.x, 1, to.n_cols, to.n_cols, to.x_type}, to.rounding, to.norm, to.eps};
    const bool by_units = to.rounding.how == SAC_X_FP8_GROUPS;
    if (!is_taken(s, of) || to.n_cols > most_x_cols(MOST_VECTORS) || to.interleaved || (TILE_ROWS % to.head_dim && to.head_dim % TILE_ROWS)) return SAC_UNSUPPORTED;
    job j = {};
    int64_t n_tiles = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t n = (int64_t)to.heads[i] * to.head_dim;
        j.first_tile[i] = (int)n_tiles;
        if (n > 1 << 24 || (n && !add_matrix(&j.of, i, to.w[i], to.layout[i], n, by_units))) return SAC_UNSUPPORTED;
        n_tiles += ceil_div(n, TILE_ROWS);
    }
    if (!n_tiles) return SAC_OK;
    set_steps(&j.of, to.n_cols, n_tiles, to.rounding);
    j.to = to;
    return by_units ? run_type<true>(s, j) : run_type<false>(s, j);
}

} // namespace sac::blocks
