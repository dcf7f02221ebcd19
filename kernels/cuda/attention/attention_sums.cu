/* attention_sums.cu - how much attention keys get from probes: pass 1 finds each row's denominator (a row is
 * a probe and a query head, numbered as in attention.cuh), pass 2 walks over all rows for one tile of keys
 * and adds up weights down the columns. No scores are kept; what is kept between the passes is a logarithm a
 * row. Sums are added in a fixed order, without atomics. */
#include "attention.cuh"
#include "context.cuh"

namespace sac::attention {

enum { TILE = 64 /* rows and keys */, WARPS = 4 };

typedef struct sums_job {
    float *sums, *diagonals;
    const void *q, *k;
    const int32_t *probes;
    float *lse;    /* [problem][n_rows], logarithms to base 2 */
    float2 *parts; /* [problem][split][n_rows]: maximum, sum */
    int64_t q_stride, k_row, k_head, stride, n_diagonals, n_kv, first, window;
    int n_probes, n_rows, n_problems, group, heads_per_kv, n_sums, n_splits, d;
    float scale_log2;
    bool add; /* to what the probes before these have left */
} sums_job;

/* Row number of a row's query, and its position. */
__device__ __forceinline__ int64_t query_of(const sums_job &a, int row) {
    int probe = row / a.group;
    return a.probes ? a.probes[probe] : probe;
}
__device__ __forceinline__ int64_t position_of(const sums_job &a, int row) {
    return a.first + query_of(a, row);
}
__device__ __forceinline__ int64_t query_at(const sums_job &a, int problem, int row) {
    return query_of(a, row) * a.q_stride + (int64_t)(problem * a.group + row % a.group) * a.d;
}
__device__ __forceinline__ bool sees(const sums_job &a, int64_t position, int64_t key) {
    return key <= position && key < a.n_kv && (a.window == 0 || key > position - a.window);
}

/* ---------------------------------------------------------------- tensor cores */

template <int D> constexpr int tile_bytes(void) {
    return TILE * pitch<D>();
}

/* Starts copying 64 rows; at(i) is where row i begins, or -1. */
template <typename T, int D, typename F>
__device__ __forceinline__ void fetch(uint8_t *to, const T *from, int d, F at) {
    int chunks = d == D ? D / 8 : d / 8;
    for (int i = threadIdx.x; i < TILE * chunks; i += WARPS * 32) {
        int row = i / chunks, c = i % chunks;
        int64_t where = at(row);
        copy_async(to + row * pitch<D>() + c * 16, from + (where < 0 ? 0 : where + c * 8), where >= 0);
    }
}
template <int D> __device__ __forceinline__ void clear(uint8_t *shared, int n_bytes, int d) {
    for (int i = threadIdx.x; d < D && i < n_bytes / 16; i += WARPS * 32)
        ((uint4 *)shared)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
}

/* Products of a warp's 16 rows with 64 keys, both in shared memory. */
template <typename T, int D>
__device__ __forceinline__ void multiply(const uint8_t *q, const uint8_t *k, int lane, float s[TILE / 8][4]) {
    const uint8_t *qa = q + lane % 16 * pitch<D>() + lane / 16 * 16;
    const uint8_t *kb = k + (lane / 16 * 8 + lane % 8) * pitch<D>() + lane / 8 % 2 * 16;
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] = 0;
#pragma unroll
    for (int i = 0; i < D / 16; i++) {
        uint32_t a[4];
        load_matrices(a, qa + i * 32);
#pragma unroll
        for (int n = 0; n < TILE / 16; n++) {
            uint32_t b[4];
            load_matrices(b, kb + n * 16 * pitch<D>() + i * 32);
            mma<T>(s[2 * n], a[0], a[1], a[2], a[3], b[0], b[1]);
            mma<T>(s[2 * n + 1], a[0], a[1], a[2], a[3], b[2], b[3]);
        }
    }
}

