/* antidiagonal_sums.cu - units of queries against units of keys, then softmax and sums over blocks.
 *
 * A unit's product is one of rows of step * head_dim channels that lie in `step` pieces: a tile of 128 units of
 * queries (of all heads that share keys) and 128 of keys takes them one piece after the other, each copied to
 * shared memory while the one before it is multiplied. Nothing is gathered first, and tiles of which no unit of
 * queries sees a unit of keys are left out. On Hopper whole blocks of queries go elsewhere (antidiagonal_hopper.cu). */
#include "antidiagonal.cuh"
#include "mma.cuh"

namespace sac::select {

enum { TILE = 128 /* rows and keys */, WARPS = 8, STAGES = 2, SUM_THREADS = 256 };

typedef struct units_job {
    float *sums, *scores;
    const void *q, *k;
    int64_t stride, q_stride, q_rows, first, k_row, k_head, n_rows, n_keys, n_units;
    int n_heads, group, d, step, each; /* each: units of a block */
    float factor;
} units_job;

/* Units of keys that unit t of queries sees. */
__device__ __forceinline__ int64_t seen_of(const units_job &a, int64_t t) {
    return (a.first + min((t + 1) * a.step, a.q_rows) - 1) / a.step + 1;
}

/* Piece i of the tile's rows; channels from d on stay zeros. at(row) is where a row of the tensor begins, or -1. */
template <typename T, int D, typename F>
__device__ __forceinline__ void fetch(uint8_t *to, const T *from, int n_chunks, F at) {
    for (int i = threadIdx.x; i < TILE * n_chunks; i += WARPS * 32) {
        int row = i / n_chunks, c = i % n_chunks;
        int64_t where = at(row);
        copy_async(to + row * pitch<D>() + c * 16, from + (where < 0 ? 0 : where + c * 8), where >= 0);
    }
}

template <typename T, int D>
static __global__ void __launch_bounds__(WARPS * 32, 1) units_kernel(units_job a) {
    extern __shared__ __align__(128) uint8_t shared[];
    enum { BYTES = TILE * pitch<D>() };
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, kv_head = blockIdx.z;
    const int64_t row0 = (int64_t)blockIdx.y * TILE, u0 = (int64_t)blockIdx.x * TILE,
                  n_rows = a.n_units * a.group;
    if (seen_of(a, (min(row0 + TILE, n_rows) - 1) / a.group) <= u0) return;
    for (int i = threadIdx.x; a.d < D && i < 2 * STAGES * BYTES / 16; i += WARPS * 32)
        ((uint4 *)shared)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    const T *q = (const T *)a.q, *k = (const T *)a.k + kv_head * a.k_head;
    auto fetch_both = [&](int i) {
        uint8_t *to = shared + i % STAGES * 2 * BYTES;
        if (i < a.step) {
            fetch<T, D>(to, q, a.d / 8, [&](int r) -> int64_t {
                int t = ((int)row0 + r) / a.group, head = kv_head * a.group + (int)row0 + r - t * a.group;
                int64_t query = (int64_t)t * a.step + a.step - 1 - i;
                return row0 + r < n_rows && query < a.q_rows ? query * a.q_stride + (int64_t)head * a.d : -1;
            });
            fetch<T, D>(to + BYTES, k, a.d / 8, [&](int j) -> int64_t {
                int64_t key = (u0 + j) * a.step + i;
                return u0 + j < a.n_keys && key < a.n_rows ? key * a.k_row : -1;
            });
        }
        copy_commit();
    };
    float s[TILE / 8][4];
#pragma unroll
    for (int n = 0; n < TILE / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) s[n][i] = 0;
    fetch_both(0);
    for (int i = 0; i < a.step; i++) {
        fetch_both(i + 1);
        copy_wait<1>();
        __syncthreads();
        const uint8_t *stage = shared + i % STAGES * 2 * BYTES;
        const uint8_t *qa = stage + (warp * 16 + lane % 16) * pitch<D>() + lane / 16 * 16;
        const uint8_t *kb = stage + BYTES + (lane / 16 * 8 + lane % 8) * pitch<D>() + lane / 8 % 2 * 16;
#pragma unroll
        for (int c = 0; c < D / 16; c++) {
            uint32_t x[4];
            load_matrices(x, qa + c * 32);
#pragma unroll
            for (int n = 0; n < TILE / 16; n++) {
                uint32_t y[4];
                load_matrices(y, kb + n * 16 * pitch<D>() + c * 32);
                mma<T>(s[2 * n], x[0], x[1], x[2], x[3], y[0], y[1]);
                mma<T>(s[2 * n + 1], x[0], x[1], x[2], x[3], y[2], y[3]);
            }
        }
        __syncthreads(); /* all have read the stage before it is filled anew */
    }
    copy_wait<0>();
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int64_t r = row0 + warp * 16 + lane / 4 + h * 8, t = r / a.group;
        if (r >= n_rows) continue;
        int64_t seen = seen_of(a, t), head = kv_head * a.group + r % a.group;
        float *scores = a.scores + (t * a.n_heads + head) * a.n_keys;
#pragma unroll
        for (int n = 0; n < TILE / 8; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int64_t u = u0 + n * 8 + lane % 4 * 2 + i;
                if (u < seen) scores[u] = s[n][2 * h + i] * a.factor;
            }
    }
}

