/* packed_scores.cu - a query against packed keys, each unpacked once for the query heads that read it.
 *
 * All rows of a copy in 4 bits with a range a row: codes are numbers of tensor cores' products as they are,
 * the row's range comes afterwards: q . (code * scale + min) = scale * (q . code) + min * sum q. The order of
 * channels is the words', the same for codes and queries. Every other layout, lists, and keys that are
 * turned, go through shared memory, 32 places at a time. */
#include "mma.cuh"
#include "packed.cuh"

/* ---------------------------------------------------------------- any */

enum { PLACES = 32, THREADS = 256, HEADS = 8, MAX_D = 256 };

typedef struct scores_job {
    float *scores;
    int64_t stride, n, from; /* scores, and the row of the first */
    const int32_t *skip;
    const void *q;
    sac_dtype dtype;
    sac_packed_rows keys;
    const int32_t *rows, *turn;
    sac_rotation rotation;
    int n_lists, n_problems, group, heads_per_key, n_heads;
    float scale;
} scores_job;

/* A problem is the query heads that read the same rows of the same key head. */
static __global__ void __launch_bounds__(THREADS) places_kernel(scores_job a) {
    __shared__ float q[HEADS][MAX_D], keys[PLACES][MAX_D + 1];
    int tid = threadIdx.x, warp = tid / 32, lane = tid % 32, d = a.keys.head_dim;
    int head0 = blockIdx.y * a.group, key_head = head0 / a.heads_per_key;
    int64_t first = (int64_t)blockIdx.x * PLACES, list = blockIdx.y / (a.n_problems / a.n_lists);
    int n = (int)min((int64_t)PLACES, a.n - first);
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    if (lane < n) { /* a lane a place */
        int64_t place = list * a.n + first + lane, row = a.rows ? a.rows[place] : a.from + first + lane;
        for (int c = warp; c < d; c += THREADS / 32) keys[lane][c] = packed_key(a.keys, key_head, row, c);
    }
    __syncthreads();
    if (a.turn && lane < n) {
        const sac_rotation &r = a.rotation;
        const float *angles = r.cos_sin + a.turn[list * a.n + first + lane] * (int64_t)r.rot_dim;
        for (int i = warp; i < r.rot_dim / 2; i += THREADS / 32) {
            float *u = &keys[lane][r.interleaved ? 2 * i : i];
            float *v = &keys[lane][r.interleaved ? 2 * i + 1 : i + r.rot_dim / 2];
            float cos = angles[2 * i] / r.factor, sin = angles[2 * i + 1] / r.factor, x = *u, y = *v;
            *u = x * cos + y * sin;
            *v = y * cos - x * sin;
        }
    }
    for (int sub = 0; sub < a.group; sub += HEADS) {
        int n_heads = min((int)HEADS, a.group - sub);
        __syncthreads();
        for (int i = tid; i < n_heads * d; i += THREADS)
            q[i / d][i % d] = load_any(a.dtype, a.q, (int64_t)(head0 + sub) * d + i);
        __syncthreads();
        if (warp < n_heads && lane < n) {
            float sum = 0, odd = 0; /* two chains */
            for (int c = 0; c + 1 < d; c += 2) {
                sum += q[warp][c] * keys[lane][c];
                odd += q[warp][c + 1] * keys[lane][c + 1];
            }
            if (d % 2) sum += q[warp][d - 1] * keys[lane][d - 1];
            a.scores[(head0 + sub + warp) * a.stride + first + lane] = (sum + odd) * a.scale;
        }
    }
}