/* Maximum and sum of 64 rows over one split of the keys. */
template <typename T, int D>
static __global__ void __launch_bounds__(WARPS * 32) denominators_kernel(sums_job a) {
    extern __shared__ __align__(128) uint8_t shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, problem = blockIdx.z, row0 = blockIdx.x * TILE;
    uint8_t *q = shared, *k = shared + tile_bytes<D>();
    clear<D>(shared, 3 * tile_bytes<D>(), a.d);
    int last_row = min(row0 + TILE, a.n_rows) - 1;
    int64_t first = position_of(a, row0), last = position_of(a, last_row), begin = 0,
            end = min(a.n_kv, last + 1);
    if (a.window) begin = max((int64_t)0, first - a.window + 1);
    int n_tiles = (int)max((int64_t)0, (end - begin + TILE - 1) / TILE);
    int at = (int)((int64_t)n_tiles * blockIdx.y / a.n_splits),
        to = (int)((int64_t)n_tiles * (blockIdx.y + 1) / a.n_splits);
    const T *keys = (const T *)a.k + (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head;
    auto fetch_keys = [&](int tile, uint8_t *where) {
        int64_t j0 = begin + (int64_t)tile * TILE;
        fetch<T, D>(where, keys, a.d, [&](int i) { return j0 + i < end ? (j0 + i) * a.k_row : (int64_t)-1; });
    };
    fetch<T, D>(q, (const T *)a.q, a.d,
                [&](int i) { return row0 + i < a.n_rows ? query_at(a, problem, row0 + i) : (int64_t)-1; });
    if (at < to) fetch_keys(at, k);
    copy_commit();
    int64_t position[2];
    float max[2] = {-CUDART_INF_F, -CUDART_INF_F}, sum[2] = {0, 0};
#pragma unroll
    for (int i = 0; i < 2; i++)
        position[i] = position_of(a, min(row0 + warp * 16 + lane / 4 + 8 * i, last_row));
    for (int tile = at; tile < to; tile++) {
        uint8_t *now = k + (tile - at) % 2 * tile_bytes<D>(),
                *next = k + (tile - at + 1) % 2 * tile_bytes<D>();
        if (tile + 1 < to) fetch_keys(tile + 1, next);
        copy_commit();
        copy_wait<1>();
        __syncthreads();
        float s[TILE / 8][4];
        multiply<T, D>(q + warp * 16 * pitch<D>(), now, lane, s);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float top = max[i / 2];
#pragma unroll
            for (int n = 0; n < TILE / 8; n++) {
                int64_t j = begin + (int64_t)tile * TILE + n * 8 + lane % 4 * 2 + i % 2;
                s[n][i] = sees(a, position[i / 2], j) ? s[n][i] * a.scale_log2 : -CUDART_INF_F;
                top = fmaxf(top, s[n][i]);
            }
            float base = top == -CUDART_INF_F ? 0 : top;
            sum[i / 2] *= exp2_fast(max[i / 2] - base);
            max[i / 2] = top;
#pragma unroll
            for (int n = 0; n < TILE / 8; n++) sum[i / 2] += exp2_fast(s[n][i] - base);
        }
        __syncthreads(); /* all warps have read the tile before the next copy into it */
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float m = max[i], l = sum[i];
#pragma unroll
        for (int x = 1; x < 4; x *= 2) {
            float m2 = __shfl_xor_sync(0xffffffffu, m, x), l2 = __shfl_xor_sync(0xffffffffu, l, x);
            float top = fmaxf(m, m2), base = top == -CUDART_INF_F ? 0 : top;
            l = l * exp2_fast(m - base) + l2 * exp2_fast(m2 - base);
            m = top;
        }
        int r = row0 + warp * 16 + lane / 4 + 8 * i;
        if (lane % 4 == 0 && r < a.n_rows)
            a.parts[((int64_t)problem * a.n_splits + blockIdx.y) * a.n_rows + r] = make_float2(m, l);
    }
}

static __global__ void join_denominators_kernel(sums_job a) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (int64_t)a.n_problems * a.n_rows) return;
    const float2 *parts = a.parts + i / a.n_rows * a.n_splits * a.n_rows + i % a.n_rows;
    float max = -CUDART_INF_F, sum = 0;
    for (int s = 0; s < a.n_splits; s++) max = fmaxf(max, parts[(int64_t)s * a.n_rows].x);
    for (int s = 0; s < a.n_splits; s++) {
        float2 p = parts[(int64_t)s * a.n_rows];
        if (p.y > 0) sum += p.y * exp2f(p.x - max);
    }
    a.lse[i] = sum > 0 ? log2f(sum) + max : -CUDART_INF_F;
}

