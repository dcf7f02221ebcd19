/* expert_tiles.cu - many rows with their experts' matrices: tiles of TILE rows of one expert and TILE outputs, by tensor
 * cores. How many tiles there are only the device knows: as many blocks as there could be are started, and each looks
 * in the experts' starts which tile it has, if any. */
#include "experts.cuh"
#include "mma.cuh"

namespace sac::experts {

enum { TILE = 64, STEP = 64, TILE_WARPS = 4, PITCH_BYTES = pitch<STEP>(), STAGES = 2 };

struct tile_shared {
    uint8_t x[STAGES][TILE * PITCH_BYTES], w[STAGES][TILE * PITCH_BYTES];
    int part[33], expert, first, end;
};

/* Tile `wanted` of all, expert by expert: false where there are fewer. */
__device__ __forceinline__ bool find_tile(tile_shared *m, const int32_t *starts, int n_experts, int wanted) {
    const int tid = (int)threadIdx.x;
    int seen = 0, total;
    if (tid == 0) m->expert = -1;
    for (int base = 0; base < n_experts && seen <= wanted; base += TILE_WARPS * 32) {
        const int e = base + tid;
        const int first = e < n_experts ? starts[e] : 0, end = e < n_experts ? starts[e + 1] : 0;
        const int n_tiles = (end - first + TILE - 1) / TILE;
        const int before = seen + block_sum_before(n_tiles, &total, m->part);
        if (wanted >= before && wanted < before + n_tiles)
            m->expert = e, m->first = first + (wanted - before) * TILE, m->end = end;
        seen += total;
    }
    __syncthreads();
    return m->expert >= 0;
}

/* Rows [first, first + TILE), of which those from `end` on are zeros, columns [at, at + STEP), zeros behind k. */
template <typename T>
__device__ __forceinline__ void fetch(uint8_t *to, const T *from, int64_t first, int64_t end, int64_t stride,
                                      int at, int k) {
    const int per_row = STEP / 8;
    for (int i = (int)threadIdx.x; i < TILE * per_row; i += TILE_WARPS * 32) {
        const int row = i / per_row, col = i % per_row * 8;
        const bool valid = first + row < end && at + col < k;
        copy_async(to + row * PITCH_BYTES + col * 2, valid ? from + (first + row) * stride + at + col : from,
                   valid);
    }
}

/* Each warp has 32 rows and 32 outputs of the tile. */
template <typename T>
__device__ __forceinline__ void multiply(float sums[2][4][4], const uint8_t *x, const uint8_t *w) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row0 = warp / 2 * 32, out0 = warp % 2 * 32;
#pragma unroll
    for (int at = 0; at < STEP; at += 16) {
        uint32_t a[2][4], b[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) { /* matrices of rows 0 and 8, then the same 8 columns on */
            load_matrices(a[i], x + (row0 + 16 * i + lane % 16) * PITCH_BYTES + (at + lane / 16 * 8) * 2);
            /* of outputs 0, the same 8 inputs on, then of outputs 8 */
            load_matrices(b[i], w + (out0 + 16 * i + lane / 16 * 8 + lane % 8) * PITCH_BYTES +
                                    (at + lane / 8 % 2 * 8) * 2);
        }
#pragma unroll
        for (int i = 0; i < 2; i++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                mma<T>(sums[i][j], a[i][0], a[i][1], a[i][2], a[i][3], b[j / 2][j % 2 * 2],
                       b[j / 2][j % 2 * 2 + 1]);
    }
}

template <typename T>
__device__ __forceinline__ void put(const sac_mat &y, const float sums[2][4][4], int first, int end,
                                    int64_t first_out) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const int64_t row = first + warp / 2 * 32 + 16 * i + c / 2 * 8 + lane / 4;
                const int64_t out = first_out + warp % 2 * 32 + 8 * j + lane % 4 * 2 + c % 2;
                if (row < end && out < y.cols)
                    store_any(y.dtype, y.data, row * y.stride + out, sums[i][j][c]);
            }
}

template <typename T>
static __global__ void __launch_bounds__(TILE_WARPS * 32)
    expert_tiles_kernel(sac_mat y, const T *x, int64_t x_stride, int k, matrices w, const int32_t *starts,
                        int n_experts) {
    __shared__ __align__(16) tile_shared m;
    start_next();
    wait_for_last();
    if (!find_tile(&m, starts, n_experts, (int)blockIdx.y)) return;
    const int first = m.first, end = m.end;
    const int64_t first_out = (int64_t)blockIdx.x * TILE;
    const T *of = (const T *)w.first + m.expert * w.distance;
    float sums[2][4][4] = {};
    const int n_steps = (k + STEP - 1) / STEP;
    fetch(m.x[0], x, first, end, x_stride, 0, k);
    fetch(m.w[0], of, first_out, y.cols, k, 0, k);
    copy_commit();
    for (int i = 0; i < n_steps; i++) {
        if (i + 1 < n_steps) {
            fetch(m.x[(i + 1) % STAGES], x, first, end, x_stride, (i + 1) * STEP, k);
            fetch(m.w[(i + 1) % STAGES], of, first_out, y.cols, k, (i + 1) * STEP, k);
        }
        copy_commit();
        copy_wait<1>(); /* this step's have come */
        __syncthreads();
        multiply<T>(sums, m.x[i % STAGES], m.w[i % STAGES]);
        __syncthreads(); /* before they are written over */
    }
    put<T>(y, sums, first, end, first_out);
}

sac_status expert_tiles(const sac_stream *s, const sac_expert_linear_args *a, matrices w) {
    const sac_dtype t = a->x.dtype;
    const int64_t most = ceil_div(a->x.rows, TILE) + min_of(a->n_experts, a->x.rows);
    if (!is_half(t) || a->w[0].tensor.dtype != t || !mat_aligned(a->x) || !is_aligned(w.first, a->x.cols) ||
        w.distance % 8 != 0 || most > 65535)
        return SAC_UNSUPPORTED;
    const launch_plan p = {dim3((unsigned)ceil_div(a->y.cols, TILE), (unsigned)most), TILE_WARPS * 32};
    if (t == SAC_DTYPE_F16)
        return launch(s, early(p), expert_tiles_kernel<half>, a->y, (const half *)a->x.data, a->x.stride,
                      (int)a->x.cols, w, a->starts, a->n_experts);
    return launch(s, early(p), expert_tiles_kernel<bf16>, a->y, (const bf16 *)a->x.data, a->x.stride,
                  (int)a->x.cols, w, a->starts, a->n_experts);
}

} // namespace sac::experts