static sac_status run_places(const sac_stream *s, const sac_packed_scores_args *a) {
    scores_job j = {};
    bool listed = a->rows || a->turn_back, by_head = listed && a->n_lists == a->n_heads;
    j.from = a->first, j.skip = a->skip;
    j.scores = a->scores, j.stride = a->stride, j.n = a->n, j.q = a->q.data, j.dtype = a->q.dtype;
    j.keys = a->keys, j.rows = a->rows, j.turn = a->turn_back, j.n_heads = a->n_heads, j.scale = a->scale;
    if (a->turn_back) j.rotation = *a->rotation;
    j.heads_per_key = a->n_heads / a->keys.n_heads;
    j.n_problems = by_head ? a->n_heads : a->keys.n_heads;
    j.group = a->n_heads / j.n_problems;
    j.n_lists = listed ? a->n_lists : 1;
    int64_t blocks = ceil_div(a->n, PLACES);
    if (a->keys.head_dim > MAX_D || !is_float(a->q.dtype) || j.n_problems > 65535 || blocks > INT32_MAX)
        return SAC_UNSUPPORTED;
    dim3 grid((unsigned)blocks, (unsigned)j.n_problems);
    return launch_early(s, places_kernel, grid, dim3(THREADS), 0, j);
}

/* ---------------------------------------------------------------- all rows, 4 bits */

enum { WARPS = 8, TILES = 4 /* that a warp has under way */ };

/* Two codes as they stand in a word's halves, as numbers: in the last bits of 128 or 1024. */
template <typename T> __device__ __forceinline__ uint32_t codes_of(uint32_t word, int pair);
template <> __device__ __forceinline__ uint32_t codes_of<bf16>(uint32_t word, int pair) {
    uint32_t base = 0x43004300u, x = (word >> 4 * pair & 0x000f000fu) | base;
    __nv_bfloat162 y = __hsub2(*(__nv_bfloat162 *)&x, *(__nv_bfloat162 *)&base);
    return *(uint32_t *)&y;
}
template <> __device__ __forceinline__ uint32_t codes_of<half>(uint32_t word, int pair) {
    uint32_t base = 0x64006400u, x = (word >> 4 * pair & 0x000f000fu) | base;
    half2 y = __hsub2(*(half2 *)&x, *(half2 *)&base);
    return *(uint32_t *)&y;
}

/* With g and t as in mma.cuh a lane has words t, t + 4 .. of rows 2g and 2g + 1 of a tile, and of them eight
 * channels each; the same channels of query head g. */
template <typename T, int D>
static __global__ void __launch_bounds__(WARPS * 32) four_bits_kernel(scores_job a, bool pairs) {
    constexpr int WORDS = D / 8, EACH = WORDS / 4;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, head = blockIdx.y;
    start_next();
    wait_for_last();
    if (is_skipped(a.skip)) return;
    uint32_t b[EACH][2][2];
    float sum = 0; /* of the query's channels: of head g here, then of all, of heads 2t and 2t + 1 */
    const T *q = (const T *)a.q + (int64_t)(head * a.group + g) * D;
#pragma unroll
    for (int j = 0; j < EACH; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t x = g < a.group ? *(const uint32_t *)(q + 8 * (t + 4 * j) + 2 * i) : 0;
            const T *e = (const T *)&x;
            sum += to_f32(e[0]) + to_f32(e[1]);
            b[j][i / 2][i % 2] = x;
        }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    float sums[2] = {__shfl_sync(0xffffffffu, sum, 8 * t), __shfl_sync(0xffffffffu, sum, 8 * t + 4)};

    int64_t n_tiles = (a.n + SAC_PACKED_TILE - 1) / SAC_PACKED_TILE, row0 = head * a.keys.capacity + a.from;
    const uint2 *words = (const uint2 *)(a.keys.k + row0 * WORDS) + t * 8 + g;
    const uint32_t *scales = (const uint32_t *)(a.keys.k_scale + row0) + g;
    const uint32_t *lows = (const uint32_t *)(a.keys.k_min + row0) + g;
    float *out = a.scores + (int64_t)head * a.group * a.stride;
    for (int64_t first = ((int64_t)blockIdx.x * WARPS + warp) * TILES; first < n_tiles;
         first += (int64_t)gridDim.x * WARPS * TILES) {
        uint2 w[TILES][EACH];
        uint32_t scale[TILES], low[TILES];
#pragma unroll
        for (int i = 0; i < TILES; i++) { /* a tile that does not exist is the last again */
            int64_t tile = min(first + i, n_tiles - 1);
#pragma unroll
            for (int j = 0; j < EACH; j++) w[i][j] = words[tile * WORDS * 8 + j * 32];
            scale[i] = scales[tile * 8], low[i] = lows[tile * 8];
        }
#pragma unroll
        for (int i = 0; i < TILES; i++) {
            float c[2][4] = {{0}}; /* two chains: a product waits for the one before it */
#pragma unroll
            for (int j = 0; j < EACH; j++)
#pragma unroll
                for (int e = 0; e < 2; e++)
                    mma<T>(c[e], codes_of<T>(w[i][j].x, 2 * e), codes_of<T>(w[i][j].y, 2 * e),
                           codes_of<T>(w[i][j].x, 2 * e + 1), codes_of<T>(w[i][j].y, 2 * e + 1), b[j][e][0],
                           b[j][e][1]);
            int64_t row = (first + i) * SAC_PACKED_TILE + 2 * g;
            float s[2], m[2];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                s[r] = __half2float(__ushort_as_half((uint16_t)(scale[i] >> 16 * r))) * a.scale;
                m[r] = __half2float(__ushort_as_half((uint16_t)(low[i] >> 16 * r))) * a.scale;
            }
#pragma unroll
            for (int h = 0; h < 2; h++) {
                float x = s[0] * (c[0][h] + c[1][h]) + m[0] * sums[h];
                float y = s[1] * (c[0][2 + h] + c[1][2 + h]) + m[1] * sums[h];
                float *to = out + (2 * t + h) * a.stride + row;
                if (2 * t + h >= a.group || row >= a.n) continue;
                if (pairs && row + 1 < a.n) {
                    *(float2 *)to = make_float2(x, y);
                } else {
                    to[0] = x;
                    if (row + 1 < a.n) to[1] = y;
                }
            }
        }
    }
}

