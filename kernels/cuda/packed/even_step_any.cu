/* even_step_any.cu - a step over tiles of turned rows and a plain tail, of any heads and types. even_step.cu does the common
 * ones faster.
 *
 * A block has a query head and a tile, or 128 rows of the tail: a warp scores a row, a thread mixes a channel. Blocks leave
 * their sums in scratch, and a second kernel joins them in order. */
#include "context.cuh"
#include "even.cuh"
#include "packed_join.cuh"

namespace sac::packed {

enum { THREADS = 256 };

typedef struct any_job {
    even_run run[SAC_EVEN_RUNS];
    sac_kv_view tail;
    const void *q;
    float *partial;
    int n_heads, group, d;
    float scale, by; /* by = 1 / sqrt(d) */
    sac_dtype dtype; /* of q */
} any_job;

/* Numbers of a block's rows: of a tile as they are turned, or of the tail. */
typedef struct any_rows {
    const even_run *run; /* NULL: the tail */
    int64_t tile, row;   /* row: the tail's first */
    int head, n;
} any_rows;

__device__ __forceinline__ float key_at(const any_job &a, const any_rows &b, int i, int c) {
    if (b.run)
        return even_key(*b.run, b.tile, b.head, i, c) *
               even_number(even_halves(*b.run, b.tile, b.run->factor, b.head, EVEN_ROWS)[i]);
    return load_any(a.tail.dtype, a.tail.k, (b.row + i) * a.tail.row_stride + b.head * a.tail.head_stride + c);
}
__device__ __forceinline__ float value_at(const any_job &a, const any_rows &b, int i, int c) {
    if (b.run)
        return even_value(*b.run, b.tile, b.head, i, c) *
               even_number(even_halves(*b.run, b.tile, b.run->v_channel, b.head, a.d)[c]);
    return load_any(a.tail.dtype, a.tail.v, (b.row + i) * a.tail.row_stride + b.head * a.tail.head_stride + c);
}

static __global__ void __launch_bounds__(THREADS) even_any_kernel(any_job a) {
    __shared__ float q[SAC_EVEN_MAX], score[EVEN_ROWS], part[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, d = a.d, head = blockIdx.y;
    int64_t at = blockIdx.x;
    any_rows b = {NULL, 0, 0, head / a.group, EVEN_ROWS};
    if (at < a.run[0].n) {
        b.run = &a.run[0], b.tile = at;
    } else if (at < a.run[0].n + a.run[1].n) {
        b.run = &a.run[1], b.tile = at - a.run[0].n;
    } else {
        b.row = (at - a.run[0].n - a.run[1].n) * EVEN_ROWS;
        b.n = (int)min((int64_t)EVEN_ROWS, a.tail.n_rows - b.row);
    }
    for (int c = threadIdx.x; c < d; c += THREADS) q[c] = load_any(a.dtype, a.q, (int64_t)head * d + c);
    __syncthreads();
    if (b.run && warp == 0) turn_row(q, d, a.by);
    __syncthreads();
    for (int i = warp; i < b.n; i += THREADS / 32) {
        float s = 0;
        for (int c = lane; c < d; c += 32) s += q[c] * key_at(a, b, i, c);
        s = warp_sum(s);
        if (lane == 0) score[i] = s * a.scale;
    }
    __syncthreads();
    bool has = threadIdx.x < b.n;
    float s = has ? score[threadIdx.x] : -CUDART_INF_F, max = block_max(s, part), w = expf(s - max);
    if (has) score[threadIdx.x] = w;
    float sum = block_sum(w, part); /* behind its barriers weights are there, and the query is not needed */
    for (int c = threadIdx.x; c < d; c += THREADS) {
        float x = 0;
        for (int i = 0; i < b.n; i++) x += score[i] * value_at(a, b, i, c);
        q[c] = x;
    }
    __syncthreads();
    if (b.run && warp == 0) turn_row(q, d, a.by);
    __syncthreads();
    float *out = a.partial + (at * a.n_heads + head) * (d + 2);
    if (threadIdx.x == 0) out[0] = max, out[1] = sum;
    for (int c = threadIdx.x; c < d; c += THREADS) out[2 + c] = q[c];
}

extern "C" sac_status sac_cuda_even_step_any(const sac_stream *s, const sac_even_step_args *a) {
    size_t n_bytes;
    any_job j = {};
    if (!is_float(a->q.dtype) || !is_float(a->tail.dtype) || a->tail.head_dim > SAC_EVEN_MAX) return SAC_UNSUPPORTED;
    for (int i = 0; i < SAC_EVEN_RUNS; i++) j.run[i] = run_of(a->tiles[i]);
    j.tail = a->tail, j.q = a->q.data, j.dtype = a->q.dtype, j.scale = a->scale;
    j.n_heads = a->n_heads, j.d = a->tail.head_dim, j.group = a->n_heads / a->tail.n_heads;
    j.by = 1 / sqrtf((float)j.d);
    j.partial = (float *)scratch_rest(s, &n_bytes);
    const int64_t splits = j.run[0].n + j.run[1].n + ceil_div(a->tail.n_rows, EVEN_ROWS);
    if ((size_t)(splits * j.n_heads * (j.d + 2)) * sizeof(float) > n_bytes || j.n_heads > 65535) return SAC_UNSUPPORTED;
    const launch_plan plan = {dim3((unsigned)splits, (unsigned)j.n_heads), THREADS};
    SAC_TRY(launch(s, plan, even_any_kernel, j));
    return launch_packed_join(s, packed_join{j.partial, a->q.data, a->lse, j.dtype, (int)splits, j.n_heads, j.d});
}

} // namespace sac::packed