/* Column sums of 64 keys over all rows of a set. */
template <typename T, int D> static __global__ void __launch_bounds__(WARPS * 32) columns_kernel(sums_job a) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ float part[WARPS][TILE];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, set = blockIdx.y, per_set = a.n_problems / a.n_sums;
    int64_t j0 = (int64_t)blockIdx.x * TILE;
    uint8_t *k = shared, *q = shared + tile_bytes<D>();
    clear<D>(shared, 3 * tile_bytes<D>(), a.d);
    float sum[TILE / 8][2] = {{0}};
    int n_tiles = (a.n_rows + TILE - 1) / TILE;
    for (int problem = set * per_set; problem < (set + 1) * per_set; problem++) {
        const T *keys = (const T *)a.k + (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head;
        auto fetch_rows = [&](int tile) {
            int row0 = tile * TILE;
            fetch<T, D>(q + tile % 2 * tile_bytes<D>(), (const T *)a.q, a.d, [&](int i) {
                return row0 + i < a.n_rows ? query_at(a, problem, row0 + i) : (int64_t)-1;
            });
        };
        /* rows ascend: skip those before the first key, stop at those that have left the window */
        int tile = 0;
        while (tile < n_tiles && position_of(a, min((tile + 1) * TILE, a.n_rows) - 1) < j0) tile++;
        fetch<T, D>(k, keys, a.d, [&](int i) { return j0 + i < a.n_kv ? (j0 + i) * a.k_row : (int64_t)-1; });
        if (tile < n_tiles) fetch_rows(tile);
        copy_commit();
        for (; tile < n_tiles; tile++) {
            if (a.window && position_of(a, tile * TILE) - a.window >= j0 + TILE)
                break; /* the same for all threads */
            if (tile + 1 < n_tiles) fetch_rows(tile + 1);
            copy_commit();
            copy_wait<1>();
            __syncthreads();
            float s[TILE / 8][4];
            multiply<T, D>(q + tile % 2 * tile_bytes<D>() + warp * 16 * pitch<D>(), k, lane, s);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int r = tile * TILE + warp * 16 + lane / 4 + 8 * i;
                float lse = r < a.n_rows ? a.lse[(int64_t)problem * a.n_rows + r] : -CUDART_INF_F;
                int64_t position = position_of(a, min(r, a.n_rows - 1));
#pragma unroll
                for (int n = 0; n < TILE / 8; n++)
#pragma unroll
                    for (int c = 0; c < 2; c++) {
                        bool seen = lse != -CUDART_INF_F && sees(a, position, j0 + n * 8 + lane % 4 * 2 + c);
                        sum[n][c] += seen ? exp2_fast(s[n][2 * i + c] * a.scale_log2 - lse) : 0.0f;
                    }
            }
            __syncthreads();
        }
        copy_wait<0>();
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int c = 0; c < 2; c++) {
#pragma unroll
            for (int x = 4; x < 32; x *= 2) sum[n][c] += __shfl_xor_sync(0xffffffffu, sum[n][c], x);
            if (lane < 4) part[warp][n * 8 + lane * 2 + c] = sum[n][c];
        }
    __syncthreads();
    if (threadIdx.x < TILE && j0 + threadIdx.x < a.n_kv) {
        float *to = a.sums + set * a.stride + j0 + threadIdx.x;
        float total = a.add ? *to : 0;
        for (int w = 0; w < WARPS; w++) total += part[w][threadIdx.x];
        *to = total;
    }
}

enum { DIAGONAL_PITCH = 2 * TILE + 8 /* weights of a row in shared memory */ };

template <int D> constexpr int diagonal_bytes(void) {
    return 3 * tile_bytes<D>() + TILE * DIAGONAL_PITCH * (int)sizeof(float);
}