/* A unit of keys a warp: f32, any alignment, any size of heads. */
static __global__ void units_any_kernel(units_job a, sac_dtype q_type, sac_dtype k_type) {
    const int lane = threadIdx.x % 32;
    const int64_t t = blockIdx.y, head = blockIdx.z, seen = seen_of(a, t);
    for (int64_t u = blockIdx.x * WARPS + threadIdx.x / 32; u < seen; u += (int64_t)gridDim.x * WARPS) {
        float sum = 0;
        for (int i = 0; i < a.step; i++) {
            int64_t query = t * a.step + a.step - 1 - i, key = u * a.step + i;
            if (query >= a.q_rows || key >= a.n_rows) continue;
            int64_t at = key * a.k_row + head / a.group * a.k_head, from = query * a.q_stride + head * a.d;
            for (int c = lane; c < a.d; c += 32)
                sum += load_any(q_type, a.q, from + c) * load_any(k_type, a.k, at + c);
        }
        sum = warp_sum(sum);
        if (lane == 0) a.scores[(t * a.n_heads + head) * a.n_keys + u] = sum * a.factor;
    }
}

/* A block of queries and a head: its units one after the other; a thread has the same blocks of keys each time. */
static __global__ void __launch_bounds__(SUM_THREADS) unit_sums_kernel(units_job a, int64_t n_columns) {
    __shared__ float part[SUM_THREADS / 32];
    const int64_t t0 = (int64_t)blockIdx.y * a.each, n = min((int64_t)a.each, a.n_units - t0),
                  head = blockIdx.x;
    float *sums = a.sums + (blockIdx.y * a.n_heads + head) * a.stride;
    for (int64_t j = threadIdx.x; j < n_columns; j += SUM_THREADS) sums[j] = 0;
    for (int64_t t = t0; t < t0 + n; t++) {
        const float *scores = a.scores + (t * a.n_heads + head) * a.n_keys;
        int64_t seen = seen_of(a, t);
        float top = -CUDART_INF_F, total = 0;
        for (int64_t u = threadIdx.x; u < seen; u += SUM_THREADS) top = fmaxf(top, scores[u]);
        top = block_max_of<SUM_THREADS / 32>(top, part);
        for (int64_t u = threadIdx.x; u < seen; u += SUM_THREADS) total += expf(scores[u] - top);
        total = block_sum_of<SUM_THREADS / 32>(total, part) * (float)n;
        for (int64_t j = threadIdx.x; j * a.each < seen; j += SUM_THREADS) {
            float sum = 0;
            for (int64_t u = j * a.each; u < min((j + 1) * a.each, seen); u++) sum += expf(scores[u] - top);
            sums[j] += sum / total;
        }
    }
}

