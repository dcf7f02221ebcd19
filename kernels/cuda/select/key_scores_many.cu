/* key_scores_many.cu - scores of several queries against the same keys, each key read once for a head's
 * queries and group.
 *
 * A warp keeps sixteen rows (queries of the heads that share keys) in registers, in three parts each
 * (key_scores.cuh); the warps of a block share tiles of 64 keys, which travel ahead of them into shared
 * memory. So a matrix that is loaded from shared memory serves six products of a warp. */
#include "key_scores.cuh"

namespace sac::select {

enum { KEYS = 64, AT_ONCE = 32, ROWS = 16, WARPS = 8, STAGES = 4 };

struct many_job : queries_job {
    const void *k;
    int64_t k_row, k_head;
    int d;
};

template <typename T, int D>
__device__ __forceinline__ void fetch_chunks(const many_job &a, const T *k, uint8_t *stage, int tile,
                                             int n_chunks) {
#pragma unroll 4
    for (int i = threadIdx.x; i < KEYS * n_chunks; i += blockDim.x) {
        int key = i / n_chunks, c = i % n_chunks, j = tile * KEYS + key;
        copy_async(stage + key * pitch<D>() + c * 16, k + (a.first + min(j, a.n_last - 1)) * a.k_row + c * 8,
                   j < a.n_last);
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(WARPS * 32, 1) key_scores_many_kernel(many_job a) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ float units[WARPS][ROWS];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, kv_head = blockIdx.y;
    int row0 = (blockIdx.z * (blockDim.x / 32) + warp) * ROWS, n_tiles = (a.n_last + KEYS - 1) / KEYS;
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    for (int i = threadIdx.x; a.d < D && i < STAGES * KEYS * pitch<D>() / 16; i += blockDim.x)
        ((uint4 *)shared)[i] = make_uint4(0, 0, 0, 0); /* channels that do not exist */
    __syncthreads();
    const T *k = (const T *)a.k + kv_head * a.k_head;
    auto fetch = [&](int tile, int stage) {
        uint8_t *to = shared + stage * KEYS * pitch<D>();
        if (tile < n_tiles && a.d == D) /* no division at run time */
            fetch_chunks<T, D>(a, k, to, tile, D / 8);
        else if (tile < n_tiles)
            fetch_chunks<T, D>(a, k, to, tile, a.d / 8);
        copy_commit();
    };
    int at = blockIdx.x, step = gridDim.x;
    for (int i = 0; i < STAGES - 1; i++) fetch(at + i * step, i);

#pragma unroll 4
    for (int r = 0; r < ROWS; r++) {
        bool valid = row0 + r < a.n_rows;
        float u = valid ? unit_of<T>(a.q + head_of(a, kv_head, row0 + r) * a.d, a.d, lane) : 1;
        if (lane == 0) units[warp][r] = u;
    }
    __syncwarp();
    uint32_t q[3][D / 16][4];
    float scale[2], *scores[2];
    int end[2]; /* of the keys that a row has; 0: no row */
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int r = row0 + g + h * 8;
        bool row = r < a.n_rows;
        int64_t head = head_of(a, kv_head, row ? r : 0);
        float f = 1 / units[warp][g + h * 8];
        scale[h] = a.scale * units[warp][g + h * 8];
        scores[h] = row ? a.scores + head * a.stride : NULL;
        end[h] = a.n + r / a.group * a.n_more;
#pragma unroll
        for (int s = 0; s < D / 16; s++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int c = s * 16 + i * 8 + 2 * t;
                const float *from = a.q + head * a.d + c;
                bool valid = row && c < a.d;
                cut<T>(valid ? from[0] * f : 0, valid ? from[1] * f : 0, q[0][s][2 * i + h],
                       q[1][s][2 * i + h], q[2][s][2 * i + h]);
            }
    }
    for (int stage = 0; at < n_tiles; at += step, stage = (stage + 1) % STAGES) {
        copy_wait<STAGES - 2>();
        __syncthreads(); /* the tile has come for all, and all have read the one before it */
        fetch(at + (STAGES - 1) * step, (stage + STAGES - 1) % STAGES);
        if (row0 >= a.n_rows) continue;
        const uint8_t *from =
            shared + (stage * KEYS + lane / 16 * 8 + lane % 8) * pitch<D>() + lane / 8 % 2 * 16;
#pragma unroll 1
        for (int first = 0; first < KEYS; first += AT_ONCE) {
            float s[3][AT_ONCE / 8][4]; /* a chain of products for each part */
#pragma unroll
            for (int p = 0; p < 3; p++)
#pragma unroll
                for (int m = 0; m < AT_ONCE / 8; m++)
#pragma unroll
                    for (int i = 0; i < 4; i++) s[p][m][i] = 0;
#pragma unroll
            for (int i = 0; i < D / 16; i++)
#pragma unroll
                for (int m = 0; m < AT_ONCE / 8; m += 2) {
                    uint32_t b[4];
                    load_matrices(b, from + (first + m * 8) * pitch<D>() + i * 32);
#pragma unroll
                    for (int p = 0; p < 3; p++) {
                        mma<T>(s[p][m], q[p][i][0], q[p][i][1], q[p][i][2], q[p][i][3], b[0], b[1]);
                        mma<T>(s[p][m + 1], q[p][i][0], q[p][i][1], q[p][i][2], q[p][i][3], b[2], b[3]);
                    }
                }
#pragma unroll
            for (int m = 0; m < AT_ONCE / 8; m++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    int j = at * KEYS + first + m * 8 + 2 * t;
                    float x = (s[2][m][2 * h] + s[1][m][2 * h] + s[0][m][2 * h]) * scale[h];
                    float y = (s[2][m][2 * h + 1] + s[1][m][2 * h + 1] + s[0][m][2 * h + 1]) * scale[h];
                    if (j >= end[h]) x = -CUDART_INF_F;
                    if (j + 1 >= end[h]) y = -CUDART_INF_F;
                    if (!scores[h] || j >= a.n_last) continue;
                    if (a.pairs && j + 1 < a.n_last) {
                        *(float2 *)(scores[h] + j) = make_float2(x, y);
                    } else {
                        scores[h][j] = x;
                        if (j + 1 < a.n_last) scores[h][j + 1] = y;
                    }
                }
        }
    }
    copy_wait<0>();
}

template <typename T, int D> static sac_status run(const sac_stream *s, const many_job &j, int n_kv_heads) {
    int bytes = STAGES * KEYS * pitch<D>();
    auto kernel = key_scores_many_kernel<T, D>;
    int64_t tiles = ceil_div(j.n_rows, ROWS), z = ceil_div(tiles, WARPS), n_warps = ceil_div(tiles, z);
    int64_t together = n_warps <= 2   ? 3
                       : n_warps <= 4 ? 2
                                      : 1; /* blocks of a processor, by their registers */
    int64_t blocks = s->device->n_processors * together / (n_kv_heads * z);
    dim3 grid((unsigned)max_of(1, min_of(ceil_div(j.n_last, KEYS), blocks)), (unsigned)n_kv_heads,
              (unsigned)z);
    return launch(s, early({grid, (unsigned)n_warps * 32, (size_t)bytes, bytes}), kernel, j);
}

sac_status key_scores_many(const sac_stream *s, const sac_key_scores_args *a) {
    const sac_kv_view *kv = &a->kv;
    many_job j;
    if (!take_queries(&j, a) || !keys_aligned(kv) || kv->head_dim > 128) return SAC_UNSUPPORTED;
    if (j.n_last == 0) return SAC_OK;
    j.k = kv->k, j.k_row = kv->row_stride, j.k_head = kv->head_stride, j.d = kv->head_dim;
#define LAUNCH(D)                                                                                            \
    (kv->dtype == SAC_DTYPE_F16 ? run<half, D>(s, j, kv->n_heads) : run<bf16, D>(s, j, kv->n_heads))
    return kv->head_dim <= 64 ? LAUNCH(64) : kv->head_dim <= 96 ? LAUNCH(96) : LAUNCH(128);
}

} // namespace sac::select