/* Sums of 64 distances, of queries that follow one another: 64 rows meet the 127 keys or fewer that lie at these
 * distances from them; a thread adds up what every second half of the rows gives to one distance. */
template <typename T, int D> static __global__ void __launch_bounds__(WARPS * 32) diagonals_kernel(sums_job a) {
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ float part[TILE];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, set = blockIdx.y, per_set = a.n_problems / a.n_sums,
              mine = threadIdx.x % TILE;
    const int64_t x0 = (int64_t)blockIdx.x * TILE;
    uint8_t *q = shared, *k = shared + tile_bytes<D>();
    float *weights = (float *)(shared + 3 * tile_bytes<D>());
    float total = 0;
    clear<D>(shared, 3 * tile_bytes<D>(), a.d);
    for (int problem = set * per_set; problem < (set + 1) * per_set; problem++) {
        const T *keys = (const T *)a.k + (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head;
        for (int row0 = 0; row0 < a.n_rows; row0 += TILE) {
            const int n = min(TILE, a.n_rows - row0);
            const int64_t low = position_of(a, row0), k0 = low - x0 - (TILE - 1);
            if (position_of(a, row0 + n - 1) < x0) continue; /* the same for all threads */
            fetch<T, D>(q, (const T *)a.q, a.d,
                        [&](int i) { return i < n ? query_at(a, problem, row0 + i) : (int64_t)-1; });
#pragma unroll
            for (int half_ = 0; half_ < 2; half_++)
                fetch<T, D>(k + half_ * tile_bytes<D>(), keys, a.d, [&](int i) {
                    const int64_t key = k0 + half_ * TILE + i;
                    return key >= 0 && key < a.n_kv ? key * a.k_row : (int64_t)-1;
                });
            copy_commit();
            copy_wait<0>();
            __syncthreads();
#pragma unroll
            for (int half_ = 0; half_ < 2; half_++) {
                float s[TILE / 8][4];
                multiply<T, D>(q + warp * 16 * pitch<D>(), k + half_ * tile_bytes<D>(), lane, s);
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const int r = warp * 16 + lane / 4 + 8 * i;
                    const float lse = r < n ? a.lse[(int64_t)problem * a.n_rows + row0 + r] : -CUDART_INF_F;
                    const int64_t position = position_of(a, row0 + min(r, n - 1));
#pragma unroll
                    for (int j = 0; j < TILE / 8; j++)
#pragma unroll
                        for (int c = 0; c < 2; c++) {
                            const int at = half_ * TILE + j * 8 + lane % 4 * 2 + c;
                            const bool seen = lse != -CUDART_INF_F && k0 + at >= 0 && sees(a, position, k0 + at);
                            weights[r * DIAGONAL_PITCH + at] =
                                seen ? exp2_fast(s[j][2 * i + c] * a.scale_log2 - lse) : 0.0f;
                        }
                }
            }
            __syncthreads();
            const int from = threadIdx.x / TILE * (TILE / 2);
            for (int r = from; r < min(from + TILE / 2, n); r++)
                total += weights[r * DIAGONAL_PITCH + (int)(position_of(a, row0 + r) - low) + TILE - 1 - mine];
            __syncthreads(); /* all has been read before the next rows are copied */
        }
    }
    if (threadIdx.x >= TILE) part[mine] = total;
    __syncthreads();
    if (threadIdx.x >= TILE || x0 + mine >= a.n_diagonals) return;
    float *to = a.diagonals + set * a.n_diagonals + x0 + mine;
    *to = (a.add ? *to : 0) + total + part[mine];
}

/* ---------------------------------------------------------------- any types */

__device__ __forceinline__ float dot(const sums_job &a, sac_dtype q_type, sac_dtype k_type, int problem,
                                     int row, int64_t key, int lane) {
    int64_t q = query_at(a, problem, row);
    int64_t k = key * a.k_row + (int64_t)(problem * a.group / a.heads_per_kv) * a.k_head;
    float sum = 0;
    for (int c = lane; c < a.d; c += 32) sum += load_any(q_type, a.q, q + c) * load_any(k_type, a.k, k + c);
    return warp_sum(sum) * a.scale_log2;
}