template <typename T, int D> static sac_status run(const sac_stream *s, const units_job &j) {
    int bytes = 2 * STAGES * TILE * pitch<D>();
    if (bytes > block_shared_bytes(s->device)) return SAC_UNSUPPORTED;
    dim3 grid((unsigned)ceil_div(j.n_keys, TILE), (unsigned)ceil_div(j.n_units * j.group, TILE),
              (unsigned)(j.n_heads / j.group));
    return launch(s, {grid, WARPS * 32, (size_t)bytes, bytes}, units_kernel<T, D>, j);
}

static sac_status multiply(const sac_stream *s, const sac_antidiagonal_sums_args *a, const units_job &j) {
    const sac_kv_view *kv = &a->kv;
    sac_status st = SAC_UNSUPPORTED;
    if (is_half(kv->dtype) && a->q.dtype == kv->dtype && keys_aligned(kv) &&
        is_aligned(a->q.data, a->q.stride) && kv->head_dim <= 128) {
        if (kv->dtype == SAC_DTYPE_F16)
            st = kv->head_dim <= 64 ? run<half, 64>(s, j) : run<half, 128>(s, j);
        else
            st = kv->head_dim <= 64 ? run<bf16, 64>(s, j) : run<bf16, 128>(s, j);
    }
    if (st != SAC_UNSUPPORTED) return st;
    dim3 grid((unsigned)min_of(ceil_div(j.n_keys, WARPS), 64), (unsigned)j.n_units, (unsigned)j.n_heads);
    return launch(s, {grid, WARPS * 32}, units_any_kernel, j, a->q.dtype, kv->dtype);
}

static sac_status sum_by_mma(const sac_stream *s, const sac_antidiagonal_sums_args *a) {
    const sac_kv_view *kv = &a->kv;
    units_job j;
    j.sums = a->sums, j.scores = a->scores, j.q = a->q.data, j.k = kv->k, j.stride = a->stride;
    j.q_stride = a->q.stride, j.q_rows = a->q.rows, j.first = a->first, j.k_row = kv->row_stride;
    j.k_head = kv->head_stride, j.n_rows = kv->n_rows, j.n_keys = sac_antidiagonal_units(a);
    j.n_units = ceil_div(a->q.rows, a->step), j.n_heads = a->n_heads, j.group = a->n_heads / kv->n_heads;
    j.d = kv->head_dim, j.step = (int)a->step, j.each = (int)(a->block / a->step);
    j.factor = a->scale / (float)a->step;
    int64_t n_blocks = ceil_div(j.n_units, j.each);
    if (!is_float(kv->dtype) || !is_float(a->q.dtype) || j.n_units > 65535 || n_blocks > 65535 || j.n_units * j.group > INT32_MAX / 2)
        return SAC_UNSUPPORTED;
    SAC_TRY(multiply(s, a, j));
    dim3 grid((unsigned)a->n_heads, (unsigned)n_blocks);
    return launch(s, {grid, SUM_THREADS}, unit_sums_kernel, j, ceil_div(a->first + a->q.rows, a->block));
}

extern "C" sac_status sac_cuda_antidiagonal_sums(const sac_stream *s, const sac_antidiagonal_sums_args *a) {
    const int64_t n = a->q.rows / a->block * a->block; /* queries of whole blocks */
    sac_status st = antidiagonal_sums_hopper(s, a, n);
    if (st == SAC_UNSUPPORTED) return sum_by_mma(s, a);
    if (st != SAC_OK || n == a->q.rows) return st;
    sac_antidiagonal_sums_args rest = *a;
    rest.q = sac_mat_rows(a->q, n, a->q.rows - n);
    rest.first += n;
    rest.sums += n / a->block * a->n_heads * a->stride;
    return sum_by_mma(s, &rest);
}

} // namespace sac::select