template <typename T> static sac_status run_four_bits(const sac_stream *s, const sac_packed_scores_args *a) {
    scores_job j = {};
    const sac_packed_rows &p = a->keys;
    j.from = a->first, j.skip = a->skip;
    j.scores = a->scores, j.stride = a->stride, j.n = a->n, j.q = a->q.data, j.keys = p, j.scale = a->scale;
    j.group = a->n_heads / p.n_heads;
    bool pairs = a->stride % 2 == 0 && (uintptr_t)a->scores % 8 == 0;
    int64_t blocks = ceil_div(ceil_div(a->n, SAC_PACKED_TILE), WARPS * TILES),
            most = ceil_div(4 * (int64_t)s->device->n_processors, p.n_heads);
    dim3 grid((unsigned)min_of(blocks, most), (unsigned)p.n_heads);
    auto kernel = p.head_dim == 64 ? four_bits_kernel<T, 64> : four_bits_kernel<T, 128>;
    return launch_early(s, kernel, grid, dim3(WARPS * 32), 0, j, pairs);
}

static bool fits_four_bits(const sac_packed_scores_args *a) {
    const sac_packed_rows &p = a->keys;
    return is_half(a->q.dtype) && !a->rows && !a->turn_back && a->first % SAC_PACKED_TILE == 0 &&
           p.bits == 4 && p.k_group == 0 && (p.head_dim == 64 || p.head_dim == 128) &&
           a->n_heads / p.n_heads <= 8 && p.capacity % SAC_PACKED_TILE == 0 && (uintptr_t)p.k % 8 == 0 &&
           (uintptr_t)p.k_scale % 4 == 0 && (uintptr_t)p.k_min % 4 == 0 && (uintptr_t)a->q.data % 4 == 0 &&
           p.n_heads <= 65535;
}

extern "C" sac_status sac_cuda_packed_scores(const sac_stream *s, const sac_packed_scores_args *a) {
    if (a->n > 0)
        SAC_TRY(!fits_four_bits(a)            ? run_places(s, a)
                : a->q.dtype == SAC_DTYPE_F16 ? run_four_bits<half>(s, a)
                                              : run_four_bits<bf16>(s, a));
    if (!a->lse) return SAC_OK;
    sac_softmax_args sums = {};
    sums.scores = a->scores, sums.stride = a->stride, sums.n = a->n, sums.n_rows = a->n_heads;
    sums.lse = a->lse, sums.skip = a->skip;
    return sac_cuda_softmax(s, &sums);
}