/* A warp has a row. */
static __global__ void denominators_any_kernel(sums_job a, sac_dtype q_type, sac_dtype k_type) {
    int lane = threadIdx.x % 32, problem = blockIdx.y;
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (row >= a.n_rows) return;
    int64_t position = position_of(a, row);
    float max = -CUDART_INF_F, sum = 0;
    int64_t begin = a.window ? position - a.window + 1 : 0;
    for (int64_t j = begin < 0 ? 0 : begin; j < a.n_kv && j <= position; j++) {
        float s = dot(a, q_type, k_type, problem, row, j, lane), top = fmaxf(max, s);
        sum = sum * exp2f(max - top) + exp2f(s - top);
        max = top;
    }
    if (lane == 0) a.lse[(int64_t)problem * a.n_rows + row] = sum > 0 ? log2f(sum) + max : -CUDART_INF_F;
}

/* A warp has a key, or a distance: then the key is where a row's position minus the distance is. */
static __global__ void columns_any_kernel(sums_job a, sac_dtype q_type, sac_dtype k_type, bool by_distance) {
    int lane = threadIdx.x % 32, set = blockIdx.y, per_set = a.n_problems / a.n_sums;
    int64_t at = (int64_t)blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (at >= (by_distance ? a.n_diagonals : a.n_kv)) return;
    float total = 0;
    for (int problem = set * per_set; problem < (set + 1) * per_set; problem++)
        for (int row = 0; row < a.n_rows; row++) {
            int64_t position = position_of(a, row), key = by_distance ? position - at : at;
            float lse = a.lse[(int64_t)problem * a.n_rows + row];
            if (key < 0 || lse == -CUDART_INF_F || !sees(a, position, key))
                continue; /* the same for the warp */
            total += exp2f(dot(a, q_type, k_type, problem, row, key, lane) - lse);
        }
    float *to = by_distance ? a.diagonals + set * a.n_diagonals + at : a.sums + set * a.stride + at;
    if (lane == 0) *to = a.add ? *to + total : total;
}

/* ---------------------------------------------------------------- some probes */

template <typename T, int D> static sac_status run(const sac_stream *s, const sums_job &j, bool *has_diagonals) {
    int bytes = 3 * tile_bytes<D>();
    dim3 rows((unsigned)ceil_div(j.n_rows, TILE), (unsigned)j.n_splits, (unsigned)j.n_problems);
    dim3 keys((unsigned)ceil_div(j.n_kv, TILE), (unsigned)j.n_sums);
    SAC_TRY(launch(s, {rows, WARPS * 32, (size_t)bytes, bytes}, denominators_kernel<T, D>, j));
    const unsigned joins = (unsigned)ceil_div((int64_t)j.n_problems * j.n_rows, 256);
    SAC_TRY(launch(s, {joins, 256}, join_denominators_kernel, j));
    SAC_TRY(launch(s, {keys, WARPS * 32, (size_t)bytes, bytes}, columns_kernel<T, D>, j));
    const int more = diagonal_bytes<D>();
    if (!j.n_diagonals || j.probes || more + 1024 > block_shared_bytes(s->device)) return SAC_OK;
    *has_diagonals = true;
    dim3 distances((unsigned)ceil_div(j.n_diagonals, TILE), (unsigned)j.n_sums);
    return launch(s, {distances, WARPS * 32, (size_t)more, more}, diagonals_kernel<T, D>, j);
}

static sac_status run_any(const sac_stream *s, const sums_job &j, sac_dtype q, sac_dtype k) {
    dim3 rows((unsigned)ceil_div(j.n_rows, 8), (unsigned)j.n_problems);
    dim3 keys((unsigned)ceil_div(j.n_kv, 8), (unsigned)j.n_sums);
    SAC_TRY(launch(s, {rows, 256}, denominators_any_kernel, j, q, k));
    return launch(s, {keys, 256}, columns_any_kernel, j, q, k, false);
}

static sac_status run_probes(const sac_stream *s, const sac_attention_sums_args *a, const sums_job &j) {
    const sac_kv_view *kv = &a->kv;
    bool fast = is_half(kv->dtype) && a->q.dtype == kv->dtype && kv->head_dim % 8 == 0 &&
                kv->head_dim <= 128 && is_aligned(kv->k, kv->row_stride) && kv->head_stride % 8 == 0 &&
                mat_aligned(a->q);
    bool done = false;
    sac_status st;
#define RUN(D) (kv->dtype == SAC_DTYPE_F16 ? run<half, D>(s, j, &done) : run<bf16, D>(s, j, &done))
    if (fast)
        st = kv->head_dim <= 64 ? RUN(64) : kv->head_dim <= 96 ? RUN(96) : RUN(128);
    else
        st = run_any(s, j, a->q.dtype, kv->dtype);
    if (st != SAC_OK || !a->n_diagonals || done) return st;
    dim3 distances((unsigned)ceil_div(a->n_diagonals, 8), (unsigned)j.n_sums);
    return launch(s, {distances, 256}, columns_any_kernel, j, a->q.dtype, kv->dtype, true);
}

static sac_status clear_rows(const sac_stream *s, float *p, int64_t stride, int64_t n, int64_t rows) {
    if (!n) return SAC_OK;
    return status_of(
        cudaMemset2DAsync(p, (size_t)stride * 4, 0, (size_t)n * 4, (size_t)rows, cuda_stream(s)));
}

extern "C" sac_status sac_cuda_attention_sums(const sac_stream *s, const sac_attention_sums_args *a) {
    const sac_kv_view *kv = &a->kv;
    int64_t n_probes = a->probes ? a->n_probes : a->q.rows;
    if (!is_float(a->q.dtype) || !is_float(kv->dtype) || a->n_kv > 1 << 30) return SAC_UNSUPPORTED;
    if (n_probes == 0 || a->n_kv == 0) {
        SAC_TRY(clear_rows(s, a->sums, a->stride, a->n_kv, a->n_sums));
        return clear_rows(s, a->diagonals, a->n_diagonals, a->n_diagonals, a->n_sums);
    }
    bool by_head = a->n_sums == a->n_heads;
    sums_job j;
    j.sums = a->sums, j.diagonals = a->diagonals, j.q = a->q.data, j.k = kv->k, j.q_stride = a->q.stride;
    j.k_row = kv->row_stride, j.k_head = kv->head_stride, j.stride = a->stride,
    j.n_diagonals = a->n_diagonals;
    j.n_kv = a->n_kv, j.window = a->window, j.d = kv->head_dim, j.n_sums = a->n_sums;
    j.heads_per_kv = a->n_heads / kv->n_heads, j.group = by_head ? 1 : j.heads_per_kv;
    j.n_problems = by_head ? a->n_heads : kv->n_heads;
    j.scale_log2 = a->scale * LOG2_E;
    /* as many probes at a time as scratch has room for logarithms */
    size_t n_bytes;
    float *rest = (float *)scratch_rest(s, &n_bytes);
    int64_t row_tiles = ceil_div(n_probes * j.group, TILE) * j.n_problems;
    j.n_splits = (int)max_of(1, min_of(2 * s->device->n_processors / row_tiles, ceil_div(a->n_kv, 4 * TILE)));
    int64_t per_probe = (int64_t)a->n_heads * (4 + 8 * j.n_splits), at_once = (int64_t)n_bytes / per_probe;
    at_once = at_once > (1 << 28) / j.group ? (1 << 28) / j.group : at_once;
    if (at_once < 1) return SAC_UNSUPPORTED;
    for (int64_t at = 0; at < n_probes; at += at_once) {
        j.n_probes = (int)min_of(at_once, n_probes - at);
        j.n_rows = j.n_probes * j.group;
        j.parts = (float2 *)rest;
        j.lse = rest + 2 * (int64_t)j.n_problems * j.n_splits * j.n_rows;
        j.probes = a->probes ? a->probes + at : NULL;
        j.first = a->probes ? a->first : a->first + at;
        if (!a->probes) j.q = (const char *)a->q.data + at * a->q.stride * element_bytes(a->q.dtype);
        j.add = at > 0;
        SAC_TRY(run_probes(s, a, j));
    }
    return SAC_OK;
}

} // namespace sac::attention
